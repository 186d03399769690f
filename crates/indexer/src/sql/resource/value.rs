//! The sortable encoding of values in `resource_value` and `resource_history_value`: bytes that sort like the values.
//!
//! The kind of an attribute never changes, so the encoding need not distinguish kinds.

use std::collections::BTreeMap;

use gnudi_model::{AttributeValue, Text};

use crate::{IndexerError, Result, sql::Dialect};

/// The size of the columns on `MySQL`, where keys are short: enough for 512 characters of three bytes each.
const MYSQL_BYTES_MAX: usize = 1536;

/// Rejects texts that are too long for the index of values. Only attributes of type `prometheus` may have more than 256
/// characters.
pub(in crate::sql) fn check_lengths(
    dialect: Dialect,
    resource_type: &str,
    attributes: &BTreeMap<Text, AttributeValue>,
) -> Result<()> {
    if dialect != Dialect::Mysql {
        return Ok(());
    }
    for (name, value) in attributes {
        if let AttributeValue::String(text) = value
            && text.as_str().len() > MYSQL_BYTES_MAX
        {
            return Err(IndexerError::InvalidAttributeValue {
                resource_type: resource_type.to_owned(),
                attribute: name.to_string(),
                value: text.to_string(),
            });
        }
    }
    Ok(())
}

/// `None` for null, which is not stored.
pub(in crate::sql) fn sortable(value: &AttributeValue) -> Option<Vec<u8>> {
    Some(match value {
        AttributeValue::Null => return None,
        AttributeValue::String(text) => text.as_bytes().to_vec(),
        AttributeValue::Uuid(id) => id.as_bytes().to_vec(),
        AttributeValue::Number(number) => sortable_number(*number).to_be_bytes().to_vec(),
        AttributeValue::Bool(flag) => vec![u8::from(*flag)],
        AttributeValue::Datetime(time) => (time.0.cast_unsigned() ^ SIGN).to_be_bytes().to_vec(),
    })
}

const SIGN: u64 = 1 << 63;

/// Both zeros are equal, and NaN is above all numbers, as in `PostgreSQL`.
fn sortable_number(number: f64) -> u64 {
    if number.is_nan() {
        return u64::MAX;
    }
    let bits = (number + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timestamp;

    use super::*;

    #[test]
    fn a_text_too_long_for_the_column_is_refused() {
        let check = |dialect, text: String| {
            check_lengths(
                dialect,
                "prometheus",
                &[("job".into(), AttributeValue::String(text.into()))].into(),
            )
        };
        let (fits, long) = ("\u{20AC}".repeat(512), "\u{1F95F}".repeat(385));
        assert_eq!(check(Dialect::Mysql, fits), Ok(()));
        assert_eq!(check(Dialect::Postgres, long.clone()), Ok(()));
        let refused = check(Dialect::Mysql, long).unwrap_err();
        assert!(matches!(refused, IndexerError::InvalidAttributeValue { .. }), "{refused}");
    }

    #[test]
    fn bytes_sort_as_values_do() {
        let numbers = [
            f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -1e-300,
            0.0,
            5e-324,
            1.0,
            1.5,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        let keys: Vec<_> = numbers.iter().map(|number| sortable(&AttributeValue::Number(*number))).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(sortable(&AttributeValue::Number(-0.0)), sortable(&AttributeValue::Number(0.0)));
        assert_eq!(sortable(&AttributeValue::Number(-f64::NAN)), sortable(&AttributeValue::Number(f64::NAN)));
        let times = [-5, 0, 1, i64::MAX].map(|time| sortable(&AttributeValue::Datetime(Timestamp(time))));
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        assert!(sortable(&AttributeValue::Bool(false)) < sortable(&AttributeValue::Bool(true)));
        let texts = ["", "a", "a\u{0}", "ab", "\u{e9}", "\u{1F95F}"];
        let keys = texts.map(|text| sortable(&AttributeValue::String(text.into())));
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(sortable(&AttributeValue::Null), None);
    }
}
