//! `/api/v1/metadata`: per metric name, the metadata sent by writers, or else the metric's unit.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use gnudi_indexer::MetricScope;
use gnudi_model::MetricId;
use gnudi_prometheus::{
    answer::{success, write_list, write_text},
    labels::{RESOURCE_ID, exported},
    metadata::{Metadata, MetricKind},
};
use gnudi_promql::{METRIC_NAME, Matcher};

use crate::{
    catalogue::FoundSeries,
    failure::Failure,
    metadata_store::Sent,
    routes::{labels::texts, prelude::*},
    selected::find_all,
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
            let given = arguments.number(name);
            let given = given.map_err(|_| Failure::bad_data(format!("{name} must be a number")))?;
            Ok::<_, Failure>(given.and_then(|number| usize::try_from(number).ok()))
        };
        let limit = count("limit")?.unwrap_or(METRICS_MAX);
        let per_metric_max = count("limit_per_metric")?.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let asked = Some(arguments.get("metric")).filter(|asked| !asked.is_empty());
        let units = units(call, asked, seen).await?;
        let mut listed: BTreeMap<String, Vec<Metadata<'static>>> = BTreeMap::new();
        for Sent { name, metadata, .. } in sent(call, asked, seen).await? {
            let said = listed.entry(name).or_default();
            // Several writers may have sent the same.
            if !said.contains(&metadata) {
                said.push(metadata);
            }
        }
        // The series of a histogram or summary are covered by its own entry.
        let is_part = |name: &str| {
            MetricKind::families(name).any(|family| {
                let of_family = listed.get(family).map_or(&[][..], Vec::as_slice);
                of_family.iter().any(|metadata| family == name || metadata.family(name) == family)
            })
        };
        let others: Vec<_> = units.into_iter().filter(|(name, _)| !is_part(name)).take(limit).collect();
        for (name, mut units) in others {
            if units.is_empty() {
                units.insert("".into());
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

fn of_name(name: &str) -> Vec<Matcher> {
    vec![Matcher::equal(METRIC_NAME, name)]
}

/// The units of the metrics that the caller may list, by name: of one name, or of all.
async fn units(
    call: &Call<'_>,
    asked: Option<&str>,
    seen: Option<&MetricScope>,
) -> Result<BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, Failure> {
    if let Some(name) = asked {
        let sets = [of_name(name)];
        if texts(call, Some(METRIC_NAME), &sets, seen).await?.is_empty() {
            return Ok(BTreeMap::new());
        }
        let units = texts(call, Some(UNIT), &sets, seen).await?;
        return Ok(BTreeMap::from([(name.into(), units.into_iter().collect())]));
    }
    if !call.app.options().policy.is_customised(Rule::ListMetric) {
        return Ok(call.api.catalogue.values_by_name(UNIT, seen).await?);
    }
    let mut units: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for FoundSeries { labels, .. } in find_all(call, Rule::ListMetric, &[Vec::new()], seen).await? {
        let name = labels.metric_name();
        let is_exported = call.api.options.ceilometer_names && !labels.get(RESOURCE_ID).is_empty();
        let exported = is_exported.then(|| exported(name));
        let unit = Some(labels.get(UNIT)).filter(|unit| !unit.is_empty());
        for name in [Some(name), exported.as_deref()].into_iter().flatten().filter(|name| !name.is_empty()) {
            units.entry(name.into()).or_default().extend(unit.map(Arc::<str>::from));
        }
    }
    Ok(units)
}

/// What writers sent about the metrics that the caller may list: about one, or about all.
async fn sent(
    call: &Call<'_>,
    asked: Option<&str>,
    seen: Option<&MetricScope>,
) -> Result<Vec<Sent>, Failure> {
    let mut all = call.api.metadata.seen(asked, |creator| super::sees_creator(seen, creator));
    // The writer decides with Gnocchi's rules; an operator's rule may deny single metrics.
    if all.is_empty() || !call.app.options().policy.is_customised(Rule::ListMetric) {
        return Ok(all);
    }
    let sets: Vec<Vec<Matcher>> = if asked.is_some() {
        let series_names = all.iter().flat_map(|sent| sent.metadata.series_names(&sent.name));
        let series_names: BTreeSet<String> = series_names.collect();
        series_names.iter().map(|name| of_name(name)).collect()
    } else {
        vec![Vec::new()]
    };
    let names = names_by_creator(call, &sets, seen).await?;
    all.retain(|sent| {
        let names = names.get(&sent.creator);
        names.is_some_and(|names| {
            sent.metadata.series_names(&sent.name).iter().any(|name| names.contains(name))
        })
    });
    Ok(all)
}

/// The names of the series that the caller may list, by the creator of their metrics.
async fn names_by_creator(
    call: &Call<'_>,
    sets: &[Vec<Matcher>],
    seen: Option<&MetricScope>,
) -> Result<HashMap<String, HashSet<String>>, Failure> {
    let found = find_all(call, Rule::ListMetric, sets, seen).await?;
    let ids: Vec<MetricId> = found.iter().map(|series| series.metric).collect();
    let metrics = call.indexer().metrics(&ids).await.map_err(ApiError::from)?;
    let mut names: HashMap<String, HashSet<String>> = HashMap::new();
    for (series, metric) in found.iter().zip(metrics) {
        if let Some(metric) = metric {
            let of_creator = names.entry(metric.creator.as_str().to_owned()).or_default();
            of_creator.insert(series.labels.metric_name().to_owned());
        }
    }
    Ok(names)
}
