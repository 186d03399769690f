//! JSON pointers (RFC 6901) into a document, with the error texts of Python's `jsonpointer`.

use gnudi_app::json::{DEPTH_MAX, Value};

/// The steps from a document to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

/// The last step of a pointer, resolved in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStep<'p> {
    Key(&'p str),
    Index(usize),
    /// `-`: after the last item.
    End,
}

impl Pointer {
    /// Parses a pointer that is not empty.
    ///
    /// # Errors
    /// The syntax error, or more than [`DEPTH_MAX`] steps: the operations of a patch could each nest a value in that of
    /// the one before, and the result is walked recursively.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut escapes = text.match_indices('~').map(|(index, _)| &text[index..]);
        if let Some(wrong) = escapes.find(|rest| !rest.starts_with("~0") && !rest.starts_with("~1")) {
            let escape: String = wrong.chars().take(2).collect();
            return Err(format!("Found invalid escape {escape}"));
        }
        let steps = text.strip_prefix('/').ok_or("Location must start with /")?;
        if steps.split('/').nth(DEPTH_MAX).is_some() {
            return Err(format!("A path may be at most {DEPTH_MAX} levels deep"));
        }
        Ok(Pointer(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()))
    }

    /// The parent of the value, and the last step.
    ///
    /// # Errors
    /// If a step cannot be resolved.
    pub fn to_last<'p, 'v>(
        &'p self,
        document: &'v mut Value,
    ) -> Result<(&'v mut Value, LastStep<'p>), String> {
        let (last, before) = self.0.split_last().expect("a pointer has steps");
        let mut value = document;
        for step in before {
            value = walk(value, step)?;
        }
        let last = step_in(value, last)?;
        Ok((value, last))
    }
}

fn walk<'v>(value: &'v mut Value, step: &str) -> Result<&'v mut Value, String> {
    match (step_in(value, step)?, value) {
        (LastStep::Key(key), Value::Object(entries)) => {
            let found = entries.iter_mut().find(|(name, _)| name == key);
            found.map(|(_, value)| value).ok_or_else(|| format!("member '{key}' not found"))
        }
        (LastStep::Index(index), Value::Array(items)) => {
            items.get_mut(index).ok_or_else(|| format!("index '{index}' is out of bounds"))
        }
        _ => Err("there is nothing behind the end of a list".to_owned()),
    }
}

fn step_in<'p>(value: &Value, step: &'p str) -> Result<LastStep<'p>, String> {
    match value {
        Value::Object(_) => Ok(LastStep::Key(step)),
        Value::Array(_) if step == "-" => Ok(LastStep::End),
        Value::Array(_) => {
            let digits =
                step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
            let index = digits.then(|| step.parse().ok()).flatten();
            index.map(LastStep::Index).ok_or_else(|| format!("'{step}' is not a valid sequence index"))
        }
        Value::Str(_) => Err(format!("Cannot apply token '{step}' to non-container type <class 'str'>")),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => Err(format!(
            "Document '<class '{}'>' does not support indexing, must be mapping/sequence or support __getitem__",
            value.class_name()
        )),
    }
}
