//! Archive policy rules: which policy a new metric gets, by its name.

use serde::{Deserialize, Serialize};

/// A metric whose name matches the pattern (fnmatch: `*`, `?`, `[seq]`, `[!seq]`) gets the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivePolicyRule {
    pub name: String,
    pub metric_pattern: String,
    pub archive_policy_name: String,
}
