//! Functions that change labels and not values.

use std::sync::Arc;

use regex::{Captures, Regex};

use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::letters::{is_digit, is_letter};
use crate::plan::{expression_states, takes_long, whole};

/// Any non-empty text is a label name.
fn check_name(name: &str, role: &str, function: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::execution(format!("invalid {role} label name in {function}(): {name}")));
    }
    Ok(())
}

/// `label_replace`: the replacement, if the source label matches.
#[derive(Debug)]
pub(crate) struct Replace {
    pub destination: Arc<str>,
    replacement: String,
    source: String,
    regex: Regex,
    states: usize,
}

impl Replace {
    pub(crate) fn new(destination: &str, replacement: &str, source: &str, pattern: &str) -> Result<Replace> {
        let pattern_of_whole = whole(pattern);
        let Ok(regex) = Regex::new(&pattern_of_whole) else {
            return Err(Error::execution(format!(
                "invalid regular expression in label_replace(): {pattern}"
            )));
        };
        check_name(destination, "destination", "label_replace")?;
        Ok(Replace {
            destination: destination.into(),
            replacement: replacement.to_string(),
            source: source.to_string(),
            regex,
            states: expression_states(&pattern_of_whole),
        })
    }

    /// Refuses a value in which the search would take too long.
    pub(crate) fn check_search(&self, labels: &Labels) -> Result<()> {
        if takes_long(self.states, labels.get(&self.source)) {
            return Err(Error::execution(
                "a label value is too long for the regular expression in label_replace()",
            ));
        }
        Ok(())
    }

    /// The most bytes that the new value can have: each reference stands for a part of the source's value.
    pub(crate) fn value_bytes_max(&self, labels: &Labels) -> usize {
        let references = self.replacement.matches('$').count();
        references.saturating_mul(labels.get(&self.source).len()).saturating_add(self.replacement.len())
    }

    pub(crate) fn apply(&self, labels: &Labels) -> Option<Labels> {
        let captures = self.regex.captures(labels.get(&self.source))?;
        let value = expanded(&self.replacement, &captures);
        Some(labels.with([(self.destination.clone(), value.into())]))
    }
}

/// A template with the groups that it refers to, by Go's rules: `$name`, `${name}` and `$$`. Any other dollar is itself.
fn expanded(template: &str, captures: &Captures<'_>) -> String {
    let mut value = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        value.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            value.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            value.push_str(group(name, captures));
            rest = after;
        } else {
            value.push('$');
        }
    }
    value.push_str(rest);
    value
}

/// The name of a group at the beginning of a text, possibly in braces, and what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let unbraced = text.strip_prefix('{');
    let named = unbraced.unwrap_or(text);
    let end = named.find(|c: char| c != '_' && !is_letter(c) && !is_digit(c)).unwrap_or(named.len());
    let (name, after) = named.split_at(end);
    let after = if unbraced.is_some() { after.strip_prefix('}')? } else { after };
    (!name.is_empty()).then_some((name, after))
}

/// A group by its number or its name; empty if there is none. A number has no leading zeros.
fn group<'c>(name: &str, captures: &Captures<'c>) -> &'c str {
    let is_number =
        name.bytes().all(|byte| byte.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'));
    let number = Some(name).filter(|_| is_number).and_then(|name| name.parse::<usize>().ok());
    let found = number.map_or_else(|| captures.name(name), |number| captures.get(number));
    found.map_or("", |found| found.as_str())
}

/// `label_join`.
#[derive(Debug)]
pub(crate) struct Join {
    pub destination: Arc<str>,
    separator: String,
    sources: Vec<String>,
}

impl Join {
    pub(crate) fn new(destination: &str, separator: &str, sources: Vec<String>) -> Result<Join> {
        for source in &sources {
            check_name(source, "source", "label_join")?;
        }
        check_name(destination, "destination", "label_join")?;
        Ok(Join { destination: destination.into(), separator: separator.to_string(), sources })
    }

    /// The most bytes that the new value can have.
    pub(crate) fn value_bytes_max(&self, labels: &Labels) -> usize {
        let value_bytes = |source: &String| labels.get(source).len().saturating_add(self.separator.len());
        self.sources.iter().map(value_bytes).fold(0, usize::saturating_add)
    }

    pub(crate) fn apply(&self, labels: &Labels) -> Labels {
        let values: Vec<&str> = self.sources.iter().map(|source| labels.get(source)).collect();
        labels.with([(self.destination.clone(), values.join(&self.separator).into())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_expanded_as_in_go() {
        let replaced = |template: &str| {
            let replace = Replace::new("to", template, "from", "(a)(?P<n>b)(c)?").unwrap();
            let labels = replace.apply(&Labels::new([("from", "ab")])).unwrap();
            labels.get("to").to_owned()
        };
        for (template, expected) in [
            ("$1-$2-$3-$4", "a-b--"),
            ("${1}x$n${n}", "axbb"),
            // Letters of all scripts belong to a name.
            ("<$1x><$1é><$é>", "<><><>"),
            // Powers do not.
            ("$1²", "a²"),
            ("<$0><$00><$01>", "<ab><><>"),
            ("$$1 $ $- ${ ${} ${1 ${1-} $", "$1 $ $- ${ ${} ${1 ${1-} $"),
        ] {
            assert_eq!(replaced(template), expected, "{template}");
        }
    }
}
