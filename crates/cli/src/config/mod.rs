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
#[cfg(test)]
mod tests;

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
use files::SearchPath;
pub use files::{FileArgument, Files, Project, entries};
use options::{Catalogue, Kind, Spec, Use};

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
        let search = SearchPath::of_process(project);
        let mut config = Config::read(project, args.files.paths(&search)?, process_variable)?;
        config.directories = args.files.directories(&search);
        config.set_from_command_line(args)?;
        Ok(config)
    }

    /// Loads the files of a Gnocchi to import from, and the environment.
    ///
    /// # Errors
    /// If there are none.
    pub fn load_gnocchis(files: &Files) -> Result<Self> {
        let paths = files.paths(&SearchPath::of_metricd())?;
        if paths.is_empty() {
            bail!("there is no configuration file of Gnocchi: name it with --config-file");
        }
        Config::read(Project::Gnocchi, paths, process_variable)
    }

    /// Loads one given Gnocchi file, or none, and the environment.
    pub fn load_file(file: Option<&Path>) -> Result<Self> {
        Config::read(Project::Gnocchi, file.map(Path::to_owned).into_iter().collect(), process_variable)
    }

    /// Loads the text of a file, without the environment.
    #[cfg(test)]
    pub fn of_text(project: Project, text: &str) -> Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        Config::read(project, vec![file.path().to_owned()], |_| None)
    }

    fn read(
        project: Project,
        files: Vec<PathBuf>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let catalogue = project.catalogue();
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
            self.set_from_argument(word, "DEFAULT", name, value)?;
        }
        self.warnings.extend(args.log.idle.warnings());
        Ok(())
    }

    /// Sets an option from an argument of the command line, such as `--debug`.
    pub fn set_from_argument(
        &mut self,
        word: &'static str,
        section: &str,
        name: &str,
        value: String,
    ) -> Result<()> {
        let spec = self.spec(section, name);
        self.set(spec, value, Origin::CommandLine(word), word)
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

    /// The same, owned.
    pub fn string(&self, section: &str, name: &str) -> Option<String> {
        self.text(section, name).map(str::to_owned)
    }

    /// The file or folder that an option names.
    pub fn path(&self, section: &str, name: &str) -> Option<PathBuf> {
        self.text(section, name).map(PathBuf::from)
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

    /// An option in seconds with a default; at most about a century.
    pub fn seconds(&self, section: &str, name: &str) -> Duration {
        let text = self.text(section, name).expect("has a default");
        parse_seconds(text).expect("checked when read")
    }

    /// An option in milliseconds with a default.
    pub fn milliseconds(&self, section: &str, name: &str) -> Duration {
        Duration::from_millis(self.size(section, name) as u64)
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
