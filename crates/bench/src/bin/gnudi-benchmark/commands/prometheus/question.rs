//! The queries: like those of dashboards, over few and many series, short and long times.

use gnudi_model::python::quote;

use super::{answer::Agreement, data};

pub const METRIC: &str = "gnudi_bench_seconds_bucket";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// The time range of a query before the last sample.
struct Reach {
    name: String,
    hours: i64,
    /// Step of range queries, in seconds.
    step: i64,
    /// Window of rates in range queries.
    window: &'static str,
}

/// The last one is as long as the history.
fn reaches(days: i64) -> Vec<Reach> {
    let reach = |name: &str, hours, step, window| Reach { name: name.to_owned(), hours, step, window };
    let mut reaches = vec![reach("hour", 1, MINUTE, "5m"), reach("day", 24, 5 * MINUTE, "5m")];
    if days > 1 {
        reaches.push(reach(&format!("{days} days"), days * 24, 2 * HOUR, "2h"));
    }
    reaches
}

/// Operations: their names, and queries of a [`Selection`]. Those with a window are of rates.
const OPERATIONS: [(&str, &str); 6] = [
    ("selector", "SERIES"),
    ("sum over a regular expression", "sum(REGEX)"),
    ("topk", "topk(5, SERIES)"),
    ("rate", "rate(SERIES[WINDOW])"),
    ("sum by of rates", "sum by (group, le) (rate(SERIES[WINDOW]))"),
    ("histogram_quantile of rates", "histogram_quantile(0.9, sum by (group, le) (rate(HISTOGRAMS[WINDOW])))"),
];

/// About a number of series: that number, and the labels that select the series, whole histograms, and the series by a
/// regular expression.
type Selection = (usize, [String; 3]);

fn selections(series: usize) -> [Selection; 3] {
    let one = format!("instance=\"{}\"", data::instance(0));
    let hundred = format!("group=\"{}\"", data::group(0));
    let bucket = "le=\"0.1\"";
    let regex = format!("instance=~\".*-00000:.*\",{bucket}");
    [
        (1, [format!("{one},{bucket}"), one, regex]),
        (100, [hundred.clone(), hundred, "instance=~\"host-0000.:9100\"".to_owned()]),
        (series, [String::new(), String::new(), "instance=~\"host-.*\"".to_owned()]),
    ]
}

#[derive(Clone, Debug)]
pub struct Question {
    pub is_range: bool,
    /// The kind of query, for tables.
    pub operation: &'static str,
    pub series: usize,
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
            for selection in &selections(series) {
                // An instant query reads only the newest samples, unless it has a window.
                let reaches = if is_range || is_of_rates(operation) { &reaches[..] } else { &reaches[..1] };
                let ask = |reach: &Reach| question(is_range, operation, selection, reach, end_s);
                questions.extend(reaches.iter().map(ask));
            }
        }
    }
    questions
}

fn is_of_rates((_, query): (&str, &str)) -> bool {
    query.contains("WINDOW")
}

fn question(
    is_range: bool,
    operation: (&'static str, &str),
    (series, labels): &Selection,
    reach: &Reach,
    end_s: i64,
) -> Question {
    let is_of_rates = is_of_rates(operation);
    let (operation, mut query) = (operation.0, operation.1.to_owned());
    for (place, labels) in ["SERIES", "HISTOGRAMS", "REGEX"].into_iter().zip(labels) {
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        query = query.replace(place, &format!("{METRIC}{braced}"));
    }
    let whole = if reach.hours < 24 { format!("{}h", reach.hours) } else { format!("{}d", reach.hours / 24) };
    query = query.replace("WINDOW", if is_range { reach.window } else { &whole });
    let encoded = quote(&query, "");
    let path = if is_range {
        let (start_s, step) = (end_s - reach.hours * HOUR, reach.step);
        format!("/api/v1/query_range?query={encoded}&start={start_s}&end={end_s}&step={step}")
    } else {
        format!("/api/v1/query?query={encoded}&time={end_s}")
    };
    Question {
        is_range,
        operation,
        series: *series,
        reach: if is_range || is_of_rates { reach.name.clone() } else { "now".to_owned() },
        query,
        path,
        agreement_of_rates: if is_of_rates { Agreement::Similar } else { Agreement::Exact },
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
