//! The configuration: Gnocchi's INI file checked against [`options`], and the environment over it.
//!
//! An unknown option is a warning, a bad value stops the start with the file, the line, the section and the option named.
//! What may be a password is never part of a text for people: [`options::Spec::is_secret`].

mod check;
pub mod deployment;
mod ini;
pub mod options;
mod print;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};

use check::{check, parse_bool, parse_seconds, scheme};
pub use deployment::Deployment;
use options::{Spec, Use};
pub use print::print_all;

/// The values of all options. Reading one that [`options`] does not list is a programming error and panics.
#[derive(Default)]
pub struct Config {
    file: Option<PathBuf>,
    values: HashMap<(&'static str, &'static str), Setting>,
    /// What to tell the user once logging works.
    pub warnings: Vec<String>,
}

/// The value of an option that somebody set.
struct Setting {
    value: String,
    origin: Origin,
}

enum Origin {
    Line(usize),
    /// The variable's name.
    Environment(String),
}

/// Values may be passwords.
impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Config").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Config {
    /// Reads and checks a file and the environment; without either, all options have their defaults.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        Config::load_with(file, |variable| std::env::var(variable).ok())
    }

    fn load_with(file: Option<&Path>, environment: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut config = Config { file: file.map(Path::to_owned), ..Config::default() };
        if let Some(path) = file {
            for setting in ini::read(path)? {
                config.take_line(path, setting)?;
            }
        }
        for spec in options::all() {
            config.take_variables(spec, &environment)?;
        }
        Ok(config)
    }

    fn take_line(&mut self, path: &Path, setting: ini::Setting) -> Result<()> {
        let place = format!("{}:{}: [{}] {}", path.display(), setting.line, setting.section, setting.key);
        let Some(spec) = options::find(&setting.section, &setting.key) else {
            self.warnings.push(format!("{place}: no such option: ignored"));
            return Ok(());
        };
        self.set(spec, setting.value, Origin::Line(setting.line), &place)
    }

    /// `OS_<SECTION>__<OPTION>` counts more than the file, as in oslo.config; the variables that Gnocchi itself knows
    /// count less.
    fn take_variables(
        &mut self,
        spec: &'static Spec,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let variable = format!("OS_{}__{}", spec.section, spec.name).to_uppercase();
        if let Some(value) = environment(&variable) {
            return self.set(spec, value, Origin::Environment(variable.clone()), &variable);
        }
        if !spec.environment.is_empty()
            && !self.values.contains_key(&(spec.section, spec.name))
            && let Some(value) = environment(spec.environment)
        {
            return self.set(spec, value, Origin::Environment(spec.environment.to_owned()), spec.environment);
        }
        Ok(())
    }

    fn set(&mut self, spec: &'static Spec, value: String, origin: Origin, place: &str) -> Result<()> {
        // The way in which Gnocchi's sample file writes that an option is as in [storage].
        if spec.inherits.is_some_and(|section| value == format!("${{{section}.{}}}", spec.name)) {
            return Ok(());
        }
        // Set to nothing is unset, where nothing is what it would be otherwise.
        let is_empty = value.is_empty() && spec.default.is_empty();
        if !is_empty && let Err(reason) = check(spec.kind, &value) {
            if spec.is_secret {
                bail!("{place}: {reason}");
            }
            bail!("{place} = {value}: {reason}");
        }
        if let Use::Idle(why) = spec.usage {
            self.warnings.push(format!("{place}: without effect in this version: {why}"));
        }
        self.values.insert((spec.section, spec.name), Setting { value, origin });
        Ok(())
    }

    /// The option's text; `None` where it is unset and has no default.
    pub fn text(&self, section: &str, name: &str) -> Option<&str> {
        let spec = spec(section, name);
        let set = self.values.get(&(spec.section, spec.name)).map(|setting| setting.value.as_str());
        match (set, spec.inherits) {
            (Some(value), _) => (!value.is_empty()).then_some(value),
            (None, Some(section)) => self.text(section, name),
            (None, None) => (!spec.default.is_empty()).then_some(spec.default),
        }
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

    /// Names the place of an option, for an error about its value: where it was set, or where it could be.
    pub fn place(&self, section: &str, name: &str) -> String {
        let spec = spec(section, name);
        let option = format!("[{}] {}", spec.section, spec.name);
        let file = self.file.as_ref().map(|file| file.display());
        match (self.values.get(&(spec.section, spec.name)), spec.inherits, file) {
            (Some(Setting { origin: Origin::Environment(variable), .. }), ..) => {
                format!("{variable}: {option}")
            }
            (Some(Setting { origin: Origin::Line(line), .. }), _, Some(file)) => {
                format!("{file}:{line}: {option}")
            }
            (None, Some(section), _) => self.place(section, name),
            (_, _, Some(file)) => format!("{file}: {option}"),
            (_, _, None) => option,
        }
    }
}

fn spec(section: &str, name: &str) -> &'static Spec {
    options::find(section, name).unwrap_or_else(|| panic!("[{section}] {name} is not in the options"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn load(text: &str) -> Result<Config> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Config::load_with(Some(file.path()), |_| None)
    }

    #[test]
    fn defaults_pass_their_own_checks() {
        for spec in options::all() {
            assert!(spec.default.is_empty() || check(spec.kind, spec.default).is_ok(), "{}", spec.name);
        }
        let config = Config::load_with(None, |_| None).unwrap();
        assert_eq!(config.size("api", "port"), 8041);
        assert_eq!(config.text("indexer", "url"), None);
    }

    #[test]
    fn each_option_is_there_once() {
        let names: Vec<_> = options::all().map(|spec| (spec.section, spec.name)).collect();
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
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
            load("[api]\nnope = 1\n[storage]\nfile_subdir_len = 3\n[DEFAULT]\nuse_syslog = true\n").unwrap();
        assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    }

    #[test]
    fn incoming_is_as_storage_where_it_says_nothing() {
        let text = "[storage]\ndriver = ceph\nceph_pool = a\nredis_url = redis://r\n[incoming]\ndriver = redis\nceph_pool = ${storage.ceph_pool}\n";
        let config = load(text).unwrap();
        let incoming = |name| config.text("incoming", name);
        assert_eq!((incoming("driver"), config.text("storage", "driver")), (Some("redis"), Some("ceph")));
        assert_eq!((incoming("redis_url"), incoming("ceph_pool")), (Some("redis://r"), Some("a")));
        assert_eq!(incoming("s3_bucket_prefix"), Some("gnocchi"), "the default of [storage]");
        assert!(config.place("incoming", "redis_url").ends_with(":4: [storage] redis_url"));
        assert!(config.place("incoming", "driver").ends_with(":6: [incoming] driver"));
        assert!(config.place("incoming", "s3_cacert").ends_with("[storage] s3_cacert"));
    }

    #[test]
    fn the_environment_counts_as_in_oslo_config() {
        let environment = |variable: &str| {
            let value = match variable {
                "OS_STORAGE__REDIS_URL" => "redis://environment",
                "GNOCCHI_INDEXER_URL" => "postgresql://environment",
                "AWS_DEFAULT_REGION" => "there",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"[storage]\nredis_url = redis://file\ns3_region_name = here\n").unwrap();
        let config = Config::load_with(Some(file.path()), environment).unwrap();
        assert_eq!(config.text("storage", "redis_url"), Some("redis://environment"));
        assert_eq!(config.text("incoming", "redis_url"), Some("redis://environment"));
        assert_eq!(config.text("storage", "s3_region_name"), Some("here"));
        assert_eq!(config.text("indexer", "url"), Some("postgresql://environment"));
        assert_eq!(config.place("storage", "redis_url"), "OS_STORAGE__REDIS_URL: [storage] redis_url");
    }

    /// Whatever is wrong around them.
    #[test]
    fn passwords_are_in_no_message() {
        for spec in options::all().filter(|spec| spec.is_secret) {
            for value in ["hunter2", "http://u:hunter2@h", "redis:hunter2", "postgresql://u:hunter2@h/d"] {
                let text = format!("[{}]\n{} = {value}\n{}s = {value}\n", spec.section, spec.name, spec.name);
                let said = match load(&text) {
                    Ok(config) => {
                        format!("{:?} {config:?} {}", config.warnings, config.place(spec.section, spec.name))
                    }
                    Err(error) => format!("{error:#} {error:?}"),
                };
                assert!(!said.contains("hunter2"), "{said}");
                assert!(said.contains(spec.name), "{said}");
            }
        }
        for text in ["[storage]\nredis_url hunter2\n", "redis_url = hunter2\n", "  hunter2\n", "[hunter2\n"] {
            let error = format!("{:#}", load(text).unwrap_err());
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
