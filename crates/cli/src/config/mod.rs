//! The configuration: INI files (Gnocchi's, or Ceilometer's, possibly several) validated against [`options`],
//! overridden by the environment.
//!
//! An unknown option is a warning. Invalid values stop the start: they are reported together, each with file, line,
//! section and option. Values may refer to other options ([`references`]). Possible passwords are never shown:
//! [`options::Spec::is_secret`].

mod check;
pub mod deployment;
mod files;
mod ini;
pub mod options;
mod print;
mod references;

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};

pub use check::parse_bool;
use check::{check, parse_seconds, scheme};
pub use deployment::Deployment;
pub use files::{FileArgument, Files, Project};
use options::{CEILOMETER, Catalogue, GNOCCHI, Kind, Spec, Use};

use crate::program_args::ProgramArgs;
pub use print::{print_all, print_effective};

/// The values of all options. Reading one that is not in [`options`] is a programming error and panics.
#[derive(Default)]
pub struct Config {
    catalogue: Catalogue,
    /// In reading order: later files take precedence.
    files: Vec<PathBuf>,
    /// Where to search for files named by options.
    directories: Vec<PathBuf>,
    values: HashMap<(&'static str, &'static str), Setting>,
    /// Logged once logging is set up.
    pub warnings: Vec<String>,
}

/// The value of an option that was set.
struct Setting {
    value: String,
    origin: Origin,
}

enum Origin {
    /// File index, and line.
    Line(usize, usize),
    /// The variable's name.
    Environment(String),
    /// The argument.
    CommandLine(&'static str),
}

/// Leaves out values, which may be passwords.
impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Config").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Config {
    /// Loads and validates Gnocchi's files, the environment and settings from the command line.
    pub fn load(args: &ProgramArgs) -> Result<Self> {
        Config::load_project(Project::Gnocchi, args)
    }

    /// The same for Gnocchi's or Ceilometer's files.
    pub fn load_project(project: Project, args: &ProgramArgs) -> Result<Self> {
        let catalogue = match project {
            Project::Gnocchi => GNOCCHI,
            Project::Ceilometer => CEILOMETER,
        };
        let mut config = Config::read(catalogue, args.files.paths(project)?, process_variable)?;
        config.directories = args.files.directories(project);
        config.set_from_command_line(args)?;
        Ok(config)
    }

    /// Loads the files of a Gnocchi to import from, and the environment.
    ///
    /// # Errors
    /// If there are none.
    pub fn load_gnocchis(files: &Files) -> Result<Self> {
        let paths = files.paths_of_gnocchi()?;
        if paths.is_empty() {
            bail!("there is no configuration file of Gnocchi: name it with --config-file");
        }
        Config::read(GNOCCHI, paths, process_variable)
    }

    /// Loads one given Gnocchi file, or none, and the environment.
    pub fn load_file(file: Option<&Path>) -> Result<Self> {
        Config::read(GNOCCHI, file.map(Path::to_owned).into_iter().collect(), process_variable)
    }

    fn read(
        catalogue: Catalogue,
        files: Vec<PathBuf>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut config = Config { catalogue, files, ..Config::default() };
        let mut faults: Vec<anyhow::Error> = Vec::new();
        for index in 0..config.files.len() {
            match ini::read(&config.files[index]) {
                Ok(mut settings) => {
                    // As in oslo.config, the present name counts more than a deprecated one in the same file, wherever
                    // the two stand.
                    settings.sort_by_cached_key(|setting| {
                        Reverse(catalogue.rank(&setting.section, &setting.key))
                    });
                    let set = settings.into_iter().map(|setting| config.set_from_line(index, setting));
                    faults.extend(set.filter_map(Result::err));
                }
                Err(fault) => faults.push(fault),
            }
        }
        for spec in catalogue.all() {
            faults.extend(config.set_from_environment(spec, &environment).err());
        }
        faults.extend(config.resolve_references());
        all_together(faults)?;
        Ok(config)
    }

    fn set_from_line(&mut self, file: usize, setting: ini::Setting) -> Result<()> {
        let path = self.files[file].display();
        let place = format!("{path}:{}: [{}] {}", setting.line, setting.section, setting.key);
        let Some(spec) = self.catalogue.find(&setting.section, &setting.key) else {
            let nearest = self.catalogue.nearest(&setting.section, &setting.key);
            let hint = nearest.map(|spec| format!("; did you mean [{}] {}?", spec.section, spec.name));
            self.warnings.push(format!("{place}: no such option: ignored{}", hint.unwrap_or_default()));
            return Ok(());
        };
        self.set(spec, setting.value, Origin::Line(file, setting.line), &place)
    }

    /// Takes precedence over everything else.
    fn set_from_command_line(&mut self, args: &ProgramArgs) -> Result<()> {
        for (word, name, value) in args.log.settings() {
            let spec = self.spec("DEFAULT", name);
            self.set(spec, value, Origin::CommandLine(word), word)?;
        }
        self.warnings.extend(args.log.idle.warnings());
        Ok(())
    }

    /// `OS_<SECTION>__<OPTION>` takes precedence over the file, as in oslo.config; the variables of Gnocchi itself do
    /// not.
    fn set_from_environment(
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
        // Gnocchi's sample file writes this for an option inherited from [storage].
        if spec.inherits.is_some_and(|section| value == format!("${{{section}.{}}}", spec.name)) {
            return Ok(());
        }
        // oslo.config reads an empty number as none.
        if value.is_empty() && matches!(spec.kind, Kind::Int { .. } | Kind::Seconds | Kind::Pause) {
            self.values.remove(&(spec.section, spec.name));
            return Ok(());
        }
        // An empty value means unset, if the default is empty.
        let is_empty = value.is_empty() && spec.default.is_empty();
        // References are validated once they are resolved.
        let is_final = !is_empty && !references::has_any(&value);
        if is_final && let Err(reason) = check(spec.kind, &value) {
            if spec.is_secret {
                bail!("{place}: {reason}");
            }
            // The others may be a comment with a password.
            let (first, others) = match value.split_once('\n') {
                Some((first, _)) => (first, " with the indented lines after it"),
                None => (value.as_str(), ""),
            };
            bail!("{place} = {first}{others}: {reason}");
        }
        if let Use::Idle(why) = spec.usage {
            self.warnings.push(format!("{place}: without effect in this version: {why}"));
        }
        let key = (spec.section, spec.name);
        if let (Kind::Lines, Origin::Line(..), Some(before)) = (spec.kind, &origin, self.values.get_mut(&key))
        {
            before.value += "\n";
            before.value += &value;
        } else {
            self.values.insert(key, Setting { value, origin });
        }
        Ok(())
    }

    /// The option's text; `None` if it is unset and has no default.
    pub fn text(&self, section: &str, name: &str) -> Option<&str> {
        let spec = self.spec(section, name);
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

    /// An integer option with a default, never negative.
    pub fn size(&self, section: &str, name: &str) -> usize {
        let value = self.int(section, name).expect("has a default");
        usize::try_from(value).expect("its range has no negative values")
    }

    /// An option in seconds with a default.
    pub fn seconds(&self, section: &str, name: &str) -> Duration {
        let text = self.text(section, name).expect("has a default");
        parse_seconds(text).expect("checked when read")
    }

    pub fn bool(&self, section: &str, name: &str) -> bool {
        self.text(section, name).and_then(parse_bool).expect("has a default and was checked when read")
    }

    pub fn list(&self, section: &str, name: &str) -> Vec<String> {
        let separator = if matches!(self.spec(section, name).kind, Kind::Lines) { '\n' } else { ',' };
        let items = self.text(section, name).unwrap_or_default().split(separator);
        items.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// Whether the option was set.
    pub fn is_set(&self, section: &str, name: &str) -> bool {
        let spec = self.spec(section, name);
        self.values.contains_key(&(spec.section, spec.name))
    }

    /// The files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The place of an option, for errors about its value: where it was set, or where it could be set.
    pub fn place(&self, section: &str, name: &str) -> String {
        let spec = self.spec(section, name);
        let option = format!("[{}] {}", spec.section, spec.name);
        let path = |index: usize| self.files.get(index).map(|file| file.display());
        match (self.values.get(&(spec.section, spec.name)), spec.inherits, path(0)) {
            (Some(Setting { origin: Origin::Environment(variable), .. }), ..) => {
                format!("{variable}: {option}")
            }
            (Some(Setting { origin: Origin::CommandLine(word), .. }), ..) => (*word).to_owned(),
            (Some(Setting { origin: Origin::Line(index, line), .. }), ..) => {
                let file = path(*index).expect("what was read from");
                format!("{file}:{line}: {option}")
            }
            (None, Some(section), _) => self.place(section, name),
            (_, _, Some(file)) => format!("{file}: {option}"),
            (_, _, None) => option,
        }
    }

    /// Where the option's value comes from: `file:line`, a variable, the command line, or the default.
    fn source(&self, section: &str, name: &str) -> String {
        let spec = self.spec(section, name);
        match (self.values.get(&(spec.section, spec.name)).map(|setting| &setting.origin), spec.inherits) {
            (Some(Origin::Line(index, line)), _) => format!("{}:{line}", self.files[*index].display()),
            (Some(Origin::Environment(variable)), _) => variable.clone(),
            (Some(Origin::CommandLine(word)), _) => (*word).to_owned(),
            (None, Some(section)) => format!("[{section}] {name}: {}", self.source(section, name)),
            (None, None) => "default".to_owned(),
        }
    }

    /// Finds a file named by an option: the path itself, else beside the configuration files, or where Ceilometer would
    /// look. `None` if not found.
    fn find_file(&self, name: &str) -> Option<PathBuf> {
        let candidates = std::iter::once(PathBuf::from(name));
        let beside = self.directories.iter().map(|directory| directory.join(name));
        candidates.chain(beside).find(|path| path.is_file())
    }

    /// The file named by an option; `None` if it is missing and the option was not set.
    ///
    /// # Errors
    /// If the option was set and the file is missing.
    pub fn named_file(&self, section: &str, name: &str) -> Result<Option<PathBuf>> {
        let file = self.text(section, name).unwrap_or_default();
        let found = self.find_file(file);
        if found.is_none() && self.is_set(section, name) {
            bail!("{} = {file}: there is no such file", self.place(section, name));
        }
        Ok(found)
    }

    /// Where to search for files named by options.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    fn spec(&self, section: &str, name: &str) -> &'static Spec {
        let spec = self.catalogue.find(section, name);
        spec.unwrap_or_else(|| panic!("[{section}] {name} is not in the options"))
    }
}

/// One error of all, a line each.
fn all_together(mut faults: Vec<anyhow::Error>) -> Result<()> {
    if faults.len() > 1 {
        let lines: Vec<String> = faults.iter().map(|fault| gnudi_http::with_causes(&**fault)).collect();
        bail!("{}", lines.join("\n"));
    }
    faults.pop().map_or(Ok(()), Err)
}

/// A variable of this process's environment.
fn process_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    pub(super) fn load(text: &str) -> Result<Config> {
        load_with(text, |_| None)
    }

    fn load_with(text: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Config> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Config::read(GNOCCHI, vec![file.path().to_owned()], environment)
    }

    #[test]
    fn defaults_pass_their_own_checks() {
        for spec in GNOCCHI.all().chain(CEILOMETER.all()) {
            assert!(spec.default.is_empty() || check(spec.kind, spec.default).is_ok(), "{}", spec.name);
        }
        let config = Config::read(GNOCCHI, Vec::new(), |_| None).unwrap();
        assert_eq!(config.size("api", "port"), 8041);
        assert_eq!(config.text("indexer", "url"), None);
    }

    #[test]
    fn what_may_hold_a_password_is_secret() {
        for spec in GNOCCHI.all().chain(CEILOMETER.all()) {
            let may = spec.help.contains("password]@") || spec.help.contains(":password@");
            assert!(spec.is_secret || !may, "[{}] {}", spec.section, spec.name);
        }
    }

    #[test]
    fn each_option_is_there_once() {
        for catalogue in [GNOCCHI, CEILOMETER] {
            let present = catalogue.all().map(|spec| (spec.section, spec.name));
            let former = catalogue.all().flat_map(Spec::former_names);
            let names: Vec<_> = present.chain(former).collect();
            let distinct: std::collections::HashSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len());
        }
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
    fn empty_numbers_and_lists_of_lines_are_as_in_oslo_config() {
        let config = load("[api]\nport = 1\nport =\n[cors]\nallowed_origin = a,\n  b\n  c\n").unwrap();
        assert_eq!(config.size("api", "port"), 8041);
        assert_eq!(config.list("cors", "allowed_origin"), ["a", "b\nc"]);
    }

    #[test]
    fn all_bad_values_are_told() {
        let first = "[notification]\nworkers = 0\n[polling]\nbatch_size = few\njitter = -1\n";
        let error = load_ceilometer(&[first, "[DEFAULT\n", "[DEFAULT]\ndebug = maybe\nhost = $nothing\n"]);
        let error = error.unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        let expected = [
            "0.conf:2: [notification] workers = 0: must be at least 1",
            "0.conf:4: [polling] batch_size = few: must be a whole number",
            "0.conf:5: [polling] jitter = -1: must be a number of seconds, or 0",
            "1.conf: line 1: a section name without a closing bracket",
            "2.conf:2: [DEFAULT] debug = maybe: must be true or false",
            "2.conf:3: [DEFAULT] host: nothing: there is no such option to refer to; write $$ for a dollar sign",
        ];
        assert_eq!(lines.len(), expected.len(), "{error}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.ends_with(expected), "{line}");
        }
    }

    #[test]
    fn unknown_and_idle_options_warn() {
        let config =
            load("[api]\nnope = 1\n[storage]\nfile_subdir_len = 3\n[DEFAULT]\nuse_syslog = true\n").unwrap();
        assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    }

    #[test]
    fn an_unknown_option_is_answered_with_the_one_that_may_be_meant() {
        for (line, expected) in [
            ("[api]\nmax_limits = 1", Some("[api] max_limit")),
            ("[api]\nauthmode = basic", Some("[api] auth_mode")),
            ("[metrics]\nmetric_processing_delay = 1", Some("[metricd] metric_processing_delay")),
            ("[api]\nworkers = 1", Some("[metricd] workers")),
            ("[default]\ndebug = true", Some("[DEFAULT] debug")),
            ("[api]\nnope = 1", None),
        ] {
            let warnings = load(&format!("{line}\n")).unwrap().warnings;
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            let hint = warnings[0].split_once("did you mean ").map(|(_, hint)| hint.trim_end_matches('?'));
            assert_eq!(hint, expected, "{warnings:?}");
        }
    }

    #[test]
    fn the_command_line_counts_most() {
        let mut config = load("[DEFAULT]\ndebug = true\nlog_file = a\n").unwrap();
        let words = ["p", "--debug", "--log-file=b", "--nodebug", "--use-syslog", "--nouse-journal"];
        let command = <ProgramArgs as clap::Args>::augment_args(clap::Command::new("p"));
        let matches = command.get_matches_from(words);
        let args = <ProgramArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        config.set_from_command_line(&args).unwrap();
        assert!(!config.bool("DEFAULT", "debug"));
        assert_eq!(config.text("DEFAULT", "log_file"), Some("b"));
        assert_eq!(config.place("DEFAULT", "log_file"), "--log-file");
        assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
        assert!(config.warnings[0].starts_with("--use-syslog: without effect"));
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
        let config =
            load_with("[storage]\nredis_url = redis://file\ns3_region_name = here\n", environment).unwrap();
        assert_eq!(config.text("storage", "redis_url"), Some("redis://environment"));
        assert_eq!(config.text("incoming", "redis_url"), Some("redis://environment"));
        assert_eq!(config.text("storage", "s3_region_name"), Some("here"));
        assert_eq!(config.text("indexer", "url"), Some("postgresql://environment"));
        assert_eq!(config.place("storage", "redis_url"), "OS_STORAGE__REDIS_URL: [storage] redis_url");
    }

    /// Even with errors around them.
    #[test]
    fn passwords_are_in_no_message() {
        for spec in GNOCCHI.all().filter(|spec| spec.is_secret) {
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
        for text in [
            "[storage]\nredis_url hunter2\n",
            "redis_url = hunter2\n",
            "  hunter2\n",
            "[hunter2\n",
            "[DEFAULT]\ndebug = true\n  # redis://:hunter2@h\n",
        ] {
            let error = format!("{:#}", load(text).unwrap_err());
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    fn load_ceilometer(texts: &[&str]) -> Result<Config> {
        let directory = tempfile::tempdir().unwrap();
        let paths = texts.iter().enumerate().map(|(index, text)| {
            let path = directory.path().join(format!("{index}.conf"));
            std::fs::write(&path, text).unwrap();
            path
        });
        Config::read(CEILOMETER, paths.collect(), |_| None)
    }

    #[test]
    fn of_several_files_the_last_counts_and_lines_add_up() {
        let first =
            "[notification]\nworkers = 2\nmessaging_urls = rabbit://a,b:1/\nmessaging_urls = rabbit://c/\n";
        let second = "[DEFAULT]\nnotification_workers = 3\n[notification]\nmessaging_urls = rabbit://d/\n";
        let config = load_ceilometer(&[first, second]).unwrap();
        assert_eq!(config.int("notification", "workers"), Some(3));
        let place = config.place("notification", "workers");
        assert!(place.ends_with("1.conf:2: [notification] workers"), "{place}");
        let urls = config.list("notification", "messaging_urls");
        assert_eq!(urls, ["rabbit://a,b:1/", "rabbit://c/", "rabbit://d/"]);
        assert_eq!(config.list("notification", "pipelines"), ["meter", "event"]);
        assert_eq!(config.list("notification", "notification_control_exchanges").len(), 14);
    }

    #[test]
    fn deprecated_names_count_less_than_present_ones() {
        for text in [
            "[DEFAULT]\nnotification_workers = 3\n[notification]\nworkers = 2\n",
            "[notification]\nworkers = 2\n[DEFAULT]\nnotification_workers = 3\n",
        ] {
            let config = load_ceilometer(&[text]).unwrap();
            assert_eq!(config.int("notification", "workers"), Some(2), "{text}");
        }
        let exchanges =
            "[notification]\nnotification_control_exchanges = a\n[DEFAULT]\nhttp_control_exchanges = b\n";
        let config = load_ceilometer(&[exchanges]).unwrap();
        assert_eq!(config.list("notification", "notification_control_exchanges"), ["b", "a"]);

        let old = "[api]\nrefresh_timeout = 7\n[oslo_middleware]\nenable_proxy_headers_parsing = true\n\
                   [storage]\nmetric_processing_delay = 5\naggregation_workers_number = 4\nswift_tenant_name = s\n\
                   [incoming]\nswift_tenant_name = i\n[keystone_authtoken]\ntenant-name = k\n\
                   auth_plugin = v3password\n";
        let config = load(old).unwrap();
        assert_eq!(config.warnings, [""; 0]);
        assert_eq!(config.int("api", "operation_timeout"), Some(7));
        assert!(config.bool("api", "enable_proxy_headers_parsing"));
        assert_eq!(config.int("metricd", "metric_processing_delay"), Some(5));
        assert_eq!(config.int("DEFAULT", "parallel_operations"), Some(4));
        assert_eq!(config.text("storage", "swift_project_name"), Some("s"));
        assert_eq!(config.text("incoming", "swift_project_name"), Some("i"));
        assert_eq!(config.text("keystone_authtoken", "project_name"), Some("k"));
        assert_eq!(config.text("keystone_authtoken", "auth_type"), Some("v3password"));
    }

    #[test]
    fn ceilometers_options_are_checked_too() {
        let error = load_ceilometer(&["[notification]\nworkers = 0\n"]).unwrap_err().to_string();
        assert!(error.ends_with("0.conf:2: [notification] workers = 0: must be at least 1"), "{error}");
        let text = "[DEFAULT]\nnope = 1\nuse_json = true\n[api]\nport = 1\n[service_credentials]\ntenant-name = t\n\
             auth_plugin = v3password\n";
        let config = load_ceilometer(&[text]).unwrap();
        assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
        assert_eq!(config.text("service_credentials", "project_name"), Some("t"));
        assert_eq!(config.text("gnocchi", "project_name"), Some("t"), "as in [service_credentials]");
        assert_eq!(config.text("service_credentials", "auth_type"), Some("v3password"));
    }

    #[test]
    fn passwords_in_ceilometers_files_are_in_no_message() {
        for spec in CEILOMETER.all().filter(|spec| spec.is_secret) {
            let text = format!("[{}]\n{} = rabbit://u:hunter2@h/\n", spec.section, spec.name);
            let config = load_ceilometer(&[&text]).unwrap();
            let said = format!("{:?} {config:?} {}", config.warnings, config.place(spec.section, spec.name));
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
