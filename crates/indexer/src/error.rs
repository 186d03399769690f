//! What can go wrong with metadata; the texts are Gnocchi's, since clients show them.

use gnudi_model::MetricId;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IndexerError {
    #[error("Archive policy {0} does not exist")]
    NoSuchArchivePolicy(String),
    #[error("Archive policy {0} already exists")]
    ArchivePolicyAlreadyExists(String),
    #[error("Archive policy {0} is still in use")]
    ArchivePolicyInUse(String),
    #[error("Archive policy {name} does not support change: {message}")]
    UnsupportedArchivePolicyChange { name: String, message: String },
    #[error("Archive policy rule {0} does not exist")]
    NoSuchArchivePolicyRule(String),
    #[error("Archive policy rule {0} already exists")]
    ArchivePolicyRuleAlreadyExists(String),
    #[error("Archive policy rule {name} does not support change: {message}")]
    UnsupportedArchivePolicyRuleChange { name: String, message: String },
    #[error("No Archive policy rule found for metric {0}")]
    NoArchivePolicyRuleMatch(String),
    #[error("Metric {0} does not exist")]
    NoSuchMetric(MetricId),
    #[error("Named metric {0} already exists")]
    NamedMetricAlreadyExists(String),
    #[error("Invalid pagination: `{0}'")]
    InvalidPagination(String),
    /// No space, for now: nothing was changed (503).
    #[error("the index has no space left: {0}")]
    NoSpace(String),
    /// The database does not answer as it should (503).
    #[error("the index is out of order: {0}")]
    Database(String),
}
