//! `POST /api/v1/write`: remote write 1.0 and 2.0, with Prometheus' responses.

use gnudi_prometheus::remote_write::{inflate, inflated_bytes, labels::LABELS_MAX, v1, v2};
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue},
};

use crate::{
    gathering::{Gathering, Stored},
    known_series::SeriesKey,
    routes::prelude::*,
    unreadable::{self, limits},
};

const CONTENT: &str = "application/x-protobuf";
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const SAMPLES_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-samples-written");
const HISTOGRAMS_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-histograms-written");
const EXEMPLARS_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-exemplars-written");

/// The versions of the protocol, by message name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Stores the samples of a remote write. 204 means that all are durable. 400 means that all are durable
/// except those named in the text, and that a retry will not help.
pub async fn remote_write(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let version =
        version(&call.parts.headers).ok_or_else(|| ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ""))?;
    let input = body.read().await?;
    let inflated = inflated_bytes(&input, call.app.options().limits.inflated_bytes_max);
    let gathering = match inflated {
        Ok(bytes) => body.long_work.run(bytes, || gather(call, version, &input)).await,
        Err(error) => Err(unreadable::body(error)),
    };
    drop(input);
    match gathering {
        Ok(gathering) => Ok(answer(version, &gathering.store().await?)),
        Err(error) if error.status == StatusCode::BAD_REQUEST => {
            call.has_no_items(Rule::PostMeasures);
            let Value::Str(faults) = error.detail else { return Err(error) };
            Ok(answer(version, &Stored { samples: 0, exemplars: 0, faults, refused_points: 0 }))
        }
        Err(error) => Err(error),
    }
}

/// The protocol version of a request; `None` if it is no remote write.
fn version(headers: &HeaderMap) -> Option<Version> {
    let text = |name| headers.get(name).map_or(Some(""), |header: &HeaderValue| header.to_str().ok());
    if !matches!(text(CONTENT_ENCODING)?, "" | "snappy") {
        return None;
    }
    let mut parts = text(CONTENT_TYPE)?.split(';').map(str::trim);
    if !matches!(parts.next()?, "" | CONTENT) {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.map(|part| part.split_once('=')).collect::<Option<_>>()?;
    match parameters.iter().find(|(name, _)| *name == "proto") {
        None | Some((_, "prometheus.WriteRequest")) => Some(Version::One),
        Some((_, "io.prometheus.write.v2.Request")) => Some(Version::Two),
        Some(_) => None,
    }
}

fn gather<'c>(call: &'c Call<'c>, version: Version, body: &[u8]) -> Result<Gathering<'c>> {
    let message = inflate(body).map_err(unreadable::body)?;
    let limits = limits(&call.app.options().limits);
    let request = match version {
        Version::One => v1::read(&message, limits).map_err(unreadable::message)?,
        Version::Two => v2::read(&message, limits).map_err(unreadable::message)?,
    };
    let mut gathering = Gathering::new(call);
    for (name, metadata) in &request.metadata {
        gathering.describe_metric(name, metadata);
    }
    let mut buffer = Vec::new();
    let key = |series| gathering.key(version as u8, request.key(series, &mut buffer));
    let keys: Vec<SeriesKey> = request.series.iter().map(key).collect();
    // Consecutive series mostly belong to one metric.
    let mut described = None;
    for (series, found) in request.series.iter().zip(gathering.find(&keys)) {
        let labels = || request.labels(series, LABELS_MAX);
        let samples = request.samples(series);
        let is_added = gathering.add(found, samples, labels);
        if is_added {
            match request.metadata(series) {
                Ok(Some(metadata)) => {
                    let said = request.metric_name(series).map(|name| (name, metadata));
                    if let Some((name, metadata)) = &said
                        && described != said
                    {
                        gathering.describe(name, metadata);
                        described = said;
                    }
                }
                Ok(None) => {}
                Err(error) => gathering.refuse(&format!("metadata: {error}"), labels),
            }
        }
        let is_checked = found.is_known() || is_added;
        gathering.add_exemplars(is_checked, labels, request.exemplars(series, LABELS_MAX));
        if series.histograms > 0 {
            gathering.refuse("native histograms are not supported", labels);
        } else if samples.is_empty() && version == Version::Two {
            gathering.refuse("TimeSeries must contain at least one sample or histogram", labels);
        }
    }
    Ok(gathering)
}

/// Responses to version 1 have no statistics headers: senders would treat them as version 2.
fn answer(version: Version, stored: &Stored) -> Response {
    let mut response = if stored.faults.is_empty() {
        reply::no_content()
    } else {
        let text = format!("{}\n", stored.faults);
        reply::with_body(StatusCode::BAD_REQUEST, TEXT, text.into_bytes())
    };
    if version == Version::Two {
        let headers = response.headers_mut();
        headers.insert(SAMPLES_WRITTEN, stored.samples.into());
        headers.insert(HISTOGRAMS_WRITTEN, 0.into());
        headers.insert(EXEMPLARS_WRITTEN, stored.exemplars.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_determines_the_version() {
        let of = |content_type: &'static str, encoding: &'static str| {
            let mut headers = HeaderMap::new();
            for (name, text) in [(CONTENT_TYPE, content_type), (CONTENT_ENCODING, encoding)] {
                if !text.is_empty() {
                    headers.insert(name, HeaderValue::from_static(text));
                }
            }
            version(&headers)
        };
        assert_eq!(of("", ""), Some(Version::One));
        assert_eq!(of(CONTENT, "snappy"), Some(Version::One));
        assert_eq!(of("application/x-protobuf; proto=prometheus.WriteRequest", "snappy"), Some(Version::One));
        assert_eq!(
            of("application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy"),
            Some(Version::Two)
        );
        for (content_type, encoding) in [
            ("application/json", ""),
            ("text/plain", ""),
            ("application/x-protobufs", ""),
            ("application/x-protobuf;proto=io.prometheus.write.v3.Request", ""),
            ("application/x-protobuf;proto", ""),
            (CONTENT, "gzip"),
            (CONTENT, "zstd"),
            (CONTENT, "snappy, gzip"),
        ] {
            assert_eq!(of(content_type, encoding), None, "{content_type} {encoding}");
        }
    }
}
