//! Evaluates expressions of dynamic pollsters, read as JSON lines from stdin. `tests/telemetry/test_expressions.py`
//! compares the results with Python's.
//!
//! ```text
//! {"text": "value * 2", "value": 3}                             {"value": 6}
//! ```
//! An unsupported expression gives `{"refused": "..."}`, one that fails `{"error": "..."}`.

use std::{
    error::Error,
    io::{BufRead, Write, stdin, stdout},
};

use gnudi_telemetry::polling::dynamic::Expression;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Task {
    text: String,
    value: Value,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let Task { text, value } = serde_json::from_str(&line?)?;
        let answer = match Expression::parse(&text, &["value"]) {
            Err(refused) => json!({ "refused": refused.to_string() }),
            Ok(expression) => match expression.evaluate(&[("value", &value)]) {
                Ok(value) => json!({ "value": value }),
                Err(error) => json!({ "error": error.to_string() }),
            },
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
