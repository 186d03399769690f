//! Prints all options with defaults and meanings, as a file to edit and use; or the effective values, each with where
//! it was set.

use super::{
    Config,
    check::with_slashes,
    options::{Catalogue, Kind, Spec, Use},
};

/// All options, or those of one section.
pub fn print_all(catalogue: Catalogue, section: Option<&str>) -> String {
    by_section(catalogue, section, describe)
}

/// The effective values, without passwords.
pub fn print_effective(config: &Config, section: Option<&str>) -> String {
    by_section(config.catalogue, section, |spec| effective(config, spec))
}

fn by_section(catalogue: Catalogue, only: Option<&str>, line: impl Fn(&Spec) -> String) -> String {
    let mut text = String::new();
    let mut section = "";
    let is_wanted = |spec: &&Spec| only.is_none_or(|only| spec.section.eq_ignore_ascii_case(only));
    for spec in catalogue.all().filter(is_wanted) {
        if spec.section != section {
            section = spec.section;
            if !text.is_empty() {
                text.push('\n');
            }
            text.extend(["[", section, "]\n"]);
        }
        text += &line(spec);
    }
    text
}

/// `max_limit = 5  # /etc/gnocchi/gnocchi.conf:12`
fn effective(config: &Config, spec: &Spec) -> String {
    let name = spec.name;
    if matches!(spec.usage, Use::Idle(_)) && !config.is_set(spec.section, name) {
        return String::new();
    }
    let source = config.source(spec.section, name);
    let value = config.text(spec.section, name).unwrap_or_default();
    let is_hidden = spec.is_secret && !value.is_empty() && value != spec.default;
    let value = if is_hidden { "***" } else { value };
    let lines: Vec<String> =
        value.split('\n').map(|value| format!("{name} = {value}  # {source}\n")).collect();
    lines.concat()
}

fn describe(spec: &Spec) -> String {
    let values = match spec.kind {
        Kind::Text => String::new(),
        Kind::Int { min, max: i64::MAX } => format!(" (from {min})"),
        Kind::Int { min, max } => format!(" ({min} to {max})"),
        Kind::Seconds => " (above 0)".to_owned(),
        Kind::Pause => " (from 0)".to_owned(),
        Kind::Bool => " (true or false)".to_owned(),
        Kind::List => " (comma separated)".to_owned(),
        Kind::Lines => " (may stand several times)".to_owned(),
        Kind::Choice(choices) => format!(" ({})", choices.join(", ")),
        Kind::Url(schemes) => format!(" ({})", with_slashes(schemes)),
    };
    let help = match (spec.usage, spec.inherits) {
        (Use::Honoured, None) => format!("{}{values}", spec.help),
        (Use::Honoured, Some(section)) => format!("Unset: as in [{section}]."),
        (Use::Idle(why), _) => format!("Without effect in this version: {why}."),
    };
    let defaults = spec.default.split('\n').map(|value| format!("#{} = {value}\n", spec.name));
    format!("# {help}\n{}", defaults.collect::<String>())
}
