//! The tokens of a query.

use crate::plan::AggregateOp;
use crate::quoted::quoted;

/// The kind of a token. Words and signs are named as in the language, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    /// Invalid from here on; with the reason.
    Fault(String),
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Comma,
    Colon,
    /// `=`, which only matchers have.
    Assign,
    Identifier,
    /// An identifier with a colon, which is valid for metrics only.
    MetricIdentifier,
    Number,
    Duration,
    Text,
    Operator(&'static str),
    Aggregator(AggregateOp),
    Keyword(&'static str),
    /// Words that functions and arithmetic in durations share.
    Time(&'static str),
}

#[derive(Debug, Clone)]
pub(super) struct Token<'t> {
    pub kind: Kind,
    pub text: &'t str,
    /// The byte at which it begins.
    pub start: usize,
}

const OPERATORS: [&str; 4] = ["and", "or", "unless", "atan2"];
const KEYWORDS: [&str; 13] = [
    "offset",
    "smoothed",
    "anchored",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "fill",
    "fill_left",
    "fill_right",
];
const TIMES: [&str; 6] = ["start", "end", "step", "range", "max_of", "min_of"];

/// The meaning of a word in any case; `None` if it is a name.
pub(super) fn word(text: &str) -> Option<Kind> {
    let among = |words: &[&'static str]| words.iter().copied().find(|word| text.eq_ignore_ascii_case(word));
    if text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("nan") {
        return Some(Kind::Number);
    }
    among(&OPERATORS)
        .map(Kind::Operator)
        .or_else(|| AggregateOp::by_name(text).map(Kind::Aggregator))
        .or_else(|| among(&KEYWORDS).map(Kind::Keyword))
        .or_else(|| among(&TIMES).map(Kind::Time))
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is_operator(&self, name: &str) -> bool {
        matches!(self.kind, Kind::Operator(found) if found == name)
    }

    pub(super) fn is_keyword(&self, name: &str) -> bool {
        matches!(self.kind, Kind::Keyword(found) if found == name)
    }

    /// As Prometheus' errors describe it.
    pub(super) fn described(&self) -> String {
        let text = self.text;
        match &self.kind {
            Kind::End => "end of input".to_owned(),
            Kind::Fault(reason) => reason.clone(),
            Kind::Identifier => format!("identifier {}", quoted(text)),
            Kind::MetricIdentifier => format!("metric identifier {}", quoted(text)),
            Kind::Number => format!("number {}", shortened(text)),
            Kind::Duration => format!("duration {}", shortened(text)),
            Kind::Text => format!("string {}", shortened(text)),
            Kind::Operator(_) => format!("<op:{text}>"),
            Kind::Aggregator(_) => format!("<aggr:{text}>"),
            Kind::Keyword(_) => format!("<{text}>"),
            _ => quoted(text),
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= 10 {
        return quoted(text);
    }
    let beginning: String = text.chars().take(10).collect();
    quoted(&beginning) + "..."
}
