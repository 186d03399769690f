//! Policy files: rules by name, in YAML or JSON, as `oslopolicy-sample-generator` writes them.
//!
//! Later files override earlier ones. Every error names the file, the line and the rule.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::{
    DEFAULT_RULE, Policy, Rule,
    language::{self, Source},
    rule,
};
use crate::file::{self, FileError};

/// The maximum size of a file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where rules are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFiles {
    /// In reading order.
    pub files: Vec<PathBuf>,
    /// `[oslo_policy] policy_default_rule`.
    pub default_rule: String,
}

impl Default for PolicyFiles {
    fn default() -> Self {
        PolicyFiles { files: Vec::new(), default_rule: DEFAULT_RULE.to_owned() }
    }
}

/// Why policy files are refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}, line {line}, rule \"{rule}\": {problem}", path.display())]
    Rule { path: PathBuf, line: u64, rule: String, problem: String },
    #[error("rule \"{rule}\": {problem}")]
    Default { rule: String, problem: String },
}

/// A rule in a file.
struct Written {
    path: PathBuf,
    line: u64,
    name: String,
    source: Source,
}

impl Policy {
    /// Gnocchi's default rules, overridden by those of the files; and warnings about the files.
    ///
    /// # Errors
    /// Unreadable files and invalid rules.
    pub fn load(files: &PolicyFiles) -> Result<(Self, Vec<String>), PolicyError> {
        let mut written: Vec<Written> = Vec::new();
        for path in &files.files {
            for rule in parse(path, &file::read(path, FILE_BYTES_MAX)?)? {
                written.retain(|earlier| earlier.name != rule.name);
                written.push(rule);
            }
        }
        let sources: Vec<(String, Source)> =
            written.iter().map(|rule| (rule.name.clone(), rule.source.clone())).collect();
        let policy = Policy::of(&sources, &files.default_rule).map_err(|refused| {
            let language::Refused { name, problem } = refused;
            match written.iter().find(|rule| rule.name == name) {
                Some(rule) => {
                    PolicyError::Rule { path: rule.path.clone(), line: rule.line, rule: name, problem }
                }
                None => PolicyError::Default { rule: name, problem },
            }
        })?;
        let warnings = warnings(&policy, &written, &files.default_rule);
        Ok((policy, warnings))
    }
}

/// Warns of rules without effect, and of references to undefined rules.
fn warnings(policy: &Policy, written: &[Written], default_rule: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let place =
        |rule: &Written| format!("{}, line {}, rule \"{}\"", rule.path.display(), rule.line, rule.name);
    let is_known = |name: &str| rule::defaults().any(|(known, _)| known == name);
    for rule in written {
        let is_used =
            is_known(&rule.name) || rule.name == default_rule || policy.program.is_referred_to(&rule.name);
        if !is_used {
            let nearest =
                Rule::ALL.iter().map(|rule| rule.name()).find(|name| same_letters(name, &rule.name));
            let hint = nearest.map_or(String::new(), |name| format!("; is \"{name}\" meant?"));
            warnings
                .push(format!("{}: no such rule, and none refers to it: without effect{hint}", place(rule)));
        }
    }
    for (missing, name) in policy.program.undefined() {
        if let Some(rule) = written.iter().find(|rule| rule.name == *name) {
            let meaning = match policy.program.find(default_rule) {
                Some(_) => format!("\"{default_rule}\" replaces it"),
                None => "it denies".to_owned(),
            };
            warnings.push(format!("{}: there is no rule \"{missing}\": {meaning}", place(rule)));
        }
    }
    warnings
}

/// Whether the names are equal except for case and punctuation.
fn same_letters(one: &str, other: &str) -> bool {
    let letters =
        |text: &str| text.to_lowercase().replace(|character: char| !character.is_alphanumeric(), "");
    letters(one) == letters(other)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Written>, PolicyError> {
    let rules: Option<Rules> = serde_saphyr::from_str(text)
        .map_err(|error| FileError::Malformed { path: path.to_owned(), problem: error.to_string() })?;
    let written = |(name, rule): (Spanned<String>, WrittenRule)| {
        let (path, line, name) = (path.to_owned(), name.referenced.line(), name.value);
        match rule.into_source() {
            Ok(source) => Ok(Written { path, line, name, source }),
            Err(problem) => Err(PolicyError::Rule { path, line, rule: name, problem: problem.to_owned() }),
        }
    };
    rules.map_or(Vec::new(), |rules| rules.0).into_iter().map(written).collect()
}

/// The rules of a file, in order.
struct Rules(Vec<(Spanned<String>, WrittenRule)>);

/// A rule's value; an invalid one is refused later, with its name and line.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenRule {
    Text(String),
    Lists(Vec<Item>),
    Nothing(()),
    Wrong(IgnoredAny),
}

/// An item of the outer list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Check(String),
    Checks(Vec<String>),
}

impl WrittenRule {
    fn into_source(self) -> Result<Source, &'static str> {
        match self {
            WrittenRule::Text(text) => Ok(Source::Text(text)),
            WrittenRule::Lists(items) => Ok(Source::Lists(items.into_iter().map(Item::checks).collect())),
            WrittenRule::Nothing(()) => Err(
                "there is nothing behind the colon: write \"@\" to allow everybody, or \"!\" to allow nobody",
            ),
            WrittenRule::Wrong(_) => Err("a rule is a text, or a list of lists of texts"),
        }
    }
}

impl Item {
    /// The item's checks; empty items are ignored.
    fn checks(self) -> Vec<String> {
        match self {
            Item::Check(text) if text.is_empty() => Vec::new(),
            Item::Check(text) => vec![text],
            Item::Checks(texts) => texts,
        }
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RulesVisitor;

        impl<'de> Visitor<'de> for RulesVisitor {
            type Value = Rules;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("rules by name, each `\"name\": \"rule\"`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rules, A::Error> {
                let mut rules = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    rules.push(entry);
                }
                Ok(Rules(rules))
            }
        }

        deserializer.deserialize_map(RulesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Caller, Target};

    fn load(texts: &[&str]) -> Result<(Policy, Vec<String>), String> {
        let folder = tempfile::tempdir().unwrap();
        let files = texts.iter().enumerate().map(|(index, text)| {
            let path = folder.path().join(format!("{index}.yaml"));
            std::fs::write(&path, text).unwrap();
            path
        });
        let files = PolicyFiles { files: files.collect(), ..PolicyFiles::default() };
        Policy::load(&files).map_err(|error| error.to_string().replace(folder.path().to_str().unwrap(), ""))
    }

    fn roles(roles: &[&str]) -> Caller {
        Caller {
            roles: roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>().into(),
            ..Caller::default()
        }
    }

    #[test]
    fn rules_are_overridden_one_by_one() {
        let first = "# What readers may.\n\"get status\": \"rule:readers\"\nreaders: role:reader\n\"list archive policy\": \"!\"\n";
        let second = r#"{"list archive policy": [["role:reader", "role:member"], "role:admin"]}"#;
        let (policy, warnings) = load(&[first, second, "", "# nothing"]).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        let allows = |rule, own: &[&str]| policy.allows(rule, &roles(own), Target::Nothing);
        assert!(allows(Rule::GetStatus, &["reader"]) && !allows(Rule::GetStatus, &["admin"]));
        assert!(allows(Rule::ListArchivePolicy, &["reader", "member"]));
        assert!(allows(Rule::ListArchivePolicy, &["admin"]));
        assert!(!allows(Rule::ListArchivePolicy, &["reader"]));
        assert!(allows(Rule::ListResourceType, &[]), "what no file names stays");
    }

    #[test]
    fn what_is_wrong_is_named_with_file_line_and_rule() {
        for (text, expected) in [
            ("a: 1\n", "/0.yaml, line 1, rule \"a\": a rule is a text, or a list of lists of texts"),
            (
                "\"x\": \"@\"\n\"get status\": \"role:admin\n  or\"\n",
                "/0.yaml, line 2, rule \"get status\": a check is missing at the end",
            ),
            ("get status:\n", "/0.yaml, line 1, rule \"get status\": there is nothing behind the colon"),
            ("a: [[[x]]]\n", "/0.yaml, line 1, rule \"a\": a rule is a text"),
            ("a: {b: c}\n", "/0.yaml, line 1, rule \"a\": a rule is a text"),
            ("\n\n\na: rule:b\nb: rule:a\n", "circle: `a` -> `b` -> `a`"),
            (
                "creator: rule:admin_or_creator\nadmin_or_creator: rule:creator\n",
                "line 1, rule \"creator\": rules refer",
            ),
            ("a: http://here/\n", "calls an external server"),
            ("- a\n", "/0.yaml: "),
            ("a: b: c\n", "/0.yaml: "),
            ("a: \"@\"\na: \"!\"\n", "/0.yaml: "),
        ] {
            let error = load(&[text]).map(drop).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(load(&["a: \"@\"\n", "b: [\n"]).map(drop).unwrap_err().starts_with("/1.yaml: "));
    }

    #[test]
    fn what_has_no_effect_is_warned_of() {
        let (_, warnings) =
            load(&["\"get_status\": \"@\"\n\"get metric\": rule:nobody\ndefault: \"!\"\n"]).unwrap();
        let shown = warnings.join("\n");
        assert!(shown.contains("line 1, rule \"get_status\": no such rule"), "{shown}");
        assert!(shown.contains("is \"get status\" meant?"), "{shown}");
        assert!(
            shown.contains(
                "line 2, rule \"get metric\": there is no rule \"nobody\": \"default\" replaces it"
            ),
            "{shown}"
        );
        assert_eq!(warnings.len(), 2, "{shown}");
    }
}
