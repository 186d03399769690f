//! `/v1/metric`.

use gnudi_model::MetricId;
use serde::{Deserialize, Serialize};

use crate::{Client, Result, archive_policy::ArchivePolicy, uri::Query};

/// A metric to create. Without a policy the server chooses one by its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetricSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_policy_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A metric as returned by the server; fields that this client does not need are left out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Metric {
    pub id: MetricId,
    #[serde(default)]
    pub name: Option<String>,
    /// Its policy, in listings and of single metrics; the response to a creation has its name only.
    #[serde(default)]
    pub archive_policy: Option<ArchivePolicy>,
}

/// Which metrics to list; `None`: no filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricFilter {
    pub name: Option<String>,
    /// `user:project`, or the user's name alone with basic authentication.
    pub creator: Option<String>,
    /// Maximum number; the server has its own limit (`max_limit`, 1,000 by default).
    pub limit: Option<u64>,
}

impl MetricFilter {
    fn path(&self) -> String {
        let mut query = Query::new("/v1/metric");
        query.add_some("name", self.name.as_deref());
        query.add_some("creator", self.creator.as_deref());
        query.add_some("limit", self.limit.map(|limit| limit.to_string()).as_deref());
        query.finish()
    }
}

impl Client {
    pub async fn create_metric(&self, spec: &MetricSpec) -> Result<Metric> {
        self.post("/v1/metric".to_owned(), serde_json::to_vec(spec).expect("a metric is JSON")).await
    }

    /// One page of metrics: as many as the filter and the server allow.
    pub async fn list_metrics(&self, filter: &MetricFilter) -> Result<Vec<Metric>> {
        self.get(filter.path()).await
    }

    /// A status of 404 means that it does not exist.
    pub async fn get_metric(&self, id: MetricId) -> Result<Metric> {
        self.get(format!("/v1/metric/{id}")).await
    }
}
