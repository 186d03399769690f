//! `/v1/archive_policy`.

use serde::{Deserialize, Serialize};

use crate::{Client, Result};

/// One granularity of a policy to create: at least two of the three fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DefinitionSpec {
    /// Seconds ("60", "0.5") or a duration ("5 minutes", "0:05:00").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granularity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timespan: Option<String>,
}

/// A policy to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ArchivePolicySpec {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_window: Option<u64>,
    pub definition: Vec<DefinitionSpec>,
    /// Names of methods, `*`, `-method`, `+method`; `None`: the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation_methods: Option<Vec<String>>,
    /// `None`: raw points are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawSpec>,
}

/// How long raw points are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSpec {
    /// Seconds or a duration; the server returns it as Python prints spans.
    pub timespan: String,
}

/// One granularity of a policy, as returned by the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DefinitionItem {
    /// As Python prints spans: `0:05:00`.
    pub granularity: String,
    /// `None`: unlimited.
    pub points: Option<u64>,
    pub timespan: Option<String>,
}

/// A policy, as returned by the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ArchivePolicy {
    pub name: String,
    pub back_window: u64,
    pub definition: Vec<DefinitionItem>,
    pub aggregation_methods: Vec<String>,
    pub raw: Option<RawSpec>,
}

impl Client {
    /// Creates a policy; a status of 409 means that the name exists.
    pub async fn create_archive_policy(&self, spec: &ArchivePolicySpec) -> Result<ArchivePolicy> {
        let body = serde_json::to_vec(spec).expect("a policy is JSON");
        self.post("/v1/archive_policy".to_owned(), body).await
    }
}
