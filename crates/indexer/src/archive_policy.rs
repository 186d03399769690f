//! Archive policies in the index.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, ArchivePolicyRule, MetricId, Timespan,
    python::text_of_float,
};
use uuid::Uuid;

use crate::{IndexerError, Result};

/// A change of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// New points for the same granularities.
    pub definition: Vec<ArchivePolicyItem>,
    pub back_window: Option<u64>,
    pub raw_timespan: Option<Timespan>,
    pub recomputes_late: Option<bool>,
    pub aggregation_methods: Option<BTreeSet<AggregationMethod>>,
}

impl PolicyChange {
    /// A policy to be changed in place of one that cannot be read; `None` if the change leaves its back window or methods as
    /// they are.
    pub(crate) fn in_place_of_damaged(&self, name: &str) -> Option<ArchivePolicy> {
        let methods = self.aggregation_methods.clone()?;
        ArchivePolicy::new(name.to_owned(), self.back_window?, self.definition.clone(), methods).ok()
    }

    /// The policy after the change. Granularities cannot change.
    pub(crate) fn apply(&self, policy: &mut ArchivePolicy) -> Result<()> {
        check_change(policy, &self.definition)?;
        let changed = ArchivePolicy {
            definition: self.definition.clone(),
            back_window: self.back_window.unwrap_or(policy.back_window),
            raw_timespan: self.raw_timespan.or(policy.raw_timespan),
            recomputes_late: self.recomputes_late.unwrap_or(policy.recomputes_late),
            aggregation_methods: self
                .aggregation_methods
                .as_ref()
                .unwrap_or(&policy.aggregation_methods)
                .clone(),
            name: policy.name.clone(),
        };
        changed.check_late().map_err(|error| unsupported(policy, error.to_string()))?;
        *policy = changed;
        Ok(())
    }
}

/// Whether the change adds methods whose values for stored data must be computed from raw points. (Without raw points
/// they are derived from stored values at each read, or cannot be computed.)
pub(crate) fn begins_conversion(before: &ArchivePolicy, after: &ArchivePolicy) -> bool {
    after.raw_timespan.is_some() && !after.aggregation_methods.is_subset(&before.aggregation_methods)
}

/// The conversion in progress of a policy's metrics to its new methods. Converts one metric after the other, in the order
/// of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConversion {
    /// A new id for each change of the methods.
    pub id: Uuid,
    pub archive_policy_name: String,
    /// The last metric for which a conversion was requested.
    pub converted_to: Option<MetricId>,
}

#[async_trait]
pub trait ArchivePolicies {
    async fn create_archive_policy(&self, policy: ArchivePolicy) -> Result<()>;

    /// Creates those of the policies, and of the rules for them, that do not exist: all, or none.
    async fn create_missing_policies(
        &self,
        policies: Vec<ArchivePolicy>,
        rules: Vec<ArchivePolicyRule>,
    ) -> Result<()>;

    async fn archive_policy(&self, name: &str) -> Result<Option<Arc<ArchivePolicy>>>;

    /// By name, except those made from definitions of metrics ([`ArchivePolicy::is_definition_name`]).
    async fn archive_policies(&self) -> Result<Vec<Arc<ArchivePolicy>>>;

    /// Returns the changed policy. If the values of new methods must be computed from raw points, a conversion of the
    /// policy's metrics begins; it replaces one in progress.
    async fn update_archive_policy(&self, name: &str, change: PolicyChange) -> Result<Arc<ArchivePolicy>>;

    /// Refused while metrics or rules use the policy.
    async fn delete_archive_policy(&self, name: &str) -> Result<()>;

    /// Removes policies made from definitions that no metric uses any more; returns their number.
    async fn sweep_definitions(&self) -> Result<u64>;

    /// The conversions in progress, sorted by policy name; never from a cache.
    async fn policy_conversions(&self) -> Result<Vec<PolicyConversion>>;

    /// Up to `limit` metrics of a policy, by id, behind `after`; never from a cache.
    async fn metrics_of_policy(
        &self,
        name: &str,
        after: Option<MetricId>,
        limit: usize,
    ) -> Result<Vec<MetricId>>;

    /// Records the progress of a conversion: up to this metric, or `None` for its end. No effect if another conversion has
    /// replaced it.
    async fn advance_policy_conversion(&self, id: Uuid, to: Option<MetricId>) -> Result<()>;
}

fn unsupported(policy: &ArchivePolicy, message: String) -> IndexerError {
    IndexerError::UnsupportedArchivePolicyChange { name: policy.name.clone(), message }
}

/// Whether a policy may get the definition: granularities must stay the same.
fn check_change(policy: &ArchivePolicy, definition: &[ArchivePolicyItem]) -> Result<()> {
    let granularities = |items: &[ArchivePolicyItem]| {
        let mut spans: Vec<_> = items.iter().map(|item| item.granularity).collect();
        spans.sort_unstable();
        spans
    };
    let (current, new) = (granularities(&policy.definition), granularities(definition));
    if current.len() != new.len() {
        return Err(unsupported(policy, "Cannot add or drop granularities".to_owned()));
    }
    match current.iter().zip(&new).find(|(current, new)| current != new) {
        Some((changed, _)) => {
            let seconds = text_of_float(changed.as_secs_f64());
            Err(unsupported(policy, format!("{seconds} granularity interval was changed")))
        }
        None => Ok(()),
    }
}
