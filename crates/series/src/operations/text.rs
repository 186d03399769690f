//! Prints a tree as Python does: `['+', ['metric', 'a', 'mean'], 2.0]`, as in Gnocchi's error texts.

use std::fmt::{self, Write};

use super::{MetricName, Metrics, Operation};
use crate::resample::Resample;

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operator) = self.operator() {
            write!(f, "['{}', ", operator.name())?;
        }
        match self {
            Operation::Metric(Metrics::One(name)) => {
                f.write_str("['metric', ")?;
                write_name(f, name)?;
                f.write_char(']')
            }
            Operation::Metric(Metrics::Many(names)) => {
                f.write_str("['metric'")?;
                for name in names {
                    f.write_str(", [")?;
                    write_name(f, name)?;
                    f.write_char(']')?;
                }
                f.write_char(']')
            }
            Operation::Constant(number) => write_number(f, *number),
            Operation::Unary { operand, .. } => write!(f, "{operand}]"),
            Operation::Binary { left, right, .. } => write!(f, "{left}, {right}]"),
            Operation::Clip { value, min, max: None } => write!(f, "{value}, {min}]"),
            Operation::Clip { value, min, max: Some(max) } => write!(f, "{value}, {min}, {max}]"),
            Operation::Aggregate { method, operand } => write!(f, "'{method}', {operand}]"),
            Operation::Rolling { method, window, operand } => write!(f, "'{method}', {window}, {operand}]"),
            Operation::Resample { method, to: Resample::Span(span), operand } => {
                write!(f, "'{method}', np.timedelta64({},'ns'), {operand}]", span.0)
            }
            Operation::Resample { method, to: Resample::Calendar(calendar), operand } => {
                write!(f, "'{method}', '{}', {operand}]", calendar.letter())
            }
        }
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, name: &MetricName) -> fmt::Result {
    write_text(f, &name.name)?;
    f.write_str(", ")?;
    write_text(f, &name.aggregation)
}

/// Python's `repr()` of a text, except for non-ASCII characters that are not printable.
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    f.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            _ if character == quote => write!(f, "\\{quote}")?,
            '\0'..' ' | '\x7f'..='\u{a0}' | '\u{ad}' => write!(f, "\\x{:02x}", character as u32)?,
            _ => f.write_char(character)?,
        }
    }
    f.write_char(quote)
}

/// Python's `repr()` of a float.
fn write_number(f: &mut fmt::Formatter<'_>, number: f64) -> fmt::Result {
    let magnitude = number.abs();
    if number.is_nan() {
        return f.write_str("nan");
    }
    if number.is_infinite() || magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return write!(f, "{number:?}");
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    write!(f, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[cfg(test)]
mod tests {
    use gnudi_model::Timespan;

    use super::*;

    fn name(name: &str) -> MetricName {
        MetricName { name: name.to_owned(), aggregation: "mean".to_owned() }
    }

    #[test]
    fn trees_look_like_python() {
        let one = Operation::Metric(Metrics::One(name("it's")));
        let many = Operation::Metric(Metrics::Many(vec![name("a\n"), name("é'\"")]));
        let resampled = Operation::Resample {
            method: "mean".parse().unwrap(),
            to: Resample::Span(Timespan::from_secs(60)),
            operand: Box::new(many),
        };
        let sum = Operation::Binary {
            operator: "add".parse().unwrap(),
            left: Box::new(one),
            right: Box::new(resampled),
        };
        let clip = Operation::Clip {
            value: Box::new(sum),
            min: Box::new(Operation::Constant(-2.0)),
            max: Some(Box::new(Operation::Constant(1e22))),
        };
        assert_eq!(
            clip.to_string(),
            r#"['clip', ['add', ['metric', "it's", 'mean'], ['resample', 'mean', "#.to_owned()
                + r#"np.timedelta64(60000000000,'ns'), ['metric', ['a\n', 'mean'], ['é\'"', 'mean']]]], -2.0, 1e+22]"#
        );
    }

    #[test]
    fn numbers_look_like_python() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456.75, "123456.75"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(Operation::Constant(number).to_string(), text);
        }
    }
}
