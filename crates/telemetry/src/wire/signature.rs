//! The signature of a message: HMAC-SHA256 with the secret that agents share, over names and values in the order of names.
//!
//! A value is fed as Python's `str` of it; maps are flattened with `:` between names, and texts in lists are bytes.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::python;

/// The field that is not signed, since it is the signature.
const SIGNATURE_FIELD: &str = "message_signature";

/// Signs messages with one secret.
#[derive(Clone)]
pub struct Signer {
    /// Keyed and not yet fed; `None` where nothing is signed.
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

    /// Of what `feed` feeds.
    pub(super) fn sign_with(&self, feed: impl FnOnce(&mut Signature)) -> String {
        let Some(mac) = &self.mac else { return String::new() };
        let mut signature = Signature { mac: mac.clone(), prefix: String::new(), text: String::new() };
        feed(&mut signature);
        signature.mac.finalize().into_bytes().iter().fold(String::with_capacity(64), |mut hex, byte| {
            for digit in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(u32::from(digit), 16).expect("a digit"));
            }
            hex
        })
    }
}

/// A signature in the making: fields must be fed in the order of their names.
pub(super) struct Signature {
    mac: Hmac<Sha256>,
    /// Of names within maps, with the last `:`.
    prefix: String,
    /// Kept for its memory.
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

    /// In the order of names: that of their bytes in UTF-8 is Python's too.
    pub(super) fn map(&mut self, entries: &Map<String, Value>) {
        for (name, value) in python::sorted(entries) {
            // A map by that name has names of its own.
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

    /// Figures of `compute_signature` in Ceilometer 27.
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
