//! `POST /api/v1/read`: remote read, as samples or as a stream of chunks.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, stream};
use gnudi_app::Share;
use gnudi_engine::{Engine, Project};
use gnudi_indexer::MetricScope;
use gnudi_prometheus::{
    remote_read::{
        CHUNKS_CONTENT_TYPE, LabelMatcher, Query, ResponseKind, SAMPLES_CONTENT_ENCODING,
        SAMPLES_CONTENT_TYPE, encode_samples, read, write_frame,
    },
    remote_write::{inflate, inflated_bytes},
};
use gnudi_promql::{Limits, MatchKind, Matcher, RegexStates, Selection, Series};
use gnudi_server::ReplyBody;
use hyper::{
    StatusCode,
    header::{CONTENT_ENCODING, HeaderValue},
};

use crate::{
    evaluation::LOOKBACK_MS, failure::Failure, long_work, routes::prelude::*, selected::Reader, unreadable,
};

/// The maximum number of samples in a response that is not streamed.
const MESSAGE_SAMPLES_MAX: usize = 5_000_000;

/// The memory of a sample.
const SAMPLE_BYTES: usize = size_of::<i64>() + size_of::<f64>();

/// The memory of a label without its texts.
const LABEL_BYTES: usize = 2 * size_of::<Arc<str>>();

/// A piece of the stream ends with the frame that reaches this size.
const PIECE_BYTES: usize = 64 << 10;

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
    let queries = request.queries;
    let is_expression =
        |matcher: &LabelMatcher| matches!(matcher.kind, MatchKind::Matches | MatchKind::NotMatches);
    let has_expressions = queries.iter().flat_map(|query| &query.matchers).any(is_expression);
    let parse = move || matchers(&queries).map(|matchers| (queries, matchers));
    let parsed = long_work::on_expressions(call.app.engine(), has_expressions, parse).await;
    let (queries, matchers) = parsed.map_err(|error| Failure::bad_data(error.text))?;
    let selections = queries.iter().zip(&matchers).map(|(query, matchers)| Selection {
        matchers,
        start_ms: query.start_ms,
        end_ms: query.end_ms,
        range_ms: query.end_ms.saturating_sub(query.start_ms),
        is_range: true,
        ..Selection::default()
    });
    let selections: Vec<Selection<'_>> = selections.collect();
    let samples_max = match request.response {
        ResponseKind::Samples => MESSAGE_SAMPLES_MAX,
        ResponseKind::StreamedXorChunks => Limits::default().samples_max,
    };
    let limits = Limits { samples_max, ..Limits::default() };
    let mut selected = Reader::new(call, seen, LOOKBACK_MS, &limits).samples(&selections).await?;
    let count: usize = selected.series.iter().map(Vec::len).sum();
    let sort = move || {
        for series in &mut selected.series {
            series.sort_by(|a, b| a.labels.cmp(&b.labels));
        }
        let labels = selected.series.iter().flatten().flat_map(|series| series.labels.iter());
        let labels_bytes: usize = labels.map(|(name, value)| name.len() + value.len() + LABEL_BYTES).sum();
        (selected, labels_bytes)
    };
    let (selected, labels_bytes) = long_work::on_items(call.app.engine(), count, sort).await;
    let mut share = Share::new(&call.answers());
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
            let frames = frames(call.app.shared_engine(), selected.series, share);
            reply::with_body(StatusCode::OK, content_type, ReplyBody::stream(frames))
        }
    })
}

/// The matchers of each query.
fn matchers(queries: &[Query]) -> Result<Vec<Vec<Matcher>>, gnudi_promql::Error> {
    let mut regexes = RegexStates::default();
    let of_query = |query: &Query| {
        let matcher = |matcher: &LabelMatcher| {
            let matcher = Matcher::new(matcher.kind, &matcher.name, &matcher.value)?;
            regexes.add(&matcher).map(|()| matcher)
        };
        query.matchers.iter().map(matcher).collect()
    };
    queries.iter().map(of_query).collect()
}

/// The frames of each series, encoded off the request threads while the client reads.
fn frames(
    engine: Arc<Engine>,
    results: Vec<Vec<Series>>,
    share: Share,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let project = Project::current();
    stream::unfold(FrameWriter::new(results), move |mut writer: FrameWriter| {
        let _share = &share;
        let engine = engine.clone();
        async move {
            let encode = move || {
                let piece = writer.piece();
                (piece, writer)
            };
            let (piece, writer) = project.run(engine.compute(encode)).await;
            (!piece.is_empty()).then(|| (io::Result::Ok(Bytes::from(piece)), writer))
        }
    })
}

/// Writes the frames of the results of queries, piece by piece.
struct FrameWriter {
    /// The series that are not yet begun, with the index of their query.
    rest: Box<dyn Iterator<Item = (usize, Series)> + Send>,
    /// The series that is being written, and the number of its samples already written.
    open: Option<(usize, Series, usize)>,
}

impl FrameWriter {
    fn new(results: Vec<Vec<Series>>) -> Self {
        let results = results.into_iter().enumerate();
        let rest = results.flat_map(|(query, series)| series.into_iter().map(move |series| (query, series)));
        FrameWriter { rest: Box::new(rest), open: None }
    }

    /// The next piece; empty at the end.
    fn piece(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            if self.open.is_none() {
                self.open = self.rest.next().map(|(query, series)| (query, series, 0));
            }
            let Some((query, series, written)) = &mut self.open else { break };
            write_frame(*query, series, written, &mut piece);
            if *written == series.times_ms.len() {
                self.open = None;
            }
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use gnudi_promql::Labels;

    use super::*;

    #[test]
    fn a_long_series_is_several_pieces() {
        let series = |name: &str, samples: i64| {
            let times_ms: Vec<i64> = (0..samples).map(|number| number * 15_000 + number % 7).collect();
            let values = times_ms.iter().map(|time| (*time as f64).sqrt()).collect();
            Series::new(Labels::new([("__name__", name)]), times_ms, values)
        };
        let results = vec![
            vec![series("short", 1), series("long", 300_000)],
            Vec::new(),
            vec![series("empty", 0), series("last", 2)],
        ];
        let mut whole = Vec::new();
        for (query, series) in results.iter().enumerate() {
            for series in series {
                let mut written = 0;
                while written < series.times_ms.len() {
                    write_frame(query, series, &mut written, &mut whole);
                }
            }
        }
        let mut writer = FrameWriter::new(results);
        let next = || Some(writer.piece()).filter(|piece| !piece.is_empty());
        let pieces: Vec<Vec<u8>> = std::iter::from_fn(next).collect();
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.len() < 2 << 20));
        assert_eq!(pieces.concat(), whole);
    }
}
