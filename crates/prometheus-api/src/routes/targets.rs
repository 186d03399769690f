//! `GET /api/v1/targets`: gnudi scrapes nothing; the targets are those of its writers, found by their `up`
//! series.

use gnudi_indexer::MetricScope;
use gnudi_model::Timestamp;
use gnudi_prometheus::answer::{success, write_labels, write_list, write_text};
use gnudi_promql::{Labels, METRIC_NAME, Matcher, Sample};

use crate::{evaluation::newest, failure::Failure, routes::prelude::*};

/// A target scraped within the lookback.
struct Target {
    labels: Labels,
    is_up: bool,
    scraped: Timestamp,
}

/// `GET /api/v1/targets`
pub async fn targets(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        let pool = arguments.get("scrapePool");
        let state = arguments.get("state").to_lowercase();
        let shows = |kind: &str| matches!(state.as_str(), "" | "any") || state == kind;
        let mut active = if shows("active") { active(call, seen).await? } else { Vec::new() };
        active.retain(|target| pool.is_empty() || target.labels.get("job") == pool);
        let mut data = b"{\"activeTargets\":".to_vec();
        write_list(&active, &mut data, Target::write);
        let counts = if shows("dropped") { "{}" } else { "null" };
        data.extend_from_slice(
            format!(",\"droppedTargets\":[],\"droppedTargetCounts\":{counts}}}").as_bytes(),
        );
        Ok(reply::ok(success(&data, &[], &[])))
    })
    .await
}

async fn active(call: &Call<'_>, seen: Option<&MetricScope>) -> Result<Vec<Target>, Failure> {
    let sets = [vec![Matcher::equal(METRIC_NAME, "up")]];
    let target = |newest: Sample| Target {
        labels: Labels::new(newest.labels.iter().filter(|(name, _)| *name != METRIC_NAME)),
        is_up: newest.value == 1.0,
        scraped: Timestamp(newest.time_ms.saturating_mul(1_000_000)),
    };
    let mut targets: Vec<Target> = newest(call, &sets, seen).await?.into_iter().map(target).collect();
    targets.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(targets)
}

impl Target {
    fn write(&self, data: &mut Vec<u8>) {
        data.extend_from_slice(b"{\"discoveredLabels\":{},\"labels\":");
        write_labels(&self.labels, data);
        data.extend_from_slice(b",\"scrapePool\":");
        write_text(self.labels.get("job"), data);
        let (health, scraped) = (if self.is_up { "up" } else { "down" }, self.scraped.to_iso());
        data.extend_from_slice(
            format!(
                ",\"scrapeUrl\":\"\",\"globalUrl\":\"\",\"lastError\":\"\",\"lastScrape\":\"{scraped}\",\
                 \"lastScrapeDuration\":0,\"health\":\"{health}\",\"scrapeInterval\":\"\",\"scrapeTimeout\":\"\"}}"
            )
            .as_bytes(),
        );
    }
}
