//! The operators: names, precedence, operand types.

use super::ValueKind;

/// Operators, each with its name in the language.
macro_rules! operators {
    ($type:ident { $($variant:ident $name:literal,)* }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $type {
            $($variant,)*
        }

        impl $type {
            /// In any case.
            pub(crate) fn by_name(name: &str) -> Option<$type> {
                let all = [$($type::$variant,)*];
                all.into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}

operators! {
    BinaryOp {
        Add "+",
        Sub "-",
        Mul "*",
        Div "/",
        Mod "%",
        Pow "^",
        Atan2 "atan2",
        Equal "==",
        NotEqual "!=",
        Less "<",
        LessEqual "<=",
        Greater ">",
        GreaterEqual ">=",
        And "and",
        Or "or",
        Unless "unless",
    }
}

impl BinaryOp {
    /// Precedence; powers bind most tightly.
    pub(crate) fn binds(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And | BinaryOp::Unless => 2,
            _ if self.is_comparison() => 3,
            BinaryOp::Add | BinaryOp::Sub => 4,
            BinaryOp::Pow => 6,
            _ => 5,
        }
    }

    pub(crate) fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    pub(crate) fn is_set(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless)
    }
}

operators! {
    AggregateOp {
        Sum "sum",
        Avg "avg",
        Count "count",
        Min "min",
        Max "max",
        Group "group",
        Stddev "stddev",
        Stdvar "stdvar",
        Topk "topk",
        Bottomk "bottomk",
        CountValues "count_values",
        Quantile "quantile",
        Limitk "limitk",
        LimitRatio "limit_ratio",
    }
}

impl AggregateOp {
    /// The type of its parameter, if it has one.
    pub(crate) fn param(self) -> Option<ValueKind> {
        use AggregateOp::{Bottomk, CountValues, LimitRatio, Limitk, Quantile, Topk};
        match self {
            CountValues => Some(ValueKind::String),
            Topk | Bottomk | Quantile | Limitk | LimitRatio => Some(ValueKind::Scalar),
            _ => None,
        }
    }
}

// Arithmetic in durations.
operators! {
    LengthOp {
        Add "+",
        Sub "-",
        Mul "*",
        Div "/",
        Mod "%",
        Pow "^",
        MinOf "min_of",
        MaxOf "max_of",
    }
}
