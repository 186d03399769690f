//! References of values to other options, as in oslo.config: `$name` and `${name}` for an option of the same section or
//! of `[DEFAULT]`, `$section.name` for another section. `$$` and `\$` are a dollar sign; so is one that begins no name.
//!
//! The replacement is the other option's value with its own references resolved; it is not scanned again. Messages
//! never repeat a value: it may be or include a password.

use std::collections::HashMap;

use anyhow::{Result, bail};

use super::{
    Config,
    check::{check, parse_bool},
    options::{Kind, Spec, Use},
};

/// Maximum length of a resolved value.
const VALUE_BYTES_MAX: usize = 1 << 20;

type Key = (&'static str, &'static str);

/// Whether a value may contain references.
pub fn has_any(value: &str) -> bool {
    value.contains('$')
}

/// The text with each reference replaced by `value_of(name)`.
fn substitute(text: &str, mut value_of: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let text = text.replace("\\$", "$$");
    let mut rest = text.as_str();
    let mut result = String::with_capacity(rest.len());
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = name(rest) {
            result.push_str(&value_of(name)?);
            rest = after;
        } else {
            result.push('$');
        }
    }
    result.push_str(rest);
    Ok(result)
}

/// The name at the start of a text after a dollar sign, and the rest.
fn name(text: &str) -> Option<(&str, &str)> {
    let (text, is_braced) = text.strip_prefix('{').map_or((text, false), |inner| (inner, true));
    let is_begin = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    text.chars().next().filter(|first| is_begin(*first))?;
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_.".contains(letter));
    let (name, after) = text.split_at(end.unwrap_or(text.len()));
    if is_braced { Some((name, after.strip_prefix('}')?)) } else { Some((name, after)) }
}

/// As oslo.config prints a value of this kind.
fn printed(kind: Kind, value: &str) -> String {
    let printed = match kind {
        Kind::Int { .. } => value.parse::<i64>().ok().map(|number| number.to_string()),
        Kind::Bool => parse_bool(value).map(|is| if is { "True" } else { "False" }.to_owned()),
        _ => None,
    };
    printed.unwrap_or_else(|| value.to_owned())
}

/// Resolved values, and those being resolved, to detect cycles.
#[derive(Default)]
struct Resolution {
    done: HashMap<Key, String>,
    under_way: Vec<&'static Spec>,
}

impl Config {
    /// Resolves the references of all effective values, and validates the results. Options without effect are skipped.
    /// Returns all errors.
    pub(super) fn resolve_references(&mut self) -> Vec<anyhow::Error> {
        let mut progress = Resolution::default();
        let mut faults: Vec<anyhow::Error> = Vec::new();
        for spec in self.catalogue.all().filter(|spec| spec.usage == Use::Honoured) {
            let setting = self.values.get(&(spec.section, spec.name));
            if setting.is_some_and(|setting| has_any(&setting.value))
                && let Err(fault) = self.resolved(spec, &mut progress)
            {
                progress.under_way.clear();
                // Values that refer to this one have the same error.
                if faults.iter().all(|known| known.to_string() != fault.to_string()) {
                    faults.push(fault);
                }
            }
        }
        for (key, value) in progress.done {
            self.values.get_mut(&key).expect("has a value with references").value = value;
        }
        faults
    }

    /// The value of an option, set or not, with references resolved.
    fn resolved(&self, spec: &'static Spec, progress: &mut Resolution) -> Result<String> {
        let key = (spec.section, spec.name);
        if let Some(value) = progress.done.get(&key) {
            return Ok(value.clone());
        }
        let Some(setting) = self.values.get(&key) else {
            return match spec.inherits {
                Some(section) => self.resolved(self.spec(section, spec.name), progress),
                None => Ok(spec.default.to_owned()),
            };
        };
        if !has_any(&setting.value) {
            return Ok(setting.value.clone());
        }
        let place = self.place(spec.section, spec.name);
        if let Some(at) = progress.under_way.iter().position(|other| std::ptr::eq(*other, spec)) {
            let circle = progress.under_way[at..].iter().chain([&spec]);
            let names: Vec<String> = circle.map(|spec| format!("[{}] {}", spec.section, spec.name)).collect();
            bail!("{place}: its value leads back to itself: {}", names.join(" -> "));
        }
        progress.under_way.push(spec);
        let value = substitute(&setting.value, |name| {
            let Some(other) = self.referred(spec, name) else {
                // In a password a dollar sign was probably not meant as a reference: show neither.
                let what = if spec.is_secret { "its value names an option" } else { name };
                bail!("{place}: {what}: there is no such option to refer to; write $$ for a dollar sign");
            };
            self.resolved(other, progress).map(|value| printed(other.kind, &value))
        })?;
        progress.under_way.pop();
        if value.len() > VALUE_BYTES_MAX {
            bail!("{place}: with what it refers to, its value has more than {VALUE_BYTES_MAX} bytes");
        }
        let is_empty = value.is_empty() && spec.default.is_empty();
        if !is_empty && let Err(reason) = check(spec.kind, &value) {
            bail!("{place}: with what it refers to: {reason}");
        }
        progress.done.insert(key, value.clone());
        Ok(value)
    }

    /// The option that a name in a value of `spec` refers to.
    fn referred(&self, spec: &Spec, name: &str) -> Option<&'static Spec> {
        let (section, option) = name.split_once('.').unwrap_or((spec.section, name));
        self.catalogue.find(section, option).or_else(|| self.catalogue.find("DEFAULT", name))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::config::{Project, options::GNOCCHI};

    fn load(text: &str) -> Result<Config> {
        Config::of_text(Project::Gnocchi, text)
    }

    #[test]
    fn names_are_found_as_by_oslo_config() {
        let upper = |name: &str| Ok(name.to_uppercase());
        for (text, expected) in [
            ("a$b c${d.e}f", "aB cD.Ef"),
            ("$$b \\$b $$$b \\\\$b", "$b $b $B \\$b"),
            ("$", "$"),
            ("$1 ${ ${} ${a $-", "$1 ${ ${} ${a $-"),
            ("$a.b-$_x2\u{e9}$a}", "A.B-_X2\u{e9}A}"),
        ] {
            assert_eq!(substitute(text, upper).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn values_refer_to_options_of_their_section_and_of_others() {
        let config = load(
            "[DEFAULT]\ndebug = yes\n[storage]\ns3_access_key_id = k-$s3_region_name-$debug-${api.max_limit}$$\n\
             s3_region_name = r$s3_bucket_prefix\n[api]\nmax_limit = 007\nport = $max_limit\n\
             [incoming]\ns3_region_name = $s3_access_key_id-$storage.redis_prefix-$s3_endpoint_url\n",
        )
        .unwrap();
        assert_eq!(config.text("storage", "s3_access_key_id"), Some("k-rgnocchi-True-7$"));
        assert_eq!(config.text("incoming", "s3_region_name"), Some("k-rgnocchi-True-7$-gnudi-"));
        assert_eq!(config.size("api", "port"), 7);
        assert!(config.place("api", "port").ends_with(":8: [api] port"));
    }

    #[test]
    fn what_leads_nowhere_or_round_is_named() {
        for (text, error) in [
            ("[api]\nport = $max\n", ":2: [api] port: max: there is no such option to refer to"),
            ("[api]\nport = ${none.x}\n", ":2: [api] port: none.x: there is no such option"),
            (
                "[api]\nport = 1$max_limit$$\n",
                ":2: [api] port: with what it refers to: must be a whole number",
            ),
            (
                "[incoming]\ns3_region_name = $s3_region_name\n",
                "to itself: [incoming] s3_region_name -> [incoming]",
            ),
            (
                "[api]\nhost = a$DEFAULT.coordination_url\n[DEFAULT]\ncoordination_url = $storage.s3_region_name\n\
                 [storage]\ns3_region_name = ${api.host}\n",
                "[DEFAULT] coordination_url -> [storage] s3_region_name -> [api] host -> [DEFAULT] coordination_url",
            ),
        ] {
            let found = load(text).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
        let text = "[api]\nhost = $port\nport = $max\nmax_limit = ${nowhere.x}\n";
        let found = load(text).unwrap_err().to_string();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 2, "each error once: {found}");
        assert!(
            found.contains(":3: [api] port: max: ") && found.contains(":4: [api] max_limit: "),
            "{found}"
        );
        // Options without effect are not validated.
        assert!(load("[storage]\nfile_subdir_len = $nothing\n").is_ok());
    }

    #[test]
    fn references_that_double_end() {
        let names: Vec<&str> = GNOCCHI
            .all()
            .filter(|spec| {
                spec.section == "storage" && matches!(spec.kind, Kind::Text) && spec.usage == Use::Honoured
            })
            .map(|spec| spec.name)
            .collect();
        let mut text = format!("[storage]\n{} = {}\n", names[0], "x".repeat(1024));
        for pair in names.windows(2) {
            let doubled = format!("${}", pair[0]).repeat(8);
            writeln!(text, "{} = {doubled}", pair[1]).unwrap();
        }
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn no_part_of_a_password_is_told() {
        for spec in GNOCCHI.all().filter(|spec| spec.is_secret && spec.usage == Use::Honoured) {
            for value in ["hun$ter2", "a:${ter2}@", "$ter2"] {
                let error = load(&format!("[{}]\n{} = {value}\n", spec.section, spec.name)).unwrap_err();
                let error = format!("{error:#} {error:?}");
                assert!(!error.contains("ter2") && error.contains(spec.name), "{error}");
            }
            let text = format!("[{}]\n{} = hunter2\n[api]\nport = ${{{0}.{1}}}\n", spec.section, spec.name);
            let error = format!("{:#}", load(&text).unwrap_err());
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
