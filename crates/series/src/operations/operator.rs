//! The names of operators and their functions. An operator keeps the name that the client wrote, for error
//! texts.

use std::{fmt, str::FromStr};

/// The function of a binary operator, elementwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryFunction {
    Equal,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    NotEqual,
    /// The result has the sign of the divisor.
    Modulo,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    /// The larger one; NaN if one is NaN.
    ClipMin,
    /// The smaller one; NaN if one is NaN.
    ClipMax,
    /// The larger one; if one is NaN, the other.
    Max,
}

const BINARY: [(&str, BinaryFunction); 34] = [
    ("=", BinaryFunction::Equal),
    ("==", BinaryFunction::Equal),
    ("eq", BinaryFunction::Equal),
    ("<", BinaryFunction::Less),
    ("lt", BinaryFunction::Less),
    (">", BinaryFunction::Greater),
    ("gt", BinaryFunction::Greater),
    ("<=", BinaryFunction::LessEqual),
    ("≤", BinaryFunction::LessEqual),
    ("le", BinaryFunction::LessEqual),
    (">=", BinaryFunction::GreaterEqual),
    ("≥", BinaryFunction::GreaterEqual),
    ("ge", BinaryFunction::GreaterEqual),
    ("!=", BinaryFunction::NotEqual),
    ("≠", BinaryFunction::NotEqual),
    ("ne", BinaryFunction::NotEqual),
    ("%", BinaryFunction::Modulo),
    ("mod", BinaryFunction::Modulo),
    ("+", BinaryFunction::Add),
    ("add", BinaryFunction::Add),
    ("-", BinaryFunction::Subtract),
    ("sub", BinaryFunction::Subtract),
    ("*", BinaryFunction::Multiply),
    ("×", BinaryFunction::Multiply),
    ("mul", BinaryFunction::Multiply),
    ("/", BinaryFunction::Divide),
    ("÷", BinaryFunction::Divide),
    ("div", BinaryFunction::Divide),
    ("**", BinaryFunction::Power),
    ("^", BinaryFunction::Power),
    ("pow", BinaryFunction::Power),
    ("clip_min", BinaryFunction::ClipMin),
    ("clip_max", BinaryFunction::ClipMax),
    ("max", BinaryFunction::Max),
];

/// The function of a unary operator, for each value or series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryFunction {
    Absolute,
    Negative,
    Cosine,
    Sine,
    Tangent,
    Floor,
    Ceil,
    /// The difference from one point to the next; drops the first point.
    RateOfChange,
    /// The same per second; the first point becomes NaN.
    RateOfChangePerSecond,
    /// A counter's increase from one point to the next; a lower value is a restart at 0. Drops the first
    /// point. Not in Gnocchi.
    Increase,
    /// The same per second.
    IncreasePerSecond,
}

const UNARY: [(&str, UnaryFunction); 13] = [
    ("abs", UnaryFunction::Absolute),
    ("absolute", UnaryFunction::Absolute),
    ("neg", UnaryFunction::Negative),
    ("negative", UnaryFunction::Negative),
    ("cos", UnaryFunction::Cosine),
    ("sin", UnaryFunction::Sine),
    ("tan", UnaryFunction::Tangent),
    ("floor", UnaryFunction::Floor),
    ("ceil", UnaryFunction::Ceil),
    ("rateofchange", UnaryFunction::RateOfChange),
    ("rateofchangesec", UnaryFunction::RateOfChangePerSecond),
    ("increase", UnaryFunction::Increase),
    ("rate_reset", UnaryFunction::IncreasePerSecond),
];

/// No operator has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown operator `{0}'")]
pub struct UnknownOperator(pub String);

macro_rules! named_operator {
    ($(#[$doc:meta])* $operator:ident, $function:ident, $table:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $operator(u8);

        impl $operator {
            /// All names, aliases included.
            pub fn names() -> impl Iterator<Item = &'static str> {
                $table.iter().map(|(name, _)| *name)
            }

            /// The name that the client wrote.
            pub fn name(self) -> &'static str {
                $table[usize::from(self.0)].0
            }

            pub fn function(self) -> $function {
                $table[usize::from(self.0)].1
            }
        }

        impl fmt::Display for $operator {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl fmt::Debug for $operator {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($operator), self.name())
            }
        }

        impl FromStr for $operator {
            type Err = UnknownOperator;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let index = $table.iter().position(|(name, _)| *name == text);
                index.map(|index| $operator(index as u8)).ok_or_else(|| UnknownOperator(text.to_owned()))
            }
        }
    };
}

named_operator!(
    /// An operator of two operands: arithmetic, comparison, `clip_min`, `clip_max`, `max`.
    BinaryOperator,
    BinaryFunction,
    BINARY
);
named_operator!(
    /// An operator of one operand: `abs`, `cos`, `rateofchange` and others.
    UnaryOperator,
    UnaryFunction,
    UNARY
);

/// All operators. Parsers match on every variant, so the compiler reports a missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Clip,
    Aggregate,
    Rolling,
    Resample,
    Unary(UnaryOperator),
    Binary(BinaryOperator),
}

impl Operator {
    pub fn name(self) -> &'static str {
        match self {
            Operator::Clip => "clip",
            Operator::Aggregate => "aggregate",
            Operator::Rolling => "rolling",
            Operator::Resample => "resample",
            Operator::Unary(operator) => operator.name(),
            Operator::Binary(operator) => operator.name(),
        }
    }
}

impl FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let of_its_own = [Operator::Clip, Operator::Aggregate, Operator::Rolling, Operator::Resample];
        of_its_own
            .into_iter()
            .find(|operator| operator.name() == text)
            .map_or_else(|| text.parse().map(Operator::Unary), Ok)
            .or_else(|_: UnknownOperator| text.parse().map(Operator::Binary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_remember_their_names() {
        for name in BinaryOperator::names() {
            assert_eq!(name.parse::<BinaryOperator>().unwrap().to_string(), name);
        }
        for name in UnaryOperator::names() {
            assert_eq!(name.parse::<UnaryOperator>().unwrap().to_string(), name);
        }
        let all = BinaryOperator::names().chain(UnaryOperator::names());
        for name in all.chain(["clip", "aggregate", "rolling", "resample"]) {
            assert_eq!(name.parse::<Operator>().unwrap().name(), name);
        }
        assert_eq!("metric".parse::<Operator>(), Err(UnknownOperator("metric".to_owned())));
        let plus: BinaryOperator = "+".parse().unwrap();
        let add: BinaryOperator = "add".parse().unwrap();
        assert_ne!(plus, add);
        assert_eq!(plus.function(), add.function());
        assert_eq!("clip".parse::<BinaryOperator>(), Err(UnknownOperator("clip".to_owned())));
        assert!("ABS".parse::<UnaryOperator>().is_err());
    }
}
