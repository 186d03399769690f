//! Decodes a request from JSON, by protobuf's JSON mapping: 64-bit integers may be strings, NaN and infinities are
//! strings, bytes are base64, null is the default. Unknown fields are ignored. A surrogate without its pair is U+FFFD, as in
//! Go.

use std::{borrow::Cow, fmt, marker::PhantomData, str::FromStr};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{OtlpError, Request};
use crate::remote_write::Limits;

/// The maximum number of objects and lists of a request, per sample of `samples_max`.
const OBJECTS_PER_SAMPLE_MAX: usize = 2;

pub(super) fn read(body: &[u8], limits: Limits) -> Result<Request<'_>, OtlpError> {
    // Decoded objects take more memory than their text, so they are counted first. Braces and brackets within strings
    // are counted, too, but they are rare.
    let objects_max = limits.samples_max.saturating_mul(OBJECTS_PER_SAMPLE_MAX);
    if body.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > objects_max {
        return Err(OtlpError::TooManyObjects(objects_max));
    }
    Ok(serde_json::from_slice(body)?)
}

/// Deserializes a value, or its default from null.
pub(super) fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A text, which may have surrogates without their pairs: one of them may not cost the request.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As bytes: for `str`, serde_json refuses such surrogates.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    /// A text without escapes.
    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
        if bytes.iter().any(|byte| *byte < b' ') {
            return Err(E::custom("a control character in a string"));
        }
        str::from_utf8(bytes).map(|text| Text(text.into())).map_err(E::custom)
    }

    /// A text with escapes. Lone surrogates are in it like other characters, in three bytes, as U+FFFD has.
    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
        let mut bytes = bytes.to_vec();
        for at in 0..bytes.len().saturating_sub(2) {
            if let [0xED, 0xA0..=0xBF, 0x80..=0xBF] = bytes[at..at + 3] {
                bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
            }
        }
        String::from_utf8(bytes).map(|text| Text(text.into())).map_err(E::custom)
    }
}

/// Deserializes a text, which borrows from the body if possible.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    or_default(deserializer).map(|text: Text<'de>| text.0)
}

/// Deserializes a text, or null.
pub(super) fn optional_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    Ok(Option::<Text<'de>>::deserialize(deserializer)?.map(|text| text.0))
}

/// Deserializes a number, a string with a number, or null.
struct Flexible<T>(PhantomData<T>);

pub(super) trait Number: FromStr + Default {
    const NAME: &'static str;
    fn from_whole(number: i128) -> Option<Self>;
    fn from_double(_: f64) -> Option<Self> {
        None
    }
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Number for u64 {
    const NAME: &'static str = "a number of 64 bits";
    fn from_whole(number: i128) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Number for i64 {
    const NAME: &'static str = "a signed number of 64 bits";
    fn from_whole(number: i128) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Number for f64 {
    const NAME: &'static str = "a number";
    fn from_whole(number: i128) -> Option<Self> {
        Some(number as f64)
    }
    fn from_double(number: f64) -> Option<Self> {
        Some(number)
    }
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }
}

impl<T: Number> Visitor<'_> for Flexible<T> {
    type Value = Option<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(T::NAME)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<T>, E> {
        let invalid = || E::invalid_value(de::Unexpected::Unsigned(number), &self);
        T::from_whole(number.into()).map(Some).ok_or_else(invalid)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Option<T>, E> {
        let invalid = || E::invalid_value(de::Unexpected::Signed(number), &self);
        T::from_whole(number.into()).map(Some).ok_or_else(invalid)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Option<T>, E> {
        let invalid = || E::invalid_value(de::Unexpected::Float(number), &self);
        T::from_double(number).map(Some).ok_or_else(invalid)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<T>, E> {
        let invalid = || E::invalid_value(de::Unexpected::Str("a text"), &self);
        T::from_text(text).map(Some).ok_or_else(invalid)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
}

pub(super) fn optional_number<'de, T: Number, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Flexible(PhantomData))
}

pub(super) fn number<'de, T: Number, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    optional_number(deserializer).map(Option::unwrap_or_default)
}

/// An item of a list of numbers.
struct Item<T>(T);

impl<'de, T: Number> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = optional_number(deserializer)?;
        number.map(Item).ok_or_else(|| de::Error::invalid_type(de::Unexpected::Unit, &T::NAME))
    }
}

pub(super) fn numbers<'de, T: Number, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items: Vec<Item<T>> = or_default(deserializer)?;
    Ok(items.into_iter().map(|item| item.0).collect())
}

pub(super) fn optional_bytes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<u8>>, D::Error> {
    let text: Option<Text<'de>> = Option::deserialize(deserializer)?;
    let bytes = |text: Text<'_>| BASE64_STANDARD.decode(&*text.0).map_err(de::Error::custom);
    text.map(bytes).transpose()
}

/// Deserializes an `AggregationTemporality` from its number or its name.
pub(super) fn temporality<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Temporality;
    impl Visitor<'_> for Temporality {
        type Value = u64;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an aggregation temporality")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            match text {
                "AGGREGATION_TEMPORALITY_UNSPECIFIED" => Ok(0),
                "AGGREGATION_TEMPORALITY_DELTA" => Ok(1),
                "AGGREGATION_TEMPORALITY_CUMULATIVE" => Ok(2),
                _ => Err(E::invalid_value(de::Unexpected::Str("a text"), &self)),
            }
        }

        fn visit_unit<E: de::Error>(self) -> Result<u64, E> {
            Ok(0)
        }
    }
    deserializer.deserialize_any(Temporality)
}
