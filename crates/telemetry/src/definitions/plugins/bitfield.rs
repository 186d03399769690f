//! `bitfield`: an integer whose bits say whether a path was found or has a value.

use serde_json::{Map, Value};

use super::{Match, integer};
use crate::definitions::{DefinitionError, python};

/// Trait integers have 63 bits and a sign.
const BIT_MAX: i64 = 62;

#[derive(Clone, Debug)]
pub struct Bitfield {
    initial: i64,
    flags: Vec<Flag>,
}

#[derive(Clone, Debug)]
struct Flag {
    path: String,
    bits: i64,
    /// `None`: it is enough that the path was found.
    value: Option<Value>,
}

impl Bitfield {
    /// `initial_bitfield` (default 0) and `flags`, each with `path`, `bit` and optionally `value`.
    pub fn parse(parameters: &Map<String, Value>) -> Result<Self, DefinitionError> {
        let initial = integer(parameters, "initial_bitfield")?.unwrap_or(0);
        let flags = match parameters.get("flags") {
            None | Some(Value::Null) => &Vec::new(),
            Some(Value::Array(flags)) => flags,
            Some(_) => return Err(DefinitionError("flags is no list".to_owned())),
        };
        let flags = flags.iter().map(flag).collect::<Result<_, _>>()?;
        Ok(Bitfield { initial, flags })
    }

    pub fn of(&self, found: &[Match<'_>]) -> Value {
        let mut bits = self.initial;
        for flag in &self.flags {
            // The last match counts if several have the same path.
            let found = found.iter().rev().find(|(path, _)| *path == flag.path);
            let is_set = found.is_some_and(|(_, value)| {
                flag.value.as_ref().is_none_or(|wanted| python::is_equal(value, wanted))
            });
            if is_set {
                bits |= flag.bits;
            }
        }
        Value::from(bits)
    }
}

fn flag(flag: &Value) -> Result<Flag, DefinitionError> {
    let path = flag.get("path").and_then(Value::as_str);
    let path = path.ok_or_else(|| DefinitionError("a flag has no `path`".to_owned()))?;
    let bit = flag.get("bit").and_then(|bit| python::int(bit).ok());
    let bit = bit.and_then(|bit| i64::try_from(bit).ok()).filter(|bit| (0..=BIT_MAX).contains(bit));
    let bit = bit.ok_or_else(|| DefinitionError(format!("a flag's `bit` is not one of 0 to {BIT_MAX}")))?;
    Ok(Flag { path: path.to_owned(), bits: 1 << bit, value: flag.get("value").cloned() })
}
