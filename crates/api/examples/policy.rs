//! Evaluates policies from JSON lines on stdin; `tests/auth/test_policy_language.py` compares the results
//! with oslo.policy's.
//!
//! ```text
//! {"rules": {"name": "text", "other": [["check", ...], ...]}, "default": "name",
//!  "asked": [["name", {credentials}, {target}], ...]}
//! ```
//! The response is a line of `+` and `-`, one per query, or `refused` and the reason.

use std::{
    borrow::Cow,
    io::{BufRead as _, Write as _, stdin, stdout},
};

use gnudi_access::policy::language::{Facts, Program, Refused, Source, compile};
use gnudi_app::json::{self, Value};
use gnudi_model::python::text_of_float;

/// Credentials and a target, as in Python's dictionaries.
struct Enforcement<'a> {
    credentials: &'a Value,
    target: &'a Value,
}

/// A value as Python prints it; `None` for values that no check can match.
fn printed(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(number) => number.to_string().into(),
        Value::BigInt(digits) => digits.into(),
        Value::Float(number) => text_of_float(*number).into(),
        Value::Str(text) => text.into(),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Whether the value at the path, or an element of a list on it, equals the text.
fn is_in(value: &Value, path: &[String], text: &str) -> bool {
    let Some((name, path)) = path.split_first() else {
        return printed(value).is_some_and(|printed| printed == text);
    };
    match value.get(name) {
        Some(Value::Array(items)) => items.iter().any(|item| is_in(item, path, text)),
        Some(inner) => is_in(inner, path, text),
        None => false,
    }
}

impl Facts for Enforcement<'_> {
    fn has_role(&self, role: &str) -> bool {
        let Some(Value::Array(roles)) = self.credentials.get("roles") else { return false };
        roles.iter().any(|own| printed(own).is_some_and(|own| own.to_lowercase() == role.to_lowercase()))
    }

    fn caller_has(&self, field: &[String], text: &str) -> bool {
        is_in(self.credentials, field, text)
    }

    fn target(&self, name: &str) -> Option<Cow<'_, str>> {
        self.target.get(name).and_then(printed)
    }
}

fn source(value: &Value) -> Source {
    let text = |value: &Value| match value {
        Value::Str(text) => text.clone(),
        other => panic!("no text: {other:?}"),
    };
    match value {
        Value::Array(lists) => {
            let list = |list: &Value| match list {
                Value::Array(items) => items.iter().map(text).collect(),
                item => vec![text(item)],
            };
            Source::Lists(lists.iter().map(list).collect())
        }
        value => Source::Text(text(value)),
    }
}

fn answer(program: &Program, asked: &Value) -> char {
    let Value::Array(asked) = asked else { panic!("no question: {asked:?}") };
    let [Value::Str(rule), credentials, target] = &asked[..] else { panic!("no question: {asked:?}") };
    let rule = program.find(rule).expect("the rule is there");
    if program.allows(rule, &Enforcement { credentials, target }) { '+' } else { '-' }
}

fn main() {
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let document = json::parse(line.expect("a line").as_bytes()).expect("JSON");
        let entry = |key| document.get(key).expect("an entry");
        let Value::Object(rules) = entry("rules") else { panic!("no rules") };
        let sources: Vec<_> = rules.iter().map(|(name, value)| (name.clone(), source(value))).collect();
        let Value::Str(default) = entry("default") else { panic!("no default") };
        let answers = match compile(&sources, default) {
            Ok(program) => {
                let Value::Array(asked) = entry("asked") else { panic!("no questions") };
                asked.iter().map(|asked| answer(&program, asked)).collect()
            }
            Err(Refused { name, problem }) => format!("refused {name}: {problem}"),
        };
        writeln!(out, "{answers}").expect("a reader");
        out.flush().expect("a reader");
    }
}
