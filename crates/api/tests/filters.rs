//! Compares filters, predicates and named measures with the results of Gnocchi's own code:
//! `data/filters.jsonl`, recorded by `tests/oracle/filters.py`.

#[allow(dead_code, reason = "it is a program of its own, too")]
#[path = "../examples/filters.rs"]
mod program;

use gnudi_api::filter::from_text;
use gnudi_app::json::{self, Value};
use proptest::prelude::*;

const RECORDED: &str = include_str!("data/filters.jsonl");

fn text<'v>(line: &'v Value, key: &str) -> Option<&'v str> {
    match line.get(key) {
        Some(Value::Str(text)) => Some(text),
        _ => None,
    }
}

#[test]
fn they_are_read_as_gnocchi_reads_them() {
    let mut wrong = Vec::new();
    let (mut answers, mut errors) = (0, 0);
    for line in RECORDED.lines() {
        let line = json::parse(line.as_bytes()).expect("a line is a document");
        let (kind, argument) = (text(&line, "kind").expect("a kind"), text(&line, "argument").expect("text"));
        let ours = program::answer(kind.as_bytes(), argument.as_bytes());
        let same = match (line.get("answer"), text(&line, "error")) {
            (Some(answer), _) => {
                answers += 1;
                ours == answer.to_json()
            }
            (None, Some(error)) => {
                errors += 1;
                ours.strip_prefix("error ") == Some(error)
            }
            // Gnocchi fails, or has its parser's error text.
            (None, None) => ours.starts_with("error "),
        };
        if !same {
            wrong.push(format!("{kind} {argument}\n  gnudi:    {ours}\n  recorded: {}", line.to_json()));
        }
    }
    assert!(answers > 200 && errors > 50, "{answers} answers and {errors} errors are recorded");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

proptest! {
    /// Any text is either parsed or refused with a position.
    #[test]
    fn no_text_is_too_much(text in "((not|and|or|∧|[(\\[\\])=≠<,'\"\\\\-]|a|é|in|like|1e?|null|5dfe182a51d24122b90bdf0f215b736e)[ \t]?){0,40}") {
        if let Err(error) = from_text(&text, "foobar")
            && let Value::Str(reason) = error.detail
        {
            prop_assert!(reason.starts_with("Invalid filter: "), "{}", reason);
            prop_assert!(reason.contains("(at char "), "{}", reason);
        }
    }
}
