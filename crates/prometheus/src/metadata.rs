//! Metadata of a metric: its type, help text and unit.

use std::borrow::Cow;

/// A metric's type. Converts from its number in remote write, which is the same in both versions; unknown numbers
/// become `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MetricKind {
    #[default]
    Unknown,
    Counter,
    Gauge,
    Histogram,
    GaugeHistogram,
    Summary,
    Info,
    StateSet,
}

impl MetricKind {
    /// Its name in `/api/v1/metadata`.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Unknown => "unknown",
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::GaugeHistogram => "gaugehistogram",
            MetricKind::Summary => "summary",
            MetricKind::Info => "info",
            MetricKind::StateSet => "stateset",
        }
    }

    /// The names of the metrics that a series may belong to, for any type of metric: the series' name, and the same
    /// without a suffix of histograms or summaries. May repeat a name.
    pub fn families(series_name: &str) -> impl Iterator<Item = &str> {
        // A histogram has all suffixes of a summary.
        let kinds = [MetricKind::Histogram, MetricKind::GaugeHistogram];
        let suffixes = kinds.into_iter().flat_map(MetricKind::suffixes);
        std::iter::once(series_name).chain(suffixes.filter_map(|suffix| series_name.strip_suffix(suffix)))
    }

    /// The suffixes that a metric of this type adds to its name in the names of its series.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            MetricKind::Histogram => &["_bucket", "_sum", "_count"],
            MetricKind::GaugeHistogram => &["_bucket", "_gsum", "_gcount"],
            MetricKind::Summary => &["_sum", "_count"],
            _ => &[],
        }
    }
}

impl From<u64> for MetricKind {
    fn from(number: u64) -> Self {
        match number {
            1 => MetricKind::Counter,
            2 => MetricKind::Gauge,
            3 => MetricKind::Histogram,
            4 => MetricKind::GaugeHistogram,
            5 => MetricKind::Summary,
            6 => MetricKind::Info,
            7 => MetricKind::StateSet,
            _ => MetricKind::Unknown,
        }
    }
}

/// What writers send about a metric. An empty help text or unit is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Metadata<'a> {
    pub kind: MetricKind,
    pub help: Cow<'a, str>,
    pub unit: Cow<'a, str>,
}

impl Metadata<'_> {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.kind == MetricKind::Unknown && self.help.is_empty() && self.unit.is_empty()
    }

    /// The name of the metric that a series of this name belongs to.
    pub fn family<'n>(&self, series_name: &'n str) -> &'n str {
        self.kind.suffixes().iter().find_map(|suffix| series_name.strip_suffix(suffix)).unwrap_or(series_name)
    }

    /// The names of the series of a metric with this name.
    pub fn series_names(&self, name: &str) -> Vec<String> {
        // Senders of OpenMetrics name counters and infos without their suffix.
        let of_open_metrics: &[&str] = match self.kind {
            MetricKind::Counter => &["_total"],
            MetricKind::Info => &["_info"],
            _ => &[],
        };
        let suffixes = self.kind.suffixes().iter().chain(of_open_metrics);
        std::iter::once(&"").chain(suffixes).map(|suffix| format!("{name}{suffix}")).collect()
    }

    pub fn into_owned(self) -> Metadata<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Metadata { kind: self.kind, help: own(self.help), unit: own(self.unit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_histogram_are_one_metric() {
        let of = |kind| Metadata { kind, ..Metadata::default() };
        assert_eq!(of(MetricKind::Histogram).family("a_seconds_bucket"), "a_seconds");
        assert_eq!(of(MetricKind::Summary).family("a_count"), "a");
        assert_eq!(of(MetricKind::Counter).family("a_count"), "a_count");
        assert_eq!(MetricKind::families("a_sum").collect::<Vec<_>>(), ["a_sum", "a"]);
        assert_eq!(of(MetricKind::Summary).series_names("a"), ["a", "a_sum", "a_count"]);
        assert_eq!(of(MetricKind::Counter).series_names("a"), ["a", "a_total"]);
        assert!(of(MetricKind::Unknown).is_empty() && !of(MetricKind::Info).is_empty());
    }
}
