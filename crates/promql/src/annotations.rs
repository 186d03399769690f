//! Warnings and infos of an evaluation, each with its position in the query. Equal texts are kept once, with the last position. As in
//! Prometheus' API the first ones are shown, and the others are counted.

use std::collections::{BTreeMap, HashSet};

use twox_hash::XxHash64;

use crate::functions::{date, histogram::Forced};
use crate::numbers::{general, general_below};
use crate::quoted::quoted;
use crate::syntax::Position;

/// The maximum number of texts of each severity that are shown.
const SHOWN_MAX: usize = 10;
/// The maximum number of others that are counted.
const COUNTED_MAX: usize = 100_000;

/// The corrections of a metric's classic histograms whose counts were not monotonic.
#[derive(Debug, Clone)]
struct Repairs {
    count: usize,
    time_min: i64,
    time_max: i64,
    forced: Forced,
    at: usize,
}

/// The texts of a severity.
#[derive(Debug, Default)]
struct Texts {
    /// Each with the byte of the query at which the expression begins that it is about.
    shown: BTreeMap<String, usize>,
    /// Hashes of the others.
    others: HashSet<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Annotations {
    warnings: Texts,
    infos: Texts,
    repairs: BTreeMap<String, Repairs>,
}

impl Texts {
    fn add(&mut self, text: String, at: usize) {
        if self.shown.len() < SHOWN_MAX || self.shown.contains_key(&text) {
            self.shown.insert(text, at);
        } else {
            self.count(&text);
        }
    }

    fn count(&mut self, other: &str) {
        if self.others.len() < COUNTED_MAX {
            self.others.insert(XxHash64::oneshot(0, other.as_bytes()));
        }
    }
}

impl Annotations {
    fn warn(&mut self, text: &str, at: usize) {
        self.warnings.add(format!("PromQL warning: {text}"), at);
    }

    pub(crate) fn quantile_out_of_range(&mut self, q: f64, at: usize) {
        self.warn(&format!("quantile value should be between 0 and 1, got {}", general(q)), at);
    }

    pub(crate) fn ratio_out_of_range(&mut self, ratio: f64, cap: f64, at: usize) {
        let (ratio, cap) = (general(ratio), general(cap));
        self.warn(&format!("ratio value should be between -1 and 1, got {ratio}, capping to {cap}"), at);
    }

    pub(crate) fn integral_strategy(&mut self, number: f64, at: usize) {
        let number = general(number);
        self.warn(&format!("strategy should be 0, 1, or 2 (default), using 2, got {number}"), at);
    }

    pub(crate) fn sort_in_range_query(&mut self, at: usize) {
        self.warn("sort is ineffective for range queries since results are always ordered by labels", at);
    }

    pub(crate) fn bad_bucket_label(&mut self, metric: &str, label: &str, at: usize) {
        let text = format!("bucket label \"le\" is missing or has a malformed value of {}", quoted(label));
        self.warn(&with_metric(text, metric), at);
    }

    pub(crate) fn possible_non_counter(&mut self, metric: &str, at: usize) {
        let text =
            "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket:";
        self.infos.add(format!("{text} {}", quoted(metric)), at);
    }

    pub(crate) fn forced_monotonicity(&mut self, metric: &str, forced: Forced, time: i64, at: usize) {
        if self.repairs.len() >= SHOWN_MAX && !self.repairs.contains_key(metric) {
            self.infos.count(metric);
            return;
        }
        let repairs = self.repairs.entry(metric.to_string()).or_insert(Repairs {
            count: 0,
            time_min: time,
            time_max: time,
            forced,
            at,
        });
        repairs.count += 1;
        repairs.time_min = repairs.time_min.min(time);
        repairs.time_max = repairs.time_max.max(time);
        repairs.forced = repairs.forced.with(forced);
    }

    /// Warnings and infos of a query, each in order.
    pub(crate) fn into_texts(self, query: &str) -> (Vec<String>, Vec<String>) {
        let placed = |(text, at)| format!("{text} ({})", Position::of(query, at));
        let warnings = self.warnings.shown.into_iter().map(placed).collect();
        let mut infos: Vec<String> = self.infos.shown.into_iter().map(placed).collect();
        for (metric, repairs) in self.repairs {
            let text = "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see \
                        https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)";
            infos.push(format!(
                "{}, from buckets {} to {}, with a max diff of {}, over {} samples from {} to {} ({})",
                with_metric(text.to_string(), &metric),
                general(repairs.forced.bucket_min),
                general(repairs.forced.bucket_max),
                two_digits(repairs.forced.difference_max),
                repairs.count,
                date::rfc3339(repairs.time_min),
                date::rfc3339(repairs.time_max),
                Position::of(query, repairs.at),
            ));
        }
        let infos = shortened(infos, self.infos.others.len(), "info");
        (shortened(warnings, self.warnings.others.len(), "warning"), infos)
    }
}

/// The first texts, and how many others there are.
fn shortened(mut texts: Vec<String>, others: usize, severity: &str) -> Vec<String> {
    let omitted = texts.len().saturating_sub(SHOWN_MAX) + others;
    texts.truncate(SHOWN_MAX);
    if omitted > 0 {
        texts.push(format!("{omitted} more {severity} annotations omitted"));
    }
    texts
}

fn with_metric(text: String, metric: &str) -> String {
    if metric.is_empty() { text } else { format!("{text} for metric name {}", quoted(metric)) }
}

/// A number as Go's `%.2g` prints it.
fn two_digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.1e}").parse().unwrap_or(value);
    general_below(2, rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_texts_of_each_severity_are_shown_and_the_others_counted() {
        let mut all = Annotations::default();
        for number in (0..250).chain(0..250) {
            all.quantile_out_of_range(2.0 + f64::from(number), 0);
        }
        let forced = Forced { bucket_min: 1.0, bucket_max: 2.0, difference_max: 3.0 };
        for number in (0..12).chain(0..12) {
            all.possible_non_counter(&format!("gauge{number}"), 0);
            all.forced_monotonicity(&format!("histogram{number}"), forced, 0, 0);
        }
        let (warnings, infos) = all.into_texts("q");
        assert_eq!((warnings.len(), infos.len()), (11, 11));
        assert_eq!(warnings[10], "240 more warning annotations omitted");
        assert_eq!(infos[10], "14 more info annotations omitted");

        let mut few = Annotations::default();
        (0..10).for_each(|number| few.quantile_out_of_range(2.0 + f64::from(number), 0));
        let (warnings, infos) = few.into_texts("q");
        assert_eq!((warnings.len(), infos.len()), (10, 0));
    }
}
