//! Where a series is stored: a resource of type `prometheus`, and a metric of it.

use std::collections::BTreeMap;

use gnudi_model::{Attribute, AttributeKind, AttributeValue, Measure, ResourceType, Text, Timestamp};
use gnudi_prometheus::remote_write::{
    Sample,
    names::{self, Labels, Place},
};

use crate::{
    provision::{Parcel, Parcels},
    shortened::shortened,
};

pub const RESOURCE_TYPE: &str = "prometheus";

/// Characters of a job or an instance, as an attribute.
const ATTRIBUTE_CHARACTERS_MAX: u32 = 512;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// The resource type of what was scraped.
pub fn resource_type() -> ResourceType {
    let kind = AttributeKind::String { min_length: 1, max_length: ATTRIBUTE_CHARACTERS_MAX };
    let attribute = Attribute { kind, required: true, fill: None };
    ResourceType {
        name: RESOURCE_TYPE.into(),
        attributes: BTreeMap::from([("job".into(), attribute.clone()), ("instance".into(), attribute)]),
    }
}

/// The parcel of a series' resource, and the name of its metric. `None` where the labels name no metric.
pub fn place<'p>(
    parcels: &'p mut Parcels,
    labels: &[(&str, &str)],
    keep: Labels,
    creator: &str,
) -> Option<(&'p mut Parcel, String)> {
    let place = names::place(labels, keep)?;
    let parcel = parcels.resource(&shortened(place.resource()), creator, || attributes(&place));
    Some((parcel, shortened(place.metric_name)))
}

/// A sample's measure; `None` for a time before the epoch or beyond what is stored.
pub fn measure(sample: &Sample) -> Option<Measure> {
    let nanoseconds = sample.timestamp_ms.checked_mul(NANOSECONDS_PER_MILLISECOND)?;
    (nanoseconds >= 0).then_some(Measure { timestamp: Timestamp(nanoseconds), value: sample.value })
}

fn attributes(place: &Place<'_>) -> BTreeMap<Text, AttributeValue> {
    BTreeMap::from([("job".into(), attribute(place.job)), ("instance".into(), attribute(place.instance))])
}

fn attribute(text: &str) -> AttributeValue {
    AttributeValue::String(shortened(text.replace('\0', "\\x00")).into())
}
