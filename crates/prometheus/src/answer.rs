//! The JSON of Prometheus' responses, written directly as text, without an intermediate tree.

use gnudi_promql::{Labels, QueryResult, Sample, SampleSeries, Value};

use crate::number::{write_time, write_value};

/// A successful response. `data` is its encoded JSON value; `warnings` and `infos` are annotations, omitted if empty.
pub fn success(data: &[u8], warnings: &[String], infos: &[String]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 64);
    out.extend_from_slice(BEGIN);
    out.extend_from_slice(data);
    finish(&mut out, warnings, infos);
    out
}

const BEGIN: &[u8] = b"{\"status\":\"success\",\"data\":";

fn finish(out: &mut Vec<u8>, warnings: &[String], infos: &[String]) {
    for (name, texts) in [("warnings", warnings), ("infos", infos)] {
        if !texts.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            write_texts(texts.iter().map(String::as_str), out);
        }
    }
    out.push(b'}');
}

/// The response to a failed request. `error_type` is one of Prometheus' types, like `bad_data`, and is not escaped.
pub fn error(error_type: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    out.extend_from_slice(b"{\"status\":\"error\",\"errorType\":\"");
    out.extend_from_slice(error_type.as_bytes());
    out.extend_from_slice(b"\",\"error\":");
    write_text(text, &mut out);
    out.push(b'}');
    out
}

/// The response to a query, as an iterator over pieces of about 64 KiB.
#[derive(Debug)]
pub struct QueryPieces {
    /// The result's elements that are not yet written.
    rest: Rest,
    /// The series of a matrix that is being written, and the number of its samples already written.
    open: Option<(SampleSeries, usize)>,
    /// No element is written yet.
    is_first: bool,
    /// The text after the result.
    tail: Vec<u8>,
    /// The text before the result, until it is written.
    head: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    Vector(std::vec::IntoIter<Sample>),
    Matrix(std::vec::IntoIter<SampleSeries>),
}

/// A piece ends when it has reached this size.
const PIECE_BYTES: usize = 64 << 10;

impl QueryPieces {
    /// `stats` is the encoded JSON of the field `stats`, if it was requested.
    pub fn new(result: QueryResult, stats: Option<&[u8]>) -> QueryPieces {
        let QueryResult { value, warnings, infos, .. } = result;
        let mut head = BEGIN.to_vec();
        head.extend_from_slice(b"{\"resultType\":\"");
        head.extend_from_slice(value.type_name().as_bytes());
        head.extend_from_slice(b"\",\"result\":");
        let mut tail = Vec::new();
        let rest = match value {
            Value::Scalar { time_ms, value } => {
                write_sample(time_ms, value, &mut head);
                Rest::Nothing
            }
            Value::String { time_ms, value } => {
                head.push(b'[');
                write_time(time_ms, &mut head);
                head.push(b',');
                write_text(&value, &mut head);
                head.push(b']');
                Rest::Nothing
            }
            Value::Vector(samples) => Rest::Vector(samples.into_iter()),
            Value::Matrix(series) => Rest::Matrix(series.into_iter()),
        };
        if !matches!(rest, Rest::Nothing) {
            head.push(b'[');
            tail.push(b']');
        }
        if let Some(stats) = stats {
            tail.extend_from_slice(b",\"stats\":");
            tail.extend_from_slice(stats);
        }
        tail.push(b'}');
        finish(&mut tail, &warnings, &infos);
        QueryPieces { rest, open: None, is_first: true, tail, head: Some(head) }
    }

    fn comma(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.is_first) {
            out.push(b',');
        }
    }

    /// Writes a sample of a vector, the labels of a series, or some of a series' samples. Returns whether there was
    /// anything to write.
    fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some((series, written)) = &mut self.open {
            while out.len() < PIECE_BYTES {
                let Some((time_ms, value)) = series.samples.get(*written) else {
                    out.extend_from_slice(b"]}");
                    self.open = None;
                    return true;
                };
                if *written > 0 {
                    out.push(b',');
                }
                write_sample(*time_ms, *value, out);
                *written += 1;
            }
            return true;
        }
        match &mut self.rest {
            Rest::Nothing => false,
            Rest::Vector(samples) => {
                let Some(sample) = samples.next() else { return false };
                self.comma(out);
                out.extend_from_slice(b"{\"metric\":");
                write_labels(&sample.labels, out);
                out.extend_from_slice(b",\"value\":");
                write_sample(sample.time_ms, sample.value, out);
                out.push(b'}');
                true
            }
            Rest::Matrix(series) => {
                let Some(series) = series.next() else { return false };
                self.comma(out);
                out.extend_from_slice(b"{\"metric\":");
                write_labels(&series.labels, out);
                out.extend_from_slice(b",\"values\":[");
                self.open = Some((series, 0));
                true
            }
        }
    }
}

impl Iterator for QueryPieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut out = self.head.take().unwrap_or_default();
        while out.len() < PIECE_BYTES {
            if !self.write_next(&mut out) {
                out.append(&mut self.tail);
                break;
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

fn write_sample(time_ms: i64, value: f64, out: &mut Vec<u8>) {
    out.push(b'[');
    write_time(time_ms, out);
    out.extend_from_slice(b",\"");
    write_value(value, out);
    out.extend_from_slice(b"\"]");
}

/// Appends labels as an object, sorted by name.
pub fn write_labels(labels: &Labels, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in labels.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(name, out);
        out.push(b':');
        write_text(value, out);
    }
    out.push(b'}');
}

/// Appends a list; `write` appends an item.
pub fn write_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// Appends a list of strings.
pub fn write_texts<'a>(texts: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
    write_list(texts, out, write_text);
}

/// Appends a string, with quotes and escapes.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            continue;
        }
        out.extend_from_slice(&bytes[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use gnudi_promql::Usage;

    use super::*;

    fn text(value: Value) -> String {
        let result =
            QueryResult { value, warnings: Vec::new(), infos: vec!["i".to_owned()], usage: Usage::default() };
        String::from_utf8(QueryPieces::new(result, None).flatten().collect()).unwrap()
    }

    fn data(data: &str) -> String {
        format!(r#"{{"status":"success","data":{data},"infos":["i"]}}"#)
    }

    #[test]
    fn results_have_prometheus_format() {
        let labels = Labels::new([("__name__", "x.y"), ("a", "1\"\n\u{1}")]);
        let vector = Value::Vector(vec![Sample { labels, time_ms: 1500, value: 0.5 }]);
        let expected = r#"{"resultType":"vector","result":[{"metric":{"__name__":"x.y","a":"1\"\n\u0001"},"value":[1.5,"0.5"]}]}"#;
        assert_eq!(text(vector), data(expected));
        assert_eq!(text(Value::Vector(Vec::new())), data(r#"{"resultType":"vector","result":[]}"#));
        let series = SampleSeries { labels: Labels::empty(), samples: vec![(0, 1.0), (60_000, f64::NAN)] };
        let expected = r#"{"resultType":"matrix","result":[{"metric":{},"values":[[0,"1"],[60,"NaN"]]},{"metric":{},"values":[[0,"1"],[60,"NaN"]]}]}"#;
        assert_eq!(text(Value::Matrix(vec![series.clone(), series])), data(expected));
        let scalar = Value::Scalar { time_ms: 4000, value: 2.0 };
        assert_eq!(text(scalar), data(r#"{"resultType":"scalar","result":[4,"2"]}"#));
        let string = Value::String { time_ms: 4000, value: "é".to_owned() };
        assert_eq!(text(string), data(r#"{"resultType":"string","result":[4,"é"]}"#));
    }

    #[test]
    fn long_results_are_split_into_pieces() {
        let samples = (0..20_000).map(|at| (at, at as f64)).collect();
        let value = Value::Matrix(vec![SampleSeries { labels: Labels::empty(), samples }]);
        let result = QueryResult { value, warnings: Vec::new(), infos: Vec::new(), usage: Usage::default() };
        let pieces: Vec<Vec<u8>> = QueryPieces::new(result, Some(b"{}")).collect();
        assert!(pieces.len() > 4 && pieces.iter().all(|piece| piece.len() < PIECE_BYTES + 100));
        let text = String::from_utf8(pieces.concat()).unwrap();
        assert!(
            text.ends_with(r#"[19.998,"19998"],[19.999,"19999"]]}],"stats":{}}}"#),
            "{}",
            &text[text.len() - 80..]
        );
        assert_eq!(text.matches(",\"").count(), 20_000 + 4);
    }

    #[test]
    fn responses_have_prometheus_format() {
        let warnings = ["w".to_owned()];
        assert_eq!(success(b"[]", &warnings, &[]), br#"{"status":"success","data":[],"warnings":["w"]}"#);
        let expected = br#"{"status":"error","errorType":"bad_data","error":"a \"b\""}"#;
        assert_eq!(error("bad_data", "a \"b\""), expected);
    }
}
