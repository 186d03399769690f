//! Methods that aggregate series with each other, and rolling windows of a series.

use std::{fmt, str::FromStr};

use gnudi_model::AggregationMethod;

/// Statistics that ignore NaN. Without values the result is NaN, or 0 for sum and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrossStatistic {
    Mean,
    Median,
    /// The square root of [`CrossStatistic::Var`]; stored aggregates divide by n - 1 instead.
    Std,
    Min,
    Max,
    Sum,
    /// The mean of the squared distances from the mean.
    Var,
    Count,
}

const STATISTICS: [(&str, CrossStatistic); 8] = [
    ("mean", CrossStatistic::Mean),
    ("median", CrossStatistic::Median),
    ("std", CrossStatistic::Std),
    ("min", CrossStatistic::Min),
    ("max", CrossStatistic::Max),
    ("sum", CrossStatistic::Sum),
    ("var", CrossStatistic::Var),
    ("count", CrossStatistic::Count),
];

/// A statistic, or its difference from one time to the next (`rate:`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reaggregation {
    pub rate: bool,
    pub statistic: CrossStatistic,
}

impl Reaggregation {
    /// All methods: the statistics, then their rates.
    pub fn all() -> impl Iterator<Item = Reaggregation> {
        [false, true]
            .into_iter()
            .flat_map(|rate| STATISTICS.iter().map(move |&(_, statistic)| Reaggregation { rate, statistic }))
    }

    /// The stored method of the same name, for `resample`. `var` has none: Gnocchi answers 500.
    pub fn stored(self) -> Option<AggregationMethod> {
        self.to_string().parse().ok()
    }
}

impl fmt::Display for Reaggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = STATISTICS.iter().find(|(_, statistic)| *statistic == self.statistic);
        f.write_str(if self.rate { "rate:" } else { "" })?;
        f.write_str(named.expect("all have a name").0)
    }
}

/// No reaggregation method has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown reaggregation method `{0}'")]
pub struct UnknownReaggregation(pub String);

impl FromStr for Reaggregation {
    type Err = UnknownReaggregation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rate, name) = text.strip_prefix("rate:").map_or((false, text), |name| (true, name));
        let named = STATISTICS.iter().find(|(known, _)| *known == name);
        let (_, statistic) = named.ok_or_else(|| UnknownReaggregation(text.to_owned()))?;
        Ok(Reaggregation { rate, statistic: *statistic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let all: Vec<Reaggregation> = Reaggregation::all().collect();
        assert_eq!(all.len(), 16);
        for method in all {
            assert_eq!(method.to_string().parse(), Ok(method));
            match method.stored() {
                Some(stored) => assert_eq!(stored.to_string(), method.to_string()),
                None => assert_eq!(method.statistic, CrossStatistic::Var),
            }
        }
        for text in ["", "last", "rate:", "rate:rate:mean", "90pct", "Mean"] {
            assert!(text.parse::<Reaggregation>().is_err(), "{text}");
        }
    }
}
