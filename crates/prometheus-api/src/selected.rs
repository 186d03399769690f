//! The series that a query selects, with their samples: chooses metrics, aggregates and ranges.
//!
//! Two matchers are not labels: `__aggregation__` and `__granularity__` choose the aggregates to read. They
//! are removed before the catalogue is searched.

use std::{collections::HashMap, sync::Arc};

use gnudi_access::Rule;
use gnudi_app::Result;
use gnudi_engine::{
    cross::HeldPoints,
    sampled::{Resolution, SampleQuery, SampledMetric, Samples, Stamp, Values},
};
use gnudi_indexer::MetricScope;
use gnudi_model::{AggregationMethod, ArchivePolicy, Metric, Timespan};
use gnudi_promql::{
    Interrupt, Labels, Limits, Matcher, Plan, Selected, Selection, Series, StepSeries, Steps,
};
use hyper::StatusCode;
use tokio::sync::mpsc;

use crate::{api::Call, catalogue::FoundSeries, failure::Failure, long_work::TIMEOUT};

const AGGREGATION: &str = "__aggregation__";
const GRANULARITY: &str = "__granularity__";

/// The aggregates chosen by those matchers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub method: Option<AggregationMethod>,
    pub granularity: Option<Timespan>,
}

/// The series of selections, and the guards that count their points against the limit.
#[derive(Debug)]
pub struct Read<T> {
    pub series: Vec<T>,
    held: Vec<HeldPoints>,
}

impl<T> Default for Read<T> {
    fn default() -> Self {
        Read { series: Vec::new(), held: Vec::new() }
    }
}

impl Read<Vec<Series>> {
    pub fn samples(&self) -> usize {
        self.series.iter().flatten().map(|series| series.values.len()).sum()
    }
}

fn chooses(matcher: &Matcher) -> bool {
    matcher.name == AGGREGATION || matcher.name == GRANULARITY
}

/// Refuses a selector whose matchers all match an absent label, as Prometheus does in queries and lists. Those that choose aggregates
/// do not count.
pub fn check_restricts(matchers: &[Matcher]) -> Result<(), Failure> {
    if matchers.iter().all(|matcher| chooses(matcher) || matcher.matches("")) {
        let text = "parse error: vector selector must contain at least one non-empty matcher";
        return Err(Failure::bad_data(text));
    }
    Ok(())
}

/// Splits matchers into label matchers and the choice of aggregates.
fn choice(matchers: &[Matcher]) -> Result<(Vec<Matcher>, Choice), Failure> {
    let mut choice = Choice::default();
    let mut labels = Vec::with_capacity(matchers.len());
    for matcher in matchers {
        let name = matcher.name.as_str();
        if !chooses(matcher) {
            labels.push(matcher.clone());
            continue;
        }
        if matcher.operator() != "=" {
            return Err(Failure::bad_data(format!("{name} can only be chosen by =")));
        }
        if name == AGGREGATION {
            let method = matcher.value.parse().map_err(|error| Failure::bad_data(format!("{error}")))?;
            choice.method = Some(method);
        } else {
            let granularity = Timespan::parse(&matcher.value).filter(|granularity| granularity.0 > 0);
            let unknown = || Failure::bad_data(format!("{:?} is no granularity", matcher.value));
            choice.granularity = Some(granularity.ok_or_else(unknown)?);
        }
    }
    Ok((labels, choice))
}

/// Reads selections, one after the other.
pub struct Reader<'c> {
    call: &'c Call<'c>,
    seen: Option<&'c MetricScope>,
    lookback_ms: i64,
    /// What the limits leave for the next selections.
    series_left: usize,
    points_left: usize,
}

impl<'c> Reader<'c> {
    /// The caller has checked the rule to compute `seen`.
    pub fn new(call: &'c Call<'c>, seen: Option<&'c MetricScope>, lookback_ms: i64, limits: &Limits) -> Self {
        let (series_left, points_left) = (limits.series_max, limits.samples_max);
        Reader { call, seen, lookback_ms, series_left, points_left }
    }

    /// The samples of each selection, within [`TIMEOUT`].
    pub async fn samples(mut self, selections: &[Selection<'_>]) -> Result<Read<Vec<Series>>, Failure> {
        let work = async {
            let mut read = Read::<Vec<Series>>::default();
            for selection in selections {
                let series = self.each_series(selection, &mut read.held, whole).await?;
                read.series.push(series.into_iter().map(labelled).collect());
            }
            Ok::<_, Failure>(read)
        };
        tokio::time::timeout(TIMEOUT, work).await.map_err(|_| Failure::timeout())?
    }

    /// The samples of the series that match any of the sets, over the times of `selection`, whose matchers do not count. Each series
    /// occurs once for each choice of aggregates, within [`TIMEOUT`].
    pub async fn samples_of_any(
        mut self,
        sets: &[Vec<Matcher>],
        selection: &Selection<'_>,
    ) -> Result<Read<Vec<Series>>, Failure> {
        let mut by_choice: Vec<(Choice, Vec<Vec<Matcher>>)> = Vec::new();
        for matchers in sets {
            check_restricts(matchers)?;
            let (matchers, choice) = choice(matchers)?;
            match by_choice.iter_mut().find(|(known, _)| *known == choice) {
                Some((_, sets)) => sets.push(matchers),
                None => by_choice.push((choice, vec![matchers])),
            }
        }
        let work = async {
            let mut read = Read::<Vec<Series>>::default();
            for (choice, sets) in &by_choice {
                let sets: Vec<&[Matcher]> = sets.iter().map(Vec::as_slice).collect();
                let series = self.each_of(&sets, *choice, selection, &mut read.held, whole).await?;
                read.series.push(series.into_iter().map(labelled).collect());
            }
            Ok::<_, Failure>(read)
        };
        tokio::time::timeout(TIMEOUT, work).await.map_err(|_| Failure::timeout())?
    }

    /// The series of a plan's selections, evaluated while they are read where possible.
    pub async fn selected(
        mut self,
        plan: &Plan,
        limits: &Limits,
        interrupt: &Arc<dyn Fn() -> Option<Interrupt> + Send + Sync>,
    ) -> Result<Read<Selected>, Failure> {
        let mut read = Read::default();
        let mut limits = *limits;
        for (index, selection) in plan.selections(self.lookback_ms).iter().enumerate() {
            check_restricts(selection.matchers)?;
            let Some(pushdown) = plan.pushdown(index, self.lookback_ms, &limits) else {
                let series = self.each_series(selection, &mut read.held, whole).await?;
                read.series.push(Selected::Samples(series.into_iter().map(labelled).collect()));
                continue;
            };
            let pushdown = Arc::new(pushdown);
            let (evaluator, interrupt) = (pushdown.clone(), interrupt.clone());
            let (fail, failed) = mpsc::channel(1);
            let evaluate = move |samples| {
                let steps = evaluator.evaluate(&labelled((Labels::empty(), samples)), &*interrupt);
                // One error is enough.
                let steps = steps.map_err(|error| drop(fail.try_send(error))).ok();
                let points = steps.as_ref().map_or(0, Steps::count);
                (steps, points)
            };
            let series = self.each_series(selection, &mut read.held, evaluate);
            let series = until_failure(series, failed).await?;
            limits.memory_bytes_max = limits.memory_bytes_max.saturating_sub(pushdown.held_bytes());
            let series = series.into_iter();
            let series = series.filter_map(|(labels, steps)| Some(StepSeries { labels, steps: steps? }));
            read.series.push(pushdown.finish(series.collect()));
        }
        Ok(read)
    }

    /// Reads the series of a selection and returns what `evaluate` makes of each that has samples. `evaluate` also returns how
    /// many points its result holds in memory.
    async fn each_series<T: Send + 'static>(
        &mut self,
        selection: &Selection<'_>,
        held: &mut Vec<HeldPoints>,
        evaluate: impl Fn(Samples) -> (T, usize) + Send + Sync + 'static,
    ) -> Result<Vec<(Labels, T)>, Failure> {
        let (matchers, choice) = choice(selection.matchers)?;
        if matchers.is_empty() {
            // As in Prometheus' remote read.
            return Ok(Vec::new());
        }
        self.each_of(&[&matchers], choice, selection, held, evaluate).await
    }

    /// [`Reader::each_series`], for the series that match any of these sets of label matchers.
    async fn each_of<T: Send + 'static>(
        &mut self,
        sets: &[&[Matcher]],
        choice: Choice,
        selection: &Selection<'_>,
        held: &mut Vec<HeldPoints>,
        evaluate: impl Fn(Samples) -> (T, usize) + Send + Sync + 'static,
    ) -> Result<Vec<(Labels, T)>, Failure> {
        let found = find(self.call, Rule::GetMeasures, sets, self.seen, self.series_left).await?;
        self.series_left -= found.len().min(self.series_left);
        let query = sample_query(selection, self.lookback_ms, choice);
        let (metrics, labels) = metrics(self.call, found, &query).await?;
        let evaluate = move |samples: Samples| {
            if samples.times_ms.is_empty() {
                return (None, 0);
            }
            let (evaluated, points) = evaluate(samples);
            (Some(evaluated), points)
        };
        let engine = self.call.app.engine();
        let (evaluated, points) =
            engine.samples(metrics, Arc::new(query), self.points_left, evaluate).await?;
        self.points_left -= points.count().min(self.points_left);
        held.push(points);
        let series = labels.into_iter().zip(evaluated);
        Ok(series.filter_map(|(labels, evaluated)| Some((labels, evaluated?))).collect())
    }
}

/// The result of `work`, which ends when the evaluation of a series fails.
async fn until_failure<T>(
    work: impl Future<Output = Result<T, Failure>>,
    mut failed: mpsc::Receiver<gnudi_promql::Error>,
) -> Result<T, Failure> {
    let done = tokio::select! {
        done = work => done?,
        Some(error) = failed.recv() => return Err(error.into()),
    };
    failed.try_recv().map_or(Ok(done), |error| Err(error.into()))
}

fn whole(samples: Samples) -> (Samples, usize) {
    let points = samples.values.len();
    (samples, points)
}

fn labelled((labels, samples): (Labels, Samples)) -> Series {
    let Samples { times_ms, values, counts, lookback_ms } = samples;
    Series { labels, times_ms, values, lookback_ms, counts }
}

/// The series that match any of the matcher sets, for whose metrics the rule allows the caller.
async fn find(
    call: &Call<'_>,
    rule: Rule,
    sets: &[&[Matcher]],
    seen: Option<&MetricScope>,
    series_max: usize,
) -> Result<Vec<FoundSeries>, Failure> {
    let found = call.api.catalogue.select(sets, seen, series_max).await?;
    call.reads_metrics(found.len());
    // `seen` is exact for Gnocchi's rules; an operator's rule may deny single metrics.
    if call.app.options().policy.is_customised(rule) {
        return Ok(permitted(call, rule, found).await?);
    }
    Ok(found)
}

/// The label matchers of each set, without the choice of aggregates, which only the reading of samples needs.
pub fn label_matchers(sets: &[Vec<Matcher>]) -> Result<Vec<Vec<Matcher>>, Failure> {
    let of_set = |matchers: &Vec<Matcher>| {
        check_restricts(matchers)?;
        Ok(choice(matchers)?.0)
    };
    sets.iter().map(of_set).collect()
}

/// The series that match any of the sets of label matchers: at most [`Limits::series_max`], where one that several sets match
/// counts several times, and within [`TIMEOUT`]. A set without matchers has all series.
pub async fn find_all(
    call: &Call<'_>,
    rule: Rule,
    sets: &[Vec<Matcher>],
    seen: Option<&MetricScope>,
) -> Result<Vec<FoundSeries>, Failure> {
    let sets: Vec<&[Matcher]> = sets.iter().map(Vec::as_slice).collect();
    let work = find(call, rule, &sets, seen, Limits::default().series_max);
    tokio::time::timeout(TIMEOUT, work).await.map_err(|_| Failure::timeout())?
}

/// The series for whose metrics the rule allows the caller.
async fn permitted(call: &Call<'_>, rule: Rule, found: Vec<FoundSeries>) -> Result<Vec<FoundSeries>> {
    let ids: Vec<_> = found.iter().map(|series| series.metric).collect();
    let metrics = call.indexer().metrics(&ids).await?;
    let mut permitted = Vec::with_capacity(found.len());
    for (series, metric) in found.into_iter().zip(metrics) {
        let Some(metric) = metric else { continue };
        if is_permitted(call, rule, &metric).await? {
            permitted.push(series);
        }
    }
    Ok(permitted)
}

/// Whether the rule allows the caller for a metric.
pub async fn is_permitted(call: &Call<'_>, rule: Rule, metric: &Metric) -> Result<bool> {
    match call.enforce_with_resource(rule, metric).await {
        Ok(()) => Ok(true),
        Err(error) if error.status == StatusCode::FORBIDDEN => Ok(false),
        Err(error) => Err(error),
    }
}

/// The series that may have samples for the query: their metrics, and their labels.
async fn metrics(
    call: &Call<'_>,
    found: Vec<FoundSeries>,
    query: &SampleQuery,
) -> Result<(Vec<SampledMetric>, Vec<Labels>), Failure> {
    // `None` for those whose metrics have no samples.
    let mut policies: HashMap<Arc<str>, Option<Arc<ArchivePolicy>>> = HashMap::new();
    let (mut metrics, mut labels) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
    for series in found {
        let policy = if let Some(policy) = policies.get(&series.archive_policy_name) {
            policy.clone()
        } else {
            let policy = call.policy_of(&series.archive_policy_name).await?;
            let policy = Some(policy).filter(|policy| query.fits(policy));
            policies.insert(series.archive_policy_name.clone(), policy.clone());
            policy
        };
        if let Some(policy) = policy {
            metrics.push(SampledMetric { metric: series.metric, policy });
            labels.push(series.labels);
        }
    }
    Ok((metrics, labels))
}

/// The samples to read for a selection. docs/prometheus.md describes how aggregates are chosen.
fn sample_query(selection: &Selection<'_>, lookback_ms: i64, choice: Choice) -> SampleQuery {
    let function = selection.function.filter(|_| selection.is_range);
    let values = match (choice.method, function) {
        (Some(method), _) => Values::Exactly(method),
        (None, Some("max_over_time")) => Values::Maximum,
        (None, Some("min_over_time")) => Values::Minimum,
        (None, Some("sum_over_time")) => Values::Sum,
        (None, Some("count_over_time")) => Values::Count,
        (None, Some("avg_over_time")) => Values::SumAndCount,
        (None, Some("first_over_time")) => Values::First,
        (None, Some("last_over_time")) => Values::Last,
        (None, _) => Values::Usual,
    };
    let is_whole = !matches!(values, Values::Usual | Values::Exactly(_));
    let resolution = match selection.windows {
        Some(windows) if is_whole => Resolution::Divides {
            first_end_ms: windows.first_end_ms,
            step_ms: windows.step_ms,
            range_ms: selection.range_ms,
        },
        Some(windows) if !selection.is_range && windows.step_ms > 0 => {
            Resolution::AtMost(Timespan(windows.step_ms.saturating_mul(1_000_000)))
        }
        _ => Resolution::Finest,
    };
    SampleQuery {
        start_ms: selection.start_ms,
        end_ms: selection.end_ms,
        lookback_ms: selection.looks_back.then_some(lookback_ms),
        looks_ahead: selection.looks_ahead,
        stamp: if function.is_some() { Stamp::End } else { Stamp::Start },
        values,
        granularity: choice.granularity,
        resolution,
    }
}

#[cfg(test)]
mod tests {
    use gnudi_promql::{Error, ErrorKind};

    use super::*;

    #[tokio::test]
    async fn a_failed_series_ends_the_reading_of_the_others() {
        let error = || Error { kind: ErrorKind::Execution, text: "too much".to_owned() };
        let expected = Failure::execution("too much");
        let (fail, failed) = mpsc::channel(1);
        fail.try_send(error()).unwrap();
        let endless = std::future::pending::<Result<(), Failure>>();
        assert_eq!(until_failure(endless, failed).await, Err(expected.clone()));
        // The last series fails.
        let (fail, failed) = mpsc::channel(1);
        let last = async move {
            fail.try_send(error()).unwrap();
            Ok(())
        };
        assert_eq!(until_failure(last, failed).await, Err(expected));
        let (fail, failed) = mpsc::channel(1);
        drop(fail);
        assert_eq!(until_failure(async { Ok(7) }, failed).await, Ok(7));
    }
}
