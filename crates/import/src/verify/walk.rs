//! Reads everything from both servers, page by page, and compares it.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use gnudi_client::{Client, MeasuresFilter, Metric, uri};
use gnudi_model::{AggregationMethod, MetricId, Statistic, Timespan, resource_type::GENERIC};
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    Difference, Kind, Options, Report, Result, VerifyEvent, What, history,
    json::{self, FieldDifference},
    sample::Sample,
    series::{self, SeriesOutcome, SeriesRules},
    shown,
    side::{MergedListing, Row, Side, Sides},
};

/// The object of a comparison.
struct Subject<'a> {
    kind: Kind,
    id: &'a str,
    name: Option<&'a str>,
}

/// The report so far, and its receiver.
struct Log<'a> {
    report: Report,
    tell: &'a mut dyn FnMut(VerifyEvent<'_>),
}

impl Log<'_> {
    fn difference(&mut self, subject: &Subject<'_>, what: What) {
        self.report.differences += 1;
        let difference = Difference {
            kind: subject.kind,
            id: subject.id.to_owned(),
            name: subject.name.map(str::to_owned),
            what,
        };
        (self.tell)(VerifyEvent::Difference(&difference));
    }

    fn fields(&mut self, subject: &Subject<'_>, fields: Vec<FieldDifference>) {
        for FieldDifference { path, gnocchi, gnudi } in fields {
            let (gnocchi, gnudi) = (shown(gnocchi), shown(gnudi));
            self.difference(subject, What::Value { path, gnocchi, gnudi });
        }
    }

    fn progress(&mut self) {
        (self.tell)(VerifyEvent::Progress(&self.report));
    }
}

/// Compares everything. Both should be idle: measures that arrive meanwhile may be reported as differences. The users
/// of the clients must be able to read everything, as administrators can.
///
/// # Errors
/// If a server does not respond, or refuses.
pub async fn verify(
    gnocchi: &Client,
    gnudi: &Client,
    options: Options,
    tell: &mut dyn FnMut(VerifyEvent<'_>),
) -> Result<Report> {
    let sides = Sides {
        gnocchi: Side { name: "Gnocchi", client: gnocchi.clone() },
        gnudi: Side { name: "gnudi", client: gnudi.clone() },
    };
    let mut log = Log { report: Report::default(), tell };
    let policies = named(&sides, Kind::ArchivePolicy, "/v1/archive_policy", &mut log).await?;
    log.report.archive_policies = policies.count;
    let rules = named(&sides, Kind::ArchivePolicyRule, "/v1/archive_policy_rule", &mut log).await?;
    log.report.archive_policy_rules = rules.count;
    let types = named(&sides, Kind::ResourceType, "/v1/resource_type", &mut log).await?;
    log.report.resource_types = types.count;
    let own_types: BTreeSet<String> = types.common.into_iter().filter(|name| name != GENERIC).collect();
    metrics(&sides, options, &mut log).await?;
    resources(&sides, options, &own_types, &mut log).await?;
    Ok(log.report)
}

/// The result of comparing a short listing.
struct Named {
    count: u64,
    /// The names that both sides have.
    common: Vec<String>,
}

/// Compares a short listing, which is one response without pages, by the names of its objects.
async fn named(sides: &Sides, kind: Kind, path: &str, log: &mut Log<'_>) -> Result<Named> {
    let (theirs, ours) = tokio::try_join!(sides.gnocchi.named(path), sides.gnudi.named(path))?;
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let mut common = Vec::new();
    for name in &names {
        let subject = Subject { kind, id: name, name: None };
        match (theirs.get(*name), ours.get(*name)) {
            (Some(theirs), Some(ours)) => {
                common.push((*name).clone());
                log.fields(&subject, json::differences(theirs, ours));
            }
            (Some(_), None) => log.difference(&subject, What::OnlyInGnocchi),
            (None, _) => log.difference(&subject, What::OnlyInGnudi),
        }
    }
    Ok(Named { count: names.len() as u64, common })
}

async fn metrics(sides: &Sides, options: Options, log: &mut Log<'_>) -> Result<()> {
    let mut listing = MergedListing::new(sides, "/v1/metric");
    // Their details are compared at once, or those of a choice at the end.
    let mut later = Sample::new(options.sample, options.seed);
    while let Some(pairs) = listing.next().await? {
        for pair in pairs {
            log.report.metrics += 1;
            match pair {
                (Some(row), None) => log.difference(&metric_of(&row), What::OnlyInGnocchi),
                (None, Some(row)) => log.difference(&metric_of(&row), What::OnlyInGnudi),
                (None, None) => {}
                (Some(theirs), Some(ours)) => {
                    log.fields(&metric_of(&theirs), json::differences(&theirs.value, &ours.value));
                    let task = MetricTask::of(&theirs.value);
                    later.offer(task.map_err(|reason| sides.gnocchi.unexpected("/v1/metric", reason))?);
                }
            }
        }
        log.progress();
        all_measures(sides, options.jobs, &later.take(), log).await?;
    }
    all_measures(sides, options.jobs, &later.into_kept(), log).await
}

fn metric_of(row: &Row) -> Subject<'_> {
    Subject { kind: Kind::Metric, id: &row.id, name: row.value.get("name").and_then(Value::as_str) }
}

/// A metric whose measures are to be compared.
struct MetricTask {
    id: MetricId,
    name: Option<String>,
    /// First a method that every bucket has a value of, if there is one.
    methods: Vec<AggregationMethod>,
    /// Seconds, in the form of requests.
    granularities: Vec<String>,
}

impl MetricTask {
    /// `Err` says why this is not a metric with its policy.
    fn of(value: &Value) -> Result<Self, String> {
        let metric = Metric::deserialize(value).map_err(|error| error.to_string())?;
        let policy = metric.archive_policy.as_ref().ok_or("a metric without its archive policy")?;
        // Unknown methods cannot be requested; differing policies are reported as such.
        let methods = policy
            .aggregation_methods
            .iter()
            .filter_map(|method| method.parse::<AggregationMethod>().ok())
            .collect();
        let granularities = policy.definition.iter().map(|item| seconds(&item.granularity)).collect();
        Ok(MetricTask {
            id: metric.id,
            granularities,
            methods: common_first(methods),
            name: metric.name.clone(),
        })
    }
}

/// Seconds of a span in a policy (`0:05:00`).
fn seconds(span: &str) -> String {
    Timespan::parse(span).map_or_else(|| span.to_owned(), |span| span.as_secs_f64().to_string())
}

/// Moves `mean` to the front, else the first method that every bucket has a value of.
fn common_first(mut methods: Vec<AggregationMethod>) -> Vec<AggregationMethod> {
    let mean = AggregationMethod::new(Statistic::Mean);
    let place = methods
        .iter()
        .position(|method| *method == mean)
        .or_else(|| methods.iter().position(|method| series::is_in_every_bucket(*method)));
    if let Some(place) = place {
        methods[..=place].rotate_right(1);
    }
    methods
}

async fn all_measures(sides: &Sides, jobs: usize, tasks: &[MetricTask], log: &mut Log<'_>) -> Result<()> {
    let outcomes = tasks.iter().map(|task| async move { (task, measures(sides, task).await) });
    let mut outcomes = stream::iter(outcomes).buffered(jobs.max(1));
    while let Some((task, compared)) = outcomes.next().await {
        let compared = compared?;
        let id = task.id.to_string();
        let subject = Subject { kind: Kind::Measures, id: &id, name: task.name.as_deref() };
        log.report.measured += 1;
        log.report.series += compared.series;
        log.report.values += compared.values;
        log.report.nine_digits += compared.nine_digits;
        log.report.ignored += compared.ignored;
        for what in compared.differences {
            log.difference(&subject, what);
        }
        log.progress();
    }
    Ok(())
}

/// The result of comparing the measures of a metric.
#[derive(Default)]
struct Measured {
    series: u64,
    values: u64,
    nine_digits: u64,
    ignored: u64,
    differences: Vec<What>,
}

async fn measures(sides: &Sides, task: &MetricTask) -> Result<Measured> {
    let mut measured = Measured::default();
    for granularity in &task.granularities {
        // Start of the oldest bucket that gnudi has, from the first method.
        let mut oldest: Option<String> = None;
        for (index, method) in task.methods.iter().enumerate() {
            let filter = MeasuresFilter {
                aggregation: Some(*method),
                granularity: Some(granularity.clone()),
                ..MeasuresFilter::default()
            };
            let (theirs, ours) = tokio::try_join!(
                sides.gnocchi.points(task.id, &filter),
                sides.gnudi.points(task.id, &filter)
            )?;
            let place = format!("{method} of {granularity} s");
            match (theirs, ours) {
                (Some(theirs), Some(ours)) => {
                    if index == 0 && series::is_in_every_bucket(*method) {
                        oldest = ours.first().map(|point| point.timestamp.clone());
                    }
                    let rules = SeriesRules::of(*method, oldest.as_deref());
                    measured.add(&place, series::compare(&theirs, &ours, rules));
                }
                // Neither has such aggregates.
                (None, None) => measured.series += 1,
                (theirs, ours) => {
                    let rows = |points: Option<Vec<_>>| {
                        points.map_or_else(
                            || "no such aggregates".to_owned(),
                            |points| format!("{} rows", points.len()),
                        )
                    };
                    measured.series += 1;
                    let (gnocchi, gnudi) = (rows(theirs), rows(ours));
                    measured.differences.push(What::Value { path: place, gnocchi, gnudi });
                }
            }
        }
    }
    Ok(measured)
}

impl Measured {
    /// Adds the outcome of the series called `place`.
    fn add(&mut self, place: &str, outcome: SeriesOutcome) {
        let SeriesOutcome { values, nine_digits, ignored, differences } = outcome;
        self.series += 1;
        self.values += values;
        self.nine_digits += nine_digits;
        self.ignored += ignored;
        self.differences.extend(differences.into_iter().map(|point| What::Value {
            path: format!("{place} at {}", point.timestamp),
            gnocchi: shown(point.gnocchi),
            gnudi: shown(point.gnudi),
        }));
    }
}

/// A resource whose history is to be compared.
struct ResourceTask {
    id: String,
    name: Option<String>,
    resource_type: String,
}

impl ResourceTask {
    fn of(row: &Row, resource_type: &str) -> Self {
        ResourceTask {
            id: row.id.clone(),
            name: original_id(row).map(str::to_owned),
            resource_type: resource_type.to_owned(),
        }
    }
}

/// The id that the resource was created with, if it is not a UUID.
fn original_id(row: &Row) -> Option<&str> {
    row.value.get("original_resource_id").and_then(Value::as_str).filter(|original| *original != row.id)
}

fn resource_of(row: &Row) -> Subject<'_> {
    Subject { kind: Kind::Resource, id: &row.id, name: original_id(row) }
}

fn type_of(row: &Row) -> &str {
    row.value.get("type").and_then(Value::as_str).unwrap_or(GENERIC)
}

/// All resources are in the listing of `generic`. Attributes of `own_types` are only in the listing of their type,
/// where its resources are compared. With `details=true`, which would add them, Gnocchi's listings are unsorted.
async fn resources(
    sides: &Sides,
    options: Options,
    own_types: &BTreeSet<String>,
    log: &mut Log<'_>,
) -> Result<()> {
    // Their details are compared at once, or those of a choice at the end.
    let mut later = Sample::new(options.sample, options.seed);
    for name in std::iter::once(GENERIC).chain(own_types.iter().map(String::as_str)) {
        let path = uri::path("/v1/resource/", name);
        let mut listing = MergedListing::new(sides, &path);
        while let Some(pairs) = listing.next().await? {
            for pair in pairs {
                log.report.resources += u64::from(name == GENERIC);
                match pair {
                    (Some(row), None) if name == GENERIC => {
                        log.difference(&resource_of(&row), What::OnlyInGnocchi);
                    }
                    (None, Some(row)) if name == GENERIC => {
                        log.difference(&resource_of(&row), What::OnlyInGnudi);
                    }
                    // The listing of `generic` has shown that it is missing, or that its types differ.
                    (_, None) | (None, _) => {}
                    (Some(theirs), Some(ours)) => {
                        let is_elsewhere = name == GENERIC
                            && type_of(&theirs) == type_of(&ours)
                            && own_types.contains(type_of(&theirs));
                        if !is_elsewhere {
                            let fields = json::differences(&theirs.value, &ours.value);
                            log.fields(&resource_of(&theirs), fields);
                            later.offer(ResourceTask::of(&theirs, name));
                        }
                    }
                }
            }
            log.progress();
            all_histories(sides, options.jobs, &later.take(), log).await?;
        }
    }
    all_histories(sides, options.jobs, &later.into_kept(), log).await
}

async fn all_histories(sides: &Sides, jobs: usize, tasks: &[ResourceTask], log: &mut Log<'_>) -> Result<()> {
    let histories = tasks.iter().map(|task| async move { (task, histories(sides, task).await) });
    let mut histories = stream::iter(histories).buffered(jobs.max(1));
    while let Some((task, histories)) = histories.next().await {
        let subject = Subject { kind: Kind::History, id: &task.id, name: task.name.as_deref() };
        log.report.histories += 1;
        match histories? {
            (Some(theirs), Some(ours)) => {
                log.report.revisions += theirs.len().max(ours.len()) as u64;
                log.fields(&subject, history::compare(&theirs, &ours));
            }
            (Some(_), None) => log.difference(&subject, What::OnlyInGnocchi),
            (None, Some(_)) => log.difference(&subject, What::OnlyInGnudi),
            // Deleted meanwhile.
            (None, None) => {}
        }
        log.progress();
    }
    Ok(())
}

/// The revisions of a resource in Gnocchi and gnudi; `None` if it does not exist.
type Histories = (Option<Vec<Value>>, Option<Vec<Value>>);

async fn histories(sides: &Sides, task: &ResourceTask) -> Result<Histories> {
    let (theirs, mut ours) = tokio::try_join!(
        sides.gnocchi.history(&task.resource_type, &task.id),
        sides.gnudi.history(&task.resource_type, &task.id)
    )?;
    if let (Some(theirs), Some(ours)) = (&theirs, &mut ours)
        && task.resource_type != GENERIC
        && history::has_more(theirs, ours)
        && let Some(generic) = sides.gnocchi.history(GENERIC, &task.id).await?
    {
        history::without_generic_changes(theirs, &generic, ours);
    }
    Ok((theirs, ours))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn methods(names: &str) -> Vec<AggregationMethod> {
        names.split_whitespace().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_metric_says_what_is_asked_for() {
        let metric = json!({
            "id": "0a7a15ff-aa13-4ac2-897c-9bdf30ce175b",
            "name": "cpu",
            "archive_policy": {
                "name": "p",
                "back_window": 0,
                "definition": [
                    {"granularity": "0:05:00", "points": 10, "timespan": "0:50:00"},
                    {"granularity": "1 day, 0:00:00", "points": null, "timespan": null},
                    {"granularity": "0:00:00.500000", "points": 10, "timespan": "0:00:05"},
                ],
                "aggregation_methods": ["std", "-mean", "max", "mean"],
            },
        });
        let task = MetricTask::of(&metric).unwrap();
        assert_eq!(task.granularities, ["300", "86400", "0.5"]);
        assert_eq!(task.methods, methods("mean std max"));
        assert_eq!(task.name.as_deref(), Some("cpu"));
        for bad in [json!({}), json!({"id": "0a7a15ff-aa13-4ac2-897c-9bdf30ce175b"}), json!([])] {
            assert!(MetricTask::of(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_method_that_every_bucket_has_comes_first() {
        for (given, ordered) in [
            ("rate:mean std max min", "max rate:mean std min"),
            ("max rate:mean mean", "mean max rate:mean"),
            ("rate:max std", "rate:max std"),
            ("", ""),
        ] {
            assert_eq!(common_first(methods(given)), methods(ordered));
        }
    }
}
