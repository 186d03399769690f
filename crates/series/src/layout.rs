//! A metric's archive policy, prepared for folding and reading.

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Statistic, Timespan, Timestamp};

/// How many buckets expire at once: Gnocchi deletes whole splits of this size.
pub const POINTS_PER_SPLIT: i64 = 3600;

/// A policy's granularities, methods and back window. Rebuilt when the policy changes; heads written under
/// the old layout stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The coarsest granularity.
    pub(crate) block_size: Timespan,
    /// In blocks. One more than the policy's if there are rates, as in Gnocchi: a rate needs the point
    /// before.
    pub(crate) back_window: u64,
    /// Finest first.
    pub(crate) grains: Vec<ArchivePolicyItem>,
    /// In the order of their codes.
    pub(crate) methods: Vec<AggregationMethod>,
    /// Whether there are Gnocchi's rate methods.
    pub(crate) has_rate: bool,
    pub(crate) has_percentile: bool,
    /// How long raw points are kept, if they are. Late points are accepted as far back.
    pub(crate) raw_timespan: Option<Timespan>,
    /// Whether late points are added to final buckets; only without raw points.
    pub(crate) adds_late: bool,
}

impl Layout {
    pub fn of(policy: &ArchivePolicy) -> Self {
        let mut grains = policy.definition.clone();
        grains.sort_by_key(|grain| grain.granularity);
        let mut methods: Vec<AggregationMethod> = policy.aggregation_methods.iter().copied().collect();
        methods.sort_by_key(|method| method.code());
        let has_rate = policy.has_rate();
        Layout {
            block_size: policy.block_size(),
            back_window: policy.back_window.saturating_add(u64::from(has_rate)),
            grains,
            has_rate,
            has_percentile: methods.iter().any(|m| matches!(m.statistic, Statistic::Percentile(_))),
            methods,
            raw_timespan: policy.raw_timespan,
            adds_late: policy.recomputes_late && policy.raw_timespan.is_none() && policy.check_late().is_ok(),
        }
    }

    /// In the order of their codes.
    pub fn methods(&self) -> &[AggregationMethod] {
        &self.methods
    }

    /// The granularities, finest first.
    pub fn granularities(&self) -> impl Iterator<Item = Timespan> + '_ {
        self.grains.iter().map(|grain| grain.granularity)
    }

    /// Whether results depend on how the points were split into passes, as Gnocchi's rates and percentiles
    /// do. Not with raw points: then every result is computed from all points.
    pub(crate) fn depends_on_passes(&self) -> bool {
        self.raw_timespan.is_none() && (self.has_rate || self.has_percentile)
    }

    /// Whether there are methods over differences: rates, or methods of counters.
    pub(crate) fn has_differences(&self) -> bool {
        self.methods.last().is_some_and(|method| method.rate)
    }

    /// Whether points before the back window may be accepted.
    pub(crate) fn takes_late(&self) -> bool {
        self.raw_timespan.is_some() || self.adds_late
    }

    /// The start of the back window when `last` is the newest point; older points are late. May be before the
    /// epoch.
    pub(crate) fn window_start(&self, last: Timestamp) -> Timestamp {
        // Half the range exceeds any real time span; the bound keeps later sums in range.
        const BACK_MAX: i64 = i64::MAX / 2;
        let blocks = i64::try_from(self.back_window).unwrap_or(i64::MAX);
        let back = self.block_size.0.saturating_mul(blocks).min(BACK_MAX);
        Timestamp(last.floor(self.block_size).0 - back)
    }
}

/// The start of the split of `granularity` that holds `time`.
pub(crate) fn split_start(time: Timestamp, granularity: Timespan) -> Timestamp {
    Timestamp(floor(time.0, granularity.0.saturating_mul(POINTS_PER_SPLIT)))
}

/// The largest multiple of `step` that is not above `time`, saturating at the minimum.
pub(crate) fn floor(time: i64, step: i64) -> i64 {
    time.saturating_sub(time.rem_euclid(step))
}

/// The smallest multiple of `step` that is not below `time`; at the end of the range the largest one.
pub(crate) fn ceil(time: i64, step: i64) -> i64 {
    floor(time.saturating_add(step - 1), step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_policies() {
        let policies = ArchivePolicy::defaults(&ArchivePolicy::default_methods());
        let layout = Layout::of(&policies[3]);
        assert_eq!(layout.granularities().map(|g| g.0 / 1_000_000_000).collect::<Vec<_>>(), [1, 60, 3600]);
        assert_eq!(layout.window_start(Timestamp::from_secs(7300)), Timestamp::from_secs(7200));
        let bool_policy = Layout::of(&policies[0]);
        assert_eq!(bool_policy.window_start(Timestamp::from_secs(7300)), Timestamp::from_secs(3700));
    }

    #[test]
    fn a_rate_keeps_one_more_block() {
        let mut policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(2);
        policy.aggregation_methods.insert("rate:mean".parse().unwrap());
        assert_eq!(Layout::of(&policy).window_start(Timestamp::from_secs(7300)), Timestamp::from_secs(3600));
    }

    #[test]
    fn ranges_end_without_wrapping() {
        let mut policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(2);
        policy.back_window = u64::MAX;
        let start = Layout::of(&policy).window_start(Timestamp::MAX);
        assert!(split_start(start, Timespan(i64::MAX)) <= start);
        assert_eq!(floor(-1, 10), -10);
    }
}
