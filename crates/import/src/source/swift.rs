//! Gnocchi's driver `swift`: a container per metric, with an object per split and one for the points of the back
//! window, and a container of incoming measures per sack.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::objects::swift::SwiftReader;
use gnudi_model::MetricId;

use super::{
    Incoming, POINTS, SETTINGS, Sacks, SourceError, SplitKey, Storage, StoredMeasures, StoredSplit, Wanted,
    metrics_of, request_time,
};

/// The storage in the containers `PREFIX.METRIC`.
pub struct SwiftStorage {
    pub account: Arc<SwiftReader>,
    pub container_prefix: String,
}

impl SwiftStorage {
    fn container(&self, metric: MetricId) -> String {
        format!("{}.{}", self.container_prefix, metric.0)
    }
}

#[async_trait]
impl Storage for SwiftStorage {
    fn points_place(&self, metric: MetricId) -> String {
        format!("{}/{POINTS}", self.container(metric))
    }

    async fn points(&self, metric: MetricId) -> Result<Option<Bytes>, SourceError> {
        Ok(self.account.get(&self.container(metric), POINTS).await?)
    }

    async fn splits(&self, metric: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        let container = self.container(metric);
        let mut splits = Vec::new();
        for name in self.account.list(&container, "").await?.unwrap_or_default() {
            let Some(key) = SplitKey::from_name(&name).filter(wanted) else { continue };
            // Gnocchi deletes expired splits.
            if let Some(bytes) = self.account.get(&container, &name).await? {
                splits.push(StoredSplit { key, place: format!("{container}/{name}"), bytes });
            }
        }
        Ok(splits)
    }
}

/// The incoming measures in the sacks' containers.
pub struct SwiftIncoming {
    account: Arc<SwiftReader>,
    /// The prefix of container names.
    prefix: String,
    sacks: Sacks,
}

/// The name of the container with the settings of incoming.
pub fn settings_container(prefix: &str) -> String {
    format!("{prefix}{SETTINGS}")
}

impl SwiftIncoming {
    /// # Errors
    /// If the account is not an incoming storage of Gnocchi.
    pub async fn open(account: Arc<SwiftReader>, prefix: String) -> Result<Self, SourceError> {
        let settings = account.get(&settings_container(&prefix), SETTINGS).await?;
        let sacks = Sacks::of_settings("swift", settings.as_deref())?;
        Ok(SwiftIncoming { account, prefix, sacks })
    }
}

#[async_trait]
impl Incoming for SwiftIncoming {
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        let mut found = HashSet::new();
        for sack in self.sacks.names() {
            let names = self.account.list(&format!("{}{sack}", self.prefix), "").await?;
            found.extend(metrics_of(names.unwrap_or_default()));
        }
        Ok(found)
    }

    async fn backlog_of(&self, metric: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        let container = format!("{}{}", self.prefix, self.sacks.of(metric));
        let names = self.account.list(&container, &format!("{}/", metric.0)).await?;
        let mut names = names.unwrap_or_default();
        names.sort_by(|a, b| request_time(a).cmp(request_time(b)));
        let mut waiting = Vec::new();
        for name in names {
            // Gnocchi may have processed it meanwhile.
            if let Some(bytes) = self.account.get(&container, &name).await? {
                waiting.push(StoredMeasures { place: format!("{container}/{name}"), bytes });
            }
        }
        Ok(waiting)
    }
}
