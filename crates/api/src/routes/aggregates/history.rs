//! Groups of resources as they were over time (`use_history`): each revision of a resource counts in the group that it
//! belonged to, for as long as it did.
//!
//! The operations are computed on each revision's metrics between its ends. A bucket that a revision ends or begins in
//! counts with the share of it that the revision lasts; where two revisions of a group follow each other within a bucket,
//! their shares are added. What Gnocchi makes of several resources in one group holds here, too: of those whose part of the
//! time begins at the same moment, the first stands for all.

use std::{cmp::Ordering, sync::Arc};

use gnudi_indexer::{Comparison, Filter, FilterValue};
use gnudi_model::{Resource, Timestamp};
use gnudi_series::{
    cross::{CrossMeasures, CrossSeries},
    resample::Resample,
};

use super::{
    Arguments,
    by_resource::{Asked, Total, group_of, list, write_resources},
    references::{self, Policies, check_count},
};
use crate::{
    error::ApiError,
    json::Value,
    measures::{
        document::Document,
        write::{self, Column},
    },
    router::Call,
};

/// A resource as it was in a part of the time that is asked for.
#[derive(Clone, Debug, PartialEq)]
struct Revision {
    resource: Arc<Resource>,
    /// `None`: since the first of its measures.
    start: Option<Timestamp>,
    /// `None`: until the last of its measures.
    stop: Option<Timestamp>,
}

/// The revisions that have the same in the fields which resources are grouped by.
#[derive(Debug)]
struct Group {
    key: Value,
    revisions: Vec<Revision>,
}

pub(super) async fn grouped(call: &Call<'_>, asked: &Asked<'_>) -> Result<Document, ApiError> {
    let filter = with_period(asked.search.filter.clone(), &asked.arguments);
    let resources = list(call, &asked.search.resource_type, filter, true, asked.groupby).await?;
    check_count(call, resources.len())?;
    let groups = groups(asked.groupby, resources, &asked.arguments)?;
    let mut reader = Reader { call, asked, policies: Policies::default(), total: Total::default() };
    let mut document = Document::default();
    let mut written = 0;
    document.text("[");
    for group in &groups {
        let (points, last) = reader.points(group).await?;
        if points.is_empty() {
            continue;
        }
        document.text(if written > 0 { ", " } else { "" });
        document.text("{\"measures\": {\"measures\": {\"aggregated\": ");
        document.rows(columns(points));
        document.text("}");
        if asked.details {
            write_resources(&mut document, last.iter());
        }
        document.text("}, \"group\": ");
        document.value(&group.key);
        document.text("}");
        written += 1;
    }
    document.text("]");
    if written == 0 { Err(asked.no_metrics()) } else { Ok(document) }
}

/// Only revisions that lie in the time that is asked for, if it has both ends.
fn with_period(filter: Option<Filter>, arguments: &Arguments) -> Option<Filter> {
    let (Some(start), Some(stop)) = (arguments.start, arguments.stop) else { return filter };
    let compare =
        |comparison, field: &str, value| Filter::Compare { comparison, field: field.to_owned(), value };
    // Revisions begin and end at whole microseconds.
    let time = |time: Timestamp| {
        FilterValue::Text(Timestamp(time.0.saturating_add(999) / 1_000 * 1_000).to_iso_micros())
    };
    let mut period = vec![
        compare(Comparison::Less, "revision_start", time(stop)),
        Filter::Or(vec![
            compare(Comparison::GreaterOrEqual, "revision_end", time(start)),
            compare(Comparison::Equal, "revision_end", FilterValue::Null),
        ]),
    ];
    period.extend(filter);
    Some(Filter::And(period))
}

/// The revisions by group, each cut to the time that is asked for.
fn groups(
    fields: &[String],
    mut resources: Vec<Arc<Resource>>,
    arguments: &Arguments,
) -> Result<Vec<Group>, ApiError> {
    resources.sort_by(|a, b| {
        let key = |resource: &Resource| (resource.original_resource_id.clone(), resource.revision_start);
        key(a).cmp(&key(b))
    });
    let mut keyed = Vec::with_capacity(resources.len());
    let mut before = None;
    for resource in resources {
        let key = group_of(fields, &resource)?;
        let is_first = before.replace(resource.original_resource_id.clone()).as_ref()
            != Some(&resource.original_resource_id);
        keyed.push((order_of(&key), key, cut(resource, is_first, arguments)));
    }
    keyed.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let mut groups: Vec<Group> = Vec::new();
    for (_, key, revision) in keyed {
        match groups.last_mut() {
            Some(group) if group.key == key => group.revisions.push(revision),
            _ => groups.push(Group { key, revisions: vec![revision] }),
        }
    }
    for group in &mut groups {
        join(&mut group.revisions);
        group.revisions.retain(|revision| !is_over(revision));
    }
    Ok(groups)
}

/// The texts that groups are sorted by: Python's of the values, empty for those that are false in Python.
fn order_of(key: &Value) -> Vec<String> {
    let Value::Object(entries) = key else { unreachable!("a group is an object") };
    let text = |(_, value): &(String, Value)| match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::Float(number) if *number == 0.0 => String::new(),
        Value::Str(text) => text.clone(),
        other => other.repr(),
    };
    entries.iter().map(text).collect()
}

/// The first revision that is listed also stands for the time before it.
fn cut(resource: Arc<Resource>, is_first: bool, arguments: &Arguments) -> Revision {
    let start = match arguments.start {
        start if is_first => start,
        Some(start) => Some(resource.revision_start.max(start)),
        None => Some(resource.revision_start),
    };
    let stop = match (resource.revision_end, arguments.stop) {
        (Some(end), Some(stop)) => Some(end.min(stop)),
        (end, stop) => end.or(stop),
    };
    Revision { resource, start, stop }
}

/// Puts revisions in the order of their starts, and of those with the same start makes one, the first, that lasts as long as
/// the last of them.
fn join(revisions: &mut Vec<Revision>) {
    revisions.sort_by(|a, b| match (a.start, b.start) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(a), Some(b)) => a.cmp(&b),
    });
    revisions.dedup_by(|revision, kept| {
        let same = revision.start.is_some() && revision.start == kept.start;
        if same {
            kept.stop = revision.stop;
        }
        same
    });
}

/// Whether it ends before it begins: it lies outside of the time that is asked for.
fn is_over(revision: &Revision) -> bool {
    matches!((revision.start, revision.stop), (Some(start), Some(stop)) if stop < start)
}

/// A bucket's value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    time: Timestamp,
    granularity: Resample,
    value: f64,
}

struct Reader<'a> {
    call: &'a Call<'a>,
    asked: &'a Asked<'a>,
    policies: Policies,
    total: Total,
}

impl Reader<'_> {
    /// A group's points, and the last of its resources that has metrics.
    async fn points(&mut self, group: &Group) -> Result<(Vec<Point>, Option<Arc<Resource>>), ApiError> {
        let names = self.asked.operations.metric_names();
        let (mut points, mut last) = (Vec::new(), None);
        for revision in &group.revisions {
            let resources = std::slice::from_ref(&revision.resource);
            let references = references::of_resources(self.call, resources, &names)?;
            if references.is_empty() {
                continue;
            }
            let arguments = self.asked.arguments.between(revision.start, revision.stop);
            let (call, operations) = (self.call, self.asked.operations);
            let measures =
                references::measures(call, &mut self.policies, &references, operations, &arguments).await?;
            self.total.add(&measures)?;
            for measures in measures {
                add_points(revision, measures, &mut points);
            }
            last = Some(revision.resource.clone());
        }
        add_up(&mut points);
        Ok((points, last))
    }
}

/// Adds what a revision's series were made; series that were not made one have no part in the answer.
fn add_points(revision: &Revision, measures: CrossMeasures, points: &mut Vec<Point>) {
    let granularity = measures.granularity;
    let (Resample::Span(span), true) = (granularity, measures.aggregated) else { return };
    for CrossSeries { timestamps, values } in measures.columns {
        let point = |(&time, value): (&Timestamp, f64)| {
            let share = share(revision, time, time.saturating_add(span));
            Point { time, granularity, value: value * share }
        };
        points.extend(timestamps.iter().zip(values).map(point));
    }
}

/// The share of a bucket that a revision lasts.
fn share(revision: &Revision, from: Timestamp, to: Timestamp) -> f64 {
    let start = revision.start.map_or(from, |start| start.max(from));
    let stop = revision.stop.map_or(to, |stop| stop.min(to));
    (stop.0 - start.0) as f64 / (to.0 - from.0) as f64
}

/// Makes one point of several of the same bucket that follow each other.
fn add_up(points: &mut Vec<Point>) {
    points.dedup_by(|point, kept| {
        let same = (point.time, point.granularity) == (kept.time, kept.granularity);
        if same {
            kept.value = point.value + kept.value;
        }
        same
    });
}

fn columns(points: Vec<Point>) -> Vec<Column> {
    let same = |a: &Point, b: &Point| a.granularity == b.granularity;
    let column = |points: &[Point]| Column {
        granularity: write::granularity(points[0].granularity),
        timestamps: Arc::new(points.iter().map(|point| point.time).collect()),
        values: points.iter().map(|point| point.value).collect(),
    };
    points.chunk_by(same).map(column).collect()
}
