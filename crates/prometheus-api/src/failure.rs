//! Errors of Prometheus' API, with Prometheus' status, error type and text.

use gnudi_app::{ApiError, json::Value};
use gnudi_engine::{CrossMeasuresError, EngineError};
use gnudi_prometheus::answer;
use gnudi_promql::ErrorKind;
use gnudi_server::{Response, reply};
use hyper::{StatusCode, header::RETRY_AFTER};

use crate::catalogue::CatalogueError;

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub status: StatusCode,
    /// `errorType` in the response.
    pub error_type: &'static str,
    pub text: String,
    /// `Retry-After`, if the client should retry.
    retry_after_seconds: Option<u64>,
}

/// Prometheus' status for a query canceled by the client.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl Failure {
    fn new(status: StatusCode, error_type: &'static str, text: impl Into<String>) -> Self {
        Failure { status, error_type, text: text.into(), retry_after_seconds: None }
    }

    /// An invalid request.
    pub fn bad_data(text: impl Into<String>) -> Self {
        Failure::new(StatusCode::BAD_REQUEST, "bad_data", text)
    }

    /// An invalid parameter.
    pub fn parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        Failure::bad_data(format!("invalid parameter {name:?}: {reason}"))
    }

    /// An exceeded limit, or a query that cannot be computed.
    pub fn execution(text: impl Into<String>) -> Self {
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "execution", text)
    }

    /// The query's timeout has expired.
    pub fn timeout() -> Self {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", "query timed out in query execution")
    }

    pub fn response(&self) -> Response {
        let response = reply::json(self.status, answer::error(self.error_type, &self.text));
        match self.retry_after_seconds {
            Some(seconds) => reply::with_header(response, RETRY_AFTER, &seconds.to_string()),
            None => response,
        }
    }
}

impl From<gnudi_promql::Error> for Failure {
    fn from(error: gnudi_promql::Error) -> Self {
        let status = match error.kind {
            ErrorKind::BadData => return Failure::parameter("query", error.text),
            ErrorKind::Execution => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Timeout => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Canceled => StatusCode::from_u16(CLIENT_CLOSED_REQUEST).expect("it has three digits"),
        };
        Failure::new(status, error.kind.name(), error.text)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let error_type = match error.status {
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            StatusCode::INTERNAL_SERVER_ERROR => "internal",
            _ => "bad_data",
        };
        let retry_after_seconds = error.is_retryable().then_some(error.retry_after_seconds);
        let text = match error.detail {
            Value::Str(text) => text,
            other => other.repr(),
        };
        Failure { retry_after_seconds, ..Failure::new(error.status, error_type, text) }
    }
}

impl From<CrossMeasuresError> for Failure {
    fn from(error: CrossMeasuresError) -> Self {
        match error {
            CrossMeasuresError::TooManyPoints | CrossMeasuresError::Engine(EngineError::TooManyPoints(_)) => {
                Failure::execution(
                    "query processing would load too many samples into memory in query execution",
                )
            }
            other => ApiError::from(other).into(),
        }
    }
}

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Self {
        match error {
            CatalogueError::TooManySeries(_) | CatalogueError::TooLong => {
                Failure::execution(error.to_string())
            }
            CatalogueError::TimedOut => Failure::timeout(),
            CatalogueError::Index(error) => ApiError::from(error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_should_retry_is_told_when() {
        let after = |failure: Failure| {
            let response = failure.response();
            response.headers().get(RETRY_AFTER).map(|seconds| seconds.to_str().unwrap().to_owned())
        };
        let unavailable = ApiError { retry_after_seconds: 7, ..ApiError::unavailable("an engine") };
        assert_eq!(after(unavailable.into()), Some("7".to_owned()));
        assert_eq!(after(ApiError::bad_request("a query").into()), None);
        assert_eq!(after(Failure::timeout()), None);
        let damaged = Failure::from(ApiError::damaged("a metric"));
        assert_eq!(damaged.error_type, "internal");
        assert_eq!(after(damaged), None);
    }
}
