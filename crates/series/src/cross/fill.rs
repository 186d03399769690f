//! Fills gaps of series on a common grid.

use std::{fmt, str::FromStr};

/// How to fill gaps. All but [`Fill::Value`] start from NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// With a number. Stored NaNs stay.
    Value(f64),
    /// Leaves gaps.
    Null,
    /// Leaves gaps. Drops results that are NaN or infinite, as do all kinds below.
    DropNa,
    /// With the value before the gap.
    Forward,
    /// With the value after the gap.
    Backward,
    /// With the value before the gap; a gap at the beginning with the first value.
    FullForward,
    /// With the value after the gap; a gap at the end with the last value.
    FullBackward,
}

const NAMES: [(&str, Fill); 6] = [
    ("null", Fill::Null),
    ("dropna", Fill::DropNa),
    ("ffill", Fill::Forward),
    ("bfill", Fill::Backward),
    ("full_ffill", Fill::FullForward),
    ("full_bfill", Fill::FullBackward),
];

impl Fill {
    pub(super) fn drops_gaps(self) -> bool {
        !matches!(self, Fill::Value(_) | Fill::Null)
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, fill)| fill == self) {
            Some((name, _)) => f.write_str(name),
            None => match self {
                Fill::Value(value) => value.fmt(f),
                _ => unreachable!("all others have a name"),
            },
        }
    }
}

/// Neither a number nor a name of [`Fill`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown fill `{0}'")]
pub struct UnknownFill(pub String);

/// Parses names only; the caller parses numbers.
impl FromStr for Fill {
    type Err = UnknownFill;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named.map(|(_, fill)| *fill).ok_or_else(|| UnknownFill(text.to_owned()))
    }
}

/// Fills each column's gaps from its own values.
pub(super) fn fill(columns: &mut [Vec<f64>], fill: Option<Fill>) {
    for column in columns {
        match fill {
            Some(Fill::Forward) => carry(column.iter_mut()),
            Some(Fill::Backward) => carry(column.iter_mut().rev()),
            Some(Fill::FullForward) => {
                carry(column.iter_mut());
                carry(column.iter_mut().rev());
            }
            Some(Fill::FullBackward) => {
                carry(column.iter_mut().rev());
                carry(column.iter_mut());
            }
            Some(Fill::Value(_) | Fill::Null | Fill::DropNa) | None => {}
        }
    }
}

fn carry<'a>(values: impl Iterator<Item = &'a mut f64>) {
    let mut before = f64::NAN;
    for value in values {
        if value.is_nan() {
            *value = before;
        } else {
            before = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, fill) in NAMES {
            assert_eq!(name.parse(), Ok(fill));
            assert_eq!(fill.to_string(), name);
        }
        assert_eq!(Fill::Value(1.5).to_string(), "1.5");
        assert!("1.5".parse::<Fill>().is_err());
    }

    #[test]
    fn gaps_take_their_neighbours() {
        let nan = f64::NAN;
        for (how, expected) in [
            (Fill::Null, [nan, 1.0, nan, 2.0, nan]),
            (Fill::Forward, [nan, 1.0, 1.0, 2.0, 2.0]),
            (Fill::Backward, [1.0, 1.0, 2.0, 2.0, nan]),
            (Fill::FullForward, [1.0, 1.0, 1.0, 2.0, 2.0]),
            (Fill::FullBackward, [1.0, 1.0, 2.0, 2.0, 2.0]),
        ] {
            let mut columns = [vec![nan, 1.0, nan, 2.0, nan], vec![nan; 2], Vec::new()];
            fill(&mut columns, Some(how));
            assert_eq!(format!("{:?}", columns[0]), format!("{expected:?}"), "{how}");
            assert!(columns[1].iter().all(|value| value.is_nan()));
        }
    }
}
