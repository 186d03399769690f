//! A query for samples of metrics, and the stored aggregates of a policy that it uses.

use gnudi_model::{AggregationMethod, ArchivePolicy, Statistic, Timespan};

/// Samples of a time span, for metrics of any policies. In milliseconds, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleQuery {
    pub start_ms: i64,
    pub end_ms: i64,
    /// How long samples count after their time, if they do; `start_ms` already includes it.
    pub lookback_ms: Option<i64>,
    /// Whether they count as long before their time; `end_ms` already includes it.
    pub looks_ahead: bool,
    pub stamp: Stamp,
    pub values: Values,
    /// Only buckets of this granularity.
    pub granularity: Option<Timespan>,
    pub resolution: Resolution,
}

/// The time of a bucket's sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Its start, as in the API of measures: the value is valid from there on.
    Start,
    /// Its last millisecond, or the metric's newest measure if that is earlier: a window that ends there
    /// contains all of it.
    End,
}

/// The values of samples. Raw points have their own value, and count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// The best single value for a bucket: the mean, if stored.
    Usual,
    /// Of this aggregation method, never raw points.
    Exactly(AggregationMethod),
    /// The bucket's maximum, if stored; otherwise [`Values::Usual`]. Likewise the minimum, first and last value.
    Maximum,
    Minimum,
    First,
    Last,
    /// The sum, if stored, or mean times count; otherwise [`Values::Usual`].
    Sum,
    /// The count of measures, as values and as counts, if stored; otherwise [`Values::Usual`].
    Count,
    /// As [`Values::Sum`], with the count of measures; without stored counts [`Values::Usual`].
    SumAndCount,
}

/// The required granularity of buckets. What has expired at one granularity is read from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Finest,
    /// The coarsest one up to this; the finest if all are above.
    AtMost(Timespan),
    /// The coarsest that divides all of these times, so that windows ending there consist of whole buckets;
    /// the finest if none does.
    Divides {
        first_end_ms: i64,
        step_ms: i64,
        range_ms: i64,
    },
}

/// The stored columns of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub value: AggregationMethod,
    pub count: Option<AggregationMethod>,
    /// Whether the value is a mean, to be multiplied by the count.
    pub is_mean: bool,
}

/// Statistics that can represent a bucket, the best first.
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
    /// `None` if the policy does not keep an explicitly requested method.
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
    /// Whether raw points may be used.
    pub(super) fn takes_raw(&self) -> bool {
        self.granularity.is_none() && !matches!(self.values, Values::Exactly(_))
    }

    /// Whether metrics with this policy may have samples.
    pub fn fits(&self, policy: &ArchivePolicy) -> bool {
        let has_granularity = |wanted| policy.definition.iter().any(|item| item.granularity == wanted);
        self.granularity.is_none_or(has_granularity) && Columns::of(policy, self.values).is_some()
    }

    /// How long a bucket's sample counts. In an instant vector the sample is at the bucket's start: it counts for the
    /// bucket, and after it for the usual lookback, or until the next bucket can exist if that is longer.
    pub(super) fn bucket_lookback_ms(&self, granularity: Timespan) -> Option<i64> {
        let bucket_ms = granularity.0 / MILLISECOND;
        self.lookback_ms.map(|lookback_ms| bucket_ms.saturating_add(lookback_ms.max(bucket_ms)))
    }

    /// How much longer that is than the usual lookback.
    pub(super) fn bucket_extra_ms(&self, granularity: Timespan) -> i64 {
        let longer = self.bucket_lookback_ms(granularity).zip(self.lookback_ms);
        longer.map_or(0, |(of_bucket_ms, lookback_ms)| of_bucket_ms.saturating_sub(lookback_ms))
    }
}

/// In nanoseconds.
pub(super) const MILLISECOND: i64 = 1_000_000;
