//! Archive policy rules: the policy of a new metric, by its name.

use serde::{Deserialize, Serialize};

/// A metric whose name matches the pattern (fnmatch: `*`, `?`, `[seq]`, `[!seq]`) gets the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivePolicyRule {
    pub name: String,
    pub metric_pattern: String,
    pub archive_policy_name: String,
}

impl ArchivePolicyRule {
    pub fn new(name: &str, metric_pattern: &str, archive_policy_name: &str) -> Self {
        ArchivePolicyRule {
            name: name.to_owned(),
            metric_pattern: metric_pattern.to_owned(),
            archive_policy_name: archive_policy_name.to_owned(),
        }
    }
}
