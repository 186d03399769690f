//! The format of test files: `load`, `clear`, `eval instant`, `eval range` with the results they expect.

use gnudi_promql::{Labels, QueryTimes, STALE_NAN_BITS, duration_ms};

/// A value of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item {
    Value(f64),
    Omitted,
    /// A native histogram, which is not parsed.
    Native,
}

#[derive(Debug, Clone)]
pub struct Sequence {
    pub labels: Labels,
    pub items: Vec<Item>,
}

/// An expected text, or a regular expression.
#[derive(Debug, Clone, Default)]
pub enum Text {
    #[default]
    Any,
    Exactly(String),
    Matching(String),
}

#[derive(Debug, Clone, Default)]
pub struct Expected {
    pub sequences: Vec<Sequence>,
    pub scalar: Option<f64>,
    pub string: Option<String>,
    pub ordered: bool,
    pub fail: Option<Text>,
    pub warn: Vec<Text>,
    pub no_warn: bool,
    pub info: Vec<Text>,
    pub no_info: bool,
    /// The times of a range vector that an instant query gives.
    pub range: Option<QueryTimes>,
}

#[derive(Debug, Clone)]
pub struct Eval {
    pub line: usize,
    pub query: String,
    pub times: QueryTimes,
    pub expected: Expected,
}

#[derive(Debug, Clone)]
pub enum Command {
    Clear,
    /// `native`: classic histograms are loaded as native ones, too.
    Load {
        step_ms: i64,
        sequences: Vec<Sequence>,
        native: bool,
    },
    Eval(Box<Eval>),
}

/// `5m`, `1h30m`, `10` (seconds), `-1m`. Milliseconds.
pub fn duration(text: &str) -> Option<i64> {
    if let Some(positive) = text.strip_prefix('-') {
        return duration(positive).map(|milliseconds| -milliseconds);
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return Some((seconds * 1000.0) as i64);
    }
    duration_ms(text).ok()
}

fn number(text: &str) -> Option<f64> {
    match text {
        "stale" => Some(f64::from_bits(STALE_NAN_BITS)),
        _ => text.parse().ok(),
    }
}

/// `1`, `1x3`, `1+2x3`, `_`, `_x3`, `stale`, `{{...}}`.
fn items(text: &str, into: &mut Vec<Item>) -> Option<()> {
    let repeated = text.rsplit_once('x').and_then(|(body, times)| Some((body, times.parse::<usize>().ok()?)));
    if text.starts_with("{{") {
        let times = if text.ends_with("}}") { 0 } else { repeated?.1 };
        into.extend(std::iter::repeat_n(Item::Native, times + 1));
        return Some(());
    }
    let Some((body, times)) = repeated else {
        into.push(if text == "_" { Item::Omitted } else { Item::Value(number(text)?) });
        return Some(());
    };
    if body == "_" {
        into.extend(std::iter::repeat_n(Item::Omitted, times));
        return Some(());
    }
    let is_step =
        |(at, c): (usize, char)| at > 0 && (c == '+' || c == '-') && !body[..at].ends_with(['e', 'E']);
    let step_at = body.char_indices().find(|place| is_step(*place)).map_or(body.len(), |place| place.0);
    let mut value = number(&body[..step_at])?;
    let step = if step_at == body.len() { 0.0 } else { number(&body[step_at..])? };
    for _ in 0..=times {
        into.push(Item::Value(value));
        if step != 0.0 {
            value += step;
        }
    }
    Some(())
}

fn unquote(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((value, &text[at + 1..]));
        }
        if c != '\\' || quote == '`' {
            value.push(c);
            continue;
        }
        match chars.next()?.1 {
            'n' => value.push('\n'),
            't' => value.push('\t'),
            'u' => {
                let hex: String = chars.by_ref().take(4).map(|place| place.1).collect();
                value.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
            }
            other => value.push(other),
        }
    }
    None
}

/// `name{label="value", ...}` or `{"name", ...}`, and what follows it.
pub fn labels(text: &str) -> Option<(Labels, &str)> {
    let name_end = text.find(|c: char| c == '{' || c.is_whitespace()).unwrap_or(text.len());
    let mut pairs = vec![("__name__".to_string(), text[..name_end].to_string())];
    let mut rest = &text[name_end..];
    if !rest.starts_with('{') {
        return Some((Labels::new(pairs), rest));
    }
    rest = rest[1..].trim_start();
    while !rest.starts_with('}') {
        let name;
        if let Some((quoted, after)) = unquote(rest) {
            name = quoted;
            rest = after.trim_start();
            if !rest.starts_with('=') {
                pairs.push(("__name__".to_string(), name));
                rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
                continue;
            }
        } else {
            let equals = rest.find('=')?;
            name = rest[..equals].trim().to_string();
            rest = &rest[equals..];
        }
        let (value, after) = unquote(rest.strip_prefix('=')?.trim_start())?;
        pairs.push((name, value));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some((Labels::new(pairs), &rest[1..]))
}

fn sequence(line: &str) -> Option<Sequence> {
    let (labels, mut rest) = labels(line)?;
    let mut sequence = Sequence { labels, items: Vec::new() };
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(sequence);
        }
        // A native histogram contains spaces.
        let from = if rest.starts_with("{{") { rest.find("}}")? + 2 } else { 0 };
        let mut end = rest[from..].find(char::is_whitespace).map_or(rest.len(), |at| from + at);
        if rest[from..end].contains("{{") {
            let close = from + rest[from..].find("}}")? + 2;
            end = rest[close..].find(char::is_whitespace).map_or(rest.len(), |at| close + at);
        }
        items(&rest[..end], &mut sequence.items)?;
        rest = &rest[end..];
    }
}

/// `expect warn`, `expect info msg: text`, `expect fail regex: pattern`.
fn expectation(line: &str, expected: &mut Expected) -> Option<()> {
    let rest = line.strip_prefix("expect")?.trim_start();
    let (what, how) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let how = how.trim_start();
    let text = if let Some(text) = how.strip_prefix("msg:") {
        Text::Exactly(text.trim().to_string())
    } else if let Some(pattern) = how.strip_prefix("regex:") {
        Text::Matching(pattern.trim().to_string())
    } else {
        Text::Any
    };
    match what {
        "ordered" => expected.ordered = true,
        "fail" => expected.fail = Some(text),
        "warn" => expected.warn.push(text),
        "no_warn" => expected.no_warn = true,
        "info" => expected.info.push(text),
        "no_info" => expected.no_info = true,
        "string" => expected.string = Some(unquote(how)?.0),
        "range" => {
            let times = how.strip_prefix("vector")?.trim_start().replace("from ", "");
            expected.range = Some(range(&times)?.0);
        }
        _ => return None,
    }
    Some(())
}

/// `0 to 5m step 1m rest`.
fn range(text: &str) -> Option<(QueryTimes, &str)> {
    let (start, rest) = text.split_once(" to ")?;
    let (end, rest) = rest.split_once(" step ")?;
    let (step, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
    let times = QueryTimes {
        start_ms: duration(start.trim())?,
        end_ms: duration(end.trim())?,
        step_ms: duration(step.trim())?,
    };
    Some((times, rest))
}

fn eval(line: &str, number: usize) -> Option<Eval> {
    let (command, rest) = line.split_once(char::is_whitespace)?;
    let mut expected = Expected::default();
    match command {
        "eval_fail" => expected.fail = Some(Text::Any),
        "eval_warn" => expected.warn.push(Text::Any),
        "eval_info" => expected.info.push(Text::Any),
        "eval_ordered" => expected.ordered = true,
        _ => {}
    }
    let (mode, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let (times, query) = if mode == "instant" {
        match rest.strip_prefix("at ") {
            Some(rest) => {
                let (at, query) = rest.trim_start().split_once(char::is_whitespace)?;
                (QueryTimes::instant(duration(at)?), query)
            }
            None => (QueryTimes::instant(0), rest),
        }
    } else {
        range(rest.strip_prefix("from ")?)?
    };
    Some(Eval { line: number, query: query.trim().to_string(), times, expected })
}

/// The commands of a file. `Err` is the number of a line that cannot be read.
pub fn parse(text: &str) -> Result<Vec<Command>, usize> {
    let comment = |line: &str| line.starts_with('#');
    let lines: Vec<&str> =
        text.lines().map(str::trim).map(|line| if comment(line) { "" } else { line }).collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        let command = line.split_whitespace().next().unwrap_or_default();
        let block = lines[at..].iter().take_while(|line| !line.is_empty()).count();
        if command.is_empty() {
            continue;
        }
        if command == "clear" {
            commands.push(Command::Clear);
        } else if command.starts_with("load") {
            let step_ms = line.split_whitespace().nth(1).and_then(duration).ok_or(at)?;
            let mut sequences = Vec::new();
            for line in &lines[at..at + block] {
                at += 1;
                // Start timestamps are not read.
                if !line.split_whitespace().next().is_some_and(|metric| metric.ends_with("@st")) {
                    sequences.push(sequence(line).ok_or(at)?);
                }
            }
            commands.push(Command::Load { step_ms, sequences, native: command == "load_with_nhcb" });
        } else {
            let mut eval = eval(line, at).ok_or(at)?;
            for line in &lines[at..at + block] {
                at += 1;
                if let Some(text) = line.strip_prefix("expected_fail_message") {
                    eval.expected.fail = Some(Text::Exactly(text.trim().to_string()));
                } else if let Some(pattern) = line.strip_prefix("expected_fail_regexp") {
                    eval.expected.fail = Some(Text::Matching(pattern.trim().to_string()));
                } else if line.split_whitespace().next() == Some("expect") {
                    expectation(line, &mut eval.expected).ok_or(at)?;
                } else if let Some(value) = number(line) {
                    eval.expected.scalar = Some(value);
                } else {
                    eval.expected.sequences.push(sequence(line).ok_or(at)?);
                }
            }
            commands.push(Command::Eval(Box::new(eval)));
        }
    }
    Ok(commands)
}
