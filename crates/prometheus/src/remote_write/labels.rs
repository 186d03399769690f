//! Validates a series' labels by the rules of Prometheus' remote write receiver. Names may be any UTF-8 text; the order
//! does not matter.

use gnudi_promql::METRIC_NAME;

use crate::protobuf::Malformed;

/// The maximum number of labels of a series.
pub const LABELS_MAX: usize = 1_000;

/// Why a series is rejected. The other series of the request are accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabels {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("an odd number of references to symbols")]
    OddReferences,
    #[error("symbol {reference} of {symbols}")]
    NoSuchSymbol { reference: u64, symbols: usize },
    #[error("more than {0} labels")]
    TooMany(usize),
    #[error("no label {METRIC_NAME}")]
    NoName,
    #[error("a label without a name")]
    EmptyName,
    #[error("two labels {0:?}")]
    Duplicate(String),
}

/// Validates the labels of a series: no empty or duplicate name, and a metric name that is not empty. Other values may
/// be empty: such labels are ignored when the series is stored.
///
/// # Errors
/// The labels are invalid, or more than [`LABELS_MAX`].
pub fn check(labels: &[(&str, &str)]) -> Result<(), InvalidLabels> {
    if labels.len() > LABELS_MAX {
        return Err(InvalidLabels::TooMany(LABELS_MAX));
    }
    let mut names: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    if names.first() == Some(&"") {
        return Err(InvalidLabels::EmptyName);
    }
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(InvalidLabels::Duplicate(pair[0].chars().take(100).collect()));
    }
    if !labels.iter().any(|(name, value)| *name == METRIC_NAME && !value.is_empty()) {
        return Err(InvalidLabels::NoName);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_validated_as_in_prometheus() {
        assert_eq!(check(&[("job", "j"), ("__name__", "up")]), Ok(()));
        assert_eq!(check(&[("__name__", "cpu usage.é"), ("job name", "")]), Ok(()));
        assert_eq!(check(&[]), Err(InvalidLabels::NoName));
        assert_eq!(check(&[("job", "j")]), Err(InvalidLabels::NoName));
        assert_eq!(check(&[("__name__", "")]), Err(InvalidLabels::NoName));
        assert_eq!(check(&[("__name__", "up"), ("", "x")]), Err(InvalidLabels::EmptyName));
        let twice = [("a", "1"), ("__name__", "up"), ("a", "1")];
        assert_eq!(check(&twice), Err(InvalidLabels::Duplicate("a".to_owned())));
        let names: Vec<String> = (0..LABELS_MAX).map(|number| format!("l{number}")).collect();
        let many: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), "x")).chain([("__name__", "up")]).collect();
        assert_eq!(check(&many), Err(InvalidLabels::TooMany(LABELS_MAX)));
        assert_eq!(check(&many[1..]), Ok(()));
    }
}
