//! Decodes heads and blocks for the verification of a store (`gnudi_drivers::verify`), and compares them with
//! the index and the log of measures.

use std::collections::HashMap;

use bytes::Bytes;
use gnudi_drivers::{
    aggregates::BlockKey,
    incoming::Position,
    verify::{Judge, Logged, Verdict},
};
use gnudi_model::{MetricId, MetricStatus};
use gnudi_series::{CodecError, block, head::Head, raw};

/// Compares heads and blocks with the index and the log.
#[derive(Default)]
pub struct StoreJudge {
    /// Sorted by id.
    metrics: Vec<MetricId>,
    /// Those being deleted, sorted by id.
    deleted: Vec<MetricId>,
    logged: HashMap<MetricId, Logged>,
    has_applied_others: bool,
    applied_max: Position,
    /// The last head.
    head: Option<(MetricId, Head)>,
    stale: Vec<(MetricId, String)>,
    known: u64,
    newer: Option<u8>,
}

impl StoreJudge {
    /// `metrics`: all of the index, sorted by id.
    pub fn new(metrics: &[(MetricId, MetricStatus)]) -> Self {
        let is_deleted = |(_, status): &&(MetricId, MetricStatus)| *status == MetricStatus::Delete;
        Self {
            metrics: metrics.iter().map(|(metric, _)| *metric).collect(),
            deleted: metrics.iter().filter(is_deleted).map(|(metric, _)| *metric).collect(),
            ..Self::default()
        }
    }

    /// Number of heads of metrics in the index.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// The newest format version that only newer programs know. A repair must not take such data for damaged.
    pub fn newer_version(&self) -> Option<u8> {
        self.newer
    }

    /// What is wrong with data that does not decode.
    fn wrong(&mut self, error: &CodecError) -> String {
        if let CodecError::Version(found @ 1..) = error {
            self.newer = self.newer.max(Some(*found));
        }
        error.to_string()
    }

    fn is_known(&self, metric: MetricId) -> bool {
        self.metrics.binary_search(&metric).is_ok()
    }
}

impl Judge for StoreJudge {
    fn head(&mut self, metric: MetricId, bytes: &Bytes) -> Verdict {
        self.head = None;
        let logged = self.logged.remove(&metric).unwrap_or_default();
        let head = match Head::decode(bytes) {
            Ok(head) => head,
            Err(error) => return Verdict::Wrong(self.wrong(&error)),
        };
        self.applied_max = self.applied_max.max(Position(head.applied()));
        self.has_applied_others |= head.applied() > logged.newest.0;
        if !self.is_known(metric) {
            return Verdict::NoMetric;
        }
        self.known += 1;
        if head.applied() < logged.applied.0 {
            let (found, wanted) = (head.applied(), logged.applied.0);
            return Verdict::Wrong(format!(
                "it has applied measures up to position {found}, but those up to {wanted} were processed"
            ));
        }
        self.head = Some((metric, head));
        Verdict::Right
    }

    fn lost_head(&mut self, metric: MetricId) {
        self.head = None;
        self.logged.remove(&metric);
    }

    fn block(&mut self, key: &BlockKey, bytes: &Bytes) -> Result<(), String> {
        let found = if key.granularity == raw::GRANULARITY {
            raw::extent(bytes).map(|extent| (raw::GRANULARITY, extent.first, extent.last))
        } else {
            block::extent(bytes).map(|extent| (extent.granularity, extent.first, extent.last))
        };
        let found = found.map_err(|error| self.wrong(&error))?;
        if found != (key.granularity, key.first, key.last) {
            return Err("its content does not match its name".to_owned());
        }
        if let Some((metric, head)) = &self.head
            && *metric == key.metric
            && head.blocks_end_before(key.granularity).is_some_and(|end| key.last >= end)
            && self.stale.last().is_none_or(|(last, _)| last != metric)
        {
            let reason = format!("a block up to {} is newer than it", key.last.to_iso_micros());
            self.stale.push((*metric, reason));
        }
        Ok(())
    }

    fn expect(&mut self, logged: HashMap<MetricId, Logged>) {
        self.logged = logged;
    }

    fn has_applied_others(&self) -> bool {
        self.has_applied_others
    }

    fn missing(&mut self) -> Vec<(MetricId, String)> {
        let mut missing = std::mem::take(&mut self.stale);
        for (metric, logged) in std::mem::take(&mut self.logged) {
            let position = logged.applied;
            if position > Position(0) && self.is_known(metric) && self.deleted.binary_search(&metric).is_err()
            {
                let reason =
                    format!("there is none, but measures up to position {} were processed", position.0);
                missing.push((metric, reason));
            }
        }
        missing.sort_unstable();
        missing
    }

    fn applied_max(&self) -> Position {
        self.applied_max
    }

    fn metrics(&self) -> &[MetricId] {
        &self.metrics
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::damage::tests::newer_head;

    #[test]
    fn data_of_a_newer_program_is_known_from_damaged_data() {
        let metric = MetricId(Uuid::from_u128(7));
        let mut judge = StoreJudge::new(&[(metric, MetricStatus::Active)]);
        let mut damaged = newer_head();
        damaged[0] = 201;
        assert!(matches!(judge.head(metric, &damaged.into()), Verdict::Wrong(_)));
        assert_eq!(judge.newer_version(), None);
        assert!(matches!(judge.head(metric, &newer_head().into()), Verdict::Wrong(_)));
        assert_eq!(judge.newer_version(), Some(200));
    }
}
