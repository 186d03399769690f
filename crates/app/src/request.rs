//! Reading request bodies: content types and JSON.

use bytes::Bytes;
use gnudi_server::RequestBody;
use hyper::{StatusCode, header::CONTENT_TYPE, http::request::Parts};

use crate::{
    error::{ApiError, Result},
    json::{self, ParseError, Value},
};

/// Refuses (415) a body whose Content-Type is another.
pub fn expect(parts: &Parts, media_type: &str) -> Result<()> {
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |header| header.as_bytes());
    let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    if content_type == media_type.as_bytes() || media.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes())
    {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ""))
}

/// Whether the Content-Type is that of a form.
pub fn is_form(parts: &Parts) -> bool {
    expect(parts, "application/x-www-form-urlencoded").is_ok()
}

/// Refuses (415) a body whose Content-Type is not JSON.
pub fn expect_json(parts: &Parts) -> Result<()> {
    expect(parts, "application/json")
}

/// The body of a request whose Content-Type is JSON.
///
/// # Errors
/// 415 for another Content-Type, and those of [`RequestBody::read`].
pub async fn json_bytes(parts: &Parts, body: &mut RequestBody<'_>) -> Result<Bytes> {
    expect_json(parts)?;
    Ok(body.read().await?)
}

/// Parses the body as JSON.
///
/// # Errors
/// 400 for invalid JSON, and those of [`json_bytes`].
pub async fn json(parts: &Parts, body: &mut RequestBody<'_>) -> Result<Value> {
    let text = json_bytes(parts, body).await?;
    Ok(body.long_work.run(text.len(), || json::parse(&text)).await?)
}

impl From<ParseError> for ApiError {
    fn from(error: ParseError) -> Self {
        ApiError::bad_request(Value::cause_and_reason(
            "Unable to decode body",
            error.to_string(),
            Value::Array(Vec::new()),
        ))
    }
}
