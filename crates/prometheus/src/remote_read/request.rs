//! The message of remote read (`prometheus.ReadRequest`, protobuf). Its hints are ignored: they do not change the
//! result.

use gnudi_promql::MatchKind;

use crate::protobuf::{FieldValue, Fields, Malformed, read_varint};

/// The maximum number of queries of a request.
const QUERIES_MAX: usize = 1_000;
/// The maximum number of matchers of all queries together.
const MATCHERS_MAX: usize = 10_000;
/// The maximum number of accepted response types; further ones are ignored.
const ACCEPTED_MAX: usize = 100;

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadRequestError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("there are more than {0} queries")]
    TooManyQueries(usize),
    #[error("there are more than {0} matchers")]
    TooManyMatchers(usize),
    #[error("invalid matcher type {0}")]
    MatcherKind(u64),
    #[error(
        "server does not support any of the requested response types; supported: SAMPLES, STREAMED_XOR_CHUNKS"
    )]
    NoSupportedResponse,
}

/// The type of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseKind {
    /// One message with all samples, compressed with Snappy.
    #[default]
    Samples,
    /// A stream of frames, each with chunks of one series.
    StreamedXorChunks,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    pub queries: Vec<Query>,
    /// The first accepted type that is supported; samples if the request lists none.
    pub response: ResponseKind,
}

/// Selects the series that match all matchers, and their samples from `start_ms` to `end_ms`, inclusive, in
/// milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub start_ms: i64,
    pub end_ms: i64,
    pub matchers: Vec<LabelMatcher>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelMatcher {
    pub kind: MatchKind,
    pub name: String,
    pub value: String,
}

/// Decodes a message.
///
/// # Errors
/// The message is malformed, exceeds a limit, has an unknown matcher type, or accepts only response types that are not
/// supported.
pub fn read(message: &[u8]) -> Result<ReadRequest, ReadRequestError> {
    let mut queries = Vec::new();
    let mut accepted = Vec::new();
    let mut matchers_left = MATCHERS_MAX;
    for field in Fields(message) {
        match field? {
            (1, value) => {
                if queries.len() == QUERIES_MAX {
                    return Err(ReadRequestError::TooManyQueries(QUERIES_MAX));
                }
                queries.push(query(value.bytes(1)?, &mut matchers_left)?);
            }
            (2, FieldValue::Bytes(mut packed)) => {
                while !packed.is_empty() && accepted.len() < ACCEPTED_MAX {
                    accepted.push(read_varint(&mut packed)?);
                }
            }
            (2, value) if accepted.len() < ACCEPTED_MAX => accepted.push(value.varint(2)?),
            _ => {}
        }
    }
    let known = |number: &u64| match number {
        0 => Some(ResponseKind::Samples),
        1 => Some(ResponseKind::StreamedXorChunks),
        _ => None,
    };
    let response = match accepted.iter().find_map(known) {
        Some(response) => response,
        None if accepted.is_empty() => ResponseKind::Samples,
        None => return Err(ReadRequestError::NoSupportedResponse),
    };
    Ok(ReadRequest { queries, response })
}

fn query(message: &[u8], matchers_left: &mut usize) -> Result<Query, ReadRequestError> {
    let mut query = Query::default();
    for field in Fields(message) {
        match field? {
            (1, value) => query.start_ms = value.signed(1)?,
            (2, value) => query.end_ms = value.signed(2)?,
            (3, value) => {
                *matchers_left =
                    matchers_left.checked_sub(1).ok_or(ReadRequestError::TooManyMatchers(MATCHERS_MAX))?;
                query.matchers.push(matcher(value.bytes(3)?)?);
            }
            _ => {}
        }
    }
    Ok(query)
}

fn matcher(message: &[u8]) -> Result<LabelMatcher, ReadRequestError> {
    let (mut kind, mut name, mut value) = (MatchKind::Equal, "", "");
    for field in Fields(message) {
        match field? {
            (1, number) => {
                kind = match number.varint(1)? {
                    0 => MatchKind::Equal,
                    1 => MatchKind::NotEqual,
                    2 => MatchKind::Matches,
                    3 => MatchKind::NotMatches,
                    other => return Err(ReadRequestError::MatcherKind(other)),
                }
            }
            (2, text) => name = text.text(2)?,
            (3, text) => value = text.text(3)?,
            _ => {}
        }
    }
    Ok(LabelMatcher { kind, name: name.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;
    use crate::protobuf::{put_bytes, put_message, put_signed, put_varint};

    fn write(request: &ReadRequest, hints: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for query in &request.queries {
            put_message(1, &mut out, |out| {
                put_signed(1, query.start_ms, out);
                put_signed(2, query.end_ms, out);
                for matcher in &query.matchers {
                    put_message(3, out, |out| {
                        put_signed(1, matcher.kind as i64, out);
                        put_bytes(2, matcher.name.as_bytes(), out);
                        put_bytes(3, matcher.value.as_bytes(), out);
                    });
                }
                put_bytes(4, hints, out);
            });
        }
        put_bytes(2, &[request.response as u8, 9], &mut out);
        out
    }

    fn request() -> impl Strategy<Value = ReadRequest> {
        let kind = prop::sample::select(vec![
            MatchKind::Equal,
            MatchKind::NotEqual,
            MatchKind::Matches,
            MatchKind::NotMatches,
        ]);
        let matcher =
            (kind, ".{0,9}", ".{0,9}").prop_map(|(kind, name, value)| LabelMatcher { kind, name, value });
        let query = (any::<i64>(), any::<i64>(), collection::vec(matcher, 0..5))
            .prop_map(|(start_ms, end_ms, matchers)| Query { start_ms, end_ms, matchers });
        (collection::vec(query, 0..4), any::<bool>()).prop_map(|(queries, streams)| ReadRequest {
            queries,
            response: if streams { ResponseKind::StreamedXorChunks } else { ResponseKind::Samples },
        })
    }

    proptest! {
        #[test]
        fn encoded_requests_are_decoded(request in request(), hints in collection::vec(any::<u8>(), 0..30)) {
            prop_assert_eq!(read(&write(&request, &hints)), Ok(request));
        }

        #[test]
        fn invalid_messages_do_not_panic(request in request(), at: prop::sample::Index, byte: u8, any in collection::vec(any::<u8>(), 0..60)) {
            let mut message = write(&request, b"");
            let at = at.index(message.len());
            message[at] = byte;
            let _ = (read(&message), read(&message[..at]), read(&any));
        }
    }

    #[test]
    fn the_first_supported_response_type_is_used() {
        let kind = |numbers: &[u8]| read(&[&[2 << 3 | 2, numbers.len() as u8], numbers].concat());
        assert_eq!(kind(&[7, 1, 0]).unwrap().response, ResponseKind::StreamedXorChunks);
        assert_eq!(kind(&[0, 1]).unwrap().response, ResponseKind::Samples);
        assert_eq!(kind(&[]).unwrap().response, ResponseKind::Samples);
        assert_eq!(kind(&[7]), Err(ReadRequestError::NoSupportedResponse));
        assert_eq!(read(&[2 << 3, 1]).unwrap().response, ResponseKind::StreamedXorChunks);
    }

    #[test]
    fn limits_are_enforced() {
        assert!(read(&[1 << 3 | 2, 0].repeat(QUERIES_MAX)).is_ok());
        let queries = [1 << 3 | 2, 0].repeat(QUERIES_MAX + 1);
        assert_eq!(read(&queries), Err(ReadRequestError::TooManyQueries(QUERIES_MAX)));
        let matchers = [3 << 3 | 2, 0].repeat(MATCHERS_MAX + 1);
        let mut message = vec![1 << 3 | 2];
        put_varint(matchers.len() as u64, &mut message);
        message.extend_from_slice(&matchers);
        assert_eq!(read(&message), Err(ReadRequestError::TooManyMatchers(MATCHERS_MAX)));
        let unknown = [1 << 3 | 2, 4, 3 << 3 | 2, 2, 1 << 3, 4];
        assert_eq!(read(&unknown), Err(ReadRequestError::MatcherKind(4)));
    }
}
