//! `POST /api/v1/otlp/v1/metrics`: OpenTelemetry's metrics over HTTP, as protobuf or JSON.

use gnudi_prometheus::{
    otlp::{self, Encoding, OtlpError, Rejected},
    remote_write::InvalidLabels,
};
use gnudi_promql::METRIC_NAME;
use gnudi_server::gunzip;
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
};

use crate::{gathering::Gathering, routes::prelude::*, unreadable::limits};

/// Distinguishes these series' keys from those of remote write.
const FORM: u8 = 2;

/// Stores metrics. 200 means that all data points are durable except those that the response counts as
/// rejected.
pub async fn metrics(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let unsupported = || ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "");
    let encoding = encoding(&call.parts.headers).ok_or_else(unsupported)?;
    let is_compressed = is_compressed(&call.parts.headers).ok_or_else(unsupported)?;
    let input = body.read().await?;
    let bytes_max = call.app.options().limits.inflated_bytes_max;
    let work = || {
        if is_compressed {
            gather(call, encoding, &gunzip(&input, bytes_max)?)
        } else {
            gather(call, encoding, &input)
        }
    };
    // The decompressed size is not known beforehand, so assume the limit.
    let input_bytes = if is_compressed { bytes_max } else { input.len() };
    let gathered = body.long_work.run(input_bytes, work).await;
    drop(input);
    match gathered {
        Ok((gathering, mut rejected)) => {
            let stored = gathering.store().await?;
            rejected.data_points += stored.refused_points as u64;
            rejected.reasons.extend((!stored.faults.is_empty()).then_some(stored.faults));
            Ok(answer(StatusCode::OK, encoding, otlp::export_response(&rejected, encoding)))
        }
        Err(error) if error.status == StatusCode::BAD_REQUEST => {
            call.has_no_items(Rule::PostMeasures);
            let Value::Str(text) = &error.detail else { return Err(error) };
            Ok(answer(StatusCode::BAD_REQUEST, encoding, otlp::status(text, encoding)))
        }
        Err(error) => Err(error),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &hyper::header::HeaderName) -> Option<&'h str> {
    headers.get(name).map_or(Some(""), |header| header.to_str().ok())
}

fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let content_type = text(headers, &CONTENT_TYPE)?.split(';').next()?.trim();
    let all = [Encoding::Protobuf, Encoding::Json];
    all.into_iter().find(|encoding| content_type.eq_ignore_ascii_case(encoding.content_type()))
}

fn is_compressed(headers: &HeaderMap) -> Option<bool> {
    match text(headers, &CONTENT_ENCODING)?.to_ascii_lowercase().as_str() {
        "" | "identity" => Some(false),
        "gzip" => Some(true),
        _ => None,
    }
}

fn gather<'c>(call: &'c Call<'c>, encoding: Encoding, body: &[u8]) -> Result<(Gathering<'c>, Rejected)> {
    let limits = limits(&call.app.options().limits);
    let request = otlp::read(body, encoding, limits).map_err(|error| refused(&error))?;
    let mut gathering = Gathering::new(call);
    let mut key = Vec::new();
    let mut described = None;
    let rejected = otlp::translate(&request, limits, &mut |translated| {
        key.clear();
        for text in translated.labels.iter().flat_map(|(label, value)| [label, value]) {
            key.extend_from_slice(&(text.len() as u32).to_le_bytes());
            key.extend_from_slice(text.as_bytes());
        }
        let labels = || Ok::<_, InvalidLabels>(translated.labels.to_vec());
        gathering.begin_point(translated.point);
        let found = gathering.find(&[gathering.key(FORM, &key)]);
        let is_added = gathering.add(found[0], &[translated.sample], labels);
        if is_added && described != Some(translated.metric) {
            let name = translated.labels.iter().find(|(label, _)| *label == METRIC_NAME);
            gathering.describe(name.map_or("", |(_, name)| name), translated.metadata);
            described = Some(translated.metric);
        }
    });
    Ok((gathering, rejected.map_err(|error| refused(&error))?))
}

fn answer(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    reply::with_body(status, HeaderValue::from_static(encoding.content_type()), body)
}

/// The error for an invalid or too large message.
fn refused(error: &OtlpError) -> ApiError {
    let text = format!("Unable to read the body: {error}");
    if error.is_too_large() { ApiError::too_large(text) } else { ApiError::bad_request(text) }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    #[test]
    fn headers_determine_the_encoding() {
        let headers = |name: HeaderName, text: &'static str| {
            HeaderMap::from_iter([(name, HeaderValue::from_static(text))])
        };
        let of = |content_type| encoding(&headers(CONTENT_TYPE, content_type));
        assert_eq!(of("application/x-protobuf"), Some(Encoding::Protobuf));
        assert_eq!(of("Application/JSON; charset=utf-8"), Some(Encoding::Json));
        assert_eq!((of("text/plain"), encoding(&HeaderMap::new())), (None, None));
        let is_compressed = |encoding| is_compressed(&headers(CONTENT_ENCODING, encoding));
        assert_eq!((is_compressed("gzip"), is_compressed("identity")), (Some(true), Some(false)));
        assert_eq!((is_compressed("zstd"), is_compressed("snappy")), (None, None));
    }
}
