//! Functions that change labels and not values.

use std::sync::Arc;

use regex::Regex;

use crate::error::{Error, Result};
use crate::labels::Labels;
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
    destination: Arc<str>,
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

    pub(crate) fn destination(&self) -> &str {
        &self.destination
    }

    /// The most bytes that the new value can have: each reference stands for a part of the source's value.
    pub(crate) fn value_bytes_max(&self, labels: &Labels) -> usize {
        let references = self.replacement.matches('$').count();
        references.saturating_mul(labels.get(&self.source).len()).saturating_add(self.replacement.len())
    }

    pub(crate) fn apply(&self, labels: &Labels) -> Option<Labels> {
        let captures = self.regex.captures(labels.get(&self.source))?;
        let mut value = String::new();
        captures.expand(&self.replacement, &mut value);
        Some(labels.with([(self.destination.clone(), value.into())]))
    }
}

/// `label_join`.
#[derive(Debug)]
pub(crate) struct Join {
    destination: Arc<str>,
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

    pub(crate) fn destination(&self) -> &str {
        &self.destination
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
