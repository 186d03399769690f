//! Validates values against their options. Errors do not repeat values, which may be passwords.

use std::time::Duration;

use super::options::Kind;

/// About a century.
const SPAN_MAX: Duration = Duration::from_mins(50_000_000);

pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// At most about a century: what is longer may be no time when it is added to one.
pub fn parse_seconds(text: &str) -> Option<Duration> {
    let span = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())?;
    Some(span.min(SPAN_MAX))
}

/// The engine in a URL: `postgresql` for `postgresql+psycopg2://...`. `None` if it is not a URL.
pub fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once("://").or_else(|| url.split_once(":/"))?;
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then(|| scheme.split('+').next().unwrap_or(scheme))
}

/// Why an option of this kind rejects the value.
pub fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Int { min, max } => match value.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            Ok(_) if max == i64::MAX => Err(format!("must be at least {min}")),
            Ok(_) => Err(format!("must be from {min} to {max}")),
            Err(_) => Err("must be a whole number".to_owned()),
        },
        Kind::Bool => parse_bool(value).map(drop).ok_or_else(|| "must be true or false".to_owned()),
        Kind::Seconds => {
            let seconds = parse_seconds(value).filter(|seconds| !seconds.is_zero());
            seconds.map(drop).ok_or_else(|| "must be a number of seconds above 0".to_owned())
        }
        Kind::Pause => {
            parse_seconds(value).map(drop).ok_or_else(|| "must be a number of seconds, or 0".to_owned())
        }
        Kind::Choice(choices) if !choices.contains(&value) => {
            Err(format!("must be one of: {}", choices.join(", ")))
        }
        Kind::Url(schemes) => match scheme(value) {
            Some(scheme) if schemes.contains(&scheme) => Ok(()),
            Some(scheme) => Err(format!("{scheme}:// is none of: {}", with_slashes(schemes))),
            None => Err(format!("must be a URL that begins with one of: {}", with_slashes(schemes))),
        },
        Kind::Choice(_) | Kind::Text | Kind::List | Kind::Lines => Ok(()),
    }
}

pub fn with_slashes(schemes: &[&str]) -> String {
    schemes.iter().map(|scheme| format!("{scheme}://")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_what_stands_before_the_driver() {
        for (url, expected) in [
            ("postgresql+psycopg2://u:p@h/d", Some("postgresql")),
            ("sqlite:////tmp/x", Some("sqlite")),
            ("redis://", Some("redis")),
            ("u:p@h/d", None),
            ("://x", None),
            ("a b://x", None),
            ("hunter2", None),
        ] {
            assert_eq!(scheme(url), expected, "{url}");
        }
    }

    #[test]
    fn the_longest_spans_can_be_added_to_a_time() {
        assert_eq!(parse_seconds("1.5"), Some(Duration::from_millis(1500)));
        let longest = parse_seconds("1e19").unwrap();
        assert!(std::time::Instant::now().checked_add(longest).is_some());
        assert_eq!(["nan", "inf", "-1", "1e20"].map(parse_seconds), [None; 4]);
    }

    #[test]
    fn a_refused_url_is_not_repeated() {
        let kind = Kind::Url(&["redis", "rediss"]);
        for url in ["redis:hunter2@h", "http://:hunter2@h", "hunter2"] {
            let reason = check(kind, url).unwrap_err();
            assert!(!reason.contains("hunter2") && reason.contains("rediss://"), "{reason}");
        }
        assert!(check(kind, "rediss://:hunter2@h:1/0").is_ok());
    }
}
