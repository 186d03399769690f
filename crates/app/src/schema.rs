//! Validates documents, with voluptuous' error texts: `expected str for dictionary value @ data['name']`.
//!
//! A check is a function of a value. [`each_entry`] checks an object's keys in the document's order, so that
//! the first error is the one that Gnocchi reports.

use gnudi_model::{STORED_CHARACTERS_MAX, Timespan, is_storable};

use crate::{
    error::{ApiError, Result},
    json::{Value, repr_str},
    python,
};

/// One step on the path to a value in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// A validation error and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    message: String,
    path: Vec<Step>,
    of_dictionary: bool,
    /// An error of a key itself, not of its value.
    of_key: bool,
}

pub type Checked<T> = Result<T, Invalid>;

impl Invalid {
    pub fn new(message: impl Into<String>) -> Self {
        Invalid { message: message.into(), path: Vec::new(), of_dictionary: false, of_key: false }
    }

    /// An unknown key, in a check for [`each_entry`].
    pub fn unknown_key() -> Self {
        Invalid { of_key: true, ..Invalid::new("extra keys not allowed") }
    }

    /// An unknown key.
    pub fn extra_key(key: &str) -> Self {
        Invalid::unknown_key().in_key(key)
    }

    /// A key of the wrong form.
    pub fn bad_key(key: &str) -> Self {
        Invalid::at_key("not a valid value", key)
    }

    /// An error of the key itself, not of its value.
    pub fn at_key(message: impl Into<String>, key: &str) -> Self {
        Invalid { of_key: true, ..Invalid::new(message) }.in_key(key)
    }

    /// The same error, with the value's key prepended to its path.
    pub fn in_key(mut self, key: &str) -> Self {
        self.of_dictionary |= self.path.is_empty() && !self.of_key;
        self.path.insert(0, Step::Key(key.to_owned()));
        self
    }

    /// The same error, with the value's index prepended to its path.
    pub fn in_index(mut self, index: usize) -> Self {
        self.path.insert(0, Step::Index(index));
        self
    }

    /// The length of the error's path.
    pub fn depth(&self) -> usize {
        self.path.len()
    }

    /// The error's text, with its place.
    pub fn reason(&self) -> String {
        let mut text = self.message.clone();
        if self.of_dictionary {
            text.push_str(" for dictionary value");
        }
        if !self.path.is_empty() {
            text.push_str(" @ data");
        }
        for step in &self.path {
            match step {
                Step::Key(key) => text.extend(["[", &repr_str(key), "]"]),
                Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
            }
        }
        text
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        let path: Vec<String> = invalid
            .path
            .iter()
            .map(|step| match step {
                Step::Key(key) => key.clone(),
                Step::Index(index) => index.to_string(),
            })
            .collect();
        ApiError::bad_request(Value::cause_and_reason("Invalid input", invalid.reason(), path))
    }
}

/// The entries of an object.
pub fn entries(value: &Value) -> Checked<&[(String, Value)]> {
    match value {
        Value::Object(entries) => Ok(entries),
        _ => Err(Invalid::new("expected a dictionary")),
    }
}

/// Checks the entries of an object. `check` gets a key and its value; its error is placed at the key.
pub fn each_entry(value: &Value, mut check: impl FnMut(&str, &Value) -> Checked<()>) -> Checked<()> {
    let mut entries = entries(value)?.iter();
    entries.try_for_each(|(key, value)| check(key, value).map_err(|invalid| invalid.in_key(key)))
}

/// The entry of an object that has at least `min`, and at most one.
pub fn one_entry(value: &Value, min: usize) -> Checked<Option<&(String, Value)>> {
    let length = match value {
        Value::Object(entries) => entries.len(),
        Value::Array(items) => items.len(),
        Value::Str(text) => text.chars().count(),
        _ => return Err(Invalid::new("invalid value or type")),
    };
    if length < min {
        return Err(Invalid::new(format!("length of value must be at least {min}")));
    }
    if length > 1 {
        return Err(Invalid::new("length of value must be at most 1"));
    }
    Ok(entries(value)?.first())
}

/// A required key.
pub fn required<T>(value: Option<T>, key: &str) -> Checked<T> {
    value.ok_or_else(|| Invalid {
        path: vec![Step::Key(key.to_owned())],
        ..Invalid::new("required key not provided")
    })
}

/// A string.
pub fn string(value: &Value) -> Checked<String> {
    match value {
        Value::Str(text) => Ok(text.clone()),
        _ => Err(Invalid::new("expected str")),
    }
}

/// A string of up to `max` characters.
pub fn string_up_to(max: usize) -> impl Fn(&Value) -> Checked<String> {
    move |value| {
        let text = string(value)?;
        if text.chars().count() > max {
            return Err(Invalid::new(format!("length of value must be at most {max}")));
        }
        Ok(text)
    }
}

/// An integer of at least `min`, or a value that Python's `int()` converts to one.
pub fn integer_from(min: u64) -> impl Fn(&Value) -> Checked<u64> {
    move |value| {
        let number = python::int(value).ok_or_else(|| Invalid::new("expected int"))?;
        u64::try_from(number)
            .ok()
            .filter(|number| *number >= min)
            .ok_or_else(|| Invalid::new(format!("value must be at least {min}")))
    }
}

/// Whether every database can store the text as a name.
///
/// # Errors
/// 400 if it is too long or contains a NUL.
pub fn storable(text: &str) -> Result<()> {
    if !is_storable(text) {
        let reason = format!("A name may have at most {STORED_CHARACTERS_MAX} characters and no NUL");
        return Err(ApiError::bad_request(reason));
    }
    Ok(())
}

/// Whether the text can be the last segment of a path.
///
/// # Errors
/// 400 if it is empty, and those of [`storable`].
pub fn addressable(text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(ApiError::bad_request("A name cannot be empty"));
    }
    storable(text)
}

/// Checks each item of a list. An error inside an item is reported before errors of items themselves.
pub fn list<T>(value: &Value, check: impl Fn(&Value) -> Checked<T>) -> Checked<Vec<T>> {
    let Value::Array(items) = value else {
        return Err(Invalid::new("expected a list"));
    };
    let mut checked = Vec::with_capacity(items.len());
    let mut fault = None;
    for (index, item) in items.iter().enumerate() {
        match check(item) {
            Ok(item) => checked.push(item),
            Err(invalid) if invalid.path.is_empty() => {
                fault.get_or_insert_with(|| invalid.in_index(index));
            }
            Err(invalid) => return Err(invalid.in_index(index)),
        }
    }
    fault.map_or(Ok(checked), Err)
}

/// A timespan: seconds, or a text ("5 minutes").
pub fn timespan(value: &Value) -> Checked<Timespan> {
    python::timespan(value).map_err(Invalid::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_limited_length() {
        assert!(storable("").is_ok() && storable(&"é".repeat(255)).is_ok());
        assert!(addressable("").is_err() && addressable("x").is_ok());
        assert!(storable(&"x".repeat(256)).is_err() && storable("a\0b").is_err());
    }

    #[test]
    fn an_error_contains_its_place() {
        let value = crate::json::parse(br#"{"definition": [{"points": 1}, {"points": "x"}]}"#).unwrap();
        let item = |item: &Value| each_entry(item, |_, points| integer_from(1)(points).map(drop));
        let check = |value: &Value| each_entry(value, |_, items| list(items, item).map(drop));
        let error = ApiError::from(check(&value).unwrap_err());
        assert_eq!(
            error.detail.to_json(),
            r#"{"cause": "Invalid input", "reason": "expected int for dictionary value @ data['definition'][1]['points']", "detail": ["definition", "1", "points"]}"#
        );
    }
}
