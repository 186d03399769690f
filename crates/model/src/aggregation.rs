//! The aggregation methods: nine statistics and 99 percentiles, each also over the rate of change (Gnocchi's 216), and
//! two for counters, an extension.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Timespan;

/// The statistic computed over the points of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    Mean,
    Sum,
    Last,
    Max,
    Min,
    Std,
    Median,
    First,
    Count,
    /// 1 to 99.
    Percentile(u8),
    /// Growth of a counter. A value below the previous one means that the counter was reset to 0: the value itself is
    /// the growth.
    Increase,
    /// The growth per second, from the point before the bucket to the bucket's last.
    RateReset,
}

/// Statistics of counter growth, which exist over differences only; their names have no `rate:`.
const COUNTERS: [(Statistic, &str); 2] =
    [(Statistic::Increase, "increase"), (Statistic::RateReset, "rate_reset")];

const NAMED: [(Statistic, &str); 9] = [
    (Statistic::Mean, "mean"),
    (Statistic::Sum, "sum"),
    (Statistic::Last, "last"),
    (Statistic::Max, "max"),
    (Statistic::Min, "min"),
    (Statistic::Std, "std"),
    (Statistic::Median, "median"),
    (Statistic::First, "first"),
    (Statistic::Count, "count"),
];

/// A statistic over a bucket's values, or over the differences of consecutive values (`rate:`, and those of counters).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AggregationMethod {
    pub rate: bool,
    pub statistic: Statistic,
}

impl AggregationMethod {
    /// Number of methods; [`AggregationMethod::code`] is below it.
    pub const COUNT: u8 = 218;

    /// Number of Gnocchi's methods, which have the lowest codes.
    const GNOCCHI_COUNT: u8 = 216;

    pub const fn new(statistic: Statistic) -> Self {
        AggregationMethod { rate: false, statistic }
    }

    /// Whether it is for counters: a reset does not make it negative.
    pub fn is_counter(self) -> bool {
        counter_name(self.statistic).is_some()
    }

    /// The code in stored blocks: 0 to 8 the named statistics, 9 to 107 the percentiles, 108 more for `rate:`, then
    /// those of counters. Part of the stored format: never renumber.
    pub fn code(self) -> u8 {
        if let Some(index) = COUNTERS.iter().position(|(statistic, _)| *statistic == self.statistic) {
            return Self::GNOCCHI_COUNT + index as u8;
        }
        let base = match self.statistic {
            Statistic::Percentile(percent) => 8 + percent,
            named => NAMED.iter().position(|(statistic, _)| *statistic == named).expect("named") as u8,
        };
        base + if self.rate { 108 } else { 0 }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        if let Some(index) = code.checked_sub(Self::GNOCCHI_COUNT) {
            let (statistic, _) = COUNTERS.get(usize::from(index))?;
            return Some(AggregationMethod { rate: true, statistic: *statistic });
        }
        let (rate, base) = if code < 108 { (false, code) } else { (true, code - 108) };
        let statistic = match base {
            0..=8 => NAMED[base as usize].0,
            9..=107 => Statistic::Percentile(base - 8),
            _ => return None,
        };
        Some(AggregationMethod { rate, statistic })
    }

    /// All methods, ordered by code.
    pub fn all() -> impl Iterator<Item = AggregationMethod> {
        (0..Self::COUNT).filter_map(Self::from_code)
    }

    /// Gnocchi's methods, ordered by code.
    pub fn all_of_gnocchi() -> impl Iterator<Item = AggregationMethod> {
        (0..Self::GNOCCHI_COUNT).filter_map(Self::from_code)
    }
}

fn counter_name(statistic: Statistic) -> Option<&'static str> {
    COUNTERS.iter().find(|(counter, _)| *counter == statistic).map(|(_, name)| *name)
}

impl fmt::Display for AggregationMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = counter_name(self.statistic) {
            return f.write_str(name);
        }
        if self.rate {
            f.write_str("rate:")?;
        }
        match self.statistic {
            Statistic::Percentile(percent) => write!(f, "{percent}pct"),
            named => f.write_str(NAMED.iter().find(|(statistic, _)| *statistic == named).expect("named").1),
        }
    }
}

/// The text is not the name of an aggregation method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown aggregation method `{0}'")]
pub struct UnknownAggregationMethod(pub String);

impl FromStr for AggregationMethod {
    type Err = UnknownAggregationMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownAggregationMethod(text.to_owned());
        if let Some((statistic, _)) = COUNTERS.iter().find(|(_, known)| *known == text) {
            return Ok(AggregationMethod { rate: true, statistic: *statistic });
        }
        let (rate, name) = match text.strip_prefix("rate:") {
            Some(name) => (true, name),
            None => (false, text),
        };
        if let Some((statistic, _)) = NAMED.iter().find(|(_, known)| *known == name) {
            return Ok(AggregationMethod { rate, statistic: *statistic });
        }
        let digits = name.strip_suffix("pct").ok_or_else(unknown)?;
        let percent: u8 = digits.parse().map_err(|_| unknown())?;
        if !(1..=99).contains(&percent) || digits.starts_with(['0', '+']) {
            return Err(unknown());
        }
        Ok(AggregationMethod { rate, statistic: Statistic::Percentile(percent) })
    }
}

impl TryFrom<String> for AggregationMethod {
    type Error = UnknownAggregationMethod;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<AggregationMethod> for String {
    fn from(method: AggregationMethod) -> Self {
        method.to_string()
    }
}

/// One aggregated series of a metric: a method and a granularity, kept for a timespan (`None`: unlimited).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aggregation {
    pub method: AggregationMethod,
    pub granularity: Timespan,
    pub timespan: Option<Timespan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        let all: Vec<_> = AggregationMethod::all().collect();
        assert_eq!(all.len(), 218);
        assert!(AggregationMethod::all_of_gnocchi().eq(all[..216].iter().copied()));
        assert!(all.is_sorted());
        for method in all {
            assert_eq!(method.to_string().parse(), Ok(method));
            assert_eq!(AggregationMethod::from_code(method.code()), Some(method));
        }
        for text in [
            "",
            "0pct",
            "100pct",
            "01pct",
            "+5pct",
            "rate:",
            "rate:rate:mean",
            "Mean",
            "pct",
            "rate:increase",
            "rate",
        ] {
            assert!(text.parse::<AggregationMethod>().is_err(), "{text}");
        }
    }
}
