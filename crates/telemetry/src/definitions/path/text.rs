//! The text operators: `split` and `sub`.

use std::sync::LazyLock;

use fancy_regex::Regex;

use crate::definitions::{
    DefinitionError, LookupError,
    pattern::{Pattern, Replacement},
};

/// Text after the last parenthesis is ignored.
static SPLIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\Asplit\((.),\s+([0-9]+),\s+([0-9]+|-1)\)").expect("a correct expression"));
static SUBSTITUTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\Asub\(/(.*)/,\s+(.*)\)").expect("a correct expression"));

/// `split(separator, segment, splits at most)`; -1 splits is no limit.
#[derive(Clone, Debug)]
pub struct Split {
    separator: String,
    segment: usize,
    splits_max: Option<usize>,
}

impl Split {
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let wrong =
            || DefinitionError(format!("`{text}` has not the form `split(character, segment, splits)`"));
        let captures = SPLIT.captures(text).ok().flatten().ok_or_else(wrong)?;
        let group = |number| captures.get(number).map_or("", |group| group.as_str());
        Ok(Split {
            separator: group(1).to_owned(),
            segment: group(2).parse().map_err(|_| wrong())?,
            splits_max: match group(3) {
                "-1" => None,
                splits => Some(splits.parse().map_err(|_| wrong())?),
            },
        })
    }

    /// The segment with this index, if it exists.
    pub fn of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let parts_max = self.splits_max.map_or(usize::MAX, |splits| splits.saturating_add(1));
        text.splitn(parts_max, self.separator.as_str()).nth(self.segment)
    }
}

/// `sub(/expression/, replacement)`
#[derive(Clone, Debug)]
pub struct Substitution {
    pattern: Pattern,
    replacement: Replacement,
}

impl Substitution {
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let wrong = || DefinitionError(format!("`{text}` has not the form `sub(/expression/, replacement)`"));
        let captures = SUBSTITUTION.captures(text).ok().flatten().ok_or_else(wrong)?;
        let group = |number| captures.get(number).map_or("", |group| group.as_str().trim());
        let pattern = Pattern::parse(group(1))?;
        let replacement = Replacement::parse(group(2), &pattern)?;
        Ok(Substitution { pattern, replacement })
    }

    /// The substituted text; `None` if nothing changed.
    pub fn of(&self, text: &str) -> Result<Option<String>, LookupError> {
        let substituted = self.pattern.substitute(&self.replacement, text)?;
        Ok((substituted != text).then_some(substituted))
    }
}
