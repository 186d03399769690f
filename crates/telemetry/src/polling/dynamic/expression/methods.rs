//! The supported methods of texts, lists and maps.

use serde_json::Value;

use super::{Result, error, format};
use crate::definitions::python;

callables! {
    Method:
    Capitalize("capitalize", 0, 0),
    Count("count", 1, 1),
    EndsWith("endswith", 1, 1),
    Find("find", 1, 1),
    Format("format", 0, usize::MAX),
    Get("get", 1, 2),
    Index("index", 1, 1),
    IsDigit("isdigit", 0, 0),
    Items("items", 0, 0),
    Join("join", 1, 1),
    Keys("keys", 0, 0),
    Lower("lower", 0, 0),
    LStrip("lstrip", 0, 1),
    RemovePrefix("removeprefix", 1, 1),
    RemoveSuffix("removesuffix", 1, 1),
    Replace("replace", 2, 3),
    RSplit("rsplit", 0, 2),
    RStrip("rstrip", 0, 1),
    Split("split", 0, 2),
    SplitLines("splitlines", 0, 0),
    StartsWith("startswith", 1, 1),
    Strip("strip", 0, 1),
    Upper("upper", 0, 0),
    Values("values", 0, 0),
    ZFill("zfill", 1, 1),
}

/// Maximum length of a padded text.
const FILLED_LENGTH_MAX: usize = 1 << 16;
/// Maximum bytes of a text made of others.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl Method {
    pub fn call(self, of: &Value, arguments: &[Value]) -> Result<Value> {
        match of {
            Value::String(text) => of_text(self, text, arguments),
            Value::Array(items) => of_list(self, items, arguments),
            Value::Object(entries) => of_map(self, entries, arguments),
            _ => Err(error(format!("{self:?}: neither a text, a list nor a map"))),
        }
    }
}

fn of_map(method: Method, entries: &serde_json::Map<String, Value>, arguments: &[Value]) -> Result<Value> {
    Ok(match (method, arguments) {
        (Method::Get, [Value::Array(_) | Value::Object(_), ..]) => {
            return Err(error("get: neither a list nor a dict can be a key"));
        }
        (Method::Get, [key, rest @ ..]) => {
            let found = key.as_str().and_then(|key| entries.get(key));
            found.or_else(|| rest.first()).cloned().unwrap_or_default()
        }
        (Method::Keys, []) => entries.keys().map(String::as_str).collect(),
        (Method::Values, []) => entries.values().cloned().collect(),
        (Method::Items, []) => entries
            .iter()
            .map(|(key, value)| Value::Array(vec![key.as_str().into(), value.clone()]))
            .collect(),
        _ => return Err(error(format!("{method:?}: no method of maps"))),
    })
}

fn of_list(method: Method, items: &[Value], arguments: &[Value]) -> Result<Value> {
    Ok(match (method, arguments) {
        (Method::Count, [wanted]) => {
            items.iter().filter(|item| python::is_equal(item, wanted)).count().into()
        }
        (Method::Index, [wanted]) => {
            let place = items.iter().position(|item| python::is_equal(item, wanted));
            place.ok_or_else(|| error("index: not in the list"))?.into()
        }
        _ => return Err(error(format!("{method:?}: no method of lists"))),
    })
}

fn text_of(method: Method, value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| error(format!("{method:?}: an argument that is no text")))
}

fn of_text(method: Method, text: &str, arguments: &[Value]) -> Result<Value> {
    let argument = |index: usize| text_of(method, &arguments[index]);
    Ok(match method {
        Method::Lower => text.to_lowercase().into(),
        Method::Upper => text.to_uppercase().into(),
        Method::Capitalize => {
            let mut letters = text.chars();
            let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
            format!("{first}{}", letters.as_str().to_lowercase()).into()
        }
        Method::IsDigit => (!text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit())).into(),
        Method::Strip | Method::LStrip | Method::RStrip => stripped(method, text, arguments)?.into(),
        Method::Split | Method::RSplit => split(method, text, arguments)?,
        Method::SplitLines => lines(text),
        Method::Format => format::braces(text, arguments)?.into(),
        Method::Join => joined(text, &arguments[0])?,
        Method::Count => match argument(0)? {
            "" => (text.chars().count() + 1).into(),
            wanted => text.matches(wanted).count().into(),
        },
        Method::Find | Method::Index => {
            let at = text.find(argument(0)?).map(|at| text[..at].chars().count());
            match at {
                None if method == Method::Index => return Err(error("index: not in the text")),
                at => at.map_or_else(|| (-1).into(), Value::from),
            }
        }
        Method::StartsWith | Method::EndsWith => ends(method, text, &arguments[0])?.into(),
        Method::RemovePrefix => text.strip_prefix(argument(0)?).unwrap_or(text).into(),
        Method::RemoveSuffix => text.strip_suffix(argument(0)?).unwrap_or(text).into(),
        Method::Replace => replaced(text, argument(0)?, argument(1)?, times(arguments.get(2))?)?.into(),
        Method::ZFill => filled(text, &arguments[0])?.into(),
        Method::Get | Method::Items | Method::Keys | Method::Values => {
            return Err(error(format!("{method:?}: no method of texts")));
        }
    })
}

/// A maximum count; `None`: no limit.
fn times(argument: Option<&Value>) -> Result<Option<usize>> {
    let Some(argument) = argument else { return Ok(None) };
    let times = argument.as_i64().ok_or_else(|| error("how often: no whole number"))?;
    Ok(usize::try_from(times).ok())
}

/// The first argument; `None` if it is missing or null.
fn optional_text(method: Method, arguments: &[Value]) -> Result<Option<&str>> {
    let given = arguments.first().filter(|argument| !argument.is_null());
    given.map(|argument| text_of(method, argument)).transpose()
}

fn stripped<'a>(method: Method, text: &'a str, arguments: &[Value]) -> Result<&'a str> {
    let letters = optional_text(method, arguments)?;
    let fits =
        |letter: char| letters.map_or_else(|| python::is_space(letter), |letters| letters.contains(letter));
    Ok(match method {
        Method::LStrip => text.trim_start_matches(fits),
        Method::RStrip => text.trim_end_matches(fits),
        _ => text.trim_matches(fits),
    })
}

fn split(method: Method, text: &str, arguments: &[Value]) -> Result<Value> {
    let separator = optional_text(method, arguments)?;
    if separator == Some("") {
        return Err(error("split: an empty separator"));
    }
    let splits_max = times(arguments.get(1))?;
    Ok(python::split(text, separator, splits_max, method == Method::RSplit).into_iter().collect())
}

fn lines(text: &str) -> Value {
    if text.is_empty() {
        return Value::Array(Vec::new());
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.strip_suffix('\n').unwrap_or(&text).split('\n').collect()
}

fn joined(separator: &str, items: &Value) -> Result<Value> {
    let items = super::functions::items(items)?;
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let texts = texts.ok_or_else(|| error("join: an item that is no text"))?;
    let separators = separator.len().saturating_mul(texts.len().saturating_sub(1));
    check_length("join", texts.iter().map(|text| text.len()).fold(separators, usize::saturating_add))?;
    Ok(texts.join(separator).into())
}

/// Fails if a method makes a text of too many bytes.
pub fn check_length(method: &str, bytes: usize) -> Result<()> {
    if bytes > TEXT_BYTES_MAX { Err(error(format!("{method}: a result that is too long"))) } else { Ok(()) }
}

/// Whether it ends with a text, or with any of several.
fn ends(method: Method, text: &str, wanted: &Value) -> Result<bool> {
    let one = |wanted: &str| {
        if method == Method::StartsWith { text.starts_with(wanted) } else { text.ends_with(wanted) }
    };
    match wanted {
        Value::Array(several) => {
            several.iter().try_fold(false, |found, wanted| Ok(found || one(text_of(method, wanted)?)))
        }
        wanted => Ok(one(text_of(method, wanted)?)),
    }
}

fn replaced(text: &str, from: &str, to: &str, times: Option<usize>) -> Result<String> {
    let matches = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
    check_length("replace", text.len().saturating_add(matches.saturating_mul(to.len())))?;
    Ok(times.map_or_else(|| text.replace(from, to), |times| text.replacen(from, to, times)))
}

/// Pads with zeros after the sign.
fn filled(text: &str, width: &Value) -> Result<String> {
    let width = width.as_i64().ok_or_else(|| error("zfill: no whole number"))?;
    let width = usize::try_from(width).unwrap_or_default();
    if width > FILLED_LENGTH_MAX {
        return Err(error("zfill: a result that is too long"));
    }
    let zeros = "0".repeat(width.saturating_sub(text.chars().count()));
    Ok(match text.strip_prefix(['+', '-']) {
        Some(rest) => format!("{}{zeros}{rest}", &text[..1]),
        None => format!("{zeros}{text}"),
    })
}
