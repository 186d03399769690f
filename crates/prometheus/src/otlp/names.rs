//! Translates OpenTelemetry's names of metrics, attributes and units like Prometheus 3 by default
//! (`UnderscoreEscapingWithSuffixes` of github.com/prometheus/otlptranslator).

/// The types of metrics that get different suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Gauge,
    MonotonicSum,
    Other,
}

/// A name that would be empty or consist of underscores only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidName {
    #[error("the name {0:?} has no letter or digit")]
    Metric(String),
    #[error("the label {0:?} has no letter or digit")]
    Label(String),
}

/// UCUM codes of units, and their names.
const UNITS: &[(&str, &str)] = &[
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("1", ""),
    ("%", "percent"),
];

/// UCUM codes of units after a slash, and their names.
const PER_UNITS: &[(&str, &str)] = &[
    ("s", "second"),
    ("m", "minute"),
    ("h", "hour"),
    ("d", "day"),
    ("w", "week"),
    ("mo", "month"),
    ("y", "year"),
];

/// The name of a metric: ASCII letters, digits, underscores and colons, with suffixes for unit and type.
pub(super) fn metric_name(name: &str, unit: &str, kind: NameKind) -> Result<String, InvalidName> {
    let (main, per) = unit_parts(unit);
    let mut parts: Vec<&str> = name
        .split(|character: char| !is_valid_in_metric(character))
        .filter(|part| !part.is_empty())
        .collect();
    let per = if per == "per_" { "" } else { per.strip_suffix('_').unwrap_or(&per) };
    let main = if parts.contains(&main.as_str()) { "" } else { main.as_str() };
    let per = if parts.contains(&per) { "" } else { per };
    let main = if per.is_empty() { main } else { main.strip_suffix('_').unwrap_or(main) };
    parts.extend([main, per].into_iter().filter(|part| !part.is_empty()));
    let suffix = match kind {
        NameKind::MonotonicSum => Some("total"),
        NameKind::Gauge if unit == "1" => Some("ratio"),
        _ => None,
    };
    if let Some(suffix) = suffix {
        parts.retain(|part| *part != suffix);
        parts.push(suffix);
    }
    let mut text = parts.join("_");
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.insert(0, '_');
    }
    if text.chars().all(|character| character == '_') {
        return Err(InvalidName::Metric(name.chars().take(100).collect()));
    }
    Ok(text)
}

/// The name of a unit for metadata.
pub(super) fn unit_name(unit: &str) -> String {
    let (main, per) = unit_parts(unit);
    let text = match (main.is_empty(), per.is_empty()) {
        (false, false) => format!("{main}_{per}"),
        (false, true) => main,
        (true, _) => per,
    };
    let text = text.strip_prefix('_').unwrap_or(&text);
    text.strip_suffix('_').unwrap_or(text).to_owned()
}

/// The label name of an attribute: ASCII letters, digits and underscores, not starting with a digit or a single
/// underscore.
pub(super) fn label_name(name: &str) -> Result<String, InvalidName> {
    let mut text: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .collect();
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.insert_str(0, "key_");
    } else if text.starts_with('_') && !text.starts_with("__") {
        text.insert_str(0, "key");
    }
    if text.chars().all(|character| character == '_') {
        return Err(InvalidName::Label(name.chars().take(100).collect()));
    }
    Ok(text)
}

fn is_valid_in_metric(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == ':'
}

/// The names of a unit and of the unit after its slash (`per_second`), cleaned. A part with braces is an annotation and becomes
/// empty.
fn unit_parts(unit: &str) -> (String, String) {
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let named = |part: &str, names: &[(&str, &str)]| {
        let part = part.trim();
        if part.contains(['{', '}']) {
            return String::new();
        }
        names.iter().find(|(code, _)| *code == part).map_or(part, |(_, name)| name).to_owned()
    };
    let per = named(per, PER_UNITS);
    let per = if per.is_empty() { per } else { format!("per_{per}") };
    (clean_unit(&named(main, UNITS)), clean_unit(&per))
}

/// Replaces each run of invalid characters by one underscore, and removes a leading underscore.
fn clean_unit(unit: &str) -> String {
    let mut text = String::with_capacity(unit.len());
    for character in unit.chars() {
        let character = if is_valid_in_metric(character) { character } else { '_' };
        if character != '_' || !text.ends_with('_') {
            text.push(character);
        }
    }
    text.strip_prefix('_').map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases of otlptranslator's tests, and its results for other names.
    #[test]
    fn metric_names_are_those_of_prometheus() {
        use NameKind::{Gauge, MonotonicSum, Other};
        for (name, unit, kind, expected) in [
            ("system.io", "By/s", MonotonicSum, "system_io_bytes_per_second_total"),
            ("http.server.duration", "ms", Other, "http_server_duration_milliseconds"),
            ("system.cpu.utilization", "1", Gauge, "system_cpu_utilization_ratio"),
            ("ratio.of.things", "1", Gauge, "of_things_ratio"),
            ("count", "1", Other, "count"),
            ("system.network.dropped", "{packets}", MonotonicSum, "system_network_dropped_total"),
            ("system.network.dropped", "{packets}/s", Gauge, "system_network_dropped_per_second"),
            ("total.requests.total", "", MonotonicSum, "requests_total"),
            ("memory_bytes", "By", Gauge, "memory_bytes"),
            ("temperature", "Cel", Gauge, "temperature_celsius"),
            ("5xx", "", Gauge, "_5xx"),
            ("a:b", "", Gauge, "a:b"),
            ("a__b..c", "", Gauge, "a_b_c"),
            ("_leading", "", Gauge, "leading"),
            ("metrics", "m/s", Gauge, "metrics_meters_per_second"),
            ("speed", "km/m", Gauge, "speed_km_per_minute"),
            ("weird", "a//b", Gauge, "weird_a_per_b"),
            ("weird", "_/_", Gauge, "weird"),
            ("x_per_second", "By/s", Gauge, "x_per_second_bytes_per_second"),
            ("x", "_a__b_", Gauge, "x_a_b_"),
            ("x", "°C", Gauge, "x_C"),
            ("x", " s / h ", Gauge, "x_seconds_per_hour"),
            ("é", "", MonotonicSum, "total"),
        ] {
            assert_eq!(metric_name(name, unit, kind).as_deref(), Ok(expected), "{name} {unit}");
        }
        for name in ["", ".", "é", "___"] {
            assert_eq!(metric_name(name, "", Gauge), Err(InvalidName::Metric(name.to_owned())));
        }
    }

    #[test]
    fn label_names_are_those_of_prometheus() {
        for (name, expected) in [
            ("http.method", "http_method"),
            ("a..b", "a__b"),
            ("0x", "key_0x"),
            ("_private", "key_private"),
            ("__name__", "__name__"),
            ("grün", "gr_n"),
        ] {
            assert_eq!(label_name(name).as_deref(), Ok(expected));
        }
        for name in ["", "__", "é."] {
            assert_eq!(label_name(name), Err(InvalidName::Label(name.to_owned())));
        }
        assert_eq!(label_name("."), Ok("key_".to_owned()));
    }

    #[test]
    fn units_of_metadata_are_spelled_out() {
        for (unit, expected) in [
            ("By", "bytes"),
            ("By/s", "bytes_per_second"),
            ("1", ""),
            ("{req}", ""),
            ("{req}/s", "per_second"),
            ("k°", "k"),
        ] {
            assert_eq!(unit_name(unit), expected);
        }
    }
}
