//! Ids of resources: a UUID, or any text, which is hashed with its creator to one.

use uuid::Uuid;

use gnudi_model::python::parse_uuid;

use crate::{
    json::Value,
    schema::{Checked, Invalid, string},
};

/// Gnocchi's namespace. Never change it: other systems store ids derived from it.
const NAMESPACE: Uuid = Uuid::from_u128(0x0a7a_15ff_aa13_4ac2_897c_9bdf_30ce_175b);

/// The maximum length of an id.
pub const CHARACTERS_MAX: usize = 289;

/// The resource id that a JSON value denotes.
pub fn check(value: &Value, creator: &str) -> Checked<Uuid> {
    of_text(&string(value)?, creator)
}

/// The resource id that a text denotes.
pub fn of_text(text: &str, creator: &str) -> Checked<Uuid> {
    if text.contains('/') {
        return Err(Invalid::new("'/' is not supported in resource id"));
    }
    if let Some(id) = parse_uuid(text) {
        return Ok(id);
    }
    if text.chars().count() > CHARACTERS_MAX {
        return Err(Invalid::new(format!(
            "transformable resource id >{CHARACTERS_MAX} max allowed characters"
        )));
    }
    Ok(Uuid::new_v5(&NAMESPACE, format!("{text}\0{creator}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_become_ids_with_their_creator() {
        let id = |text: &str| check(&Value::from(text), "foobar").map(|id| id.to_string());
        // From Gnocchi's functional tests.
        assert_eq!(id("1.2.3.4").unwrap(), "a9c729cc-d1b0-5e6b-b5ba-8b5a7f45f1fc");
        assert_eq!(id("5B7EBE904AD24C83AD2CF6344884AB70").unwrap(), "5b7ebe90-4ad2-4c83-ad2c-f6344884ab70");
        assert!(id("a/b").is_err());
        assert!(id(&"x".repeat(290)).is_err());
        assert!(id(&"x".repeat(289)).is_ok());
        assert!(check(&Value::Int(1), "foobar").is_err());
    }
}
