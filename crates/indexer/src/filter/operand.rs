//! Converts a request's values to the field's kind, like Gnocchi's converters or, where it has none, like `PostgreSQL`.

use gnudi_model::{
    Timespan, Timestamp,
    python::{
        datetime, float_of_text, int_of_float, int_of_text, parse_uuid, repr_str, text_of_float,
        timestamp_of_seconds, timestamp_of_text,
    },
};

use super::{FieldKind, FilterValue, Scalar};

impl FilterValue {
    /// The value for a field of this kind; `None` if invalid.
    pub(crate) fn read(&self, kind: FieldKind, now: Timestamp) -> Option<Scalar> {
        Some(match kind {
            FieldKind::Text => Scalar::Text(self.to_python_text()),
            FieldKind::Uuid => match self {
                FilterValue::Uuid(id) => Scalar::Uuid(*id),
                FilterValue::Text(text) => Scalar::Uuid(parse_uuid(text)?),
                _ => return None,
            },
            FieldKind::Number => Scalar::Number(self.float()?),
            FieldKind::Integer => {
                let number = match self {
                    FilterValue::Bool(flag) => i128::from(*flag),
                    FilterValue::Int(number) => i128::from(*number),
                    FilterValue::Float(number) => int_of_float(*number)?,
                    FilterValue::Text(text) => int_of_text(text)?,
                    FilterValue::Null | FilterValue::Uuid(_) => return None,
                };
                // No revision number is that large or small.
                Scalar::Integer(number.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
            }
            FieldKind::Bool => match self {
                FilterValue::Bool(flag) => Scalar::Bool(*flag),
                FilterValue::Text(text) => Scalar::Bool(bool_of_text(text)?),
                _ => return None,
            },
            FieldKind::Time => {
                let time = match self {
                    FilterValue::Text(text) => timestamp_of_text(text, now),
                    other => timestamp_of_seconds(other.float()?),
                };
                Scalar::Time(datetime(time.ok()?).0)
            }
            FieldKind::Span => {
                let span = match (self.float(), self) {
                    (Some(seconds), _) => Timespan::from_secs_f64(seconds),
                    (None, FilterValue::Text(text)) => Timespan::parse(text),
                    (None, _) => None,
                };
                let span = span.filter(|span| span.0 > 0)?;
                // Python's spans have microseconds, too.
                Scalar::Span(datetime(Timestamp(span.0)).0)
            }
        })
    }

    fn float(&self) -> Option<f64> {
        match self {
            FilterValue::Bool(flag) => Some(f64::from(u8::from(*flag))),
            FilterValue::Int(number) => Some(*number as f64),
            FilterValue::Float(number) => Some(*number),
            FilterValue::Text(text) => float_of_text(text),
            FilterValue::Null | FilterValue::Uuid(_) => None,
        }
    }

    /// Python's `str`.
    pub(crate) fn to_python_text(&self) -> String {
        match self {
            FilterValue::Null => "None".to_owned(),
            FilterValue::Bool(true) => "True".to_owned(),
            FilterValue::Bool(false) => "False".to_owned(),
            FilterValue::Int(number) => number.to_string(),
            FilterValue::Float(number) => text_of_float(*number),
            FilterValue::Text(text) => text.clone(),
            FilterValue::Uuid(id) => id.to_string(),
        }
    }

    fn to_python_repr(&self) -> String {
        match self {
            FilterValue::Text(text) => repr_str(text),
            FilterValue::Uuid(id) => format!("UUID('{id}')"),
            other => other.to_python_text(),
        }
    }
}

/// Python's `str` of the list.
pub(crate) fn list_text(values: &[FilterValue]) -> String {
    let values: Vec<_> = values.iter().map(FilterValue::to_python_repr).collect();
    format!("[{}]", values.join(", "))
}

/// Like `PostgreSQL`: a word, or an unambiguous prefix of one.
fn bool_of_text(text: &str) -> Option<bool> {
    let text = text.trim_ascii().to_ascii_lowercase();
    let begins = |word: &str, length_min: usize| text.len() >= length_min && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_flags_as_in_postgresql() {
        for text in ["t", "TRUE", " tru ", "y", "yes", "on", "1"] {
            assert_eq!(bool_of_text(text), Some(true), "{text}");
        }
        for text in ["f", "False", "n", "no", "of", "off", "0"] {
            assert_eq!(bool_of_text(text), Some(false), "{text}");
        }
        for text in ["", "o", "truex", "2", "10", "nope", "\u{a0}t"] {
            assert_eq!(bool_of_text(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_read_by_kind() {
        let now = Timestamp::from_secs(1_000_000);
        let read = |value: FilterValue, kind| value.read(kind, now);
        let text = |text: &str| FilterValue::Text(text.to_owned());
        let string = |text: &str| Some(Scalar::Text(text.to_owned()));
        assert_eq!(read(FilterValue::Bool(true), FieldKind::Text), string("True"));
        assert_eq!(read(FilterValue::Float(1.0), FieldKind::Text), string("1.0"));
        assert_eq!(read(FilterValue::Int(1), FieldKind::Text), string("1"));
        assert_eq!(read(FilterValue::Null, FieldKind::Text), string("None"));
        assert_eq!(read(FilterValue::Bool(true), FieldKind::Number), Some(Scalar::Number(1.0)));
        assert_eq!(read(text(" 1_0.5 "), FieldKind::Number), Some(Scalar::Number(10.5)));
        assert_eq!(read(text("x"), FieldKind::Number), None);
        assert_eq!(read(FilterValue::Float(-1.9), FieldKind::Integer), Some(Scalar::Integer(-1)));
        assert_eq!(read(text("1.0"), FieldKind::Integer), None);
        assert_eq!(read(FilterValue::Float(1e30), FieldKind::Integer), Some(Scalar::Integer(i64::MAX)));
        assert_eq!(read(FilterValue::Int(1), FieldKind::Bool), None);
        assert_eq!(read(text("-1 day"), FieldKind::Time), Some(Scalar::Time(913_600_000_000_000)));
        assert_eq!(read(FilterValue::Float(1.5), FieldKind::Time), Some(Scalar::Time(1_500_000_000)));
        assert_eq!(read(text("1970-01-02"), FieldKind::Time), Some(Scalar::Time(86_400_000_000_000)));
        for nothing in [text("x"), text("nan"), text("-20 days"), FilterValue::Null, FilterValue::Int(-1)] {
            assert_eq!(read(nothing.clone(), FieldKind::Time), None, "{nothing:?}");
        }
        assert_eq!(read(text("30 min"), FieldKind::Span), Some(Scalar::Span(1_800_000_000_000)));
        for nothing in [text("x"), FilterValue::Int(0), text("-5 s"), FilterValue::Null] {
            assert_eq!(read(nothing.clone(), FieldKind::Span), None, "{nothing:?}");
        }
        let id = uuid::Uuid::from_u128(7);
        assert_eq!(read(text(&format!("{{{id}}}")), FieldKind::Uuid), Some(Scalar::Uuid(id)));
        assert_eq!(read(FilterValue::Int(0), FieldKind::Uuid), None);
        assert_eq!(
            list_text(&[text("it's"), FilterValue::Null, FilterValue::Float(1.0)]),
            r#"["it's", None, 1.0]"#
        );
    }
}
