//! What a query wants of metrics, and which stored aggregates of a policy that is.

use gnudi_model::{AggregationMethod, ArchivePolicy, Statistic, Timespan};

/// Samples of a stretch of time, whatever the policies of their metrics are. Milliseconds; both ends are included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleQuery {
    pub start_ms: i64,
    pub end_ms: i64,
    /// How far the evaluation looks back for a sample, where it takes single ones; `start_ms` is as far back already.
    pub lookback_ms: Option<i64>,
    pub stamp: Stamp,
    pub values: Values,
    /// Buckets of this granularity alone.
    pub granularity: Option<Timespan>,
    pub resolution: Resolution,
}

/// At which time a bucket's sample stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// At its start, as the API of measures shows it: it has the value from there on.
    Start,
    /// At its last millisecond, or at the metric's newest measure where that is earlier: a window that reaches to there has all of it.
    End,
}

/// Which values the samples have. Raw points have their own, and count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Those that stand for a bucket best: the mean, where it is stored.
    Usual,
    /// Of this aggregation method, and never raw points.
    Exactly(AggregationMethod),
    /// What the whole bucket contributes, where that is stored; [`Values::Usual`] where it is not.
    Maximum,
    Minimum,
    First,
    Last,
    Sum,
    /// The count of measures, as values and as counts.
    Count,
    /// The sum, with the count of measures.
    SumAndCount,
}

/// How fine the buckets have to be. What has expired at one granularity comes from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Finest,
    /// The coarsest that is not above this; the finest if all are.
    AtMost(Timespan),
    /// The coarsest that divides all of these times, so that windows which end there consist of whole buckets; the finest if none does.
    Divides {
        first_end_ms: i64,
        step_ms: i64,
        range_ms: i64,
    },
}

/// The stored columns that give the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub value: AggregationMethod,
    pub count: Option<AggregationMethod>,
    /// The value is a mean, and is to be multiplied by the count.
    pub is_mean: bool,
}

/// Which statistic stands for a bucket, the best first.
const USUAL: [Statistic; 7] = [
    Statistic::Mean,
    Statistic::Last,
    Statistic::Median,
    Statistic::Max,
    Statistic::Min,
    Statistic::Sum,
    Statistic::First,
];

impl Columns {
    /// `None` where the policy does not keep what was asked for explicitly.
    pub fn of(policy: &ArchivePolicy, values: Values) -> Option<Columns> {
        let kept = |statistic| {
            let method = AggregationMethod::new(statistic);
            policy.aggregation_methods.contains(&method).then_some(method)
        };
        let plain = |value| Columns { value, count: None, is_mean: false };
        let usual = || {
            let any = policy.aggregation_methods.first().copied();
            USUAL.into_iter().find_map(kept).or(any).map(plain)
        };
        let one = |statistic| kept(statistic).map(plain).or_else(usual);
        let product = || {
            let (value, count) = kept(Statistic::Mean).zip(kept(Statistic::Count))?;
            Some(Columns { value, count: Some(count), is_mean: true })
        };
        match values {
            Values::Usual => usual(),
            Values::Exactly(method) => policy.aggregation_methods.contains(&method).then(|| plain(method)),
            Values::Maximum => one(Statistic::Max),
            Values::Minimum => one(Statistic::Min),
            Values::First => one(Statistic::First),
            Values::Last => one(Statistic::Last),
            Values::Sum => kept(Statistic::Sum).map(plain).or_else(product).or_else(usual),
            Values::Count => {
                let count = |value| Columns { count: Some(value), ..plain(value) };
                kept(Statistic::Count).map(count).or_else(usual)
            }
            Values::SumAndCount => {
                let both = kept(Statistic::Sum).zip(kept(Statistic::Count));
                let both = both.map(|(sum, count)| Columns { count: Some(count), ..plain(sum) });
                both.or_else(product).or_else(usual)
            }
        }
    }
}

impl SampleQuery {
    /// Whether raw points may be taken.
    pub(super) fn takes_raw(&self) -> bool {
        self.granularity.is_none() && !matches!(self.values, Values::Exactly(_))
    }

    /// Whether there may be samples of metrics with this policy.
    pub fn fits(&self, policy: &ArchivePolicy) -> bool {
        let has_granularity = |wanted| policy.definition.iter().any(|item| item.granularity == wanted);
        self.granularity.is_none_or(has_granularity) && Columns::of(policy, self.values).is_some()
    }

    /// How far instant vectors look back for a bucket's sample: over the bucket, whose sample stands at its start, and then as long as for
    /// others, but not less than until the next bucket can be there.
    pub(super) fn bucket_lookback_ms(&self, granularity: Timespan) -> Option<i64> {
        let bucket_ms = granularity.0 / MILLISECOND;
        self.lookback_ms.map(|lookback_ms| bucket_ms.saturating_add(lookback_ms.max(bucket_ms)))
    }
}

/// In nanoseconds.
pub(super) const MILLISECOND: i64 = 1_000_000;
