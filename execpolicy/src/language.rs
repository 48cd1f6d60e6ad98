//! Parses a rules file into its calls.
//!
//! The language is Starlark, with two parsers that agree on everything both accept:
//!
//! - [`literal`] reads files that are nothing but calls with literal arguments, as nearly all files
//!   are and as every saved amendment is. It needs no syntax tree and copies no text.
//! - [`interpret`] takes every other file: the Starlark crate parses it and a small interpreter runs
//!   the tree on a budget. It also words the errors.
//!
//! Starlark's own evaluator is not used, because a single expression (`"x" * 10 ** 10`) can exhaust memory before the
//! evaluator checks a limit.

#[cfg(feature = "starlark")]
mod guard;
#[cfg(feature = "starlark")]
mod interpret;
#[cfg(not(feature = "starlark"))]
#[path = "language/interpret_absent.rs"]
mod interpret;
mod literal;
mod value;

pub(crate) use value::{Call, Function, Located, PARAMETERS, Value};

use crate::source::{Problem, Source};

/// Limit on the calls of a file. With the limit on its size, this bounds the memory for loading.
const MAX_CALLS: usize = 50_000;

/// The calls that a file makes, in order.
pub(crate) fn read<'a>(source: &Source<'a>) -> Result<Vec<Call<'a>>, Problem> {
    match literal::read(source.text) {
        Some(calls) => Ok(calls),
        None => interpret::run(source),
    }
}

#[cfg(test)]
#[cfg(feature = "starlark")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both(text: &str) {
        let source = Source::new("t.rules", text);
        if let Some(calls) = literal::read(text) {
            let interpreted = interpret::run(&source).unwrap_or_else(|problem| panic!("{problem:?}\n{text}"));
            assert_eq!(calls, interpreted, "{text}");
        }
    }

    /// Pieces of files, valid in some orders and broken in others.
    fn piece() -> impl Strategy<Value = String> {
        let fixed = prop::sample::select(vec![
            "prefix_rule",
            "host_executable",
            "network_rule",
            "(",
            ")",
            "[",
            "]",
            "[",
            "]",
            ",",
            ",",
            "=",
            "pattern=",
            "decision=",
            "match=",
            "exact=",
            "outside=",
            "profile=",
            "True",
            "False",
            "\"allow\"",
            "'git'",
            "\"a\\\"b\"",
            "\"\\\\\"",
            "\"\\n\"",
            "\"\\x41\"",
            "r\"\\n\"",
            "\"\"",
            "''",
            "\"\"\"x\"\"\"",
            "\n",
            "\n",
            " ",
            "# note\n",
            ";",
            "\\\n",
            "\t",
            "\r\n",
            "x",
            "1",
            "\"\u{e9}\"",
            "(\n",
            "+",
            "prefix_rule(pattern=[\"a\", [\"b\", 'c'],])\n",
            "prefix_rule([\"a\"], \"prompt\") # why\n",
        ]);
        fixed.prop_map(str::to_owned)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_two_readers_agree(pieces in prop::collection::vec(piece(), 0..24)) {
            both(&pieces.concat());
        }
    }

    #[test]
    fn the_two_readers_agree_on_what_fuzzing_found() {
        both("prefix_rule([\"a\"]) # x\ry");
        both("prefix_rule([\"a\"])\n# x\ry\n");
    }

    #[test]
    fn ordinary_files_take_the_short_way() {
        let saved = "prefix_rule(pattern=[\"make\"], decision=\"allow\", exact=True, outside = False)\n";
        assert!(literal::read(saved).is_some());
        both(saved);
        let text = "# head\n\nprefix_rule(\n    pattern = [\"git\", [\"status\", 'log']],  # both\n    match = [\"git status\", [\"git\", \"log\"]],\n)\nhost_executable(name=\"git\", paths=[\"/usr/bin/git\"])\n";
        assert!(literal::read(text).is_some_and(|calls| calls.len() == 2));
        both(text);
    }
}
