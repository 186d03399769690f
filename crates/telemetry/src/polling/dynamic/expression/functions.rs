//! The supported functions of Python.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Result, error, numbers};
use crate::{
    definitions::{
        path::{Arithmetic, order},
        python::{self, Numeric},
    },
    messaging::surrogates::parse,
};

callables! {
    Function:
    Abs("abs", 1, 1),
    All("all", 1, 1),
    Any("any", 1, 1),
    Bool("bool", 0, 1),
    Float("float", 0, 1),
    Int("int", 0, 1),
    JsonLoads("json.loads", 1, 1),
    Len("len", 1, 1),
    List("list", 0, 1),
    Max("max", 1, usize::MAX),
    Min("min", 1, usize::MAX),
    Next("next", 1, 2),
    Round("round", 1, 2),
    Sorted("sorted", 1, 1),
    Str("str", 0, 1),
    Sum("sum", 1, 2),
}

impl Function {
    pub fn call(self, arguments: &[Value]) -> Result<Value> {
        let first = arguments.first();
        Ok(match (self, first) {
            (Function::Str, None) => "".into(),
            (Function::Bool, None) => false.into(),
            (Function::Int, None) => 0.into(),
            (Function::Float, None) => 0.0.into(),
            (Function::List, None) => Value::Array(Vec::new()),
            (_, None) => return Err(error("an argument is missing")),
            (Function::Str, Some(value)) => python::text(value).into(),
            (Function::Bool, Some(value)) => python::is_true(value).into(),
            (Function::Int, Some(value)) => {
                let whole =
                    python::int(value).map_err(|_| error(format!("int of {}", python::text(value))))?;
                finite(Numeric::Int(whole))?
            }
            (Function::Float, Some(value)) => {
                let number =
                    python::float(value).map_err(|_| error(format!("float of {}", python::text(value))))?;
                finite(Numeric::Float(number))?
            }
            (Function::Abs, Some(value)) => finite(match Numeric::of(value) {
                Some(Numeric::Int(number)) => Numeric::Int(number.abs()),
                Some(Numeric::Float(number)) => Numeric::Float(number.abs()),
                None => return Err(error("abs: what is no number")),
            })?,
            (Function::Round, Some(value)) => numbers::round(value, arguments.get(1))?,
            (Function::Len, Some(value)) => length(value)?.into(),
            (Function::All, Some(value)) => items(value)?.iter().all(python::is_true).into(),
            (Function::Any, Some(value)) => items(value)?.iter().any(python::is_true).into(),
            (Function::List, Some(value)) => Value::Array(items(value)?),
            (Function::Sorted, Some(value)) => Value::Array(sorted(&items(value)?)?),
            (Function::Sum, Some(value)) => sum(&items(value)?, arguments.get(1))?,
            (Function::Max, _) => extreme(arguments, Ordering::Greater)?,
            (Function::Min, _) => extreme(arguments, Ordering::Less)?,
            (Function::Next, Some(value)) => {
                let next = items(value)?.into_iter().next().or_else(|| arguments.get(1).cloned());
                next.ok_or_else(|| error("next: there is none"))?
            }
            (Function::JsonLoads, Some(value)) => {
                let text = value.as_str().ok_or_else(|| error("json.loads: what is no text"))?;
                parse(text.as_bytes()).map_err(|why| error(format!("json.loads: {why}")))?
            }
        })
    }
}

fn finite(number: Numeric) -> Result<Value> {
    number.value().ok_or_else(|| error("no finite number"))
}

fn length(value: &Value) -> Result<usize> {
    match value {
        Value::String(text) => Ok(text.chars().count()),
        Value::Array(items) => Ok(items.len()),
        Value::Object(entries) => Ok(entries.len()),
        _ => Err(error("len of what has no length")),
    }
}

/// The items that Python iterates over.
pub fn items(value: &Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        Value::String(text) => Ok(text.chars().map(|letter| letter.to_string().into()).collect()),
        Value::Object(entries) => Ok(entries.keys().map(|key| key.as_str().into()).collect()),
        _ => Err(error("what has no items")),
    }
}

fn sorted(items: &[Value]) -> Result<Vec<Value>> {
    let mut sorted: Vec<&Value> = items.iter().collect();
    order::sort(&mut sorted, &mut |left: &&Value, right: &&Value| -> Result<bool> {
        let order = python::compare(left, right);
        Ok(order.ok_or_else(|| error("sorted: items of different types"))? == Ordering::Less)
    })?;
    Ok(sorted.into_iter().cloned().collect())
}

fn sum(items: &[Value], start: Option<&Value>) -> Result<Value> {
    let start = start.cloned().unwrap_or_else(|| 0.into());
    items.iter().try_fold(start, |sum, item| {
        let both = Numeric::of(&sum).is_some() && Numeric::of(item).is_some();
        let added = both.then(|| python::arithmetic(&sum, Arithmetic::Add, item).ok()).flatten();
        added.ok_or_else(|| error("sum: what is no number"))
    })
}

/// The first of the maxima or minima, of one list's items or of several arguments.
fn extreme(arguments: &[Value], wanted: Ordering) -> Result<Value> {
    let items = match arguments {
        [list] => items(list)?,
        several => several.to_vec(),
    };
    let mut items = items.into_iter();
    let first = items.next().ok_or_else(|| error("min or max of nothing"))?;
    items.try_fold(first, |best, item| {
        let order = python::compare(&item, &best).ok_or_else(|| error("min or max of different types"))?;
        Ok(if order == wanted { item } else { best })
    })
}
