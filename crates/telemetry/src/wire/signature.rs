//! Message signatures: HMAC-SHA256 with the agents' shared secret, over names and values sorted by name.
//!
//! A value is hashed as Python's `str` of it; maps are flattened with `:` between names, and texts in lists are bytes.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::python;
use crate::hex::hex;

/// The field of the signature itself is not signed.
const SIGNATURE_FIELD: &str = "message_signature";

/// Signs messages with one secret.
#[derive(Clone)]
pub struct Signer {
    /// Initialised with the key; `None` if messages are not signed.
    mac: Option<Hmac<Sha256>>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Signer").field("signs", &self.mac.is_some()).finish()
    }
}

impl Signer {
    /// With an empty secret every signature is empty.
    pub fn new(secret: &str) -> Self {
        let mac = || Hmac::new_from_slice(secret.as_bytes()).expect("a key may have any length");
        Signer { mac: (!secret.is_empty()).then(mac) }
    }

    /// In hexadecimal digits.
    pub fn sign(&self, message: &Map<String, Value>) -> String {
        self.sign_with(|signature| signature.map(message))
    }

    /// Signs the fields that `feed` adds.
    pub(super) fn sign_with(&self, feed: impl FnOnce(&mut Signature)) -> String {
        let Some(mac) = &self.mac else { return String::new() };
        let mut signature = Signature { mac: mac.clone(), prefix: String::new(), text: String::new() };
        feed(&mut signature);
        hex(&signature.mac.finalize().into_bytes())
    }
}

/// A signature in progress: fields must be added in the order of their names.
pub(super) struct Signature {
    mac: Hmac<Sha256>,
    /// The path within maps, with the final `:`.
    prefix: String,
    /// A reused buffer.
    text: String,
}

impl Signature {
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.mac.update(self.prefix.as_bytes());
        self.mac.update(name.as_bytes());
        self.mac.update(value.as_bytes());
    }

    pub(super) fn optional(&mut self, name: &str, value: Option<&str>) {
        self.text(name, value.unwrap_or("None"));
    }

    pub(super) fn value(&mut self, name: &str, value: &Value) {
        if let Value::Object(entries) = value {
            return self.nested(name, entries);
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        match value {
            Value::Array(_) => python::push_repr_of_bytes(&mut text, value),
            value => python::push_str(&mut text, value),
        }
        self.text(name, &text);
        self.text = text;
    }

    pub(super) fn nested(&mut self, name: &str, entries: &Map<String, Value>) {
        let length = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push(':');
        self.map(entries);
        self.prefix.truncate(length);
    }

    /// In the order of names by UTF-8 bytes, which is Python's order, too.
    pub(super) fn map(&mut self, entries: &Map<String, Value>) {
        for (name, value) in python::sorted(entries) {
            // Only at the top level: a map may have a member of that name.
            if !(self.prefix.is_empty() && name == SIGNATURE_FIELD && !value.is_object()) {
                self.value(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Computed with `compute_signature` of Ceilometer 27.
    #[test]
    fn signatures_are_ceilometers() {
        let message = json!({
            "b": 1.0, "a": 1, "c": null, "d": true, "e": "é", "message_signature": "x",
            "f": {"x": {"y": [1, "it's", {"k": "v"}]}, "message_signature": "y"}, "h": {}, "g": [],
        });
        let Value::Object(message) = message else { unreachable!() };
        assert_eq!(
            Signer::new("secret").sign(&message),
            "2fd7f94769668e457febf3d754e9dcf52fbdc2b25f021443bf65c6b98b41adc8"
        );
        assert_eq!(Signer::new("").sign(&message), "");
    }
}
