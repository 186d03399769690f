//! `GET /api/v1/targets`: gnudi scrapes nothing; the targets are those of its writers, found by their `up`
//! series.

use std::collections::HashMap;

use gnudi_indexer::MetricScope;
use gnudi_model::Timestamp;
use gnudi_prometheus::answer::{success, write_labels, write_list, write_text};
use gnudi_promql::{Labels, METRIC_NAME, QueryTimes, Value as QueryValue};

use crate::{
    evaluation::{self, QueryParameters},
    failure::Failure,
    routes::prelude::*,
};

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
        let mut active =
            if arguments.get("state") == "dropped" { Vec::new() } else { active(call, seen).await? };
        active.retain(|target| pool.is_empty() || target.labels.get("job") == pool);
        let mut data = b"{\"activeTargets\":".to_vec();
        write_list(&active, &mut data, Target::write);
        data.extend_from_slice(b",\"droppedTargets\":[],\"droppedTargetCounts\":{}}");
        Ok(reply::ok(success(&data, &[], &[])))
    })
    .await
}

async fn active(call: &Call<'_>, seen: Option<&MetricScope>) -> Result<Vec<Target>, Failure> {
    let scraped: HashMap<Labels, f64> = now(call, "timestamp(up)", seen).await?.into_iter().collect();
    let mut targets: Vec<Target> = Vec::new();
    for (labels, value) in now(call, "up", seen).await? {
        // The sample arrived between the two queries.
        let Some(seconds) = scraped.get(&labels) else { continue };
        targets.push(Target { labels, is_up: value == 1.0, scraped: Timestamp((seconds * 1e9) as i64) });
    }
    targets.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(targets)
}

/// The current values of an instant vector, by labels without the name.
async fn now(
    call: &Call<'_>,
    query: &str,
    seen: Option<&MetricScope>,
) -> Result<Vec<(Labels, f64)>, Failure> {
    let times = QueryTimes::instant(call.now_ms());
    let parameters = QueryParameters { query, times, timeout: None, lookback: None, limit: None };
    let QueryValue::Vector(samples) = evaluation::evaluate(call, &parameters, seen).await?.result.value
    else {
        unreachable!("both queries give instant vectors");
    };
    let named = |labels: &Labels| Labels::new(labels.iter().filter(|(name, _)| *name != METRIC_NAME));
    Ok(samples.iter().map(|sample| (named(&sample.labels), sample.value)).collect())
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
