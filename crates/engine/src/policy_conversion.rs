//! Has all metrics of a policy that got other methods converted, also those that get no measures any more.
//!
//! The index says which policies it is for, and how far it has come. Some metrics at a time are sent a request without points, which has a
//! pass convert them ([`crate::conversion`]); a metric whose head fits already stays as it is. A process that ends leaves the rest to the
//! next one: at worst some metrics are asked twice.

use std::time::Duration;

use gnudi_drivers::incoming::Batch;
use gnudi_indexer::PolicyConversion;
use gnudi_series::points;

use crate::{Engine, Result};

/// How many metrics are converted before the next ones are asked: neither the log nor a pass has more of them.
pub const METRICS_AT_ONCE: usize = 256;

/// How long passes may take over those; then the next ones have their turn later.
const APPLIED_WITHIN: Duration = Duration::from_mins(1);

impl Engine {
    /// Has the next metrics of a policy converted, and waits until they are. What is left then; `None` once there are no more.
    pub async fn convert_next(&self, conversion: PolicyConversion) -> Result<Option<PolicyConversion>> {
        let PolicyConversion { id, archive_policy_name, converted_to } = &conversion;
        let metrics =
            self.indexer.metrics_of_policy(archive_policy_name, *converted_to, METRICS_AT_ONCE).await?;
        let Some(last) = metrics.last() else {
            self.indexer.advance_policy_conversion(*id, None).await?;
            return Ok(None);
        };
        let mut batch = Batch::default();
        for metric in &metrics {
            batch.push(*metric, 0, |out| points::encode(&[], out));
        }
        self.append(batch).await?;
        // Once they are asked, which is durable, and before it is waited for: what a pass cannot do now is not asked for again and again.
        self.indexer.advance_policy_conversion(*id, Some(*last)).await?;
        self.refresh(&metrics, APPLIED_WITHIN).await?;
        Ok(Some(PolicyConversion { converted_to: Some(*last), ..conversion }))
    }
}
