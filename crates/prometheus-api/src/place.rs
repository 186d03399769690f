//! Where a series is stored: as a metric of a resource of type `prometheus`.

use std::collections::BTreeMap;

use gnudi_app::{provision::Parcels, shortened};
use gnudi_model::{Attribute, AttributeKind, AttributeValue, Measure, ResourceType, Text, Timestamp};
use gnudi_prometheus::{
    labels::{INSTANCE, JOB, NONE, RESOURCE_TYPE},
    remote_write::{
        Sample,
        names::{self, Labels, Place},
    },
};

use uuid::Uuid;

/// The maximum length of a job or instance as an attribute.
const ATTRIBUTE_CHARACTERS_MAX: u32 = 512;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// The resource type of scraped targets.
pub fn resource_type() -> ResourceType {
    let kind = AttributeKind::String { min_length: 1, max_length: ATTRIBUTE_CHARACTERS_MAX };
    let attribute = Attribute { kind, required: true, fill: None };
    ResourceType {
        name: RESOURCE_TYPE.into(),
        attributes: BTreeMap::from([(JOB.into(), attribute.clone()), (INSTANCE.into(), attribute)]),
    }
}

/// The measures of a series, to append to, with the id of its resource and the name of its metric. `None` if
/// the labels have no metric name.
pub fn place<'p>(
    parcels: &'p mut Parcels,
    labels: &[(&str, &str)],
    keep: Labels,
    creator: &str,
) -> Option<(&'p mut Vec<Measure>, Uuid, String)> {
    let place = names::place(labels, keep)?;
    let resource = shortened(place.resource());
    let parcel = parcels.resource(&resource, creator, || attributes(&place));
    let (id, name) = (parcel.id, shortened(place.metric_name.clone()));
    let measures = parcel.metric_of_series(name.clone(), || whole_name(&place, &name, labels, keep));
    Some((measures, id, name))
}

/// The id of the resource and the name of the metric in which [`place`] stores a series.
pub fn location(labels: &[(&str, &str)], keep: Labels, creator: &str) -> Option<(Uuid, String)> {
    let mut parcels = Parcels::default();
    place(&mut parcels, labels, keep, creator).map(|(_, resource, metric_name)| (resource, metric_name))
}

/// The full name, which preserves the series' labels if the metric's name and resource do not. If job or instance were
/// truncated or changed, or equal the placeholder for a missing one, it has all labels. Otherwise, if the name was
/// truncated, it is the untruncated name.
fn whole_name(place: &Place<'_>, name: &str, labels: &[(&str, &str)], keep: Labels) -> Option<String> {
    let is_preserved = |own: &str, label: &str| {
        let is_missing = !labels.iter().any(|(name, value)| *name == label && !value.is_empty());
        is_missing || (own != NONE && attribute(own) == AttributeValue::String(own.into()))
    };
    if keep != Labels::None && !(is_preserved(place.job, JOB) && is_preserved(place.instance, INSTANCE)) {
        return names::notation(labels, |_, _| true);
    }
    (name != place.metric_name).then(|| place.metric_name.clone())
}

/// A sample as a measure; `None` for times before the epoch or out of range.
pub fn measure(sample: &Sample) -> Option<Measure> {
    let nanoseconds = sample.timestamp_ms.checked_mul(NANOSECONDS_PER_MILLISECOND)?;
    (nanoseconds >= 0).then_some(Measure { timestamp: Timestamp(nanoseconds), value: sample.value })
}

fn attributes(place: &Place<'_>) -> BTreeMap<Text, AttributeValue> {
    BTreeMap::from([(JOB.into(), attribute(place.job)), (INSTANCE.into(), attribute(place.instance))])
}

fn attribute(text: &str) -> AttributeValue {
    AttributeValue::String(shortened(text.replace('\0', "\\x00")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metric's name and its full name.
    fn names_of(labels: &[(&str, &str)], keep: Labels) -> (String, Option<String>) {
        let mut parcels = Parcels::default();
        let (_, _, name) = place(&mut parcels, labels, keep, "me").unwrap();
        let whole_name = parcels.get(0).whole_names().next().flatten().map(str::to_owned);
        (name, whole_name)
    }

    #[test]
    fn the_whole_name_preserves_what_the_name_loses() {
        let up = ("__name__", "up");
        let long = "x".repeat(300);
        assert_eq!(
            names_of(&[up, ("job", "j"), ("a", "b")], Labels::Exact),
            (r#"up{a="b"}"#.to_owned(), None)
        );
        assert_eq!(names_of(&[up, ("job", "")], Labels::Exact), ("up".to_owned(), None));
        let (name, whole_name) = names_of(&[up, ("job", "j"), ("a", &long)], Labels::Exact);
        assert_eq!((name.len(), whole_name), (255, Some(format!(r#"up{{a="{long}"}}"#))));
        for job in [long.as_str(), "none"] {
            let (_, whole_name) = names_of(&[up, ("job", job), ("instance", "i"), ("a", "b")], Labels::Exact);
            assert_eq!(whole_name, Some(format!(r#"up{{a="b",instance="i",job="{job}"}}"#)));
        }
        let (_, whole_name) = names_of(&[up, ("instance", "a\0b")], Labels::All);
        assert_eq!(whole_name.as_deref(), Some(r#"up{instance="a\x00b"}"#));
        assert_eq!(names_of(&[up, ("job", "none")], Labels::None), ("up".to_owned(), None));
    }
}
