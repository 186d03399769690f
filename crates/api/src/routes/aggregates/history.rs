//! Groups over the history of resources (`use_history`): each revision of a resource counts in its own group,
//! while it was current.
//!
//! The operations are computed on each revision's metrics, between its start and end. A bucket that a
//! revision covers only in part is weighted with the covered share; shares of successive revisions of a group
//! in one bucket are added. As in Gnocchi, of several revisions in a group that start at the same time within
//! the range, only the first counts, until the end of the last. Exception: a first resource that has gone to another
//! project since counts until the end of its own revisions, since the caller must not read what it measured later. The
//! other resources then count beside it.

use std::{collections::HashSet, sync::Arc};

use gnudi_app::Share;
use gnudi_engine::{CrossMeasuresError, cross::POINTS_MAX};
use gnudi_indexer::{Comparison, Filter, FilterValue, ResourceListing, filter::FILTER_VALUES_MAX};
use gnudi_model::{Resource, Timestamp};
use gnudi_series::{
    cross::{CrossMeasures, CrossSeries},
    resample::Resample,
};
use uuid::Uuid;

use super::{
    Arguments,
    by_resource::{ResourcesQuery, Wanted},
    groups::Fields,
    references::{self, Names, Policies, check_count, check_groups},
    table::{Keys, TableAnswer},
};
use crate::{
    arrow::series::seconds,
    measures::{document::Document, write::Column},
    routes::{prelude::*, resource},
};

/// A revision of a resource, clipped to the requested range.
#[derive(Clone, Debug, PartialEq)]
struct Revision {
    resource: Arc<Resource>,
    /// `None`: from its first measure.
    start: Option<Timestamp>,
    /// `None`: to its last measure.
    stop: Option<Timestamp>,
}

/// The revisions with equal values in the `groupby` fields.
#[derive(Debug)]
struct Group {
    key: Value,
    revisions: Vec<Revision>,
}

pub(super) async fn grouped(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<Document> {
    let groups = find(call, asked).await?;
    let mut reader = Reader::of(call, asked)?;
    let mut document = Document::new(&call.answers());
    let mut written = 0;
    document.text("[");
    for group in &groups {
        let (points, last, _share) = reader.points(group).await?;
        if points.is_empty() {
            continue;
        }
        let columns = call.app.engine().compute(move || columns(&points)).await;
        document.text(if written > 0 { ", " } else { "" });
        document.text("{\"measures\": {\"measures\": {\"aggregated\": ");
        document.rows(columns)?;
        document.text("}");
        if let Some(last) = last.filter(|_| asked.details) {
            document.text(", \"references\": [");
            document.write(|out| write_reference(&last, &asked.arguments, out))?;
            document.text("]");
        }
        document.text("}, \"group\": ");
        document.value(&group.key);
        document.text("}");
        written += 1;
    }
    document.text("]");
    if written == 0 && !asked.arguments.may_be_empty { Err(asked.no_metrics()) } else { Ok(document) }
}

/// [`grouped`] as a table.
pub(super) async fn table(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<TableAnswer> {
    let groups = find(call, asked).await?;
    let mut reader = Reader::of(call, asked)?;
    let mut table = None;
    for group in &groups {
        let (points, _, _share) = reader.points(group).await?;
        for (granularity, times, values) in call.app.engine().compute(move || series(points)).await {
            table.get_or_insert_with(|| TableAnswer::new(call, asked.groupby, Keys::None)).push_one(
                &group.key,
                granularity,
                times,
                values,
            )?;
        }
    }
    table.ok_or_else(|| asked.no_metrics())
}

async fn find(call: &Call<'_>, asked: &ResourcesQuery<'_>) -> Result<Vec<Group>> {
    let filter = with_period(asked.search.filter.clone(), &asked.arguments);
    let fields = asked.fields(call).await?;
    let names = Names::of(asked.operations)?;
    let wanted = Wanted { filter, history: true, ..asked.wanted(&names) };
    let resources = fields.list(call, wanted).await?;
    check_count(call, resources.len())?;
    check_groups(asked.operations, resources.len())?;
    let gone = gone(call, &asked.search.resource_type, &resources).await?;
    groups(&fields, resources, &asked.arguments, &gone)
}

/// Of the resources those that the caller sees no longer: only former revisions were its project's.
async fn gone(call: &Call<'_>, resource_type: &str, resources: &[Arc<Resource>]) -> Result<HashSet<Uuid>> {
    let Some(seen) = call.seen(Rule::SearchResource, resource_type, None)? else { return Ok(HashSet::new()) };
    let mut gone: HashSet<Uuid> = resources.iter().map(|resource| resource.id).collect();
    for current in resources.iter().filter(|resource| resource.revision_end.is_none()) {
        gone.remove(&current.id);
    }
    // The search may have left out current revisions that the caller sees.
    let doubtful: Vec<Uuid> = gone.iter().copied().collect();
    for ids in doubtful.chunks(FILTER_VALUES_MAX) {
        let values = ids.iter().copied().map(FilterValue::Uuid).collect();
        let among = Filter::In { field: "id".to_owned(), values };
        let listing = ResourceListing {
            filter: Some(Filter::And(vec![seen.clone(), among])),
            omits_attributes: true,
            metric_names: Some(Vec::new()),
            ..ResourceListing::of(resource_type, call.resource_now())
        };
        for current in call.indexer().list_resources(&listing).await? {
            gone.remove(&current.id);
        }
    }
    Ok(gone)
}

/// Restricts the filter to revisions within the requested range, if it has both ends.
fn with_period(filter: Option<Filter>, arguments: &Arguments) -> Option<Filter> {
    let (Some(start), Some(stop)) = (arguments.start, arguments.stop) else { return filter };
    // Revisions begin and end at whole microseconds.
    let time = |time: Timestamp| {
        FilterValue::Text(Timestamp(time.0.saturating_add(999) / 1_000 * 1_000).to_iso_micros())
    };
    let mut period = vec![
        Filter::compare("revision_start", Comparison::Less, time(stop)),
        Filter::Or(vec![
            Filter::compare("revision_end", Comparison::GreaterOrEqual, time(start)),
            Filter::compare("revision_end", Comparison::Equal, FilterValue::Null),
        ]),
    ];
    period.extend(filter);
    Some(Filter::And(period))
}

/// The revisions by group, clipped to the requested range. `gone`: see [`gone`].
fn groups(
    fields: &Fields<'_>,
    mut resources: Vec<Arc<Resource>>,
    arguments: &Arguments,
    gone: &HashSet<Uuid>,
) -> Result<Vec<Group>> {
    resources.sort_by(|a, b| {
        let key = |resource: &Resource| (resource.original_resource_id.clone(), resource.revision_start);
        key(a).cmp(&key(b))
    });
    let mut keyed = Vec::with_capacity(resources.len());
    let mut before = None;
    for resource in resources {
        let key = fields.group_of(&resource)?;
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
        join(&mut group.revisions, gone);
        group.revisions.retain(|revision| !is_over(revision));
    }
    Ok(groups)
}

/// The sort key of a group: Python's text of each value, empty for falsy values.
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

/// Clips a revision to the requested range. A resource's first revision also covers the time before it.
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

/// Sorts revisions by start. Of those with the same start keeps the first, with the end of the last, unless that is a later
/// time of a resource that is gone.
fn join(revisions: &mut Vec<Revision>, gone: &HashSet<Uuid>) {
    revisions.sort_by_key(|revision| revision.start);
    revisions.dedup_by(|revision, kept| {
        let may_join = revision.resource.id == kept.resource.id || !gone.contains(&kept.resource.id);
        let same = may_join && revision.start.is_some() && revision.start == kept.start;
        if same {
            kept.stop = revision.stop;
        }
        same
    });
}

/// Whether it ends before it starts: it lies outside the requested range.
fn is_over(revision: &Revision) -> bool {
    matches!((revision.start, revision.stop), (Some(start), Some(stop)) if stop < start)
}

/// The value of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    time: Timestamp,
    granularity: Resample,
    value: f64,
}

struct Reader<'a> {
    call: &'a Call<'a>,
    asked: &'a ResourcesQuery<'a>,
    names: Names<'a>,
    policies: Policies,
    /// The points of all groups.
    total: usize,
}

impl<'a> Reader<'a> {
    fn of(call: &'a Call<'a>, asked: &'a ResourcesQuery<'a>) -> Result<Self> {
        let names = Names::of(asked.operations)?;
        Ok(Reader { call, asked, names, policies: Policies::default(), total: 0 })
    }

    /// A group's points, its last revision with metrics, and the points' reservation in the budget of responses. There may
    /// be many points, so they are handled outside the threads that serve requests.
    async fn points(&mut self, group: &Group) -> Result<(Vec<Point>, Option<Revision>, Share)> {
        let engine = self.call.app.engine();
        let (mut points, mut last) = (Vec::new(), None);
        let mut share = Share::new(&self.call.answers());
        for revision in &group.revisions {
            let resources = std::slice::from_ref(&revision.resource);
            let references = references::of_resources(self.call, resources, &self.names)?;
            if references.is_empty() {
                continue;
            }
            let arguments = self.asked.arguments.between(revision.start, revision.stop);
            let (call, operations) = (self.call, self.asked.operations);
            let measures =
                references::measures(call, &mut self.policies, &references, operations, &arguments).await?;
            let columns = measures.iter().flat_map(|measures| &measures.columns);
            self.total += columns.map(|column| column.values.len()).sum::<usize>();
            if self.total > POINTS_MAX {
                return Err(CrossMeasuresError::TooManyPoints.into());
            }
            let before = points.len();
            let (revision, mut all) = (revision.clone(), points);
            last = Some(revision.clone());
            let add = move || {
                for measures in measures {
                    add_points(&revision, measures, &mut all);
                }
                all
            };
            points = engine.compute(add).await;
            share.grow((points.len() - before) * size_of::<Point>())?;
        }
        let add_up = move || {
            add_up(&mut points);
            points
        };
        Ok((engine.compute(add_up).await, last, share))
    }
}

/// Adds the points of a revision's aggregated series; series that were not aggregated are skipped.
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

/// The share of a bucket that a revision covers.
fn share(revision: &Revision, from: Timestamp, to: Timestamp) -> f64 {
    let start = revision.start.map_or(from, |start| start.max(from));
    let stop = revision.stop.map_or(to, |stop| stop.min(to));
    (stop.0 - start.0) as f64 / (to.0 - from.0) as f64
}

/// Merges consecutive points of the same bucket.
fn add_up(points: &mut Vec<Point>) {
    points.dedup_by(|point, kept| {
        let same = (point.time, point.granularity) == (kept.time, kept.granularity);
        if same {
            kept.value += point.value;
        }
        same
    });
}

/// Appends the resource, with the range formatted as Gnocchi does.
fn write_reference(revision: &Revision, arguments: &Arguments, out: &mut Vec<u8>) {
    // Times from the request are truncated to seconds, those of revisions are not.
    let text = |time: Option<Timestamp>, asked: Option<Timestamp>| match (time, asked) {
        (Some(time), None) => Value::from(time.to_iso_micros()),
        (time, _) => time.map(Timestamp::to_iso).into(),
    };
    resource::write(&revision.resource, &[], out);
    out.pop();
    out.extend_from_slice(b", \"search_start\": ");
    text(revision.start, arguments.start).write_json(out);
    out.extend_from_slice(b", \"search_end\": ");
    text(revision.stop, arguments.stop).write_json(out);
    out.push(b'}');
}

fn columns(points: &[Point]) -> Vec<Column> {
    let same = |a: &Point, b: &Point| a.granularity == b.granularity;
    let column = |points: &[Point]| {
        let timestamps = Arc::new(points.iter().map(|point| point.time).collect());
        let values = points.iter().map(|point| point.value).collect();
        Column::new(points[0].granularity, timestamps, values)
    };
    points.chunk_by(same).map(column).collect()
}

/// The points of each granularity are one series, across all revisions: the bucket's width in seconds, and its points.
fn series(mut points: Vec<Point>) -> Vec<(Option<f64>, Vec<Timestamp>, Vec<f64>)> {
    points.sort_by(|a, b| {
        let width = |point: &Point| seconds(point.granularity).unwrap_or_default();
        width(b).total_cmp(&width(a)).then(a.time.cmp(&b.time))
    });
    let of_granularity = |points: &[Point]| {
        let times = points.iter().map(|point| point.time).collect();
        (seconds(points[0].granularity), times, points.iter().map(|point| point.value).collect())
    };
    points.chunk_by(|a, b| a.granularity == b.granularity).map(of_granularity).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gnudi_model::{AttributeValue, Timespan};

    use super::*;
    use gnudi_app::query::Query;

    /// A resource that existed from one second to another, with a flavor.
    type Lived = (&'static str, i64, Option<i64>, Option<&'static str>);

    fn resource(&(id, from, to, flavor): &Lived) -> Arc<Resource> {
        let value = flavor.map_or(AttributeValue::Null, |flavor| AttributeValue::String(flavor.into()));
        Arc::new(Resource {
            original_resource_id: id.into(),
            revision_start: Timestamp::from_secs(from),
            revision_end: to.map(Timestamp::from_secs),
            attributes: BTreeMap::from([("flavor".into(), value)]),
            ..Resource::new(id_of(id), "instance")
        })
    }

    fn id_of(id: &str) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, id.as_bytes())
    }

    fn arguments(start: Option<i64>, stop: Option<i64>) -> Arguments {
        let arguments = Arguments::of(&Query::default(), Timestamp::EPOCH, false).unwrap();
        arguments.between(start.map(Timestamp::from_secs), stop.map(Timestamp::from_secs))
    }

    /// A group's key, and its points: second, width of the bucket, value.
    type GroupPoints = (String, Vec<(i64, i64, f64)>);

    /// The points computed from metrics with the value 10.0 in each bucket of ten minutes.
    fn points_of(lived: &[Lived], start: Option<i64>, stop: Option<i64>, widths: &[i64]) -> Vec<GroupPoints> {
        points_seen(lived, &HashSet::new(), start, stop, widths)
    }

    /// The same for a caller who sees some resources no longer.
    fn points_seen(
        lived: &[Lived],
        gone: &HashSet<Uuid>,
        start: Option<i64>,
        stop: Option<i64>,
        widths: &[i64],
    ) -> Vec<GroupPoints> {
        let resources = lived.iter().map(resource).collect();
        let fields = ["flavor".to_owned()];
        let groups = groups(&Fields::of_type(&fields), resources, &arguments(start, stop), gone).unwrap();
        let read = |revision: &Revision, width: i64| {
            let from = revision.start.map_or(0, |start| start.secs() / width * width);
            let to = revision.stop.map_or(600, Timestamp::secs).min(600);
            let times = (0..600).step_by(width as usize).filter(|second| (from..to).contains(second));
            let timestamps: Vec<Timestamp> = times.map(Timestamp::from_secs).collect();
            let values = vec![10.0; timestamps.len()];
            CrossMeasures {
                granularity: Resample::Span(Timespan::from_secs(width)),
                aggregated: true,
                columns: vec![CrossSeries { timestamps: Arc::new(timestamps), values }],
            }
        };
        let computed = groups.iter().map(|group| {
            let mut points = Vec::new();
            for revision in &group.revisions {
                for width in widths {
                    add_points(revision, read(revision, *width), &mut points);
                }
            }
            add_up(&mut points);
            let point = |point: &Point| match point.granularity {
                Resample::Span(span) => (point.time.secs(), span.0 / 1_000_000_000, point.value),
                Resample::Calendar(_) => unreachable!("no calendar is asked for"),
            };
            (group.key.get("flavor").unwrap().repr(), points.iter().map(point).collect())
        });
        computed.filter(|(_, points): &GroupPoints| !points.is_empty()).collect()
    }

    fn expect(lived: &[Lived], start: Option<i64>, stop: Option<i64>, expected: &[(&str, &[(i64, f64)])]) {
        let expected: Vec<GroupPoints> = expected
            .iter()
            .map(|(flavor, points)| {
                ((*flavor).to_owned(), points.iter().map(|(time, value)| (*time, 60, *value)).collect())
            })
            .collect();
        assert_eq!(points_of(lived, start, stop, &[60]), expected, "{lived:?} {start:?} {stop:?}");
    }

    /// Expected results are from Gnocchi's own code.
    #[test]
    fn revisions_count_for_as_long_as_they_last() {
        let (small, large) = (Some("s"), Some("l"));
        let moved = [("a", 30, Some(90), small), ("a", 90, None, large)];
        expect(
            &moved,
            Some(0),
            Some(240),
            &[("'l'", &[(60, 5.0), (120, 10.0), (180, 10.0)]), ("'s'", &[(0, 10.0), (60, 5.0)])],
        );
        expect(
            &[("a", 30, Some(90), small), ("a", 90, Some(150), small), ("a", 150, None, large)],
            Some(30),
            Some(240),
            &[("'l'", &[(120, 5.0), (180, 10.0)]), ("'s'", &[(0, 5.0), (60, 10.0), (120, 5.0)])],
        );
        expect(
            &[("a", 30, Some(90), small), ("a", 90, None, small)],
            Some(100),
            Some(200),
            &[("'s'", &[(60, 10.0 * (20.0 / 60.0)), (120, 10.0), (180, 10.0 * (20.0 / 60.0))])],
        );
    }

    /// As in Gnocchi: `b` starts with `a` and is ignored; later it counts beside `a`.
    #[test]
    fn of_resources_that_begin_together_one_counts() {
        let (small, large) = (Some("s"), Some("l"));
        expect(
            &[("a", 30, Some(90), small), ("a", 90, None, large), ("b", 30, None, small)],
            Some(60),
            Some(240),
            &[
                ("'l'", &[(60, 5.0), (120, 10.0), (180, 10.0)]),
                ("'s'", &[(60, 10.0), (120, 10.0), (180, 10.0)]),
            ],
        );
        let third = 10.0 * (20.0 / 60.0);
        expect(
            &[
                ("b", 100, None, small),
                ("a", 30, Some(90), small),
                ("a", 90, Some(100), None),
                ("a", 100, Some(130), small),
                ("a", 130, None, small),
            ],
            Some(45),
            Some(200),
            &[
                ("None", &[(60, 10.0 * (10.0 / 60.0))]),
                (
                    "'s'",
                    &[
                        (0, 2.5),
                        (60, 10.0),
                        (120, 10.0),
                        (180, third),
                        (60, third),
                        (120, 10.0),
                        (180, third),
                    ],
                ),
            ],
        );
    }

    /// `a` is another project's since second 90.
    #[test]
    fn a_resource_that_is_gone_counts_within_its_revisions_only() {
        let lived = [("a", 30, Some(90), Some("s")), ("b", 30, None, Some("s"))];
        let of = |gone: &[&str]| {
            let gone: HashSet<Uuid> = gone.iter().map(|id| id_of(id)).collect();
            points_seen(&lived, &gone, Some(60), Some(240), &[60]).remove(0).1
        };
        assert_eq!(of(&[]), [(60, 60, 10.0), (120, 60, 10.0), (180, 60, 10.0)]);
        assert_eq!(of(&["a"]), [(60, 60, 15.0), (120, 60, 10.0), (180, 60, 10.0)]);
        assert_eq!(of(&["b"]), of(&[]));
    }

    #[test]
    fn revisions_outside_of_the_time_have_no_part() {
        let moved = [("a", 30, Some(90), Some("s")), ("a", 90, None, Some("l"))];
        expect(&moved, Some(100), Some(180), &[("'l'", &[(60, 10.0 * (20.0 / 60.0)), (120, 10.0)])]);
        expect(&moved, None, Some(80), &[("'s'", &[(0, 10.0), (60, 10.0 * (20.0 / 60.0))])]);
        // Without a start the resources do not start at the same time.
        let two = [("a", 30, None, Some("s")), ("b", 40, None, Some("s"))];
        expect(&two, None, Some(120), &[("'s'", &[(0, 10.0), (60, 10.0), (0, 10.0), (60, 10.0)])]);
    }

    /// Unlike Gnocchi, which adds values of different granularities.
    #[test]
    fn only_buckets_of_one_granularity_are_added_up() {
        let one = [("a", 0, None, Some("s"))];
        let points = vec![(0, 120, 10.0), (0, 60, 10.0), (60, 60, 10.0)];
        assert_eq!(points_of(&one, Some(0), Some(120), &[120, 60]), [("'s'".to_owned(), points)]);
    }

    #[test]
    fn the_period_is_part_of_the_filter() {
        let filter = Filter::equal("flavor", FilterValue::Null);
        assert_eq!(with_period(Some(filter.clone()), &arguments(Some(1), None)), Some(filter.clone()));
        let Some(Filter::And(parts)) = with_period(Some(filter.clone()), &arguments(Some(1), Some(2))) else {
            panic!("three conditions")
        };
        assert_eq!((parts.len(), &parts[2]), (3, &filter));
        let until = FilterValue::Text("1970-01-01T00:00:02+00:00".to_owned());
        assert!(matches!(&parts[0], Filter::Compare { value, .. } if *value == until));
    }
}
