//! The configuration: Gnocchi's INI file checked against [`options::OPTIONS`].
//!
//! An unknown option is a warning, a bad value stops the start with the file, the section and the option named.

mod ini;
pub mod options;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};
use options::{ENGINE_PREFIXES, Kind, OPTIONS, Spec, Use};

/// The values of all options. Reading one that [`OPTIONS`] does not list is a programming error and panics.
#[derive(Debug, Default)]
pub struct Config {
    file: Option<PathBuf>,
    values: HashMap<(&'static str, &'static str), String>,
    /// What to tell the user once logging works.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads and checks a file; without one, all options have their defaults.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        let mut config = Config { file: file.map(Path::to_owned), ..Config::default() };
        let Some(path) = file else { return Ok(config) };
        for setting in ini::read(path)? {
            let place = format!("{}:{}: [{}] {}", path.display(), setting.line, setting.section, setting.key);
            if let Some(spec) = options::find(&setting.section, &setting.key) {
                if let Err(reason) = check(spec.kind, &setting.value) {
                    bail!("{place} = {}: {reason}", setting.value);
                }
                if let Use::Idle(why) = spec.usage {
                    config.warnings.push(format!("{place}: without effect in this version: {why}"));
                }
                config.values.insert((spec.section, spec.name), setting.value);
            } else if is_engine_option(&setting.section, &setting.key) {
                config.warnings.push(format!("{place}: without effect in this version"));
            } else {
                config.warnings.push(format!("{place}: no such option: ignored"));
            }
        }
        Ok(config)
    }

    /// The option's text; `None` where it is unset and has no default.
    pub fn text(&self, section: &str, name: &str) -> Option<&str> {
        let spec =
            options::find(section, name).unwrap_or_else(|| panic!("[{section}] {name} is not in OPTIONS"));
        let value = self.values.get(&(spec.section, spec.name)).map_or(spec.default, String::as_str);
        (!value.is_empty()).then_some(value)
    }

    /// An integer option.
    pub fn int(&self, section: &str, name: &str) -> Option<i64> {
        self.text(section, name).map(|text| text.parse().expect("checked when read"))
    }

    /// An integer option that has a default and is never negative.
    pub fn size(&self, section: &str, name: &str) -> usize {
        let value = self.int(section, name).expect("has a default");
        usize::try_from(value).expect("its range has no negative values")
    }

    /// An option that is a number of seconds and has a default.
    pub fn seconds(&self, section: &str, name: &str) -> Duration {
        let text = self.text(section, name).expect("has a default");
        parse_seconds(text).expect("checked when read")
    }

    pub fn bool(&self, section: &str, name: &str) -> bool {
        self.text(section, name).and_then(parse_bool).expect("has a default and was checked when read")
    }

    pub fn list(&self, section: &str, name: &str) -> Vec<String> {
        let text = self.text(section, name).unwrap_or_default();
        text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// Names the place of an option, for an error about its value.
    pub fn place(&self, section: &str, name: &str) -> String {
        match &self.file {
            Some(file) => format!("{}: [{section}] {name}", file.display()),
            None => format!("[{section}] {name}"),
        }
    }
}

fn is_engine_option(section: &str, key: &str) -> bool {
    matches!(section, "storage" | "incoming") && ENGINE_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

fn parse_seconds(text: &str) -> Option<Duration> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| !span.is_zero())
}

fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Int { min, max } => match value.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            Ok(_) if max == i64::MAX => Err(format!("must be at least {min}")),
            Ok(_) => Err(format!("must be from {min} to {max}")),
            Err(_) => Err("must be a whole number".to_owned()),
        },
        Kind::Bool => parse_bool(value).map(drop).ok_or_else(|| "must be true or false".to_owned()),
        Kind::Seconds => {
            parse_seconds(value).map(drop).ok_or_else(|| "must be a number of seconds above 0".to_owned())
        }
        Kind::Choice(choices) if !choices.contains(&value) => {
            Err(format!("must be one of: {}", choices.join(", ")))
        }
        Kind::Choice(_) | Kind::Text | Kind::List => Ok(()),
    }
}

/// All options with their defaults and meanings, as a file that could be edited and used.
pub fn print_all() -> String {
    let mut text = String::new();
    let mut section = "";
    for spec in OPTIONS {
        if spec.section != section {
            section = spec.section;
            if !text.is_empty() {
                text.push('\n');
            }
            text.extend(["[", section, "]\n"]);
        }
        text += &describe(spec);
    }
    text
}

fn describe(spec: &Spec) -> String {
    let values = match spec.kind {
        Kind::Text => String::new(),
        Kind::Int { min, max: i64::MAX } => format!(" (from {min})"),
        Kind::Int { min, max } => format!(" ({min} to {max})"),
        Kind::Seconds => " (above 0)".to_owned(),
        Kind::Bool => " (true or false)".to_owned(),
        Kind::List => " (comma separated)".to_owned(),
        Kind::Choice(choices) => format!(" ({})", choices.join(", ")),
    };
    let help = match spec.usage {
        Use::Heeded => spec.help.to_owned(),
        Use::Idle(why) => format!("Without effect in this version: {why}."),
    };
    format!("# {help}{values}\n#{} = {}\n", spec.name, spec.default)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn load(text: &str) -> Result<Config> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Config::load(Some(file.path()))
    }

    #[test]
    fn defaults_pass_their_own_checks() {
        for spec in OPTIONS {
            assert!(spec.default.is_empty() || check(spec.kind, spec.default).is_ok(), "{}", spec.name);
        }
        let config = Config::load(None).unwrap();
        assert_eq!(config.size("api", "port"), 8041);
        assert_eq!(config.text("indexer", "url"), None);
    }

    #[test]
    fn a_bad_value_names_file_section_and_option() {
        let error = load("[api]\nmax_limit = many\n").unwrap_err().to_string();
        assert!(error.contains(":2: [api] max_limit = many: must be a whole number"), "{error}");
        for text in ["[api]\nport = 70000\n", "[metricd]\ngreedy = maybe\n", "[storage]\ndriver = tape\n"] {
            assert!(load(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_and_idle_options_warn() {
        let config =
            load("[api]\nnope = 1\n[storage]\nceph_pool = x\n[DEFAULT]\nuse_syslog = true\n").unwrap();
        assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    }
}
