//! All options: section, name, type, default, meaning. Gnocchi's names first; gnudi's own are marked.
//!
//! One file per section or group of sections; `ceilometer` is the catalogue of ceilometer.conf.

/// A table of options by section. An entry names the function below that makes its [`Spec`], the option's name, the
/// function's other arguments, and fields that differ.
macro_rules! options {
    ($(
        [$section:ident]
        $($how:ident $name:ident($($argument:expr),*) $({ $field:ident: $value:expr })?;)*
    )*) => {
        [$($($crate::config::options::Spec {
            $($field: $value,)?
            ..$crate::config::options::$how(stringify!($section), stringify!($name), $($argument),*)
        }),*),*]
    };
}

mod api;
pub mod ceilometer;
mod collectors;
mod default;
mod engines;
mod indexer;
mod keystone;
mod metricd;
mod oslo;

/// The type of an option's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// From `min` to `max`, inclusive.
    Int {
        min: i64,
        max: i64,
    },
    /// Above 0, possibly with a fraction.
    Seconds,
    /// The same, or 0.
    Pause,
    Bool,
    /// Comma separated.
    List,
    /// May be repeated in a section; each line is one value.
    Lines,
    Choice(&'static [&'static str]),
    /// A URL with one of these schemes; `scheme+driver` (Gnocchi's form) is accepted for `scheme`.
    Url(&'static [&'static str]),
}

/// Whether this version uses an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Honoured,
    /// Known, but without effect: setting it gives a warning.
    Idle(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    /// As written in a file; empty if unset.
    pub default: &'static str,
    pub help: &'static str,
    pub usage: Use,
    /// The value may be or contain a password: it is never shown.
    pub is_secret: bool,
    /// The section that an unset value is inherited from.
    pub inherits: Option<&'static str>,
    /// The environment variable that Gnocchi reads the default from; empty for none.
    pub environment: &'static str,
    /// Deprecated names, by section and name, that still work; without a section they are in the option's own.
    pub formerly: &'static [(&'static str, &'static str)],
}

impl Spec {
    /// Its deprecated names, by section and name.
    pub fn former_names(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = self.section;
        let names = self.formerly.iter();
        names.map(move |(section, name)| (if section.is_empty() { own } else { *section }, *name))
    }
}

const fn option(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Spec {
    let (inherits, environment, formerly): (_, _, &[_]) = (None, "", &[]);
    let usage = Use::Honoured;
    Spec { section, name, kind, default, help, usage, is_secret: false, inherits, environment, formerly }
}

const fn text(section: &'static str, name: &'static str, default: &'static str, help: &'static str) -> Spec {
    option(section, name, Kind::Text, default, help)
}

/// An option without a default whose value is never shown.
const fn secret(section: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Spec {
    Spec { is_secret: true, ..option(section, name, kind, "", help) }
}

const fn idle(section: &'static str, name: &'static str, default: &'static str, why: &'static str) -> Spec {
    Spec { usage: Use::Idle(why), ..text(section, name, default, why) }
}

/// The same options in another section, with unset values inherited. Their deprecated names must be without a section.
const fn inheriting<const N: usize>(specs: &[Spec], section: &'static str, first: &'static str) -> [Spec; N] {
    let mut all = [specs[0]; N];
    let mut index = 0;
    while index < N {
        let inherits = Some(first);
        all[index] = Spec { section, default: "", inherits, environment: "", ..specs[index] };
        index += 1;
    }
    all
}

const ANY: Kind = Kind::Int { min: 0, max: i64::MAX };
const POSITIVE: Kind = Kind::Int { min: 1, max: i64::MAX };
const PORT: Kind = Kind::Int { min: 0, max: 65_535 };
/// Number of threads. systemd and containers often allow a few thousand tasks.
const THREADS: Kind = Kind::Int { min: 1, max: 1024 };

const LOGS: &str = "logs go to standard error, or to log_file";
const LOG_FILE: &str =
    "File that services log to, in oslo.log's format. Unset: standard error, if log_dir is unset, too.";
const LOG_DIR: &str =
    "Directory of the log file. Without log_file it is named as the program, such as gnocchi-api.log.";
const LOG_DATE_FORMAT: &str = "Time format in the log file, as in strftime; milliseconds follow.";
const WATCH_LOG_FILE: &str = "A moved or removed log file is created again. Always on, also at SIGHUP.";
const WSGI: &str = "belongs to Gnocchi's Python web server";

/// Maximum edit distance of a suggestion for a misspelt name.
const EDITS_MAX: usize = 3;

/// All options by section, in the order of `gnudi config`.
const GROUPS: &[&[Spec]] = &[
    default::OPTIONS,
    api::OPTIONS,
    keystone::OPTIONS,
    collectors::HOST,
    engines::STORAGE,
    engines::STORAGE_ONLY,
    &engines::INCOMING,
    engines::INCOMING_ONLY,
    indexer::OPTIONS,
    metricd::OPTIONS,
    oslo::OPTIONS,
    collectors::OPTIONS,
];

/// The options of one project's files.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue(&'static [&'static [Spec]]);

/// The options of gnocchi.conf.
pub const GNOCCHI: Catalogue = Catalogue(GROUPS);

/// The options of ceilometer.conf.
pub const CEILOMETER: Catalogue = Catalogue(ceilometer::GROUPS);

/// Whether a section is written so: as in oslo.config the case matters only in `DEFAULT`.
fn is_section(section: &str, written: &str) -> bool {
    if section == "DEFAULT" { written == section } else { section.eq_ignore_ascii_case(written) }
}

impl Default for Catalogue {
    fn default() -> Self {
        GNOCCHI
    }
}

impl Catalogue {
    /// All options, by section.
    pub fn all(self) -> impl Iterator<Item = &'static Spec> {
        self.0.iter().copied().flatten()
    }

    /// The option with this name, current or deprecated.
    pub fn find(self, section: &str, name: &str) -> Option<&'static Spec> {
        let is = |(its_section, its_name): (&str, &str)| is_section(its_section, section) && its_name == name;
        self.all()
            .find(|spec| is((spec.section, spec.name)))
            .or_else(|| self.all().find(|spec| spec.former_names().any(is)))
    }

    /// How outdated a name is: 0 for an option's own, more for deprecated ones, in their order.
    pub fn rank(self, section: &str, name: &str) -> usize {
        let is = |(its_section, its_name): (&str, &str)| is_section(its_section, section) && its_name == name;
        let spec = self.find(section, name);
        spec.and_then(|spec| spec.former_names().position(is)).map_or(0, |at| at + 1)
    }

    /// A suggestion for an unknown name: a similar name, or the same one in another section.
    pub fn nearest(self, section: &str, name: &str) -> Option<&'static Spec> {
        // Short names need closer matches.
        let far = name.len().div_ceil(4).min(EDITS_MAX);
        let in_section = self.all().filter(|spec| spec.section.eq_ignore_ascii_case(section));
        let distance = |spec: &Spec| strsim::osa_distance(spec.name, name);
        let written = in_section.map(|spec| (distance(spec), spec)).filter(|(distance, _)| *distance <= far);
        let written = written.min_by_key(|(distance, _)| *distance).map(|(_, spec)| spec);
        written.or_else(|| self.all().find(|spec| spec.name == name))
    }
}
