//! Request bodies with measures: advancing times, realistic values.

use std::io::Write;

use fastrand::Rng;
use gnudi_model::Timestamp;

/// The first time of every load: 2015-01-01T00:00:00.123Z, in milliseconds since the epoch.
pub const START_MS: i64 = 1_420_070_400_123;

/// A reproducible gauge (a random walk): between 0 and 100, two decimals, steps of at most one half,
/// like a machine's load. Noise would be unfair to servers that compress.
#[derive(Clone, Debug)]
pub struct Values {
    random: Rng,
    hundredths: i64,
}

impl Values {
    pub fn new(seed: u64) -> Self {
        Values { random: Rng::with_seed(seed), hundredths: 5_000 }
    }

    /// The next value in hundredths, 0 to 10,000.
    pub fn next_hundredths(&mut self) -> i64 {
        self.hundredths = (self.hundredths + self.random.i64(-50..=50)).clamp(0, 10_000);
        self.hundredths
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        let hundredths = self.next_hundredths();
        write!(out, "{}.{:02}", hundredths / 100, hundredths % 100).expect("a Vec takes it");
    }
}

/// A number of measures, one every `step_ms` from `start_ms` on.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start_ms: i64,
    pub step_ms: i64,
    pub count: usize,
}

impl Span {
    /// A number of measures, one per minute, from this minute of every load on.
    pub fn minutes(first: usize, count: usize) -> Self {
        const MINUTE_MS: i64 = 60_000;
        Span { start_ms: START_MS + first as i64 * MINUTE_MS, step_ms: MINUTE_MS, count }
    }

    pub fn times(self) -> impl Iterator<Item = i64> {
        (0..self.count as i64).map(move |index| self.start_ms + index * self.step_ms)
    }

    /// Gnocchi's JSON with the spaces of Python's `json.dumps`, as most agents send it:
    /// `[{"timestamp": "2015-01-01T00:00:00.123", "value": 1.23}, ...]`.
    pub fn write_gnocchi(self, values: &mut Values, out: &mut Vec<u8>) {
        self.write_json([", ", "{\"timestamp\": \"", "\", \"value\": "], values, out);
    }

    /// The same without spaces, as `ujson` and gnocchiclient write it.
    pub fn write_gnocchi_compact(self, values: &mut Values, out: &mut Vec<u8>) {
        self.write_json([",", "{\"timestamp\":\"", "\",\"value\":"], values, out);
    }

    fn write_json(self, [comma, head, middle]: [&str; 3], values: &mut Values, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, time_ms) in self.times().enumerate() {
            if index > 0 {
                out.extend_from_slice(comma.as_bytes());
            }
            out.extend_from_slice(head.as_bytes());
            let end = out.len() + b"YYYY-MM-DDTHH:MM:SS".len();
            Timestamp(time_ms * 1_000_000).write_iso(out);
            out.truncate(end);
            write!(out, ".{:03}{middle}", time_ms.rem_euclid(1000)).expect("a Vec takes it");
            values.write(out);
            out.push(b'}');
        }
        out.push(b']');
    }

    /// A line for VictoriaMetrics' `/api/v1/import`, which begins with the metric:
    /// `{"metric":{...},"values":[1.23,...],"timestamps":[1420070400123,...]}`.
    pub fn write_columns(self, metric: &str, values: &mut Values, out: &mut Vec<u8>) {
        out.extend_from_slice(metric.as_bytes());
        out.extend_from_slice(b",\"values\":[");
        for _ in 0..self.count {
            values.write(out);
            out.push(b',');
        }
        out.pop_if(|last| *last == b',');
        out.extend_from_slice(b"],\"timestamps\":[");
        for time_ms in self.times() {
            write!(out, "{time_ms},").expect("a Vec takes it");
        }
        out.pop_if(|last| *last == b',');
        out.extend_from_slice(b"]}\n");
    }

    /// Lines for VictoriaMetrics' `/api/v1/import/prometheus`: `name 1.23 1420070400123`.
    pub fn write_lines(self, name: &str, values: &mut Values, out: &mut Vec<u8>) {
        self.write_text(name, " ", values, out);
    }

    /// Lines of InfluxDB's line protocol with times in milliseconds: `series value=1.23 1420070400123`.
    pub fn write_influx(self, series: &str, values: &mut Values, out: &mut Vec<u8>) {
        self.write_text(series, " value=", values, out);
    }

    fn write_text(self, name: &str, equals: &str, values: &mut Values, out: &mut Vec<u8>) {
        for time_ms in self.times() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(equals.as_bytes());
            values.write(out);
            writeln!(out, " {time_ms}").expect("a Vec takes it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { start_ms: START_MS, step_ms: 60_000, count: 2 };

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn gnocchis_json() {
        let text = text(|out| SPAN.write_gnocchi(&mut Values::new(1), out));
        let measures: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(measures[0]["timestamp"], "2015-01-01T00:00:00.123");
        assert_eq!(measures[1]["timestamp"], "2015-01-01T00:01:00.123");
        assert!(measures[1]["value"].as_f64().is_some_and(|value| (0.0..100.0).contains(&value)));
        assert!(text.starts_with("[{\"timestamp\": \"2015-01-01T00:00:00.123\", \"value\": "), "{text}");
        let compact = self::text(|out| SPAN.write_gnocchi_compact(&mut Values::new(1), out));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&compact).unwrap(), measures);
        assert!(!compact.contains(' '), "{compact}");
    }

    #[test]
    fn the_same_values_in_every_form() {
        let columns = text(|out| SPAN.write_columns("{\"metric\":{}", &mut Values::new(7), out));
        let columns: serde_json::Value = serde_json::from_str(&columns).unwrap();
        assert_eq!(columns["timestamps"], serde_json::json!([START_MS, START_MS + 60_000]));
        let lines = text(|out| SPAN.write_lines("m{i=\"1\"}", &mut Values::new(7), out));
        let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines[1][2], (START_MS + 60_000).to_string());
        for (line, value) in lines.iter().zip(columns["values"].as_array().unwrap()) {
            assert_eq!(line[0], "m{i=\"1\"}");
            assert_eq!(line[1].parse::<f64>().unwrap(), value.as_f64().unwrap());
        }
        let influx = text(|out| SPAN.write_influx("m,i=1", &mut Values::new(7), out));
        let expected = lines.iter().map(|line| format!("m,i=1 value={} {}\n", line[1], line[2]));
        assert_eq!(influx, expected.collect::<String>());
    }

    #[test]
    fn values_walk() {
        let mut values = Values::new(3);
        let drawn: Vec<i64> = (0..10_000).map(|_| values.next_hundredths()).collect();
        assert!(drawn.windows(2).all(|pair| (pair[0] - pair[1]).abs() <= 50));
        assert!(drawn.iter().all(|value| (0..=10_000).contains(value)));
        let distinct: std::collections::HashSet<i64> = drawn.into_iter().collect();
        assert!(distinct.len() > 1000, "{}", distinct.len());
    }
}
