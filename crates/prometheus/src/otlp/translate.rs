//! Translates data points to samples of series.
//!
//! A data point that cannot be translated is counted and reported as rejected; the others are accepted. Exponential
//! histograms are rejected. Sums and histograms must be cumulative: delta temporality is rejected, as Prometheus does
//! by default, since it would need the previous values.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Display,
};

use gnudi_promql::{METRIC_NAME, STALE_NAN_BITS};

use super::{
    OtlpError, Request,
    model::{
        Attribute, Histogram, HistogramPoint, Metric, NumberPoint, Resource, ResourceMetrics, SummaryPoint,
    },
    names::{InvalidName, NameKind, label_name, metric_name, unit_name},
};
use crate::{
    labels::{INSTANCE, JOB},
    metadata::{Metadata, MetricKind},
    remote_write::{Limits, Sample},
};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// The flag of a data point without a value. It becomes a staleness marker.
const NO_RECORDED_VALUE: u64 = 1;

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

// The attributes of a resource that become job and instance. `target_info` does not have them as labels.
const SERVICE_NAME: &str = "service.name";
const SERVICE_NAMESPACE: &str = "service.namespace";
const SERVICE_INSTANCE: &str = "service.instance.id";
const IDENTIFYING: [&str; 3] = [SERVICE_NAMESPACE, SERVICE_NAME, SERVICE_INSTANCE];

/// The series with the attributes of a resource.
const TARGET_INFO: &str = "target_info";

/// The interval of the samples of `target_info`: half of the lookback of queries.
const TARGET_INFO_INTERVAL_MS: i64 = 150_000;
/// The maximum number of samples of `target_info` per resource, the newest ones. Otherwise a single old data point
/// could cause millions.
const TARGET_INFO_SAMPLES_MAX: i64 = 1_000;

/// The maximum number of reasons that are reported; further ones are dropped.
const REASONS_MAX: usize = 10;

/// A sample with the labels of its series.
#[derive(Clone, Copy, Debug)]
pub struct Translated<'s> {
    /// Name and value, sorted by name; neither is empty.
    pub labels: &'s [(&'s str, &'s str)],
    pub sample: Sample,
    pub metadata: &'s Metadata<'s>,
    /// Which data point of the request it belongs to; `None` for `target_info`.
    pub point: Option<usize>,
    /// The number of the metric within the request: consecutive samples with the same number have the same metadata.
    pub metric: usize,
}

/// The rejected data points of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The number of rejected data points.
    pub data_points: u64,
    /// Error texts, at most `REASONS_MAX`. An error of `target_info` is reported, too, though it is no data point.
    pub reasons: Vec<String>,
}

impl Rejected {
    fn add(&mut self, data_points: usize, reason: impl Display) {
        self.data_points += data_points as u64;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason.to_string());
        }
    }
}

/// Translates a request and calls `put` for each sample.
///
/// # Errors
/// The samples or the labels exceed the limits. `put` may have been called before.
pub fn translate(
    request: &Request<'_>,
    limits: Limits,
    put: &mut dyn FnMut(Translated<'_>),
) -> Result<Rejected, OtlpError> {
    let mut out = Output {
        put,
        limits,
        metrics: 0,
        point: None,
        samples: 0,
        labels_bytes: 0,
        target_info: HashMap::new(),
        rejected: Rejected::default(),
    };
    for resource in &request.resource_metrics {
        resource_metrics(resource, &mut out)?;
    }
    Ok(out.rejected)
}

/// Values by label name. Complete labels have no empty value.
type Labels<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

/// Counts the samples against the limits and passes them on.
struct Output<'p> {
    put: &'p mut dyn FnMut(Translated<'_>),
    limits: Limits,
    /// The number of metrics begun, including `target_info`.
    metrics: usize,
    /// The data point whose samples follow: the number of samples before it.
    point: Option<usize>,
    samples: usize,
    labels_bytes: usize,
    /// The times of the samples of `target_info`, by their labels: the same resource may come again.
    target_info: HashMap<Vec<(String, String)>, HashSet<i64>>,
    rejected: Rejected,
}

impl Output<'_> {
    fn count_sample(&mut self) -> Result<(), OtlpError> {
        self.samples += 1;
        if self.samples > self.limits.samples_max {
            return Err(OtlpError::TooManySamples(self.limits.samples_max));
        }
        Ok(())
    }

    /// Adds a sample. Its labels are `base`, the metric name, and `extra`, like the bound of a bucket. The latter two
    /// replace labels of `base` with the same name.
    fn sample(
        &mut self,
        base: &Labels<'_>,
        name: &str,
        extra: Option<(&str, &str)>,
        sample: Sample,
        metadata: &Metadata<'_>,
    ) -> Result<(), OtlpError> {
        self.count_sample()?;
        let own = [Some((METRIC_NAME, name)), extra].into_iter().flatten();
        let is_own = |label: &str| label == METRIC_NAME || extra.is_some_and(|(own, _)| own == label);
        let rest = base.iter().map(|(label, value)| (label.as_ref(), value.as_ref()));
        let mut labels: Vec<(&str, &str)> = rest.filter(|(label, _)| !is_own(label)).chain(own).collect();
        labels.sort_unstable();
        self.labels_bytes += labels.iter().map(|(label, value)| label.len() + value.len()).sum::<usize>();
        if self.labels_bytes > self.limits.labels_bytes_max {
            return Err(OtlpError::LabelsTooLarge(self.limits.labels_bytes_max));
        }
        let (point, metric) = (self.point, self.metrics);
        (self.put)(Translated { labels: &labels, sample, metadata, point, metric });
        Ok(())
    }
}

/// The labels that all series of a resource have.
struct Target<'a> {
    job: Option<String>,
    instance: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn of(resource: &'a Resource<'_>) -> Self {
        let value = |key| resource.attributes.iter().find(|own| own.key == key).map(|own| own.value.as_ref());
        let job = value(SERVICE_NAME).map(|name| match value(SERVICE_NAMESPACE) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        });
        let is_set = |text: &&str| !text.is_empty();
        Target { job: job.filter(|job| !job.is_empty()), instance: value(SERVICE_INSTANCE).filter(is_set) }
    }

    /// The labels of attributes, without the keys in `ignored`, and job and instance. If several keys become the same
    /// label name, their values are joined by `;` in the order of the keys.
    fn labels<'l>(
        &'l self,
        attributes: &'l [Attribute<'_>],
        ignored: &[&str],
    ) -> Result<Labels<'l>, InvalidName> {
        let mut sorted: Vec<(&str, &str)> = attributes
            .iter()
            .map(|own| (own.key.as_ref(), own.value.as_ref()))
            .filter(|(key, _)| !ignored.contains(key))
            .collect();
        sorted.sort_by_key(|(key, _)| *key);
        let mut labels = Labels::new();
        for (key, value) in sorted {
            let known = labels.entry(label_name(key)?.into()).or_default();
            if known.is_empty() {
                *known = value.into();
            } else {
                known.to_mut().push(';');
                known.to_mut().push_str(value);
            }
        }
        labels.retain(|_, value| !value.is_empty());
        if let Some(job) = &self.job {
            labels.insert(JOB.into(), job.as_str().into());
        }
        if let Some(instance) = self.instance {
            labels.insert(INSTANCE.into(), instance.into());
        }
        Ok(labels)
    }
}

fn resource_metrics(all: &ResourceMetrics<'_>, out: &mut Output<'_>) -> Result<(), OtlpError> {
    let target = Target::of(&all.resource);
    let mut times: Option<(i64, i64)> = None;
    for metric in all.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
        for time in metric_times(metric).filter_map(milliseconds) {
            let (first, last) = times.unwrap_or((time, time));
            times = Some((first.min(time), last.max(time)));
        }
        out.metrics += 1;
        self::metric(metric, &target, out)?;
    }
    match times {
        Some(times) => {
            out.metrics += 1;
            target_info(&all.resource, &target, times, out)
        }
        None => Ok(()),
    }
}

fn metric_times(metric: &Metric<'_>) -> impl Iterator<Item = u64> {
    let numbers = metric.gauge.iter().flat_map(|gauge| &gauge.data_points);
    let numbers = numbers.chain(metric.sum.iter().flat_map(|sum| &sum.data_points));
    let histograms = metric.histogram.iter().flat_map(|histogram| &histogram.data_points);
    let exponential = metric.exponential_histogram.iter().flat_map(|histogram| &histogram.data_points);
    let summaries = metric.summary.iter().flat_map(|summary| &summary.data_points);
    numbers
        .map(|point| point.time_unix_nano)
        .chain(histograms.map(|point| point.time_unix_nano))
        .chain(exponential.map(|point| point.time_unix_nano))
        .chain(summaries.map(|point| point.time_unix_nano))
}

fn metric(metric: &Metric<'_>, target: &Target<'_>, out: &mut Output<'_>) -> Result<(), OtlpError> {
    if metric.types() > 1 {
        // Protobuf cannot express it.
        let reason = format_args!("{:?}: data points of several types", truncated(&metric.name));
        out.rejected.add(metric_times(metric).count(), reason);
        return Ok(());
    }
    let (kind, name_kind, temporality, points) = match metric {
        Metric { gauge: Some(gauge), .. } => {
            (MetricKind::Gauge, NameKind::Gauge, None, gauge.data_points.len())
        }
        Metric { sum: Some(sum), .. } => {
            let (kind, name) = if sum.is_monotonic {
                (MetricKind::Counter, NameKind::MonotonicSum)
            } else {
                (MetricKind::Gauge, NameKind::Other)
            };
            (kind, name, Some(sum.aggregation_temporality), sum.data_points.len())
        }
        Metric { histogram: Some(Histogram { data_points, aggregation_temporality }), .. } => {
            (MetricKind::Histogram, NameKind::Other, Some(*aggregation_temporality), data_points.len())
        }
        Metric { exponential_histogram: Some(histogram), .. } => {
            let reason =
                format_args!("{:?}: exponential histograms are not supported", truncated(&metric.name));
            out.rejected.add(histogram.data_points.len(), reason);
            return Ok(());
        }
        Metric { summary: Some(summary), .. } => {
            (MetricKind::Summary, NameKind::Other, None, summary.data_points.len())
        }
        _ => return Ok(()),
    };
    if points == 0 {
        return Ok(());
    }
    if temporality.is_some_and(|temporality| temporality != CUMULATIVE) {
        let reason = format_args!("{:?}: only cumulative temporality is supported", truncated(&metric.name));
        out.rejected.add(points, reason);
        return Ok(());
    }
    let name = match metric_name(&metric.name, &metric.unit, name_kind) {
        Ok(name) => name,
        Err(error) => {
            out.rejected.add(points, error);
            return Ok(());
        }
    };
    let metadata =
        Metadata { kind, help: metric.description.as_ref().into(), unit: unit_name(&metric.unit).into() };
    let mut series = MetricSeries { name: &name, metadata: &metadata, target, out };
    let gauge = metric.gauge.iter().flat_map(|gauge| &gauge.data_points);
    let sum = metric.sum.iter().flat_map(|sum| &sum.data_points);
    gauge.chain(sum).try_for_each(|point| series.number(point))?;
    let mut histograms = metric.histogram.iter().flat_map(|histogram| &histogram.data_points);
    histograms.try_for_each(|point| series.histogram(point))?;
    metric.summary.iter().flat_map(|summary| &summary.data_points).try_for_each(|point| series.summary(point))
}

/// The series of one metric.
struct MetricSeries<'m, 'p> {
    name: &'m str,
    metadata: &'m Metadata<'m>,
    target: &'m Target<'m>,
    out: &'m mut Output<'p>,
}

impl<'m> MetricSeries<'m, '_> {
    /// The labels of a data point and its time in milliseconds; `None` if it is rejected.
    fn point<'l>(&mut self, attributes: &'l [Attribute<'_>], time: u64) -> Option<(Labels<'l>, i64)>
    where
        'm: 'l,
    {
        let labels = self.target.labels(attributes, &[METRIC_NAME]);
        match (labels, milliseconds(time)) {
            (Ok(labels), Some(time)) => {
                self.out.point = Some(self.out.samples);
                return Some((labels, time));
            }
            (Err(error), _) => self.out.rejected.add(1, format_args!("{}: {error}", truncated(self.name))),
            (_, None) => {
                self.out
                    .rejected
                    .add(1, format_args!("{}: a time beyond what is stored", truncated(self.name)));
            }
        }
        None
    }

    fn number(&mut self, point: &NumberPoint<'_>) -> Result<(), OtlpError> {
        let Some((labels, time)) = self.point(&point.attributes, point.time_unix_nano) else { return Ok(()) };
        let value = point.as_double.or(point.as_int.map(|value| value as f64)).unwrap_or_default();
        let sample = sample(time, value, point.flags);
        self.out.sample(&labels, self.name, None, sample, self.metadata)
    }

    fn histogram(&mut self, point: &HistogramPoint<'_>) -> Result<(), OtlpError> {
        let Some((labels, time)) = self.point(&point.attributes, point.time_unix_nano) else { return Ok(()) };
        let of = |value| sample(time, value, point.flags);
        if let Some(sum) = point.sum {
            self.out.sample(&labels, &format!("{}_sum", self.name), None, of(sum), self.metadata)?;
        }
        let count = of(point.count as f64);
        self.out.sample(&labels, &format!("{}_count", self.name), None, count, self.metadata)?;
        let name = format!("{}_bucket", self.name);
        let mut cumulative = 0_u64;
        for (bound, in_bucket) in point.explicit_bounds.iter().zip(&point.bucket_counts) {
            cumulative = cumulative.wrapping_add(*in_bucket);
            // The bucket `+Inf` has the count instead.
            if *bound != f64::INFINITY {
                let (bound, value) = (decimal(*bound), of(cumulative as f64));
                self.out.sample(&labels, &name, Some(("le", &bound)), value, self.metadata)?;
            }
        }
        self.out.sample(&labels, &name, Some(("le", "+Inf")), count, self.metadata)
    }

    fn summary(&mut self, point: &SummaryPoint<'_>) -> Result<(), OtlpError> {
        let Some((labels, time)) = self.point(&point.attributes, point.time_unix_nano) else { return Ok(()) };
        let of = |value| sample(time, value, point.flags);
        self.out.sample(&labels, &format!("{}_sum", self.name), None, of(point.sum), self.metadata)?;
        let count = of(point.count as f64);
        self.out.sample(&labels, &format!("{}_count", self.name), None, count, self.metadata)?;
        for quantile in &point.quantile_values {
            let (text, value) = (decimal(quantile.quantile), of(quantile.value));
            self.out.sample(&labels, self.name, Some(("quantile", &text)), value, self.metadata)?;
        }
        Ok(())
    }
}

/// A bound or quantile as Prometheus writes it: without an exponent, infinities with their sign.
fn decimal(number: f64) -> String {
    if number.is_infinite() {
        format!("{}Inf", if number > 0.0 { '+' } else { '-' })
    } else {
        number.to_string()
    }
}

/// Adds `target_info`: a series with the attributes of a resource as labels, if it has job or instance, and any besides.
/// Its samples cover the times of the resource's data points. Those that the request had before are left out.
fn target_info(
    resource: &Resource<'_>,
    target: &Target<'_>,
    (first, last): (i64, i64),
    out: &mut Output<'_>,
) -> Result<(), OtlpError> {
    let is_descriptive = |own: &Attribute<'_>| !IDENTIFYING.contains(&own.key.as_ref());
    if !resource.attributes.iter().any(is_descriptive) {
        return Ok(());
    }
    let labels = match target.labels(&resource.attributes, &IDENTIFYING) {
        Ok(labels) => labels,
        Err(error) => {
            out.rejected.add(0, format_args!("{TARGET_INFO}: {error}"));
            return Ok(());
        }
    };
    // Any attributes may be named so.
    if !labels.contains_key(JOB) && !labels.contains_key(INSTANCE) {
        return Ok(());
    }
    out.point = None;
    let metadata = Metadata { kind: MetricKind::Gauge, help: "Target metadata".into(), unit: "".into() };
    let mut time = first.max(last.saturating_sub(TARGET_INFO_INTERVAL_MS * (TARGET_INFO_SAMPLES_MAX - 1)));
    let key: Vec<(String, String)> =
        labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut known = out.target_info.remove(&key).unwrap_or_default();
    loop {
        let at = time.min(last);
        if known.insert(at) {
            out.sample(&labels, TARGET_INFO, None, sample(at, 1.0, 0), &metadata)?;
        } else {
            // It was work nevertheless.
            out.count_sample()?;
        }
        if at == last {
            break;
        }
        time += TARGET_INFO_INTERVAL_MS;
    }
    out.target_info.insert(key, known);
    Ok(())
}

/// A sample, which is a staleness marker if the flags say that there is no value.
fn sample(timestamp_ms: i64, value: f64, flags: u64) -> Sample {
    let is_stale = flags & NO_RECORDED_VALUE != 0;
    Sample { timestamp_ms, value: if is_stale { f64::from_bits(STALE_NAN_BITS) } else { value } }
}

/// Converts a time from nanoseconds; `None` if they exceed `i64`.
fn milliseconds(time_unix_nano: u64) -> Option<i64> {
    i64::try_from(time_unix_nano).ok()?;
    Some((time_unix_nano / NANOSECONDS_PER_MILLISECOND).cast_signed())
}

/// The first 100 characters of a name, for an error text.
fn truncated(name: &str) -> &str {
    name.char_indices().nth(100).map_or(name, |(end, _)| &name[..end])
}
