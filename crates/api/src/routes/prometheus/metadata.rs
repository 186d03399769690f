//! `/api/v1/metadata`: of each metric's name what is known of it, which is its unit.

use std::sync::Arc;

use gnudi_indexer::MetricScope;
use gnudi_prometheus::answer::{success, write_list, write_text};
use gnudi_promql::{METRIC_NAME, Matcher};

use crate::{
    prometheus::{Failure, arguments::Arguments},
    routes::prelude::*,
};

/// Metrics of an answer whose request names no limit.
const METRICS_MAX: usize = 10_000;

/// The label that Gnocchi's metrics have of their units.
const UNIT: &str = "unit";

/// `GET /api/v1/metadata`
pub async fn metadata(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    super::answer(listed(call, body, seen.as_ref()).await)
}

async fn listed(
    call: &Call<'_>,
    body: &mut RequestBody<'_>,
    seen: Option<&MetricScope>,
) -> Result<Vec<u8>, Failure> {
    let arguments = Arguments::read(call, body).await?;
    let count = |name| {
        let given = arguments.number(name)?;
        Ok::<_, Failure>(given.and_then(|number| usize::try_from(number).ok()))
    };
    let limit = count("limit")?.unwrap_or(METRICS_MAX);
    let units_max = count("limit_per_metric")?.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let asked = arguments.get("metric");
    let catalogue = call.app.catalogue();
    let of_name = |name: &str| [Matcher::equal(METRIC_NAME, name)];
    let sets = if asked.is_empty() { Vec::new() } else { vec![of_name(asked)] };
    let sets: Vec<&[Matcher]> = sets.iter().map(|matchers| &matchers[..]).collect();
    let names = catalogue.label_values(METRIC_NAME, &sets, seen).await?;
    let mut listed: Vec<(Arc<str>, Vec<Arc<str>>)> = Vec::new();
    for name in names.into_iter().take(limit) {
        let mut units = catalogue.label_values(UNIT, &[&of_name(&name)], seen).await?;
        if units.is_empty() {
            units.push("".into());
        }
        units.truncate(units_max);
        listed.push((name, units));
    }
    let mut data = vec![b'{'];
    for (index, (name, units)) in listed.iter().enumerate() {
        if index > 0 {
            data.push(b',');
        }
        write_text(name, &mut data);
        data.push(b':');
        write_list(units, &mut data, |unit, data| {
            data.extend_from_slice(b"{\"type\":\"unknown\",\"help\":\"\",\"unit\":");
            write_text(unit, data);
            data.push(b'}');
        });
    }
    data.push(b'}');
    Ok(success(&data, &[], &[]))
}
