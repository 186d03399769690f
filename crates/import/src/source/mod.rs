//! Gnocchi's storage and incoming storage, read only: one file per driver.

mod ceph;
#[cfg(test)]
pub(crate) mod damaged;
mod file;
mod redis;
mod s3;
mod swift;

use std::{collections::HashSet, io};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{clients::redis::ClientError, objects::ObjectError};
use gnudi_model::{AggregationMethod, MetricId, Timespan, Timestamp, python};

pub use self::{
    ceph::{CephIncoming, CephStorage},
    file::{FileIncoming, FileStorage},
    redis::{RedisIncoming, RedisStorage},
    s3::{S3Incoming, S3Storage},
    swift::{SwiftIncoming, SwiftStorage, settings_container},
};

/// The version suffix of names in the storage.
const VERSION: &str = "_v3";
/// The name of the points of the back window.
const POINTS: &str = "none_v3";
/// The name of the settings of incoming, which hold the number of sacks.
const SETTINGS: &str = "gnocchi-config";

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Redis(#[from] ClientError),
    #[error("{0}")]
    Other(String),
}

/// Identifies a split of a metric: 3600 buckets of one method and granularity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SplitKey {
    pub method: AggregationMethod,
    pub granularity: Timespan,
    /// As the name gives it, which may be off: see `carbonara`.
    pub start: Timestamp,
}

impl SplitKey {
    /// From the parts of a name: `1412020800.0`, `rate:mean`, `60.0`.
    fn from_parts(start: &str, method: &str, granularity: &str) -> Option<Self> {
        let nanoseconds = |text| python::nanoseconds_of_seconds(python::float_of_text(text)?).ok();
        Some(SplitKey {
            method: method.parse().ok()?,
            granularity: Timespan(nanoseconds(granularity)?),
            start: Timestamp(nanoseconds(start)?),
        })
    }

    /// From a name in the form of most drivers: `1412020800.0_mean_60.0_v3`.
    fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(VERSION)?.split('_');
        let key = SplitKey::from_parts(parts.next()?, parts.next()?, parts.next()?)?;
        parts.next().is_none().then_some(key)
    }
}

/// A stored split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSplit {
    pub key: SplitKey,
    /// Its location, for messages.
    pub place: String,
    pub bytes: Bytes,
}

/// Selects the splits to read.
pub type Wanted<'a> = &'a (dyn Fn(&SplitKey) -> bool + Send + Sync);

/// Gnocchi's `[storage]`.
#[async_trait]
pub trait Storage: Send + Sync {
    /// The location of a metric's points, for messages.
    fn points_place(&self, metric: MetricId) -> String;

    /// The points of the back window; `None` before the first measures.
    async fn points(&self, metric: MetricId) -> Result<Option<Bytes>, SourceError>;

    /// The selected splits, in any order.
    async fn splits(&self, metric: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError>;
}

/// The measures of one request for one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMeasures {
    /// Their location, for messages.
    pub place: String,
    pub bytes: Bytes,
}

/// Gnocchi's `[incoming]`.
#[async_trait]
pub trait Incoming: Send + Sync {
    /// At least the metrics that have a backlog during the whole call.
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError>;

    /// The current backlog of a metric, in order of the requests.
    async fn backlog_of(&self, metric: MetricId) -> Result<Vec<StoredMeasures>, SourceError>;
}

/// The number of sacks, which are called `incoming128-7`, or `7-128` by the driver `s3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sacks(u128);

impl Sacks {
    /// From the settings document `{"sacks": 128}`.
    fn of_settings(place: &str, settings: Option<&[u8]>) -> Result<Self, SourceError> {
        let document: Option<serde_json::Value> =
            settings.and_then(|settings| serde_json::from_slice(settings).ok());
        Sacks::new(place, document.and_then(|document| document.get("sacks")?.as_u64()))
    }

    fn new(place: &str, count: Option<u64>) -> Result<Self, SourceError> {
        let count = count.filter(|count| *count > 0);
        count.map(|count| Sacks(count.into())).ok_or_else(|| {
            SourceError::Other(format!(
                "{place}: no incoming storage of Gnocchi: {SETTINGS} names no count of sacks"
            ))
        })
    }

    /// The sack of a metric.
    fn of(self, metric: MetricId) -> String {
        self.name(self.number_of(metric))
    }

    fn number_of(self, metric: MetricId) -> u128 {
        metric.0.as_u128() % self.0
    }

    /// A pattern for `SCAN` that matches all sacks.
    fn name_pattern(self) -> String {
        format!("incoming{}-*", self.0)
    }

    fn name(self, number: u128) -> String {
        format!("incoming{}-{number}", self.0)
    }

    fn names(self) -> impl Iterator<Item = String> {
        (0..self.0).map(move |number| self.name(number))
    }
}

/// The metrics in names of measures: `<metric>/<uuid>_<time>` with an optional prefix. Other names are settings.
fn metrics_of(names: impl IntoIterator<Item = String>) -> impl Iterator<Item = MetricId> {
    let metric = |name: String| python::parse_uuid(name.rsplit('/').nth(1)?).map(MetricId);
    names.into_iter().filter_map(metric)
}

/// The time of a request, from the name of its measures: `<uuid>_20261125_13:20:01` with an optional prefix.
fn request_time(name: &str) -> &str {
    const DIGITS: usize = "20261125_13:20:01".len();
    name.len().checked_sub(DIGITS).and_then(|at| name.get(at..)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_splits_are_understood() {
        let key = SplitKey::from_name("1412020800.0_rate:mean_0.5_v3").unwrap();
        assert_eq!(key.method.to_string(), "rate:mean");
        assert_eq!(
            (key.granularity, key.start),
            (Timespan(500_000_000), Timestamp(1_412_020_800_000_000_000))
        );
        for name in ["none_v3", "1412020800.0_mean_60.0", "1412020800.0_mean_60.0_1_v3", "x_mean_60.0_v3", ""]
        {
            assert_eq!(SplitKey::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn settings_have_a_count_of_sacks() {
        assert_eq!(Sacks::of_settings("x", Some(b"{\"sacks\": 8}")).unwrap(), Sacks(8));
        for settings in [None, Some(&b"{\"sacks\": 0}"[..]), Some(b"[]"), Some(b"")] {
            assert!(Sacks::of_settings("x", settings).is_err());
        }
        let metric = MetricId(uuid::Uuid::from_u128(129));
        assert_eq!(Sacks(128).of(metric), "incoming128-1");
    }

    #[test]
    fn names_of_measures_name_their_metrics() {
        let metric = MetricId(uuid::Uuid::from_u128(7));
        let names = [format!("incoming8-7/{}/x_20261125_13:20:01", metric.0), "gnocchi-config".to_owned()];
        assert!(metrics_of(names).eq([metric]));
    }

    #[test]
    fn requests_are_ordered_by_their_times() {
        let id = "3f5c1f0e-6f2a-4c57-9f5e-0a1d9c6f0b11";
        assert_eq!(request_time(&format!("measure_{id}_{id}_20261125_13:20:01")), "20261125_13:20:01");
        assert_eq!(request_time("short"), "short");
    }
}
