//! Gnocchi's driver `ceph`: an object per split, one for the points of the back window, whose omap lists the splits,
//! and one per sack, whose omap holds the incoming measures.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::objects::ceph::CephReader;
use gnudi_model::{MetricId, python};

use super::{
    Incoming, POINTS, SETTINGS, Sacks, SourceError, SplitKey, Storage, StoredMeasures, StoredSplit, Wanted,
    request_time,
};

/// Prefix of the keys of measures, followed by the metric's id and a unique suffix.
const MEASURES: &str = "measure_";

/// The storage in a pool.
pub struct CephStorage(pub Arc<CephReader>);

fn points_name(metric: MetricId) -> String {
    format!("gnocchi_{}_{POINTS}", metric.0)
}

#[async_trait]
impl Storage for CephStorage {
    fn points_place(&self, metric: MetricId) -> String {
        points_name(metric)
    }

    async fn points(&self, metric: MetricId) -> Result<Option<Bytes>, SourceError> {
        // Created empty, before the first pass.
        Ok(self.0.get(&points_name(metric)).await?.filter(|bytes| !bytes.is_empty()))
    }

    async fn splits(&self, metric: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        let prefix = format!("gnocchi_{}_", metric.0);
        let mut splits = Vec::new();
        for (name, _) in self.0.omap(&points_name(metric), &prefix).await? {
            let Ok(place) = String::from_utf8(name) else { continue };
            let key = place.strip_prefix(&prefix).and_then(SplitKey::from_name);
            let Some(key) = key.filter(wanted) else { continue };
            // Gnocchi deletes expired splits.
            if let Some(bytes) = self.0.get(&place).await? {
                splits.push(StoredSplit { key, place, bytes });
            }
        }
        Ok(splits)
    }
}

/// The incoming measures in a pool.
pub struct CephIncoming {
    pool: Arc<CephReader>,
    sacks: Sacks,
}

impl CephIncoming {
    /// # Errors
    /// If the pool is not an incoming storage of Gnocchi.
    pub async fn open(pool: Arc<CephReader>) -> Result<Self, SourceError> {
        let settings = pool.get(SETTINGS).await?;
        let sacks = Sacks::of_settings("ceph", settings.as_deref())?;
        Ok(CephIncoming { pool, sacks })
    }
}

#[async_trait]
impl Incoming for CephIncoming {
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        let mut found = HashSet::new();
        for sack in self.sacks.names() {
            let metric = |(key, _): (Vec<u8>, Vec<u8>)| {
                let id = str::from_utf8(&key).ok()?.strip_prefix(MEASURES)?.split('_').next()?;
                python::parse_uuid(id).map(MetricId)
            };
            found.extend(self.pool.omap(&sack, MEASURES).await?.into_iter().filter_map(metric));
        }
        Ok(found)
    }

    async fn backlog_of(&self, metric: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        let prefix = format!("{MEASURES}{}_", metric.0);
        let entries = self.pool.omap(&self.sacks.of(metric), &prefix).await?;
        let measures = |(name, bytes): (Vec<u8>, Vec<u8>)| StoredMeasures {
            place: String::from_utf8_lossy(&name).into_owned(),
            bytes: bytes.into(),
        };
        let mut waiting: Vec<StoredMeasures> = entries.into_iter().map(measures).collect();
        waiting.sort_by(|a, b| request_time(&a.place).cmp(request_time(&b.place)));
        Ok(waiting)
    }
}
