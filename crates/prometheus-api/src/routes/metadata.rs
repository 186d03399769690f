//! `/api/v1/metadata`: per metric name, the metadata sent by writers, or else the metric's unit.

use std::collections::BTreeMap;

use gnudi_prometheus::{
    answer::{success, write_list, write_text},
    metadata::{Metadata, MetricKind},
};
use gnudi_promql::{METRIC_NAME, Matcher};

use crate::{
    failure::Failure,
    routes::{labels::texts, prelude::*},
};

/// The default limit on metrics in a response.
const METRICS_MAX: usize = 10_000;

/// The label for the unit of Gnocchi's metrics.
const UNIT: &str = "unit";

/// `GET /api/v1/metadata`
pub async fn metadata(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        let count = |name| {
            let given = arguments.number(name)?;
            Ok::<_, Failure>(given.and_then(|number| usize::try_from(number).ok()))
        };
        let limit = count("limit")?.unwrap_or(METRICS_MAX);
        let per_metric_max = count("limit_per_metric")?.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let asked = arguments.get("metric");
        let of_name = |name: &str| vec![Matcher::equal(METRIC_NAME, name)];
        let sets = if asked.is_empty() { Vec::new() } else { vec![of_name(asked)] };
        let names = texts(call, Some(METRIC_NAME), &sets, seen).await?;
        let mut listed: BTreeMap<String, Vec<Metadata<'static>>> = BTreeMap::new();
        for (name, metadata) in call.api.metadata.seen(|creator| super::sees_creator(seen, creator)) {
            if asked.is_empty() || asked == name {
                let said = listed.entry(name).or_default();
                // Several writers may have sent the same.
                if !said.contains(&metadata) {
                    said.push(metadata);
                }
            }
        }
        // The series of a histogram or summary are covered by its own entry.
        let is_part = |name: &str| {
            MetricKind::families(name).any(|family| {
                let of_family = listed.get(family).map_or(&[][..], Vec::as_slice);
                of_family.iter().any(|metadata| family == name || metadata.family(name) == family)
            })
        };
        let others: Vec<_> = names.into_iter().filter(|name| !is_part(name)).take(limit).collect();
        for name in others {
            let mut units = texts(call, Some(UNIT), &[of_name(&name)], seen).await?;
            if units.is_empty() {
                units.push("".into());
            }
            let of_unit = |unit: &str| Metadata { unit: unit.to_owned().into(), ..Metadata::default() };
            listed.insert(name.to_string(), units.iter().map(|unit| of_unit(unit)).collect());
        }
        let mut data = vec![b'{'];
        for (index, (name, said)) in listed.iter().take(limit).enumerate() {
            if index > 0 {
                data.push(b',');
            }
            write_text(name, &mut data);
            data.push(b':');
            write_list(&said[..said.len().min(per_metric_max)], &mut data, |metadata, data| {
                data.extend_from_slice(b"{\"type\":");
                write_text(metadata.kind.name(), data);
                data.extend_from_slice(b",\"help\":");
                write_text(&metadata.help, data);
                data.extend_from_slice(b",\"unit\":");
                write_text(&metadata.unit, data);
                data.push(b'}');
            });
        }
        data.push(b'}');
        Ok(reply::ok(success(&data, &[], &[])))
    })
    .await
}
