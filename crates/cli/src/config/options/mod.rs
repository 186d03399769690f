//! Every option: section, name, type, default, meaning. Gnocchi's names first; gnudi's own are marked.
//!
//! One file per section, or per few that belong together; `engines` has those that `[storage]` and `[incoming]` share.
//! `ceilometer` has the other catalogue, that of ceilometer.conf.

/// A table of options by section: the function below that makes an option's [`Spec`], its name, the function's further
/// arguments, and fields that are otherwise.
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
mod host;
mod incoming;
mod indexer;
mod keystone;
mod metricd;
mod oslo_policy;
mod python;
mod storage;

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// From `min` to `max`, both included.
    Int {
        min: i64,
        max: i64,
    },
    /// Above 0, with a fraction or without.
    Seconds,
    /// The same, or 0.
    Pause,
    Bool,
    /// Comma separated.
    List,
    /// May stand several times in a section; each line is one value.
    Lines,
    Choice(&'static [&'static str]),
    /// A URL of one of these schemes; `scheme+driver` (a driver of Gnocchi's) is taken for `scheme`.
    Url(&'static [&'static str]),
}

/// Whether this version honours an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Honoured,
    /// Known, and without effect: a setting is warned of.
    Idle(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    /// As it would stand in the file; empty where the option is unset.
    pub default: &'static str,
    pub help: &'static str,
    pub usage: Use,
    /// The value is, or may hold, a password: it is never shown.
    pub is_secret: bool,
    /// Where it is unset, the option of the same name in this section counts.
    pub inherits: Option<&'static str>,
    /// The variable of the environment that Gnocchi takes for the default; empty for none.
    pub environment: &'static str,
    /// Other names of it, by section and name, that still count.
    pub formerly: &'static [(&'static str, &'static str)],
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

/// An option without a default whose value nobody may see.
const fn secret(section: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Spec {
    Spec { is_secret: true, ..option(section, name, kind, "", help) }
}

const fn idle(section: &'static str, name: &'static str, default: &'static str, why: &'static str) -> Spec {
    Spec { usage: Use::Idle(why), ..text(section, name, default, why) }
}

/// The same options in another section, where what is unset is as in the first.
const fn inheriting<const N: usize>(specs: &[Spec], section: &'static str, first: &'static str) -> [Spec; N] {
    let mut all = [specs[0]; N];
    let mut index = 0;
    while index < N {
        let inherits = Some(first);
        all[index] = Spec { section, default: "", inherits, environment: "", formerly: &[], ..specs[index] };
        index += 1;
    }
    all
}

const ANY: Kind = Kind::Int { min: 0, max: i64::MAX };
const POSITIVE: Kind = Kind::Int { min: 1, max: i64::MAX };
const PORT: Kind = Kind::Int { min: 0, max: 65_535 };

const LOGS: &str = "logs go to standard error, or to log_file";
const LOG_FILE: &str =
    "File that services log to, in oslo.log's format. Unset: standard error, if log_dir is unset, too.";
const LOG_DIR: &str =
    "Directory of the log file. Without log_file it is named as the program: gnocchi-api.log.";
const LOG_DATE_FORMAT: &str = "The time in the log file, as strftime has it; milliseconds follow.";
const WATCH_LOG_FILE: &str =
    "A log file that was moved or removed is begun anew. It is always so, and at SIGHUP.";
const WSGI: &str = "belongs to Gnocchi's Python web server";

/// Letters that a misspelt name may have otherwise.
const EDITS_MAX: usize = 3;

/// All options, by section, in the order in which `gnudi config` prints them.
const GROUPS: &[&[Spec]] = &[
    default::OPTIONS,
    api::OPTIONS,
    keystone::OPTIONS,
    host::OPTIONS,
    engines::STORAGE,
    storage::OPTIONS,
    &engines::INCOMING,
    incoming::OPTIONS,
    indexer::OPTIONS,
    metricd::OPTIONS,
    oslo_policy::OPTIONS,
    python::OPTIONS,
    collectors::OPTIONS,
];

/// The options of one program's files.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue(&'static [&'static [Spec]]);

/// Those of gnocchi.conf.
pub const GNOCCHI: Catalogue = Catalogue(GROUPS);

/// Those of ceilometer.conf.
pub const CEILOMETER: Catalogue = Catalogue(ceilometer::GROUPS);

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

    /// The option of that name, present or former, if there is one.
    pub fn find(self, section: &str, name: &str) -> Option<&'static Spec> {
        let is = |(its_section, its_name): (&str, &str)| {
            its_section.eq_ignore_ascii_case(section) && its_name == name
        };
        self.all()
            .find(|spec| is((spec.section, spec.name)))
            .or_else(|| self.all().find(|spec| spec.formerly.iter().any(|former| is(*former))))
    }

    /// The option that may be meant where there is none of that name: one that is written nearly so, or stands in another section.
    pub fn nearest(self, section: &str, name: &str) -> Option<&'static Spec> {
        // A name of three letters is not nearly another.
        let far = name.len().div_ceil(4).min(EDITS_MAX);
        let in_section = self.all().filter(|spec| spec.section.eq_ignore_ascii_case(section));
        let distance = |spec: &Spec| strsim::osa_distance(spec.name, name);
        let written = in_section.map(|spec| (distance(spec), spec)).filter(|(distance, _)| *distance <= far);
        let written = written.min_by_key(|(distance, _)| *distance).map(|(_, spec)| spec);
        written.or_else(|| self.all().find(|spec| spec.name == name))
    }
}
