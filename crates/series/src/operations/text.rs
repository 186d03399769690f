//! Prints a tree as Python does: `['+', ['metric', 'a', 'mean'], 2.0]`, as in Gnocchi's error texts.

use std::fmt::{self, Write};

use gnudi_model::python::{repr_str, text_of_float};

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
            Operation::Constant(number) => f.write_str(&text_of_float(*number)),
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
    write!(f, "{}, {}", repr_str(&name.name), repr_str(&name.aggregation))
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
