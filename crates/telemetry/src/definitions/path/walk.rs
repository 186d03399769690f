//! Evaluates a path on a document.
//!
//! Where jsonpath-rw-ext raises, this returns an error; where it ignores an error, there is no match. Work is bounded:
//! a path with several `..` could otherwise take polynomial time.

use std::{borrow::Cow, cmp::Ordering, rc::Rc};

use serde_json::Value;

use super::{
    node::{Arithmetic, Condition, Operand, PathNode, Test},
    order,
};
use crate::definitions::{
    LookupError,
    python::{self, NoResult, NotNumber, Numeric},
};

/// Maximum number of values visited by one look-up.
const WORK_MAX: usize = 1_000_000;

type Result<T> = std::result::Result<T, LookupError>;

/// A value during evaluation, and where it was found.
#[derive(Clone, Debug)]
pub struct Datum<'a> {
    pub value: Cow<'a, Value>,
    /// The parent of the document, which some steps tolerate.
    pub is_absent: bool,
    /// The whole document, not yet the result of a step.
    is_whole: bool,
    /// Its name or index in its parent, as in a path; empty without a parent.
    place: String,
    /// Parent link; set only if the path needs it.
    context: Option<Rc<Datum<'a>>>,
}

impl<'a> Datum<'a> {
    pub fn document(value: &'a Value) -> Self {
        Datum { is_whole: true, ..Datum::alone(Cow::Borrowed(value)) }
    }

    fn alone(value: Cow<'a, Value>) -> Self {
        Datum { value, is_absent: false, is_whole: false, place: String::new(), context: None }
    }

    /// Names and indexes from the document to this value, joined by dots.
    pub fn path(&self) -> String {
        match &self.context {
            None => String::new(),
            Some(context) if context.context.is_none() => self.place.clone(),
            Some(context) => format!("{}.{}", context.path(), self.place),
        }
    }

    /// Fails for the parent of the document.
    pub fn check_present(&self) -> Result<()> {
        if self.is_absent { error("a value has no parent") } else { Ok(()) }
    }

    /// A value that a step creates.
    fn created(value: impl Into<Value>) -> Self {
        Datum::alone(Cow::Owned(value.into()))
    }

    /// A part of the value; parts of a created value are owned.
    fn part(&self, part: impl for<'x> Fn(&'x Value) -> Option<&'x Value>) -> Option<Cow<'a, Value>> {
        match &self.value {
            Cow::Borrowed(value) => part(value).map(Cow::Borrowed),
            Cow::Owned(value) => part(value).cloned().map(Cow::Owned),
        }
    }
}

/// The result of a step.
pub enum Matches<'a> {
    Many(Vec<Datum<'a>>),
    /// A value where a list is expected: an unsortable value is passed on like this.
    Bare(Datum<'a>),
}

impl<'a> Matches<'a> {
    pub fn many(self) -> Result<Vec<Datum<'a>>> {
        match self {
            Matches::Many(all) => Ok(all),
            Matches::Bare(_) => error("only lists and objects can be sorted"),
        }
    }

    fn is_something(&self) -> bool {
        !matches!(self, Matches::Many(all) if all.is_empty())
    }
}

fn error<T>(what: &str) -> Result<T> {
    Err(LookupError(what.to_owned()))
}

/// The state of one look-up.
pub struct Walk {
    work_left: usize,
    with_context: bool,
}

impl Walk {
    pub fn new(with_context: bool) -> Self {
        Walk { work_left: WORK_MAX, with_context }
    }

    fn work(&mut self, amount: usize) -> Result<()> {
        match self.work_left.checked_sub(amount) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(LookupError(format!("a path comes by more than {WORK_MAX} values"))),
        }
    }

    fn child<'a>(
        &self,
        parent: &Datum<'a>,
        value: Cow<'a, Value>,
        place: impl FnOnce() -> String,
    ) -> Datum<'a> {
        if !self.with_context {
            return Datum::alone(value);
        }
        let context = Some(Rc::new(Datum { is_whole: false, ..parent.clone() }));
        Datum { place: place(), context, ..Datum::alone(value) }
    }

    pub fn find<'a>(&mut self, node: &PathNode, datum: &Datum<'a>) -> Result<Matches<'a>> {
        self.work(1)?;
        let found = match node {
            PathNode::Root => vec![root(datum)],
            PathNode::This => vec![Datum { is_absent: false, is_whole: false, ..datum.clone() }],
            PathNode::Parent => vec![match &datum.context {
                Some(context) => Datum::clone(context),
                None => Datum { is_absent: true, ..Datum::created(Value::Null) },
            }],
            PathNode::Fields(names) if names.iter().any(|name| name == "*") => self.all_fields(datum)?,
            PathNode::Fields(names) => self.fields(names, datum),
            PathNode::AllFields => self.all_fields(datum)?,
            PathNode::Index(index) => self.index(*index, datum)?,
            PathNode::Slice(start, end) => self.slice(*start, *end, datum)?,
            PathNode::Sequence(steps) => self.sequence(steps, datum)?,
            PathNode::Descendants(left, right) => {
                let starts = match self.find(left, datum)? {
                    Matches::Many(all) => all,
                    Matches::Bare(one) => vec![one],
                };
                let mut found = Vec::new();
                for start in starts {
                    self.descend(right, &start, &mut found)?;
                }
                found
            }
            PathNode::Union(left, right) => {
                let mut found = self.find(left, datum)?.many()?;
                found.extend(self.find(right, datum)?.many()?);
                found
            }
            PathNode::Where(left, right) => {
                let mut found = Vec::new();
                for datum in self.find(left, datum)?.many()? {
                    if self.find(right, &datum)?.is_something() {
                        found.push(datum);
                    }
                }
                found
            }
            PathNode::Intersection => return error("& has no meaning between paths"),
            PathNode::Filter(conditions) => self.filter(conditions, datum)?,
            PathNode::Sorted(orders) => return self.sorted(orders, datum),
            PathNode::Length => {
                let length = match datum.value.as_ref() {
                    Value::String(text) => Some(text.chars().count()),
                    Value::Array(items) => Some(items.len()),
                    Value::Object(entries) => Some(entries.len()),
                    _ => None,
                };
                length.map(Datum::created).into_iter().collect()
            }
            PathNode::Substitution(substitution) => {
                let Some(text) = datum.value.as_str() else {
                    return error("only texts can be substituted in");
                };
                substitution.of(text)?.map(Datum::created).into_iter().collect()
            }
            PathNode::Split(split) => {
                let segment = datum.value.as_str().and_then(|text| split.of(text));
                segment.map(Datum::created).into_iter().collect()
            }
            PathNode::Operation(left, operator, right) => self.operation(left, *operator, right, datum)?,
        };
        Ok(Matches::Many(found))
    }

    fn sequence<'a>(&mut self, steps: &[PathNode], datum: &Datum<'a>) -> Result<Vec<Datum<'a>>> {
        let Some((first, rest)) = steps.split_first() else { return Ok(vec![datum.clone()]) };
        let mut found = self.find(first, datum)?.many()?;
        for step in rest {
            let mut next = Vec::with_capacity(found.len());
            for datum in &found {
                next.extend(self.find(step, datum)?.many()?);
            }
            found = next;
        }
        Ok(found)
    }

    fn fields<'a>(&self, names: &[String], datum: &Datum<'a>) -> Vec<Datum<'a>> {
        let find = |name: &String| {
            let value = datum.part(|value| value.as_object()?.get(name))?;
            Some(self.child(datum, value, || name.clone()))
        };
        names.iter().filter_map(find).collect()
    }

    fn all_fields<'a>(&mut self, datum: &Datum<'a>) -> Result<Vec<Datum<'a>>> {
        let Value::Object(entries) = datum.value.as_ref() else { return Ok(Vec::new()) };
        self.work(entries.len())?;
        let names: Vec<String> = entries.keys().cloned().collect();
        Ok(self.fields(&names, datum))
    }

    fn index<'a>(&self, index: i64, datum: &Datum<'a>) -> Result<Vec<Datum<'a>>> {
        let place = |length: usize| match python::place(index, length) {
            Some(at) => Ok(Some(at).filter(|at| *at < length)),
            None => error("an index before the beginning"),
        };
        let value = match datum.value.as_ref() {
            Value::Array(items) => place(items.len())?.and_then(|at| datum.part(|value| value.get(at))),
            Value::String(text) => {
                let at = place(text.chars().count())?;
                let character = at.and_then(|at| text.chars().nth(at));
                character.map(|character| Cow::Owned(Value::from(character.to_string())))
            }
            Value::Object(entries) if usize::try_from(index).is_ok_and(|index| index >= entries.len()) => {
                None
            }
            _ => return error("an index into what is no list"),
        };
        Ok(value.map(|value| self.child(datum, value, || indexed(index))).into_iter().collect())
    }

    /// An object, a number or a text counts as a list of one element.
    fn slice<'a>(
        &mut self,
        start: Option<i64>,
        end: Option<i64>,
        datum: &Datum<'a>,
    ) -> Result<Vec<Datum<'a>>> {
        let length = match datum.value.as_ref() {
            Value::Array(items) => items.len(),
            Value::Object(_) | Value::String(_) | Value::Bool(_) => 1,
            Value::Number(number) if !number.is_f64() => 1,
            _ => return error("a slice of what is no list"),
        };
        let bound = |bound: i64| {
            let length = length as i64;
            (if bound < 0 { bound + length } else { bound }).clamp(0, length) as usize
        };
        let (start, end) = (start.map_or(0, bound), end.map_or(length, bound));
        self.work(end.saturating_sub(start))?;
        let one = |at: usize| {
            let value = match datum.value.as_ref() {
                Value::Array(_) => datum.part(|value| value.get(at))?,
                _ => datum.value.clone(),
            };
            Some(self.child(datum, value, || indexed(at as i64)))
        };
        let mut found: Vec<_> = (start..end).filter_map(one).collect();
        if !datum.value.is_array()
            && self.with_context
            && let Some(one) = found.first_mut()
        {
            let list = Cow::Owned(Value::Array(vec![datum.value.clone().into_owned()]));
            one.context = Some(Rc::new(Datum { value: list, ..datum.clone() }));
        }
        Ok(found)
    }

    fn descend<'a>(&mut self, node: &PathNode, datum: &Datum<'a>, found: &mut Vec<Datum<'a>>) -> Result<()> {
        let here = self.find(node, datum)?;
        datum.check_present()?;
        found.extend(here.many()?);
        match datum.value.as_ref() {
            Value::Array(items) => {
                for at in 0..items.len() {
                    let Some(value) = datum.part(|value| value.get(at)) else { continue };
                    let child = self.child(datum, value, || indexed(at as i64));
                    self.descend(node, &child, found)?;
                }
            }
            Value::Object(entries) => {
                for name in entries.keys() {
                    let Some(value) = datum.part(|value| value.get(name)) else { continue };
                    let child = self.child(datum, value, || name.clone());
                    self.descend(node, &child, found)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn filter<'a>(&mut self, conditions: &[Condition], datum: &Datum<'a>) -> Result<Vec<Datum<'a>>> {
        let Value::Array(items) = datum.value.as_ref() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let mut holds = true;
            for condition in conditions {
                holds &= self.holds(condition, item)?;
            }
            if holds && let Some(value) = datum.part(|value| value.get(at)) {
                found.push(self.child(datum, value, || indexed(at as i64)));
            }
        }
        Ok(found)
    }

    fn holds(&mut self, condition: &Condition, item: &Value) -> Result<bool> {
        let found = self.find(&condition.target, &Datum::alone(Cow::Borrowed(item)))?;
        let Some(test) = &condition.test else { return Ok(found.is_something()) };
        let mut holds = false;
        for datum in found.many()? {
            datum.check_present()?;
            if !datum.value.is_null() {
                holds |= passes(test, &datum.value)?;
            }
        }
        Ok(holds)
    }

    fn sorted<'a>(&mut self, orders: &[(PathNode, bool)], datum: &Datum<'a>) -> Result<Matches<'a>> {
        if datum.is_absent || datum.is_whole {
            return error("only what was found can be sorted");
        }
        let mut items = match datum.value.as_ref() {
            Value::Object(entries) if orders.is_empty() => {
                entries.keys().map(|key| Value::from(key.as_str())).collect()
            }
            Value::Array(items) => items.clone(),
            _ => return Ok(Matches::Bare(datum.clone())),
        };
        self.work(items.len())?;
        order::sort(&mut items, &mut |left: &Value, right: &Value| {
            self.work(1)?;
            if orders.is_empty() { is_less(left, right) } else { self.is_before(orders, left, right) }
        })?;
        Ok(Matches::Many(vec![Datum::created(Value::Array(items))]))
    }

    /// Compares by the first sort key that differs. A key that does not match exactly one value is skipped.
    fn is_before(&mut self, orders: &[(PathNode, bool)], left: &Value, right: &Value) -> Result<bool> {
        for (node, is_descending) in orders {
            let left = self.find(node, &Datum::alone(Cow::Borrowed(left)))?;
            let right = self.find(node, &Datum::alone(Cow::Borrowed(right)))?;
            if !left.is_something() || !right.is_something() {
                continue;
            }
            let (left, right) = (left.many()?, right.many()?);
            let ([left], [right]) = (left.as_slice(), right.as_slice()) else { continue };
            left.check_present()?;
            right.check_present()?;
            if !python::is_equal(&left.value, &right.value) {
                return Ok(is_less(&left.value, &right.value)? != *is_descending);
            }
        }
        Ok(false)
    }

    fn operation<'a>(
        &mut self,
        left: &Operand,
        operator: Arithmetic,
        right: &Operand,
        datum: &Datum<'a>,
    ) -> Result<Vec<Datum<'a>>> {
        let constant = |value: &Value| Datum::created(value.clone());
        let pairs: Vec<_> = match (left, right) {
            (Operand::Path(left), Operand::Path(right)) => {
                let (left, right) = (self.find(left, datum)?, self.find(right, datum)?);
                if !left.is_something() || !right.is_something() {
                    return Ok(Vec::new());
                }
                let (left, right) = (left.many()?, right.many()?);
                if left.len() != right.len() {
                    return Ok(Vec::new());
                }
                left.into_iter().zip(right).collect()
            }
            (Operand::Path(left), Operand::Constant(right)) => {
                let left = self.find(left, datum)?.many()?;
                left.into_iter().map(|left| (left, constant(right))).collect()
            }
            (Operand::Constant(left), Operand::Path(right)) => {
                let right = self.find(right, datum)?.many()?;
                right.into_iter().map(|right| (constant(left), right)).collect()
            }
            (Operand::Constant(left), Operand::Constant(right)) => vec![(constant(left), constant(right))],
        };
        let mut results = Vec::with_capacity(pairs.len());
        for (left, right) in pairs {
            left.check_present()?;
            right.check_present()?;
            match python::arithmetic(&left.value, operator, &right.value) {
                Ok(value) => results.push(Datum::created(value)),
                Err(NoResult::Types) => return Ok(Vec::new()),
                Err(NoResult::Infinite) => return error("a number beyond all limits"),
                Err(NoResult::TooLong) => return error("a text or a list that is too long"),
            }
            if let Some(Value::Array(items)) = results.last().map(|datum| datum.value.as_ref()) {
                self.work(items.len())?;
            }
        }
        Ok(results)
    }
}

/// `$`: the document. Without parent links, it can only be at the beginning.
fn root<'a>(datum: &Datum<'a>) -> Datum<'a> {
    let mut root = datum;
    while let Some(context) = &root.context {
        root = context;
    }
    Datum::alone(root.value.clone())
}

/// An index in a path.
fn indexed(index: i64) -> String {
    format!("[{index}]")
}

fn is_less(left: &Value, right: &Value) -> Result<bool> {
    match python::compare(left, right) {
        Some(order) => Ok(order == Ordering::Less),
        None => error("values that have no order"),
    }
}

/// Whether a value passes a comparison. It is converted to an integer first if the constant is one.
fn passes(test: &Test, value: &Value) -> Result<bool> {
    let (comparison, constant) = match test {
        Test::Match(pattern) => {
            return match value.as_str() {
                Some(text) => pattern.matches(text),
                None => error("only texts match an expression"),
            };
        }
        Test::MatchNumber(constant) => {
            // Values that cannot be converted to an integer do not match, before the error below.
            let is_passed_over = !constant.is_f64() && python::int(value) == Err(NotNumber::Text);
            return if is_passed_over { Ok(false) } else { error("a number is no regular expression") };
        }
        Test::Compare(comparison, constant) => (*comparison, constant),
    };
    let number;
    let value = if constant.is_boolean() || constant.is_i64() {
        match python::int(value) {
            Ok(whole) => {
                let Some(whole) = Numeric::Int(whole).value() else { return Ok(false) };
                number = whole;
                &number
            }
            Err(NotNumber::Text) => return Ok(false),
            Err(NotNumber::Type) => return error("only numbers and texts can be turned into numbers"),
        }
    } else {
        value
    };
    python::holds(value, comparison, constant).map_or_else(|| error("values that have no order"), Ok)
}
