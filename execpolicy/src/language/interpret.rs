//! The full parser: runs any file that Starlark can parse, on a budget.
//!
//! Supported are constants, lists and tuples, `+`, comparisons for equality and membership, conditions, `for` loops
//! and list comprehensions, for writing many similar rules. Functions, methods, `load`, arithmetic other than `+` and
//! changing a list in place are refused by name. Every step and every copied value is paid for from one budget, so
//! time and memory are bounded for every file; the depth of the tree is bounded by [`super::guard`].

mod expression;

use std::borrow::Cow;
use std::collections::HashMap;

use starlark_syntax::codemap::Span as SyntaxSpan;
use starlark_syntax::syntax::ast::{AssignOp, AssignTargetP, AstAssignTarget, AstExpr, AstStmt, StmtP};
use starlark_syntax::syntax::{AstModule, Dialect};

use super::guard;
use super::value::{Call, Function, Located, Value};
use crate::source::{Problem, Source, Span};

/// Limit on the steps of a file. A rule takes about a dozen; a copied value costs its size.
const BUDGET: usize = 2_000_000;
/// Lists inside lists. An example in a list of examples is two deep.
const MAX_VALUE_DEPTH: usize = 16;
/// Bytes of text that cost one step.
const BYTES_PER_STEP: usize = 16;

const LANGUAGE: &str = "a rules file calls `prefix_rule`, `host_executable` and `network_rule` with strings and lists, \
                        made with variables, `+`, `if`, `for` and list comprehensions where that helps";

/// Runs the file and returns its calls.
pub(super) fn run<'a>(source: &Source<'a>) -> Result<Vec<Call<'a>>, Problem> {
    guard::check(source.text)?;
    let dialect = Dialect { enable_load: false, enable_top_level_stmt: true, ..Dialect::Standard };
    let module = AstModule::parse(&source.name, source.text.to_owned(), &dialect).map_err(|error| syntax(&error))?;
    let mut interpreter = Interpreter { budget: BUDGET, variables: HashMap::new(), calls: Vec::new() };
    interpreter.statement(module.statement())?;
    Ok(interpreter.calls)
}

fn syntax(error: &starlark_syntax::Error) -> Problem {
    let at = error.span().map_or(Span::new(0, 0), |place| span(place.span));
    let text = error.without_diagnostic().to_string();
    let text = text.trim().trim_start_matches("error: ").trim_start_matches("Parse error: ");
    let shown: String = text.chars().take(200).collect();
    Problem::new(at, format!("syntax error: {}", stockade_protocol::RawText::from(shown)), LANGUAGE)
}

pub(super) fn span(at: SyntaxSpan) -> Span {
    Span { start: at.begin().get(), end: at.end().get() }
}

/// The effect of a statement on the enclosing loop.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Interpreter<'a> {
    budget: usize,
    variables: HashMap<String, Located<'a>>,
    calls: Vec<Call<'a>>,
}

impl<'a> Interpreter<'a> {
    fn spend(&mut self, steps: usize, at: Span) -> Result<(), Problem> {
        self.budget = self.budget.checked_sub(steps).ok_or_else(|| exhausted(at))?;
        Ok(())
    }

    /// Charges the budget for a created or copied value, before it can be copied again.
    fn pay(&mut self, value: &Located<'_>, at: Span) -> Result<(), Problem> {
        let (steps, depth) = size(value);
        if depth > MAX_VALUE_DEPTH {
            return Err(Problem::new(
                at,
                "lists are nested too deeply",
                "a pattern is a list of strings and lists of strings",
            ));
        }
        self.spend(steps, at)
    }

    fn statement(&mut self, statement: &AstStmt) -> Result<Flow, Problem> {
        let at = span(statement.span);
        self.spend(1, at)?;
        match &statement.node {
            StmtP::Statements(statements) => self.block(statements),
            StmtP::Expression(expression) => self.expression(expression).map(|_| Flow::Next),
            StmtP::Assign(assign) => {
                let value = self.expression(&assign.rhs)?;
                self.assign(&assign.lhs, value).map(|()| Flow::Next)
            }
            StmtP::AssignModify(target, operator, value) => self.modify(target, *operator, value, at),
            StmtP::If(condition, then) => {
                if self.expression(condition)?.value.is_true() {
                    self.statement(then)
                } else {
                    Ok(Flow::Next)
                }
            }
            StmtP::IfElse(condition, branches) => {
                let (then, otherwise) = branches.as_ref();
                let branch = if self.expression(condition)?.value.is_true() { then } else { otherwise };
                self.statement(branch)
            }
            StmtP::For(each) => self.for_each(&each.var, &each.over, &each.body),
            StmtP::Pass => Ok(Flow::Next),
            StmtP::Break => Ok(Flow::Break),
            StmtP::Continue => Ok(Flow::Continue),
            StmtP::Def(_) => refuse(at, "functions cannot be defined in a rules file"),
            StmtP::Return(_) => refuse(at, "`return` has no meaning in a rules file"),
            StmtP::Load(_) => refuse(at, "`load` is not available in a rules file"),
        }
    }

    fn block(&mut self, statements: &[AstStmt]) -> Result<Flow, Problem> {
        for statement in statements {
            let flow = self.statement(statement)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn for_each(&mut self, target: &AstAssignTarget, over: &AstExpr, body: &AstStmt) -> Result<Flow, Problem> {
        for item in self.items(over)? {
            self.assign(target, item)?;
            if self.statement(body)? == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    /// The items of a list or tuple.
    fn items(&mut self, over: &AstExpr) -> Result<Vec<Located<'a>>, Problem> {
        let list = self.expression(over)?;
        list.value.into_items().or_else(|kind| refuse(span(over.span), format!("{kind} cannot be iterated")))
    }

    fn assign(&mut self, target: &AstAssignTarget, value: Located<'a>) -> Result<(), Problem> {
        let at = span(target.span);
        match &target.node {
            AssignTargetP::Identifier(name) => {
                let name = &name.node.ident;
                if Function::named(name).is_some() || matches!(name.as_str(), "True" | "False" | "None") {
                    return refuse(at, format!("`{name}` cannot be assigned to"));
                }
                self.variables.insert(name.clone(), value);
                Ok(())
            }
            AssignTargetP::Tuple(targets) => match value.value.into_items() {
                Ok(items) if items.len() == targets.len() => {
                    targets.iter().zip(items).try_for_each(|(target, item)| self.assign(target, item))
                }
                Ok(items) => {
                    refuse(at, format!("{} values cannot be spread over {} variables", items.len(), targets.len()))
                }
                Err(kind) => refuse(at, format!("{kind} cannot be spread over {} variables", targets.len())),
            },
            AssignTargetP::Index(_) | AssignTargetP::Dot(..) => refuse(at, "values cannot be changed in place"),
        }
    }

    /// `+=`, if it is equivalent to creating a new value: other names for a list would see it change.
    fn modify(
        &mut self,
        target: &AstAssignTarget,
        operator: AssignOp,
        value: &AstExpr,
        at: Span,
    ) -> Result<Flow, Problem> {
        let (AssignTargetP::Identifier(name), AssignOp::Add) = (&target.node, operator) else {
            return refuse(at, "this assignment is not available in a rules file");
        };
        let old = self.variable(&name.node.ident, span(target.span))?;
        let value = self.expression(value)?;
        if matches!(old.value, Value::List(_)) {
            let name = &name.node.ident;
            let help = format!("write `{name} = {name} + …`, which makes a new list");
            return Err(Problem::new(at, "`+=` would change a list in place", help));
        }
        let sum = self.add(old, value, at)?;
        self.assign(target, sum).map(|()| Flow::Next)
    }

    fn variable(&mut self, name: &str, at: Span) -> Result<Located<'a>, Problem> {
        let value = match name {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::None,
            _ => return self.copy(name, at),
        };
        Ok(Located { value, at })
    }

    fn copy(&mut self, name: &str, at: Span) -> Result<Located<'a>, Problem> {
        let Some(value) = self.variables.get(name) else {
            let what = if Function::named(name).is_some() { "can only be called" } else { "is not defined" };
            return refuse(at, format!("{} {what}", crate::source::quoted(name)));
        };
        // Charged first, so that a copy that is too large is never made.
        let (steps, _) = size(value);
        if steps > self.budget {
            return Err(exhausted(at));
        }
        self.budget -= steps;
        Ok(value.clone())
    }

    fn add(&mut self, left: Located<'a>, right: Located<'a>, at: Span) -> Result<Located<'a>, Problem> {
        let value = match (left.value, right.value) {
            (Value::Text(left), Value::Text(right)) => Value::Text(Cow::Owned(left.into_owned() + &right)),
            (Value::List(left), Value::List(right)) => Value::List(left.into_iter().chain(right).collect()),
            (Value::Tuple(left), Value::Tuple(right)) => Value::Tuple(left.into_iter().chain(right).collect()),
            (Value::Int(left), Value::Int(right)) => match left.checked_add(right) {
                Some(sum) => Value::Int(sum),
                None => return refuse(at, "the sum is too large"),
            },
            (left, right) => return refuse(at, format!("{} and {} cannot be added", left.kind(), right.kind())),
        };
        let sum = Located { value, at };
        self.pay(&sum, at)?;
        Ok(sum)
    }
}

fn exhausted(at: Span) -> Problem {
    let help = "write fewer or simpler rules, or split the file";
    Problem::new(at, "the file takes too much work to evaluate", help)
}

fn refuse<T>(at: Span, message: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(at, message, LANGUAGE))
}

/// The cost of a value in steps, and its depth.
fn size(value: &Located<'_>) -> (usize, usize) {
    match &value.value {
        Value::Text(text) => (1 + text.len() / BYTES_PER_STEP, 0),
        Value::Int(_) | Value::Bool(_) | Value::None => (1, 0),
        Value::List(items) | Value::Tuple(items) => {
            items.iter().map(size).fold((1, 1), |(steps, depth), (more, inner)| (steps + more, depth.max(inner + 1)))
        }
    }
}
