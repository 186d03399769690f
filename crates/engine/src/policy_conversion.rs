//! Converts all metrics of a policy that got other methods, including those without new measures, and metrics that moved.
//!
//! The index records the policies, and the progress. Metrics get, in batches, a request without points, which
//! makes a pass convert them ([`crate::conversion`]); a head that already fits is unchanged. If a process
//! ends, the next one continues: at worst some metrics get two requests.
//!
//! Metrics that move to another policy get their request from the process that moves them. It may end before; so the index
//! records moves, and they get another one.

use std::{collections::BTreeSet, time::Duration};

use gnudi_indexer::PolicyConversion;
use gnudi_model::MetricId;

use crate::{Engine, Result};

/// Metrics per batch: limits what the log and a pass have of them.
pub const METRICS_AT_ONCE: usize = 256;

/// How long passes may take for a batch; after that it continues later.
const APPLIED_WITHIN: Duration = Duration::from_mins(1);

impl Engine {
    /// Converts a policy's next metrics, and waits for them. Returns what is left, `None` at the end.
    pub async fn convert_next(&self, conversion: PolicyConversion) -> Result<Option<PolicyConversion>> {
        let PolicyConversion { id, archive_policy_name, converted_to } = &conversion;
        let metrics =
            self.indexer.metrics_of_policy(archive_policy_name, *converted_to, METRICS_AT_ONCE).await?;
        let Some(last) = metrics.last() else {
            self.indexer.advance_policy_conversion(*id, None).await?;
            return Ok(None);
        };
        self.append_conversions(&metrics).await?;
        // Recorded once the requests are durable, and before waiting: a conversion that fails must not be
        // requested again and again.
        self.indexer.advance_policy_conversion(*id, Some(*last)).await?;
        self.refresh(&metrics, APPLIED_WITHIN).await?;
        Ok(Some(PolicyConversion { converted_to: Some(*last), ..conversion }))
    }

    /// Converts metrics that moved to another policy, and waits for them; false if there were none.
    pub async fn convert_moved(&self) -> Result<bool> {
        let moves = self.indexer.metric_moves(METRICS_AT_ONCE).await?;
        if moves.is_empty() {
            return Ok(false);
        }
        let metrics: BTreeSet<MetricId> = moves.iter().map(|moved| moved.metric).collect();
        let metrics: Vec<MetricId> = metrics.into_iter().collect();
        self.append_conversions(&metrics).await?;
        // As above.
        self.indexer.forget_moves(&moves).await?;
        self.refresh(&metrics, APPLIED_WITHIN).await?;
        Ok(true)
    }
}
