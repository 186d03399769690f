//! `/federate`: the newest samples of series, in Prometheus' text format.

use std::io::Write;

use gnudi_prometheus::{
    escaped::{escape, is_plain},
    number::write_text_value,
};
use gnudi_promql::{METRIC_NAME, Sample};
use hyper::{
    StatusCode,
    header::{ACCEPT, HeaderValue},
};

use crate::{evaluation::newest, long_work, routes::prelude::*};

const INSTANCE: &str = "instance";

/// How to escape names that were invalid before Prometheus 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaping {
    /// Quotes them.
    None,
    /// `U__` escaping.
    Values,
    /// Replaces invalid characters by underscores.
    Underscores,
}

impl Escaping {
    /// The escaping that the client accepts.
    fn of(accept: &str) -> Escaping {
        if accept.contains("escaping=allow-utf-8") {
            Escaping::None
        } else if accept.contains("escaping=values") {
            Escaping::Values
        } else {
            Escaping::Underscores
        }
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Escaping::None => "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
            Escaping::Values => "text/plain; version=0.0.4; charset=utf-8; escaping=values",
            Escaping::Underscores => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        })
    }

    fn name(self, name: &str) -> String {
        match self {
            _ if is_plain(name) => name.to_owned(),
            Escaping::None => quoted(name),
            Escaping::Values => escape(name),
            Escaping::Underscores => {
                let is_kept = |at: usize, c: char| {
                    c == '_' || c == ':' || c.is_ascii_alphanumeric() && (at > 0 || !c.is_ascii_digit())
                };
                name.chars().enumerate().map(|(at, c)| if is_kept(at, c) { c } else { '_' }).collect()
            }
        }
    }
}

/// `GET /federate`
pub async fn federate(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        arguments.require_readable()?;
        let sets = arguments.matchers(call.app.engine()).await?;
        let accept = call.parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
        let escaping = Escaping::of(accept);
        let samples = newest(call, &sets, seen).await?;
        let (engine, count) = (call.app.engine(), samples.len());
        let text = long_work::on_items(engine, count, move || text(&sorted(samples), escaping)).await;
        Ok(reply::with_body(StatusCode::OK, escaping.content_type(), text))
    })
    .await
}

/// Each series once, by its name.
fn sorted(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.retain(|sample| !sample.labels.metric_name().is_empty());
    let key = |sample: &Sample| (sample.labels.metric_name().to_owned(), sample.labels.clone());
    samples.sort_by_cached_key(key);
    samples.dedup_by(|a, b| a.labels == b.labels);
    samples
}

fn text(samples: &[Sample], escaping: Escaping) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last_name = "";
    for sample in samples {
        let name = sample.labels.metric_name();
        let shown = escaping.name(name);
        if name != last_name {
            writeln!(out, "# TYPE {shown} untyped").expect("memory takes it");
            last_name = name;
        }
        let is_quoted = shown.starts_with('"');
        let mut labels: Vec<String> = if is_quoted { vec![shown.clone()] } else { Vec::new() };
        let others = sample.labels.iter().filter(|(label, _)| *label != METRIC_NAME);
        labels.extend(others.map(|(label, value)| format!("{}={}", escaping.name(label), quoted(value))));
        if sample.labels.get(INSTANCE).is_empty() {
            // With `honor_labels` the scraper keeps the absence of the label.
            labels.push(format!("{INSTANCE}=\"\""));
        }
        let before = if is_quoted { "" } else { &shown };
        write!(out, "{before}{{{}}} ", labels.join(",")).expect("memory takes it");
        write_text_value(sample.value, &mut out);
        writeln!(out, " {}", sample.time_ms).expect("memory takes it");
    }
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use gnudi_promql::Labels;

    use super::*;

    #[test]
    fn samples_have_prometheus_text_format() {
        let sample = |labels: &[(&str, &str)], value| Sample {
            labels: Labels::new(labels.iter().copied()),
            time_ms: 1500,
            value,
        };
        let samples = [
            sample(&[("__name__", "a"), ("job", "j"), ("instance", "i")], -0.0),
            sample(&[("__name__", "a"), ("job", "j"), ("zone", "\"")], 1_048_576.0),
            sample(&[("__name__", "b.c"), ("d.e", "f")], f64::INFINITY),
        ];
        let shown = |escaping| String::from_utf8(text(&samples, escaping)).unwrap();
        assert_eq!(
            shown(Escaping::Underscores),
            "# TYPE a untyped\n\
             a{instance=\"i\",job=\"j\"} 0 1500\n\
             a{job=\"j\",zone=\"\\\"\",instance=\"\"} 1.048576e+06 1500\n\
             # TYPE b_c untyped\n\
             b_c{d_e=\"f\",instance=\"\"} +Inf 1500\n"
        );
        let utf8 = "# TYPE \"b.c\" untyped\n{\"b.c\",\"d.e\"=\"f\",instance=\"\"} +Inf 1500\n";
        assert!(shown(Escaping::None).ends_with(utf8));
    }
}
