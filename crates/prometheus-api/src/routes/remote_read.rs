//! `POST /api/v1/read`: remote read, as samples or as a stream of chunks.

use std::sync::Arc;

use gnudi_app::Share;
use gnudi_indexer::MetricScope;
use gnudi_prometheus::{
    remote_read::{
        CHUNKS_CONTENT_TYPE, MatcherKind, ResponseKind, SAMPLES_CONTENT_ENCODING, SAMPLES_CONTENT_TYPE,
        encode_samples, read, write_frames,
    },
    remote_write::{inflate, inflated_bytes},
};
use gnudi_promql::{Limits, MatchKind, Matcher, RegexStates, Selection, Series};
use gnudi_server::ReplyBody;
use hyper::{
    StatusCode,
    header::{CONTENT_ENCODING, HeaderValue},
};

use crate::{evaluation::LOOKBACK_MS, failure::Failure, routes::prelude::*, selected::Reader, unreadable};

/// The maximum number of samples in a response that is not streamed.
const MESSAGE_SAMPLES_MAX: usize = 5_000_000;

/// The memory of a sample.
const SAMPLE_BYTES: usize = size_of::<i64>() + size_of::<f64>();

/// The memory of a label without its texts.
const LABEL_BYTES: usize = 2 * size_of::<Arc<str>>();

/// `POST /api/v1/read`
pub async fn remote_read(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    Ok(answered(call, body, seen.as_ref()).await.unwrap_or_else(|failure| failure.response()))
}

async fn answered(
    call: &Call<'_>,
    body: &mut RequestBody<'_>,
    seen: Option<&MetricScope>,
) -> Result<Response, Failure> {
    let input = body.read_small().await.map_err(ApiError::from)?;
    let limits = &call.app.options().limits;
    inflated_bytes(&input, limits.inflated_bytes_max).map_err(unreadable::body)?;
    let message = inflate(&input).map_err(unreadable::body)?;
    let request = read(&message).map_err(|error| Failure::bad_data(error.to_string()))?;
    let mut matchers: Vec<Vec<Matcher>> = Vec::with_capacity(request.queries.len());
    let mut regexes = RegexStates::default();
    for query in &request.queries {
        let matcher = |matcher: &gnudi_prometheus::remote_read::LabelMatcher| {
            let kind = match matcher.kind {
                MatcherKind::Equal => MatchKind::Equal,
                MatcherKind::NotEqual => MatchKind::NotEqual,
                MatcherKind::Matches => MatchKind::Matches,
                MatcherKind::NotMatches => MatchKind::NotMatches,
            };
            let matcher = Matcher::new(kind, &matcher.name, &matcher.value);
            let counted = matcher.and_then(|matcher| regexes.add(&matcher).map(|()| matcher));
            counted.map_err(|error| Failure::bad_data(error.text))
        };
        matchers.push(query.matchers.iter().map(matcher).collect::<Result<_, Failure>>()?);
    }
    let selection = |(query, matchers)| {
        let query: &gnudi_prometheus::remote_read::Query = query;
        let matchers: &Vec<Matcher> = matchers;
        Selection {
            matchers,
            start_ms: query.start_ms,
            end_ms: query.end_ms,
            range_ms: query.end_ms.saturating_sub(query.start_ms),
            is_range: true,
            looks_back: false,
            looks_ahead: false,
            windows: None,
            function: None,
        }
    };
    let selections: Vec<Selection<'_>> = request.queries.iter().zip(&matchers).map(selection).collect();
    let samples_max = match request.response {
        ResponseKind::Samples => MESSAGE_SAMPLES_MAX,
        ResponseKind::StreamedXorChunks => Limits::default().samples_max,
    };
    let limits = Limits { samples_max, ..Limits::default() };
    let mut selected = Reader::new(call, seen, LOOKBACK_MS, &limits).samples(&selections).await?;
    for series in &mut selected.series {
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
    }
    let mut share = Share::new(&call.app.answers);
    let labels = selected.series.iter().flatten().flat_map(|series| series.labels.iter());
    let labels_bytes: usize = labels.map(|(name, value)| name.len() + value.len() + LABEL_BYTES).sum();
    share.grow(selected.samples() * SAMPLE_BYTES + labels_bytes)?;
    Ok(match request.response {
        ResponseKind::Samples => {
            let message = call.app.engine().compute(move || encode_samples(&selected.series)).await;
            let content_type = HeaderValue::from_static(SAMPLES_CONTENT_TYPE);
            let response = reply::with_body(StatusCode::OK, content_type, message);
            reply::with_header(response, CONTENT_ENCODING, SAMPLES_CONTENT_ENCODING)
        }
        ResponseKind::StreamedXorChunks => {
            let content_type = HeaderValue::from_static(CHUNKS_CONTENT_TYPE);
            let frames = frames(selected.series, share);
            reply::with_body(StatusCode::OK, content_type, ReplyBody::Pieces(Box::new(frames)))
        }
    })
}

/// The frames of each series, encoded while the client reads.
fn frames(results: Vec<Vec<Series>>, share: Share) -> impl Iterator<Item = bytes::Bytes> + Send + Sync {
    let results = results.into_iter().enumerate();
    let mut series =
        results.flat_map(|(query, series)| series.into_iter().map(move |series| (query, series)));
    std::iter::from_fn(move || {
        let _share = &share;
        let (query, series) = series.next()?;
        let mut frames = Vec::new();
        write_frames(query, &series, &mut frames);
        Some(frames.into())
    })
}
