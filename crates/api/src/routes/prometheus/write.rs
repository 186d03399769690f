//! `POST /v1/prometheus/write`: remote write as Gnocchi takes it.

use std::collections::BTreeMap;

use gnudi_model::{Attribute, AttributeKind, AttributeValue, Measure, ResourceType, Text, Timestamp};
use hyper::{StatusCode, header::CONTENT_TYPE};

use crate::{
    prometheus::{
        Sample, Series, inflate, inflated_bytes,
        names::{self, Labels, Place},
        write_request,
    },
    provision::{self, Destination, Parcels},
    routes::prelude::*,
    shortened::shortened,
};

const RESOURCE_TYPE: &str = "prometheus";

/// The parameter of the content type that tells the second version of the protocol.
const VERSION_2: &str = "io.prometheus.write.v2.Request";

const MILLISECOND: i64 = 1_000_000;

/// Takes the samples of a remote write (1.0): all of them, or none. 202 means that they are durable.
pub async fn write(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let content_type = call.parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |header| header.as_bytes());
    if String::from_utf8_lossy(content_type).contains(VERSION_2) {
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ""));
    }
    let options = call.app.options();
    let input = body.read().await?;
    let inflated_bytes = inflated_bytes(&input, options.limits.inflated_bytes_max)?;
    let read = || {
        let message = inflate(&input)?;
        let series = write_request::read(&message, options.limits.measures_max).map_err(malformed)?;
        parcels(&series, options.prometheus_labels, &call.caller.user)
    };
    let mut parcels = body.long_work.run(inflated_bytes, read).await?;
    drop(input);
    // The end of a series that is not known is no reason to make a metric.
    let is_known =
        |resource, name: &str| call.app.engine().indexer().cached_named_metric(resource, name).is_some();
    parcels.retain(|resource, name, measures| {
        !measures.iter().all(Measure::is_end_marker) || is_known(resource, name)
    });
    let resource_type = resource_type();
    let to = Destination { resource_type: RESOURCE_TYPE, type_to_create: Some(&resource_type) };
    provision::deliver(call, to, &parcels).await?;
    Ok(reply::accepted())
}

fn malformed(error: write_request::NoWriteRequest) -> ApiError {
    use write_request::NoWriteRequest::{TooManyLabels, TooManySamples};
    let text = format!("Unable to read the body: {error}");
    match error {
        TooManySamples(_) | TooManyLabels(_) => ApiError::too_large(text),
        _ => ApiError::bad_request(text),
    }
}

fn parcels(series: &[Series<'_>], labels: Labels, creator: &str) -> Result<Parcels, ApiError> {
    let mut parcels = Parcels::default();
    for one in series {
        let place = names::place(&one.labels, labels)
            .ok_or_else(|| ApiError::bad_request("A series has no label __name__"))?;
        // Also the markers of a series' end, which policies with raw points keep.
        let measures: Vec<Measure> = one.samples.iter().map(measure).collect::<Result<_, _>>()?;
        if measures.is_empty() {
            continue;
        }
        let parcel = parcels.resource(&place.resource(), creator, || attributes(&place));
        let all = parcel.metric(place.metric_name);
        match labels {
            Labels::All => all.extend(measures),
            Labels::None => *all = measures,
        }
    }
    Ok(parcels)
}

fn measure(sample: &Sample) -> Result<Measure, ApiError> {
    let timestamp = sample.timestamp_ms.checked_mul(MILLISECOND).filter(|time| *time >= 0);
    let timestamp = timestamp
        .ok_or_else(|| ApiError::bad_request(format!("unexpected timestamp '{}'", sample.timestamp_ms)))?;
    Ok(Measure { timestamp: Timestamp(timestamp), value: sample.value })
}

/// Characters of a job or an instance, as an attribute.
const ATTRIBUTE_CHARACTERS_MAX: u32 = 512;

fn attributes(place: &Place<'_>) -> BTreeMap<Text, AttributeValue> {
    let value = |text: &str| AttributeValue::String(shortened(text.replace('\0', "\\x00")).into());
    BTreeMap::from([("job".into(), value(place.job)), ("instance".into(), value(place.instance))])
}

fn resource_type() -> ResourceType {
    let kind = AttributeKind::String { min_length: 1, max_length: ATTRIBUTE_CHARACTERS_MAX };
    let attribute = Attribute { kind, required: true, fill: None };
    ResourceType {
        name: RESOURCE_TYPE.into(),
        attributes: BTreeMap::from([("job".into(), attribute.clone()), ("instance".into(), attribute)]),
    }
}
