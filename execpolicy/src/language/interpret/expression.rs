//! Evaluates expressions and collects their calls.

use std::borrow::Cow;

use starlark_syntax::lexer::TokenInt;
use starlark_syntax::syntax::ast::{
    ArgumentP, AssignTargetP, AstArgument, AstAssignTarget, AstExpr, AstLiteral, BinOp, Clause, ClauseP, ExprP,
    ForClause,
};

use super::super::value::{Call, Function, Located, Value};
use super::{Interpreter, refuse, span};
use crate::source::{Problem, Span, quoted};

impl<'a> Interpreter<'a> {
    pub(super) fn expression(&mut self, expression: &AstExpr) -> Result<Located<'a>, Problem> {
        let at = span(expression.span);
        self.spend(1, at)?;
        let value = match &expression.node {
            ExprP::Literal(literal) => literal_value(literal, at)?,
            ExprP::List(items) => Value::List(self.expressions(items)?),
            ExprP::Tuple(items) => Value::Tuple(self.expressions(items)?),
            ExprP::Identifier(name) => return self.variable(&name.node.ident, at),
            ExprP::Call(function, arguments) => return self.call(function, &arguments.args, at),
            ExprP::Op(left, operator, right) => return self.operation(left, *operator, right, at),
            ExprP::Not(operand) => Value::Bool(!self.expression(operand)?.value.is_true()),
            ExprP::If(parts) => {
                let (condition, then, otherwise) = parts.as_ref();
                let branch = if self.expression(condition)?.value.is_true() { then } else { otherwise };
                return self.expression(branch);
            }
            ExprP::ListComprehension(body, first, clauses) => Value::List(self.comprehension(body, first, clauses)?),
            ExprP::Index(parts) => return self.index(&parts.0, &parts.1, at),
            ExprP::Minus(operand) => {
                let operand = self.expression(operand)?.value;
                let Value::Int(number) = operand else {
                    return refuse(at, format!("{} cannot be negated", operand.kind()));
                };
                Value::Int(number.saturating_neg())
            }
            ExprP::Dot(_, name) => return refuse(at, format!("the method {} is not available", quoted(&name.node))),
            ExprP::Lambda(_) => return refuse(at, "functions cannot be defined in a rules file"),
            ExprP::Dict(_) | ExprP::DictComprehension(..) => return refuse(at, "dictionaries are not available"),
            ExprP::Index2(_) | ExprP::Slice(..) => return refuse(at, "slices are not available"),
            ExprP::Plus(_) | ExprP::BitNot(_) => return refuse(at, "this operator is not available"),
            ExprP::FString(_) => return refuse(at, "f-strings are not available"),
        };
        let value = Located { value, at };
        self.pay(&value, at)?;
        Ok(value)
    }

    fn expressions(&mut self, items: &[AstExpr]) -> Result<Vec<Located<'a>>, Problem> {
        items.iter().map(|item| self.expression(item)).collect()
    }

    fn operation(
        &mut self,
        left: &AstExpr,
        operator: BinOp,
        right: &AstExpr,
        at: Span,
    ) -> Result<Located<'a>, Problem> {
        let left = self.expression(left)?;
        // `and` and `or` short-circuit.
        let settled = match left.value.is_true() {
            true => operator == BinOp::Or,
            false => operator == BinOp::And,
        };
        if settled {
            return Ok(left);
        }
        let right = self.expression(right)?;
        let answer = match operator {
            BinOp::And | BinOp::Or => return Ok(right),
            BinOp::Add => return self.add(left, right, at),
            BinOp::Equal => left == right,
            BinOp::NotEqual => left != right,
            BinOp::In => contains(&right, &left, at)?,
            BinOp::NotIn => !contains(&right, &left, at)?,
            BinOp::Multiply
            | BinOp::Percent
            | BinOp::Subtract
            | BinOp::Divide
            | BinOp::FloorDivide
            | BinOp::Less
            | BinOp::Greater
            | BinOp::LessOrEqual
            | BinOp::GreaterOrEqual
            | BinOp::BitAnd
            | BinOp::BitOr
            | BinOp::BitXor
            | BinOp::LeftShift
            | BinOp::RightShift => {
                return refuse(at, "this operator is not available in a rules file");
            }
        };
        Ok(Located { value: Value::Bool(answer), at })
    }

    fn index(&mut self, list: &AstExpr, index: &AstExpr, at: Span) -> Result<Located<'a>, Problem> {
        let list = self.expression(list)?;
        let index = self.expression(index)?;
        let (Value::List(items) | Value::Tuple(items), Value::Int(index)) = (list.value, index.value) else {
            return refuse(at, "only a list can be indexed, and only by a number");
        };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let index = usize::try_from(if index < 0 { index.saturating_add(length) } else { index });
        match index.ok().and_then(|index| items.into_iter().nth(index)) {
            Some(item) => Ok(item),
            None => refuse(at, "the index is out of range"),
        }
    }

    fn comprehension(
        &mut self,
        body: &AstExpr,
        first: &ForClause,
        rest: &[Clause],
    ) -> Result<Vec<Located<'a>>, Problem> {
        // Only the first list is evaluated in the outer scope. Then the loop variables shadow outer ones, even before
        // they are set, until the comprehension ends.
        let items = self.items(&first.over)?;
        let mut names = Vec::new();
        collect_names(&first.var, &mut names);
        for clause in rest {
            match clause {
                ClauseP::For(each) => collect_names(&each.var, &mut names),
                ClauseP::If(_) => {}
            }
        }
        let hidden: Vec<_> = names.iter().map(|name| self.variables.remove_entry(*name)).collect();
        let mut out = Vec::new();
        self.each(items, first, rest, body, &mut out)?;
        for name in names {
            self.variables.remove(name);
        }
        self.variables.extend(hidden.into_iter().flatten());
        Ok(out)
    }

    fn each(
        &mut self,
        items: Vec<Located<'a>>,
        clause: &ForClause,
        rest: &[Clause],
        body: &AstExpr,
        out: &mut Vec<Located<'a>>,
    ) -> Result<(), Problem> {
        for item in items {
            self.spend(1, span(clause.over.span))?;
            self.assign(&clause.var, item)?;
            self.clauses(rest, body, out)?;
        }
        Ok(())
    }

    fn clauses(&mut self, clauses: &[Clause], body: &AstExpr, out: &mut Vec<Located<'a>>) -> Result<(), Problem> {
        match clauses.split_first() {
            None => {
                let item = self.expression(body)?;
                out.push(item);
                Ok(())
            }
            Some((ClauseP::For(each), rest)) => {
                let items = self.items(&each.over)?;
                self.each(items, each, rest, body, out)
            }
            Some((ClauseP::If(condition), rest)) => {
                if self.expression(condition)?.value.is_true() {
                    self.clauses(rest, body, out)
                } else {
                    Ok(())
                }
            }
        }
    }

    fn call(&mut self, function: &AstExpr, arguments: &[AstArgument], at: Span) -> Result<Located<'a>, Problem> {
        let ExprP::Identifier(name) = &function.node else {
            return refuse(span(function.span), "methods and computed functions are not available");
        };
        let Some(function) = Function::named(&name.node.ident) else {
            return refuse(span(name.span), format!("the function {} is not available", quoted(&name.node.ident)));
        };
        let mut call = Call { function, at, arguments: [const { None }; super::super::PARAMETERS] };
        for (position, argument) in arguments.iter().enumerate() {
            let index = parameter(function, position, argument)?;
            let value = self.expression(argument.node.expr())?;
            let Some(slot) = call.arguments.get_mut(index) else {
                return refuse(span(argument.span), "there are too many arguments");
            };
            if slot.replace(value).is_some() {
                return refuse(span(argument.span), "this argument is given twice");
            }
        }
        if self.calls.len() == super::super::MAX_CALLS {
            return Err(Problem::new(at, "the file has too many rules", "split it into several files"));
        }
        self.calls.push(call);
        Ok(Located { value: Value::None, at })
    }
}

/// The parameter of an argument.
fn parameter(function: Function, position: usize, argument: &AstArgument) -> Result<usize, Problem> {
    let at = span(argument.span);
    let known = || format!("`{}` takes `{}`", function.name(), function.parameters().join("`, `"));
    match &argument.node {
        ArgumentP::Positional(_) if position < function.parameters().len() => Ok(position),
        ArgumentP::Positional(_) => Err(Problem::new(at, "there are too many arguments", known())),
        ArgumentP::Named(name, _) => function
            .parameter(&name.node)
            .ok_or_else(|| Problem::new(span(name.span), format!("unknown argument {}", quoted(&name.node)), known())),
        ArgumentP::Args(_) | ArgumentP::KwArgs(_) => {
            Err(Problem::new(at, "arguments cannot be spread from a list or dictionary", known()))
        }
    }
}

/// The variables that an assignment sets.
fn collect_names<'t>(target: &'t AstAssignTarget, names: &mut Vec<&'t str>) {
    match &target.node {
        AssignTargetP::Identifier(name) => names.push(&name.node.ident),
        AssignTargetP::Tuple(targets) => targets.iter().for_each(|target| collect_names(target, names)),
        AssignTargetP::Index(_) | AssignTargetP::Dot(..) => {}
    }
}

fn literal_value<'a>(literal: &AstLiteral, at: Span) -> Result<Value<'a>, Problem> {
    match literal {
        AstLiteral::String(text) => Ok(Value::Text(Cow::Owned(text.node.clone()))),
        AstLiteral::Int(number) => match &number.node {
            TokenInt::I32(number) => Ok(Value::Int(i64::from(*number))),
            TokenInt::BigInt(_) => refuse(at, "the number is too large"),
        },
        AstLiteral::Float(_) | AstLiteral::Bytes(_) | AstLiteral::Ellipsis => {
            refuse(at, "rules are made of strings and lists of strings")
        }
    }
}

fn contains(container: &Located<'_>, wanted: &Located<'_>, at: Span) -> Result<bool, Problem> {
    match (&container.value, &wanted.value) {
        (Value::List(items) | Value::Tuple(items), _) => Ok(items.contains(wanted)),
        (Value::Text(text), Value::Text(part)) => Ok(text.contains(part.as_ref())),
        (container, _) => refuse(at, format!("{} cannot contain anything", container.kind())),
    }
}
