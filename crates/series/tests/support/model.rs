//! Gnocchi's processing and reading as plain maps and loops. Slow; shares no code with the crate.

use std::collections::BTreeMap;

use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicy, Statistic, Timespan};
use gnudi_series::resample::Resample;

use super::{Rows, aggregations, bits};

type Series = BTreeMap<i64, f64>;

/// A query for one aggregation of a policy.
#[derive(Clone, Debug)]
pub struct Query {
    /// The index of the aggregation, modulo their number.
    pub aggregation: usize,
    pub start: Option<i64>,
    pub stop: Option<i64>,
    /// In nanoseconds.
    pub resample: Option<i64>,
}

impl Query {
    /// A query for a whole aggregation.
    pub fn all() -> Self {
        Query { aggregation: 0, start: None, stop: None, resample: None }
    }

    pub fn aggregation(&self, policy: &ArchivePolicy) -> Aggregation {
        let all = aggregations(policy);
        all[self.aggregation % all.len()]
    }

    pub fn resample(&self) -> Option<Resample> {
        self.resample.map(|span| Resample::Span(Timespan(span)))
    }
}

/// A metric as Gnocchi stores it, and which buckets are final.
#[derive(Default)]
pub struct Model {
    /// All accepted points.
    all: Series,
    raw: Series,
    window: i64,
    stored: BTreeMap<(AggregationMethod, i64), Series>,
    /// By granularity: buckets before this are no longer written.
    final_until: BTreeMap<i64, i64>,
}

fn floor(time: i64, step: i64) -> i64 {
    time.div_euclid(step) * step
}

/// Sorted by time; of equal times the smallest value, NaN being the largest.
pub fn sorted(request: &[(i64, f64)]) -> Series {
    let mut series = Series::new();
    for &(time, value) in request {
        let held = series.entry(time).or_insert(value);
        if value < *held || (held.is_nan() && !value.is_nan()) {
            *held = value;
        }
    }
    series
}

impl Model {
    pub fn new() -> Self {
        Self::default()
    }

    fn window_start(policy: &ArchivePolicy, last: i64) -> i64 {
        let block = policy.block_size().0;
        let blocks = policy.back_window as i64 + i64::from(policy.has_rate());
        floor(last, block) - block * blocks
    }

    /// One pass over one request; returns how many of its points were late.
    pub fn fold(&mut self, policy: &ArchivePolicy, request: &[(i64, f64)]) -> usize {
        let request = sorted(request);
        let earliest = *request.keys().next().expect("points");
        let previous = self.raw.keys().next_back().copied();
        let limit = previous.map_or(0, |last| Self::window_start(policy, last).max(self.window));
        let accepted: Series = request.range(limit..).map(|(&time, &value)| (time, value)).collect();
        let late = request.len() - accepted.len();
        self.all.extend(&accepted);
        self.raw.extend(accepted);
        let (first, last) = (*self.raw.keys().next().unwrap(), *self.raw.keys().next_back().unwrap());
        for item in &policy.definition {
            let step = item.granularity.0;
            let start = floor(first.max(earliest), step);
            let passed = item.timespan.map(|timespan| floor(last, step) - timespan.0);
            let final_until = self.final_until.entry(step).or_default();
            if let Some(passed) = passed {
                *final_until = (*final_until).max(floor(passed, step) + step);
            }
            let from = start.max(*final_until);
            for &method in &policy.aggregation_methods {
                let computed = if method.is_counter() {
                    grown(&self.all, step, method).split_off(&start)
                } else {
                    aggregate(&self.raw, start, step, method)
                };
                let stored = self.stored.entry((method, step)).or_default();
                if method.is_counter() {
                    // Unlike rates, they do not keep old values if a NaN came between.
                    stored.split_off(&from);
                }
                stored.extend(computed.range(from..).map(|(&time, &value)| (time, value)));
                let split = |time| floor(Self::window_start(policy, time), step * 3600);
                if let (Some(previous), Some(passed)) = (previous, passed)
                    && split(previous) != split(last)
                {
                    stored.retain(|&bucket, _| bucket >= floor(passed, step * 3600));
                }
            }
        }
        self.window = self.window.max(Self::window_start(policy, last));
        self.raw = self.raw.split_off(&self.window);
        for item in &policy.definition {
            let final_until = self.final_until.entry(item.granularity.0).or_default();
            *final_until = (*final_until).max(floor(self.window, item.granularity.0));
        }
        late
    }

    /// Whole splits are fetched, truncated, resampled, then cut.
    pub fn read(&self, aggregation: Aggregation, query: &Query) -> Rows {
        let step = aggregation.granularity.0;
        let split = |time| floor(time, step * 3600);
        let empty = Series::new();
        let stored = self.stored.get(&(aggregation.method, step)).unwrap_or(&empty);
        let mut series: Series = stored
            .iter()
            .filter(|(bucket, _)| query.start.is_none_or(|start| split(**bucket) >= split(start)))
            .filter(|(bucket, _)| query.stop.is_none_or(|stop| split(**bucket) <= split(stop)))
            .map(|(&bucket, &value)| (bucket, value))
            .collect();
        if let (Some(timespan), Some(&last)) = (aggregation.timespan, series.keys().next_back()) {
            series.retain(|&bucket, _| bucket > last - timespan.0);
        }
        let mut from = query.start.map(|start| floor(start, step));
        if let Some(span) = query.resample {
            let method = match aggregation.method.statistic {
                Statistic::Increase => AggregationMethod::new(Statistic::Sum),
                Statistic::RateReset => AggregationMethod::new(Statistic::Mean),
                _ => aggregation.method,
            };
            series = aggregate(&series, i64::MIN, span, method);
            from = query.start.map(|start| floor(start, span));
        }
        series.retain(|&bucket, _| from.is_none_or(|from| bucket >= from));
        series.retain(|&bucket, _| query.stop.is_none_or(|stop| bucket < stop));
        series.into_iter().map(|(bucket, value)| (bucket, bits(value))).collect()
    }
}

/// The buckets of all accepted points.
pub fn buckets(accepted: &Series, aggregation: Aggregation) -> Rows {
    let buckets = aggregate(accepted, i64::MIN, aggregation.granularity.0, aggregation.method);
    buckets.into_iter().map(|(bucket, value)| (bucket, bits(value))).collect()
}

/// A counter's increase by bucket.
fn grown(points: &Series, step: i64, method: AggregationMethod) -> Series {
    let mut buckets: BTreeMap<i64, (f64, i64)> = BTreeMap::new();
    let points: Vec<(i64, f64)> = points.iter().map(|(&time, &value)| (time, value)).collect();
    for pair in points.windows(2) {
        let [(before, was), (time, is)] = pair else { unreachable!() };
        if was.is_nan() || is.is_nan() {
            continue;
        }
        let (increase, nanoseconds) = buckets.entry(floor(*time, step)).or_default();
        *increase += if is < was { *is } else { is - was };
        *nanoseconds += time - before;
    }
    let is_increase = method.statistic == Statistic::Increase;
    let value = |(increase, nanoseconds): (f64, i64)| {
        if is_increase { increase } else { increase / (nanoseconds as f64 / 1e9) }
    };
    buckets.into_iter().map(|(start, sums)| (start, value(sums))).collect()
}

/// The buckets from `start` on. Rates are differences over the points from one bucket before it on.
fn aggregate(points: &Series, start: i64, step: i64, method: AggregationMethod) -> Series {
    if method.is_counter() {
        return grown(points, step, method);
    }
    let from = if method.rate { start.saturating_sub(step) } else { start };
    let mut series: Vec<(i64, f64)> = points.range(from..).map(|(&time, &value)| (time, value)).collect();
    if method.rate {
        series = series.windows(2).map(|pair| (pair[1].0, pair[1].1 - pair[0].1)).collect();
        series.retain(|&(time, _)| time >= start);
    }
    let mut results = Series::new();
    let mut place = 0;
    for bucket in series.chunk_by(|a, b| floor(a.0, step) == floor(b.0, step)) {
        let values: Vec<f64> = bucket.iter().map(|&(_, value)| value).collect();
        if let Some(value) = statistic(&values, method.statistic, place) {
            results.insert(floor(bucket[0].0, step), value);
        }
        place += bucket.len();
    }
    results
}

fn statistic(values: &[f64], statistic: Statistic, place: usize) -> Option<f64> {
    let count = values.len() as f64;
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    let mut sorted = values.to_vec();
    // Stable, NaN last.
    sorted.sort_by(|a, b| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(b).unwrap(),
        (a, b) => a.cmp(&b),
    });
    Some(match statistic {
        Statistic::Mean => sum / count,
        Statistic::Sum => sum,
        Statistic::Last => values[values.len() - 1],
        Statistic::First => values[0],
        Statistic::Max => sorted[sorted.len() - 1],
        Statistic::Min => sorted[0],
        Statistic::Count => count,
        Statistic::Std if values.len() < 2 => return None,
        Statistic::Std => {
            let mut squares = 0.0;
            for value in values {
                squares += (value - sum / count) * (value - sum / count);
            }
            (squares / (count - 1.0)).sqrt()
        }
        Statistic::Median if values.len() % 2 == 1 => 2.0 * sorted[values.len() / 2] / 2.0,
        Statistic::Median => {
            let sum = sorted[values.len() / 2 - 1] + sorted[values.len() / 2];
            sum / 2.0
        }
        Statistic::Increase | Statistic::RateReset => unreachable!("no statistic of values"),
        Statistic::Percentile(percent) => {
            let position = place as f64 + (count - 1.0) * (f64::from(percent) / 100.0);
            let low = position.floor() as usize - place;
            let high = position.ceil() as usize - place;
            if low == high {
                sorted[low]
            } else {
                sorted[low] * (position.ceil() - position) + sorted[high] * (position - position.floor())
            }
        }
    })
}
