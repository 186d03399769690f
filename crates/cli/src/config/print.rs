//! `gnudi config [--ceilometer]`: all options with their defaults and meanings, as a file that could be edited and used.

use super::options::{Catalogue, Kind, Spec, Use};

pub fn print_all(catalogue: Catalogue) -> String {
    let mut text = String::new();
    let mut section = "";
    for spec in catalogue.all() {
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
        Kind::Pause => " (from 0)".to_owned(),
        Kind::Bool => " (true or false)".to_owned(),
        Kind::List => " (comma separated)".to_owned(),
        Kind::Lines => " (may stand several times)".to_owned(),
        Kind::Choice(choices) => format!(" ({})", choices.join(", ")),
        Kind::Url(schemes) => {
            format!(" ({})", schemes.iter().map(|s| format!("{s}://")).collect::<Vec<_>>().join(", "))
        }
    };
    let help = match (spec.usage, spec.inherits) {
        (Use::Honoured, None) => format!("{}{values}", spec.help),
        (Use::Honoured, Some(section)) => format!("Unset: as in [{section}]."),
        (Use::Idle(why), _) => format!("Without effect in this version: {why}."),
    };
    let defaults = spec.default.split('\n').map(|value| format!("#{} = {value}\n", spec.name));
    format!("# {help}\n{}", defaults.collect::<String>())
}
