//! Evaluates a tree.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    Result, error, format,
    functions::items,
    numbers,
    tree::{Operator, Piece, Relation, Tree},
};
use crate::definitions::python::{self, Numeric};

/// Maximum steps of an evaluation: one for each node evaluated, and one per KiB of text.
const STEPS_MAX: usize = 100_000;
const STEP_BYTES: usize = 1 << 10;

type Evaluated<'v> = Result<Cow<'v, Value>>;

/// The variables, and the steps taken.
pub struct Scope<'v> {
    names: Vec<(&'v str, Cow<'v, Value>)>,
    steps: usize,
}

impl<'v> Scope<'v> {
    pub fn new(names: &[(&'v str, &'v Value)]) -> Self {
        Scope { names: names.iter().map(|&(name, value)| (name, Cow::Borrowed(value))).collect(), steps: 0 }
    }

    pub fn evaluate(&mut self, tree: &'v Tree) -> Result<Value> {
        self.value(tree).map(Cow::into_owned)
    }

    fn step(&mut self, value: &Value) -> Result<()> {
        let cost = match value {
            Value::String(text) => text.len() / STEP_BYTES,
            Value::Array(items) => items.len() / STEP_BYTES,
            _ => 0,
        };
        self.steps += 1 + cost;
        if self.steps > STEPS_MAX { Err(error("an expression that makes too many steps")) } else { Ok(()) }
    }

    fn value(&mut self, tree: &'v Tree) -> Evaluated<'v> {
        let value = self.of(tree)?;
        self.step(&value)?;
        Ok(value)
    }

    fn values(&mut self, trees: &'v [Tree]) -> Result<Vec<Value>> {
        trees.iter().map(|tree| self.value(tree).map(Cow::into_owned)).collect()
    }

    fn of(&mut self, tree: &'v Tree) -> Evaluated<'v> {
        Ok(Cow::Owned(match tree {
            Tree::Constant(value) => return Ok(Cow::Borrowed(value)),
            Tree::Name(name) => {
                let found = self.names.iter().rev().find(|(known, _)| known == name);
                return found.map(|(_, value)| value.clone()).ok_or_else(|| error(format!("no {name}")));
            }
            Tree::List(trees) | Tree::Tuple(trees) => Value::Array(self.values(trees)?),
            Tree::Map(entries) => self.map(entries)?,
            Tree::Pieces(pieces) => self.pieces(pieces)?,
            Tree::Signed(sign, tree) => {
                let value = self.value(tree)?;
                if Numeric::of(&value).is_none() {
                    return Err(error("the sign of what is no number"));
                }
                numbers::arithmetic(Operator::Multiply, &value, &Value::from(*sign))?
            }
            Tree::Not(tree) => (!self.is_true(tree)?).into(),
            Tree::Arithmetic(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match (operator, &*left) {
                    (Operator::Modulo, Value::String(text)) => {
                        format::percent(text, &[right.into_owned()], true)?.into()
                    }
                    _ => numbers::arithmetic(*operator, &left, &right)?,
                }
            }
            Tree::Percent(text, values) => {
                let (text, values) = (self.value(text)?, self.values(values)?);
                let text = text.as_str().ok_or_else(|| error("% of what is neither a number nor a text"))?;
                format::percent(text, &values, false)?.into()
            }
            Tree::Compare(first, others) => self.compare(first, others)?.into(),
            Tree::And(left, right) | Tree::Or(left, right) => {
                let decides = matches!(tree, Tree::Or(..));
                let left = self.value(left)?;
                return if python::is_true(&left) == decides { Ok(left) } else { self.value(right) };
            }
            Tree::Choice { condition, then, otherwise } => {
                let is_true = self.is_true(condition)?;
                return self.value(if is_true { then } else { otherwise });
            }
            Tree::Item(of, index) => return self.item(of, index),
            Tree::Slice(of, from, to) => self.slice(of, from.as_deref(), to.as_deref())?,
            Tree::Call(function, arguments) => function.call(&self.values(arguments)?)?,
            Tree::Method(of, method, arguments) => {
                let of = self.value(of)?;
                method.call(&of, &self.values(arguments)?)?
            }
            Tree::Each { item, names, over, conditions } => self.each(item, names, over, conditions)?,
        }))
    }

    fn is_true(&mut self, tree: &'v Tree) -> Result<bool> {
        let value = self.value(tree)?;
        Ok(python::is_true(&value))
    }

    fn map(&mut self, entries: &'v [(Tree, Tree)]) -> Result<Value> {
        let mut map = Map::new();
        for (key, value) in entries {
            let Value::String(key) = self.value(key)?.into_owned() else {
                return Err(error("a map's key that is no text"));
            };
            map.insert(key, self.value(value)?.into_owned());
        }
        Ok(map.into())
    }

    fn pieces(&mut self, pieces: &'v [Piece]) -> Result<Value> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value(tree, digits) => {
                    let value = self.value(tree)?;
                    text.push_str(&format::shown(&value, *digits)?);
                }
            }
        }
        Ok(text.into())
    }

    fn compare(&mut self, first: &'v Tree, others: &'v [(Relation, Tree)]) -> Result<bool> {
        let mut left = self.value(first)?;
        for (relation, right) in others {
            let right = self.value(right)?;
            if !holds(&left, *relation, &right)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn item(&mut self, of: &'v Tree, index: &'v Tree) -> Evaluated<'v> {
        let (of, index) = (self.value(of)?, self.value(index)?);
        match of {
            Cow::Borrowed(Value::String(text)) => character(text, &index).map(Cow::Owned),
            Cow::Borrowed(of) => place(of, &index).map(Cow::Borrowed),
            Cow::Owned(Value::String(text)) => character(&text, &index).map(Cow::Owned),
            Cow::Owned(of) => place(&of, &index).map(|item| Cow::Owned(item.clone())),
        }
    }

    fn slice(&mut self, of: &'v Tree, from: Option<&'v Tree>, to: Option<&'v Tree>) -> Result<Value> {
        let of = self.value(of)?;
        let length = match &*of {
            Value::String(text) => text.chars().count(),
            Value::Array(items) => items.len(),
            _ => return Err(error("a slice of what is neither a text nor a list")),
        };
        let mut end = |tree: Option<&'v Tree>, otherwise: usize| match tree {
            None => Ok(otherwise),
            Some(tree) => match &*self.value(tree)? {
                Value::Null => Ok(otherwise),
                value => Ok(python::place(whole(value)?, length).unwrap_or(0).min(length)),
            },
        };
        let (from, to) = (end(from, 0)?, end(to, length)?);
        let count = to.saturating_sub(from);
        Ok(match &*of {
            Value::Array(items) => items.iter().skip(from).take(count).cloned().collect(),
            of => of.as_str().unwrap_or_default().chars().skip(from).take(count).collect::<String>().into(),
        })
    }

    fn each(
        &mut self,
        item: &'v Tree,
        names: &'v [String],
        over: &'v Tree,
        conditions: &'v [Tree],
    ) -> Result<Value> {
        let known = self.names.len();
        let mut made = Vec::new();
        let all = self.value(over)?;
        for value in items(&all)? {
            match names {
                [name] => self.names.push((name.as_str(), Cow::Owned(value))),
                names => {
                    let parts = items(&value)?;
                    if parts.len() != names.len() {
                        return Err(error("an item has not as many parts as there are names"));
                    }
                    self.names
                        .extend(names.iter().map(String::as_str).zip(parts.into_iter().map(Cow::Owned)));
                }
            }
            let mut is_wanted = true;
            for condition in conditions {
                is_wanted = is_wanted && self.is_true(condition)?;
            }
            if is_wanted {
                made.push(self.value(item)?.into_owned());
            }
            self.names.truncate(known);
        }
        Ok(Value::Array(made))
    }
}

fn whole(value: &Value) -> Result<i64> {
    let number = match Numeric::of(value) {
        Some(Numeric::Int(number)) => i64::try_from(number).ok(),
        _ => None,
    };
    number.ok_or_else(|| error("an index that is no whole number"))
}

/// An item of a map or a list.
fn place<'a>(of: &'a Value, index: &Value) -> Result<&'a Value> {
    let found = match of {
        Value::Object(entries) => index.as_str().and_then(|key| entries.get(key)),
        Value::Array(items) => python::place(whole(index)?, items.len()).and_then(|at| items.get(at)),
        _ => return Err(error("an item of what has none")),
    };
    found.ok_or_else(|| error(format!("there is no {}", python::text(index))))
}

fn character(text: &str, index: &Value) -> Result<Value> {
    let at = whole(index)?;
    let found = match usize::try_from(at) {
        Ok(at) => text.chars().nth(at),
        Err(_) => usize::try_from(-(at + 1)).ok().and_then(|at| text.chars().rev().nth(at)),
    };
    found.map(|letter| letter.to_string().into()).ok_or_else(|| error(format!("no character {at}")))
}

fn holds(left: &Value, relation: Relation, right: &Value) -> Result<bool> {
    match relation {
        Relation::Compare(comparison) => python::holds(left, comparison, right)
            .ok_or_else(|| error("values of different types have no order")),
        Relation::In => contains(right, left),
        Relation::NotIn => contains(right, left).map(|contains| !contains),
        Relation::Is => is_same(left, right),
        Relation::IsNot => is_same(left, right).map(|is_same| !is_same),
    }
}

fn contains(all: &Value, one: &Value) -> Result<bool> {
    match (all, one) {
        (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
        (Value::Array(items), one) => Ok(items.iter().any(|item| python::is_equal(item, one))),
        (Value::Object(_), Value::Array(_) | Value::Object(_)) => {
            Err(error("in: neither a list nor a dict can be a key"))
        }
        (Value::Object(entries), one) => Ok(one.as_str().is_some_and(|key| entries.contains_key(key))),
        _ => Err(error("in: what has no items")),
    }
}

/// Identity is supported for None, True and False only.
fn is_same(left: &Value, right: &Value) -> Result<bool> {
    let is_single = |value: &Value| value.is_null() || value.is_boolean();
    if is_single(left) || is_single(right) {
        Ok(left == right)
    } else {
        Err(error("is: of others than None, True and False it is not supported"))
    }
}
