//! Compares responses with those of a real Gnocchi: `data/answers.jsonl`, recorded by
//! `tests/oracle/record_answers.py`.

mod support;

use std::collections::HashMap;

use gnudi_app::{
    ApiOptions,
    json::{self, Value},
};
use support::{Answer, Request, Server};

/// Aggregation methods that Gnocchi lacks.
const OWN_METHODS: [&str; 2] = ["\"increase\"", "\"rate_reset\""];

const RECORDED: &str = include_str!("data/answers.jsonl");
/// gnudi's text where Gnocchi has none (docs/compatibility.md).
const UNAUTHENTICATED: &str = "Authentication is required: send a name and a password by HTTP's basic scheme";

fn text<'v>(line: &'v Value, key: &str) -> Option<&'v str> {
    match line.get(key) {
        Some(Value::Str(text)) => Some(text),
        _ => None,
    }
}

/// Sorts aggregation methods: Gnocchi's order is that of a Python set.
fn in_order(document: Value) -> Value {
    match document {
        Value::Object(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let mut value = in_order(value);
                    if key == "aggregation_methods"
                        && let Value::Array(methods) = &mut value
                    {
                        methods.sort_by_key(Value::repr);
                    }
                    (key, value)
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(in_order).collect()),
        other => other,
    }
}

/// Maps ids created by this server to names in the recording, and back.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn filled(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    }

    fn emptied(&self, text: &str) -> String {
        let text = self.0.iter().fold(text.to_owned(), |text, (name, id)| text.replace(id, name));
        text.replace("localhost:8041", "{server}")
    }
}

async fn ask(server: &Server, names: &mut Names, line: &Value) -> Answer {
    let path = names.filled(text(line, "path").expect("a path"));
    let body = text(line, "body").map(|body| names.filled(body));
    let headers: Vec<(&str, &str)> = match line.get("send") {
        Some(Value::Object(entries)) => entries
            .iter()
            .filter_map(|(name, value)| match value {
                Value::Str(value) => Some((name.as_str(), value.as_str())),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let request = Request {
        method: text(line, "method").expect("a method"),
        path: &path,
        body: body.as_deref(),
        user: text(line, "user"),
        headers: &headers,
    };
    let answer = server.ask(request).await;
    if let Some(name) = text(line, "save") {
        let document = json::parse(answer.body.as_bytes()).expect("a document");
        let id = text(&document, "id").expect("an id").to_owned();
        names.0.insert(format!("{{{name}}}"), id);
    }
    answer
}

/// The differences between a response and the recorded one.
fn differences(names: &Names, line: &Value, answer: &Answer) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            differences.push(format!("  {what}: {ours}\n  recorded: {theirs}"));
        }
    };
    let Some(Value::Int(status)) = line.get("status") else { panic!("a status") };
    compare("status", answer.status.to_string(), status.to_string());
    for name in ["location", "link", "allow"] {
        let ours = answer.header(name).map(|value| names.emptied(value));
        compare(name, format!("{ours:?}"), format!("{:?}", text(line, name).map(str::to_owned)));
    }
    match line.get("json") {
        Some(theirs) => {
            let mut body = names.emptied(&answer.body).replace(UNAUTHENTICATED, "");
            if text(line, "path") == Some("/v1/capabilities") {
                for method in OWN_METHODS {
                    body = body.replace(&format!("{method}, "), "").replace(&format!(", {method}"), "");
                }
            }
            let ours = json::parse(body.as_bytes()).map(in_order);
            let ours = ours.map_or_else(|error| format!("{error}: {}", answer.body), |ours| ours.to_json());
            compare("body", ours, in_order(theirs.clone()).to_json());
        }
        None => compare("body", answer.body.clone(), text(line, "text").unwrap_or_default().to_owned()),
    }
    differences
}

#[tokio::test]
async fn answers_are_gnocchis() {
    let server = Server::start(ApiOptions { max_limit: 7, ..ApiOptions::default() }).await;
    let mut names = Names::default();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in RECORDED.lines() {
        let line = json::parse(line.as_bytes()).expect("a line is a document");
        let answer = ask(&server, &mut names, &line).await;
        count += 1;
        let what = format!(
            "{} {} {} as {}",
            text(&line, "method").unwrap_or_default(),
            text(&line, "path").unwrap_or_default(),
            text(&line, "body").unwrap_or_default(),
            text(&line, "user").unwrap_or("nobody"),
        );
        let differences = differences(&names, &line, &answer);
        if !differences.is_empty() {
            wrong.push(format!("{what}\n{}", differences.join("\n")));
        }
    }
    assert!(count > 300, "{count} requests are recorded");
    assert!(wrong.is_empty(), "{} of {count} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    server.stop().await;
}
