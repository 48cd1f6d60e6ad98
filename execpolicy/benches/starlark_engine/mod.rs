//! The obvious way to load rules: Starlark's evaluator calls a function for each of them, which
//! unpacks its values. No index is built and no example checked.
#![expect(unsafe_code, reason = "starlark's derive of `ProvidesStaticType` implements an unsafe trait")]

use std::cell::RefCell;

use starlark::any::ProvidesStaticType;
use starlark::environment::{GlobalsBuilder, Module};
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::syntax::{AstModule, Dialect};
use starlark::values::Value;
use starlark::values::list::{ListRef, UnpackList};
use starlark::values::none::NoneType;

#[derive(Debug, Default, ProvidesStaticType)]
struct Collected(RefCell<Vec<Collection>>);

/// A pattern and its decision.
pub(crate) type Collection = (Vec<Vec<String>>, String);

fn words(value: Value<'_>) -> Vec<String> {
    match (value.unpack_str(), ListRef::from_value(value)) {
        (Some(word), _) => vec![word.to_owned()],
        (None, Some(list)) => list.iter().filter_map(|word| word.unpack_str().map(str::to_owned)).collect(),
        (None, None) => Vec::new(),
    }
}

#[starlark_module]
fn functions(builder: &mut GlobalsBuilder) {
    fn prefix_rule<'v>(
        pattern: UnpackList<Value<'v>>,
        decision: Option<&'v str>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let pattern = pattern.items.into_iter().map(words).collect();
        if let Some(collected) = eval.extra.and_then(|extra| extra.downcast_ref::<Collected>()) {
            collected.0.borrow_mut().push((pattern, decision.unwrap_or("allow").to_owned()));
        }
        Ok(NoneType)
    }
}

/// The rules of a file, or `None` if Starlark refuses it.
pub(crate) fn load(text: &str) -> Option<Vec<Collection>> {
    let collected = Collected::default();
    let globals = GlobalsBuilder::standard().with(functions).build();
    let dialect = Dialect { enable_top_level_stmt: true, ..Dialect::Standard };
    let ast = AstModule::parse("reference.rules", text.to_owned(), &dialect).ok()?;
    Module::with_temp_heap(|module| {
        let mut evaluator = Evaluator::new(&module);
        evaluator.extra = Some(&collected);
        evaluator.eval_module(ast, &globals).map(|_| ()).ok()
    })?;
    Some(collected.0.into_inner())
}
