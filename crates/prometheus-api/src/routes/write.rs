//! `POST /v1/prometheus/write`: Gnocchi's remote write.

use gnudi_app::provision::{self, Destination, Parcels};
use gnudi_model::Measure;
use gnudi_prometheus::{
    labels::RESOURCE_TYPE,
    remote_write::{WriteRequest, inflate, inflated_bytes, v1},
};
use hyper::{StatusCode, header::CONTENT_TYPE};

use crate::{
    PrometheusLabels as Labels,
    gathering::drop_unknown_ends,
    place,
    routes::prelude::*,
    unreadable::{self, limits},
};

/// The content type's parameter in version 2 of the protocol.
const VERSION_2: &str = "io.prometheus.write.v2.Request";

/// Stores the samples of a remote write (1.0), all or none. 202 means that they are durable, 400 that a retry will not help;
/// if the text names what is damaged in the index, the others are durable.
pub async fn write(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let content_type = call.parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |header| header.as_bytes());
    if String::from_utf8_lossy(content_type).contains(VERSION_2) {
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ""));
    }
    let options = call.app.options();
    let input = body.read().await?;
    let inflated_bytes =
        inflated_bytes(&input, options.limits.inflated_bytes_max).map_err(unreadable::body)?;
    let read = || {
        let message = inflate(&input).map_err(unreadable::body)?;
        let request = v1::read(&message, limits(&options.limits)).map_err(unreadable::message)?;
        parcels(&request, call.api.options.labels, &call.caller.user)
    };
    let mut parcels = body.long_work.run(inflated_bytes, read).await?;
    drop(input);
    drop_unknown_ends(call, &mut parcels).await?;
    let resource_type = place::resource_type();
    let to = Destination {
        resource_type: RESOURCE_TYPE,
        type_to_create: Some(&resource_type),
        archive_policy: None,
    };
    let left_out = provision::deliver(call, to, parcels).await?;
    if left_out.is_empty() { Ok(reply::accepted()) } else { Err(ApiError::bad_request(left_out.to_string())) }
}

fn parcels(request: &WriteRequest<'_>, keep: Labels, creator: &str) -> Result<Parcels> {
    let mut parcels = Parcels::default();
    for series in &request.series {
        let labels = request
            .labels(series, usize::MAX)
            .map_err(|error| ApiError::bad_request(format!("Unable to read the body: {error}")))?;
        let name_is_missing = || ApiError::bad_request("A series has no label __name__");
        if !labels.iter().any(|(label, value)| *label == "__name__" && !value.is_empty()) {
            return Err(name_is_missing());
        }
        // Including staleness markers, which policies with raw points keep.
        let measures: Vec<Measure> = request
            .samples(series)
            .iter()
            .map(|sample| {
                let unexpected = || format!("unexpected timestamp '{}'", sample.timestamp_ms);
                place::measure(sample).ok_or_else(|| ApiError::bad_request(unexpected()))
            })
            .collect::<Result<_, _>>()?;
        if measures.is_empty() {
            continue;
        }
        let (all, ..) = place::place(&mut parcels, &labels, keep, creator).ok_or_else(name_is_missing)?;
        match keep {
            Labels::None => *all = measures,
            Labels::All | Labels::Exact => all.extend(measures),
        }
    }
    Ok(parcels)
}
