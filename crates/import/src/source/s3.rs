//! Gnocchi's driver `s3`: one bucket with an object per split and one for the points of the back window, and another
//! with the incoming measures.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::objects::s3::S3Reader;
use gnudi_model::MetricId;

use super::{
    Incoming, POINTS, SETTINGS, Sacks, SourceError, SplitKey, Storage, StoredMeasures, StoredSplit, VERSION,
    Wanted, metrics_of, request_time,
};

/// The storage in the bucket `PREFIX-aggregates`.
pub struct S3Storage(pub S3Reader);

/// `mean_60.0_1412020800.0_v3`
fn split_key(name: &str) -> Option<SplitKey> {
    let mut parts = name.strip_suffix(VERSION)?.split('_');
    let (method, granularity, start) = (parts.next()?, parts.next()?, parts.next()?);
    SplitKey::from_parts(start, method, granularity).filter(|_| parts.next().is_none())
}

#[async_trait]
impl Storage for S3Storage {
    fn points_place(&self, metric: MetricId) -> String {
        format!("{}/{POINTS}", metric.0)
    }

    async fn points(&self, metric: MetricId) -> Result<Option<Bytes>, SourceError> {
        // Created empty, before the first pass.
        Ok(self.0.get(&self.points_place(metric)).await?.filter(|bytes| !bytes.is_empty()))
    }

    async fn splits(&self, metric: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        let prefix = format!("{}/", metric.0);
        let mut splits = Vec::new();
        for place in self.0.list(&prefix).await? {
            let key = place.strip_prefix(&prefix).and_then(split_key);
            let Some(key) = key.filter(wanted) else { continue };
            // Gnocchi deletes expired splits.
            if let Some(bytes) = self.0.get(&place).await? {
                splits.push(StoredSplit { key, place, bytes });
            }
        }
        Ok(splits)
    }
}

/// The incoming measures in the bucket `PREFIX-measure`.
pub struct S3Incoming {
    bucket: S3Reader,
    sacks: Sacks,
}

impl S3Incoming {
    /// # Errors
    /// If the bucket is not an incoming storage of Gnocchi.
    pub async fn open(bucket: S3Reader) -> Result<Self, SourceError> {
        let settings = bucket.get(SETTINGS).await?;
        let sacks = Sacks::of_settings("s3", settings.as_deref())?;
        Ok(S3Incoming { bucket, sacks })
    }
}

#[async_trait]
impl Incoming for S3Incoming {
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        Ok(metrics_of(self.bucket.list("").await?).collect())
    }

    async fn backlog_of(&self, metric: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        let Sacks(count) = self.sacks;
        let prefix = format!("{}-{count}/{}/", self.sacks.number_of(metric), metric.0);
        let mut names = self.bucket.list(&prefix).await?;
        names.sort_by(|a, b| request_time(a).cmp(request_time(b)));
        let mut waiting = Vec::new();
        for place in names {
            // Gnocchi may have processed it meanwhile.
            if let Some(bytes) = self.bucket.get(&place).await? {
                waiting.push(StoredMeasures { place, bytes });
            }
        }
        Ok(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_splits_are_understood() {
        let key = split_key("rate:mean_60.0_1412020800.0_v3");
        assert_eq!(key, SplitKey::from_name("1412020800.0_rate:mean_60.0_v3"));
        assert!(key.is_some());
        assert_eq!(split_key(POINTS), None);
    }
}
