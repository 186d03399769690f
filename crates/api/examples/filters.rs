//! gnudi's results for filters, predicates and named measures, one per line: `tests/oracle/filters.py`
//! compares them with Gnocchi's code.
//!
//! A line of input is a command and its JSON argument: `text` and a filter's text; `json` and a filter's
//! document; `predicate` and a query for values; `named` and a body of measures by resource and name.

use std::io::{self, BufRead, BufWriter, Write};

use gnudi_api::{
    filter::{from_json, from_text},
    measures::named::{self, Named},
    predicate::Predicate,
};
use gnudi_app::{
    ApiError,
    json::{self, Value},
};
use gnudi_indexer::{Comparison, Filter, FilterValue};
use gnudi_model::{Measure, Timestamp};

const CREATOR: &str = "foobar";
const MEASURES_MAX: usize = 1 << 20;

/// The values on which a predicate is evaluated.
const VALUES: [f64; 8] = [-8.0, -0.5, 0.0, 1.0, 2.5, 3.0, 1e300, f64::NAN];

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (command, argument) = (&line[..space], line.get(space + 1..).unwrap_or_default());
        writeln!(out, "{}", answer(command, argument))?;
    }
    Ok(())
}

/// The result for a line: a document, or `error` and its text.
pub fn answer(command: &[u8], argument: &[u8]) -> String {
    read(command, argument).unwrap_or_else(|error| format!("error {}", reason(error)))
}

fn read(command: &[u8], argument: &[u8]) -> Result<String, ApiError> {
    if command == b"named" {
        let mut out = Vec::new();
        let (named, _) = named::read(argument, CREATOR, || Timestamp(0), MEASURES_MAX, &mut out)?;
        return Ok(named_value(&named, &out).to_json());
    }
    match (command, json::parse(argument)?) {
        (b"text", Value::Str(text)) => Ok(filter_value(&from_text(&text, CREATOR)?).to_json()),
        (b"json", document) => Ok(filter_value(&from_json(&document, CREATOR)?).to_json()),
        (b"predicate", document) => {
            let predicate = Predicate::read(&document)?;
            predicate.check()?;
            Ok(Value::Array(VALUES.map(|value| Value::Bool(predicate.holds(value))).into()).to_json())
        }
        _ => Ok("what?".to_owned()),
    }
}

fn reason(error: ApiError) -> String {
    match error.detail.get("reason").cloned().unwrap_or(error.detail) {
        Value::Str(text) => text,
        other => other.to_json(),
    }
}

/// A filter as a document in a canonical form.
fn filter_value(filter: &Filter) -> Value {
    let of = |operator: &str, operand: Value| Value::object([(operator, operand)]);
    let field = |field: &str, value: Value| Value::object([(field, value)]);
    let all = |filters: &[Filter]| Value::Array(filters.iter().map(filter_value).collect());
    match filter {
        Filter::Compare { comparison, field: name, value } => {
            let operator = match comparison {
                Comparison::Equal => "eq",
                Comparison::NotEqual => "ne",
                Comparison::Less => "lt",
                Comparison::LessOrEqual => "le",
                Comparison::Greater => "gt",
                Comparison::GreaterOrEqual => "ge",
            };
            of(operator, field(name, value_of(value)))
        }
        Filter::In { field: name, values } => {
            of("in", field(name, Value::Array(values.iter().map(value_of).collect())))
        }
        Filter::Like { field: name, pattern } => of("like", field(name, value_of(pattern))),
        Filter::And(filters) => of("and", all(filters)),
        Filter::Or(filters) => of("or", all(filters)),
        Filter::Not(filter) => of("not", filter_value(filter)),
        Filter::Empty => Value::object([]),
    }
}

fn value_of(value: &FilterValue) -> Value {
    match value {
        FilterValue::Null => Value::Null,
        FilterValue::Bool(flag) => Value::Bool(*flag),
        FilterValue::Int(number) => Value::Int(*number),
        FilterValue::Float(number) => Value::Float(*number),
        FilterValue::Text(text) => text.as_str().into(),
        FilterValue::Uuid(id) => id.to_string().into(),
    }
}

/// Times in nanoseconds and values as floats.
fn named_value(named: &Named<'_>, measures: &[Measure]) -> Value {
    let list = |measures: &[Measure]| {
        let measure = |measure: &Measure| {
            Value::Array(vec![Value::Int(measure.timestamp.0), Value::Float(measure.value)])
        };
        Value::Array(measures.iter().map(measure).collect())
    };
    let metrics = named.metrics.iter().map(|metric| {
        Value::Array(vec![
            named.resources[metric.resource].id.to_string().into(),
            (*metric.name).into(),
            metric.archive_policy_name.as_deref().into(),
            metric.unit.as_deref().into(),
            list(&measures[metric.range.clone()]),
        ])
    });
    Value::Array(metrics.collect())
}
