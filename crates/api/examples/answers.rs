//! gnudi's results for single inputs, one per line: `tests/oracle/texts.py` compares them with Gnocchi's
//! libraries.
//!
//! A line of input is a command and its argument: `float` and 16 hexadecimal digits; `measures` or `batch`,
//! the time in nanoseconds and a body; `span` and a JSON value; `json` and a document; `operations` and a
//! JSON value, a list or a text.

use std::io::{self, BufRead, BufWriter, Write};

use gnudi_api::{
    measures,
    operations::{self, Refusal},
};
use gnudi_app::{
    ApiError,
    json::{self, Value, float},
    python,
};
use gnudi_model::{Measure, Timestamp};

const MEASURES_MAX: usize = 1 << 20;

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        let (command, argument) = split(&line);
        writeln!(out, "{}", answer(command, argument))?;
    }
    Ok(())
}

fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    (&line[..space], line.get(space + 1..).unwrap_or_default())
}

fn answer(command: &[u8], argument: &[u8]) -> String {
    match command {
        b"float" => {
            let bits = std::str::from_utf8(argument).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            let mut text = Vec::new();
            float::write(f64::from_bits(bits.expect("16 hexadecimal digits")), &mut text);
            String::from_utf8(text).expect("floats are ASCII")
        }
        b"measures" => {
            let (now, body) = timed(argument);
            let mut out = Vec::new();
            let read = measures::read_list(body, || now, MEASURES_MAX, &mut out);
            shown(read.map(|_| list(&out)))
        }
        b"batch" => {
            let (now, body) = timed(argument);
            let (mut parts, mut out) = (Vec::new(), Vec::new());
            let read = measures::read_batch(body, || now, MEASURES_MAX, &mut parts, &mut out);
            shown(read.map(|_| {
                let entry = |part: &measures::scan::MetricMeasures| {
                    format!("\"{}\": {}", part.metric, list(&out[part.range.clone()]))
                };
                format!("{{{}}}", parts.iter().map(entry).collect::<Vec<_>>().join(", "))
            }))
        }
        b"span" => match json::parse(argument) {
            Ok(value) => match python::timespan(&value) {
                Ok(span) => span.0.to_string(),
                Err(reason) => format!("error {reason}"),
            },
            Err(error) => format!("error {error}"),
        },
        b"json" => match json::parse(argument) {
            Ok(value) => value.to_json(),
            Err(error) => format!("error {error}"),
        },
        b"operations" => match json::parse(argument) {
            Ok(value) => operations_of(&value),
            Err(error) => format!("error {error}"),
        },
        _ => "error: what?".to_owned(),
    }
}

fn operations_of(value: &Value) -> String {
    match operations::read(value) {
        Ok(operations) => operations.to_string().replace('\n', " "),
        Err(Refusal::Invalid(invalid)) => format!("error {}", invalid.in_key("operations").reason()),
        Err(Refusal::Unreadable(error)) => match error.detail.get("detail") {
            Some(Value::Str(text)) => format!("error {text}"),
            _ => "error without a text".to_owned(),
        },
    }
}

fn timed(argument: &[u8]) -> (Timestamp, &[u8]) {
    let (now, body) = split(argument);
    let now = std::str::from_utf8(now).ok().and_then(|text| text.parse().ok());
    (Timestamp(now.expect("nanoseconds")), body)
}

/// Times in nanoseconds and the bits of values: printing loses nothing.
fn list(measures: &[Measure]) -> String {
    let measure = |measure: &Measure| {
        let bits = if measure.value.is_nan() {
            "nan".to_owned()
        } else {
            format!("{:016x}", measure.value.to_bits())
        };
        format!("[{}, \"{bits}\"]", measure.timestamp.0)
    };
    format!("[{}]", measures.iter().map(measure).collect::<Vec<_>>().join(", "))
}

fn shown(read: Result<String, ApiError>) -> String {
    read.unwrap_or_else(|error| {
        let reason = error.detail.get("reason").cloned().unwrap_or(error.detail);
        format!(
            "error {}",
            match reason {
                Value::Str(text) => text,
                other => other.to_json(),
            }
        )
    })
}
