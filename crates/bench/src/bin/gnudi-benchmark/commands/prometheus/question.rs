//! The queries: like those of dashboards, over few and many series, short and long times.

use gnudi_model::python::quote;

use super::{answer::Agreement, data};

/// The queried metric.
pub const METRIC: &str = "gnudi_bench_seconds_bucket";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The time range of a query before the last sample, in seconds.
#[derive(Clone, Debug)]
struct Reach {
    name: String,
    /// As a duration in `PromQL`.
    text: String,
    span: i64,
    /// Step of range queries.
    step: i64,
    /// Window of rates in range queries.
    window: &'static str,
}

/// The last one is as long as the history.
fn reaches(days: i64) -> Vec<Reach> {
    let reach = |name: &str, text: &str, span, step, window| {
        let (name, text) = (name.to_owned(), text.to_owned());
        Reach { name, text, span, step, window }
    };
    let mut reaches =
        vec![reach("hour", "1h", HOUR, MINUTE, "5m"), reach("day", "1d", DAY, 5 * MINUTE, "5m")];
    if days > 1 {
        let (name, text) = (format!("{days} days"), format!("{days}d"));
        reaches.push(reach(&name, &text, days * DAY, 2 * HOUR, "2h"));
    }
    reaches
}

/// The operation on the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Plain,
    Regex,
    TopK,
    Rate,
    SumBy,
    Quantile,
}

const OPERATIONS: [Operation; 6] = [
    Operation::Plain,
    Operation::Regex,
    Operation::TopK,
    Operation::Rate,
    Operation::SumBy,
    Operation::Quantile,
];

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Plain => "selector",
            Operation::Regex => "sum over a regular expression",
            Operation::TopK => "topk",
            Operation::Rate => "rate",
            Operation::SumBy => "sum by of rates",
            Operation::Quantile => "histogram_quantile of rates",
        }
    }

    fn text(self, selection: &Selection, window: &str) -> String {
        let Selection { series, histograms, regex, .. } = selection;
        match self {
            Operation::Plain => series.clone(),
            Operation::Regex => format!("sum({regex})"),
            Operation::TopK => format!("topk(5, {series})"),
            Operation::Rate => format!("rate({series}[{window}])"),
            Operation::SumBy => format!("sum by (group, le) (rate({series}[{window}]))"),
            Operation::Quantile => {
                format!("histogram_quantile(0.9, sum by (group, le) (rate({histograms}[{window}])))")
            }
        }
    }

    fn is_of_rates(self) -> bool {
        matches!(self, Operation::Rate | Operation::SumBy | Operation::Quantile)
    }
}

/// Selectors of about a number of series.
struct Selection {
    series_count: usize,
    series: String,
    /// Whole histograms.
    histograms: String,
    regex: String,
}

fn selections(series: usize) -> [Selection; 3] {
    let one = data::instance(0);
    let hundred = data::group(0);
    [
        Selection {
            series_count: 1,
            series: format!("{METRIC}{{instance=\"{one}\",le=\"0.1\"}}"),
            histograms: format!("{METRIC}{{instance=\"{one}\"}}"),
            regex: format!("{METRIC}{{instance=~\".*-00000:.*\",le=\"0.1\"}}"),
        },
        Selection {
            series_count: 100,
            series: format!("{METRIC}{{group=\"{hundred}\"}}"),
            histograms: format!("{METRIC}{{group=\"{hundred}\"}}"),
            regex: format!("{METRIC}{{instance=~\"host-0000.:9100\"}}"),
        },
        Selection {
            series_count: series,
            series: METRIC.to_owned(),
            histograms: METRIC.to_owned(),
            regex: format!("{METRIC}{{instance=~\"host-.*\"}}"),
        },
    ]
}

/// A query.
#[derive(Clone, Debug)]
pub struct Question {
    pub is_range: bool,
    /// The kind of query, for tables.
    pub operation: &'static str,
    pub series: usize,
    /// Its time range.
    pub reach: String,
    pub query: String,
    /// Path and query string of the request.
    pub path: String,
    /// The agreement required of servers whose rates include the sample before the window and are not extrapolated.
    pub agreement_of_rates: Agreement,
}

/// All queries over up to this number of series, with samples of this number of days before `end_s`.
pub fn all(series: usize, days: i64, end_s: i64) -> Vec<Question> {
    let (mut questions, reaches) = (Vec::new(), reaches(days));
    for is_range in [false, true] {
        for operation in OPERATIONS {
            for selection in selections(series) {
                // An instant query reads only the newest samples, unless it has a window.
                let reaches = if is_range || operation.is_of_rates() { &reaches[..] } else { &reaches[..1] };
                let ask = |reach: &Reach| question(is_range, operation, &selection, reach, end_s);
                questions.extend(reaches.iter().map(ask));
            }
        }
    }
    questions
}

fn question(
    is_range: bool,
    operation: Operation,
    selection: &Selection,
    reach: &Reach,
    end_s: i64,
) -> Question {
    let window = if is_range { reach.window } else { &reach.text };
    let query = operation.text(selection, window);
    let encoded = quote(&query, "");
    let path = if is_range {
        let (start_s, step) = (end_s - reach.span, reach.step);
        format!("/api/v1/query_range?query={encoded}&start={start_s}&end={end_s}&step={step}")
    } else {
        format!("/api/v1/query?query={encoded}&time={end_s}")
    };
    Question {
        is_range,
        operation: operation.name(),
        series: selection.series_count,
        reach: if is_range || operation.is_of_rates() { reach.name.clone() } else { "now".to_owned() },
        query,
        path,
        agreement_of_rates: if operation.is_of_rates() { Agreement::Similar } else { Agreement::Exact },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_asked_over_every_number_of_series_and_time() {
        let questions = all(10_000, 30, 1_000_000_000);
        assert_eq!(questions.iter().filter(|question| question.is_range).count(), 6 * 3 * 3);
        assert_eq!(questions.iter().filter(|question| !question.is_range).count(), 3 * 3 + 3 * 3 * 3);
        let range = questions.iter().find(|question| {
            question.is_range && question.operation == "rate" && question.reach == "30 days"
        });
        let range = range.unwrap();
        assert!(range.query.ends_with("[2h])"), "{}", range.query);
        assert!(range.path.ends_with("start=997408000&end=1000000000&step=7200"), "{}", range.path);
        assert!(!range.path.contains(['{', '"', ' ']), "{}", range.path);
    }
}
