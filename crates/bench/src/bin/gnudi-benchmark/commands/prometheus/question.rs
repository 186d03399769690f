//! The queries: like those of dashboards, over few and many series, short and long times.

use gnudi_model::python::quote;

use super::{answer::Agreement, data};

/// The queried metric.
pub const METRIC: &str = "gnudi_bench_seconds_bucket";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

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
    let history = format!("{days} days");
    let all =
        [("hour", 1, MINUTE, "5m"), ("day", 24, 5 * MINUTE, "5m"), (&*history, days * 24, 2 * HOUR, "2h")];
    let reach = |(name, hours, step, window): (&str, i64, i64, &'static str)| {
        let text = if hours < 24 { format!("{hours}h") } else { format!("{}d", hours / 24) };
        Reach { name: name.to_owned(), text, span: hours * HOUR, step, window }
    };
    all.into_iter().take(if days > 1 { 3 } else { 2 }).map(reach).collect()
}

/// An operation on the series.
struct Operation {
    name: &'static str,
    is_of_rates: bool,
    /// The query for a window.
    query: fn(&Selection, &str) -> String,
}

const OPERATIONS: [Operation; 6] = [
    Operation { name: "selector", is_of_rates: false, query: |of, _| of.series.clone() },
    Operation {
        name: "sum over a regular expression",
        is_of_rates: false,
        query: |of, _| format!("sum({})", of.regex),
    },
    Operation { name: "topk", is_of_rates: false, query: |of, _| format!("topk(5, {})", of.series) },
    Operation {
        name: "rate",
        is_of_rates: true,
        query: |of, window| format!("rate({}[{window}])", of.series),
    },
    Operation {
        name: "sum by of rates",
        is_of_rates: true,
        query: |of, window| format!("sum by (group, le) (rate({}[{window}]))", of.series),
    },
    Operation {
        name: "histogram_quantile of rates",
        is_of_rates: true,
        query: |of, window| {
            format!("histogram_quantile(0.9, sum by (group, le) (rate({}[{window}])))", of.histograms)
        },
    },
];

/// Selectors of about a number of series.
struct Selection {
    series_count: usize,
    series: String,
    /// Whole histograms.
    histograms: String,
    regex: String,
}

fn selections(series: usize) -> [Selection; 3] {
    let one = format!("instance=\"{}\"", data::instance(0));
    let hundred = format!("group=\"{}\"", data::group(0));
    let bucket = "le=\"0.1\"";
    let selection = |series_count, series: &str, histograms: &str, regex: &str| {
        let [series, histograms, regex] = [series, histograms, regex].map(|labels| match labels {
            "" => METRIC.to_owned(),
            labels => format!("{METRIC}{{{labels}}}"),
        });
        Selection { series_count, series, histograms, regex }
    };
    [
        selection(1, &format!("{one},{bucket}"), &one, &format!("instance=~\".*-00000:.*\",{bucket}")),
        selection(100, &hundred, &hundred, "instance=~\"host-0000.:9100\""),
        selection(series, "", "", "instance=~\"host-.*\""),
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
        for operation in &OPERATIONS {
            for selection in selections(series) {
                // An instant query reads only the newest samples, unless it has a window.
                let reaches = if is_range || operation.is_of_rates { &reaches[..] } else { &reaches[..1] };
                let ask = |reach: &Reach| question(is_range, operation, &selection, reach, end_s);
                questions.extend(reaches.iter().map(ask));
            }
        }
    }
    questions
}

fn question(
    is_range: bool,
    operation: &Operation,
    selection: &Selection,
    reach: &Reach,
    end_s: i64,
) -> Question {
    let window = if is_range { reach.window } else { &reach.text };
    let query = (operation.query)(selection, window);
    let encoded = quote(&query, "");
    let path = if is_range {
        let (start_s, step) = (end_s - reach.span, reach.step);
        format!("/api/v1/query_range?query={encoded}&start={start_s}&end={end_s}&step={step}")
    } else {
        format!("/api/v1/query?query={encoded}&time={end_s}")
    };
    Question {
        is_range,
        operation: operation.name,
        series: selection.series_count,
        reach: if is_range || operation.is_of_rates { reach.name.clone() } else { "now".to_owned() },
        query,
        path,
        agreement_of_rates: if operation.is_of_rates { Agreement::Similar } else { Agreement::Exact },
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
