//! Parses responses of Prometheus' API, and compares those of two servers.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// Sums in another order differ in the last digits.
const TOLERANCE: f64 = 1e-9;

/// Maximum difference of the sums over all values, for servers that define rates differently.
const TOLERANCE_SIMILAR: f64 = 0.05;

/// How much of a response must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    Exact,
    /// The same series and times, and a similar sum of values.
    Similar,
}

/// The series of a response by labels: (time, value).
#[derive(Debug)]
pub struct Answer(BTreeMap<Labels, Vec<(f64, f64)>>);

type Labels = BTreeMap<String, String>;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<Series<'a>>,
}

#[derive(Deserialize)]
struct Series<'a> {
    metric: Labels,
    #[serde(borrow)]
    value: Option<(f64, &'a str)>,
    #[serde(borrow, default)]
    values: Vec<(f64, &'a str)>,
}

impl Answer {
    /// Parses the response of an instant or a range query.
    pub fn read(body: &[u8]) -> Result<Self> {
        let document: Document = serde_json::from_slice(body).context("the answer")?;
        let mut series = BTreeMap::new();
        for Series { metric, value, values } in document.data.result {
            let points = values.into_iter().chain(value).map(|(time, text)| Ok((time, text.parse()?)));
            let points = points.collect::<Result<_>>().context("a value")?;
            ensure!(series.insert(metric, points).is_none(), "a series twice");
        }
        Ok(Answer(series))
    }

    pub fn series(&self) -> usize {
        self.0.len()
    }

    pub fn only_value(&self) -> Option<f64> {
        self.0.values().next()?.first().map(|point| point.1)
    }

    /// An error with the first difference.
    pub fn check(&self, expected: &Answer, agreement: Agreement) -> Result<()> {
        let (found, wanted) = (self.0.len(), expected.0.len());
        ensure!(found == wanted, "{found} series, not {wanted}");
        let (mut sum, mut expected_sum) = (0.0, 0.0);
        for ((labels, points), (expected_labels, expected_points)) in self.0.iter().zip(&expected.0) {
            ensure!(labels == expected_labels, "{labels:?}, not {expected_labels:?}");
            let (found, wanted) = (points.len(), expected_points.len());
            ensure!(found == wanted, "{found} values, not {wanted} of {labels:?}");
            for (found, wanted) in points.iter().zip(expected_points) {
                let is_near = agreement == Agreement::Similar || near(found.1, wanted.1, TOLERANCE);
                ensure!(found.0 == wanted.0 && is_near, "{found:?}, not {wanted:?} of {labels:?}");
                (sum, expected_sum) = (sum + found.1, expected_sum + wanted.1);
            }
        }
        let is_near = agreement == Agreement::Exact || near(sum, expected_sum, TOLERANCE_SIMILAR);
        ensure!(is_near, "values of {sum} together, not {expected_sum}");
        Ok(())
    }
}

fn near(found: f64, expected: f64, tolerance: f64) -> bool {
    found == expected
        || found.is_nan() && expected.is_nan()
        || (found - expected).abs() <= tolerance * expected.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(series: &str) -> Answer {
        let text = format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}"#);
        Answer::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn answers_are_compared_by_labels_times_and_values() {
        const OTHER: &str = r#"{"metric":{},"value":[60,"+Inf"]}"#;
        let series =
            |label: &str, values: &str| format!(r#"{{"metric":{{"a":"{label}"}},"values":[{values}]}}"#);
        let one = answer(&format!("{},{OTHER}", series("1", r#"[60,"1.5"],[120,"NaN"]"#)));
        let turned = answer(&format!("{OTHER},{}", series("1", r#"[60,"1.5000000000001"],[120,"NaN"]"#)));
        assert_eq!(one.series(), 2);
        one.check(&turned, Agreement::Exact).unwrap();
        let error = |other: &str| one.check(&answer(other), Agreement::Exact).unwrap_err().to_string();
        assert_eq!(error(OTHER), "2 series, not 1");
        for (label, values, why) in [
            ("2", r#"[60,"1.5"],[120,"NaN"]"#, "\"1\""),
            ("1", r#"[60,"1.5"]"#, "2 values, not 1"),
            ("1", r#"[61,"1.5"],[120,"NaN"]"#, "(60.0, 1.5)"),
            ("1", r#"[60,"1.51"],[120,"NaN"]"#, "1.51"),
        ] {
            let error = error(&format!("{},{OTHER}", series(label, values)));
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn similar_answers_have_the_same_sum_but_for_a_little() {
        let values = |values: &str| answer(&format!(r#"{{"metric":{{}},"values":[{values}]}}"#));
        let one = values(r#"[1,"10"],[2,"10"]"#);
        assert!(one.check(&values(r#"[1,"9"],[2,"10.5"]"#), Agreement::Similar).is_ok());
        assert!(one.check(&values(r#"[1,"9"],[2,"10.5"]"#), Agreement::Exact).is_err());
        assert!(one.check(&values(r#"[1,"9"],[2,"8"]"#), Agreement::Similar).is_err());
        assert_eq!(one.only_value(), Some(10.0));
    }
}
