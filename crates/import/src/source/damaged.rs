//! A damaged Gnocchi, for tests.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_model::{MetricId, Timespan, Timestamp};

use super::{Incoming, SourceError, SplitKey, Storage, StoredMeasures, StoredSplit, Wanted};

/// All metrics have these points, and a damaged split of `mean` and one second. There is no backlog.
pub struct Damaged {
    pub points: Bytes,
}

#[async_trait]
impl Storage for Damaged {
    fn points_place(&self, _: MetricId) -> String {
        "points".to_owned()
    }

    async fn points(&self, _: MetricId) -> Result<Option<Bytes>, SourceError> {
        Ok(Some(self.points.clone()))
    }

    async fn splits(&self, _: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        let start = Timestamp::from_secs(27 * 3600);
        let key = SplitKey { method: "mean".parse().unwrap(), granularity: Timespan::from_secs(1), start };
        let split = StoredSplit { key, place: "split".to_owned(), bytes: Bytes::from_static(b"c") };
        Ok(wanted(&key).then_some(split).into_iter().collect())
    }
}

#[async_trait]
impl Incoming for Damaged {
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        Ok(HashSet::new())
    }

    async fn backlog_of(&self, _: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        Ok(Vec::new())
    }
}
