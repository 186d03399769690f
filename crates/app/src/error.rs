//! The API's error type: a status and a detail, formatted as Gnocchi formats them.
//!
//! `document` formats it as JSON, HTML or plain text. All conversions from lower layers' errors to a status
//! are in this file.

use std::net::IpAddr;

use gnudi_access::{AccessError, Caller, Challenge, RefusedRequest, Rule};
use gnudi_drivers::{aggregates::StoreError, incoming::IncomingError};
use gnudi_engine::{CrossMeasuresError, EngineError};
use gnudi_indexer::IndexerError;
use gnudi_model::archive_policy::InvalidPolicy;
use gnudi_series::cross::{CrossError, Unaggregable};
use gnudi_server::{HttpRefusal, Response};
use hyper::{StatusCode, http::request::Parts};

use crate::json::Value;

/// `Retry-After` in seconds, unless an error sets another one.
pub const RETRY_AFTER_SECONDS: u64 = 1;

pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// The result of a handler.
pub type Answer = Result<Response>;

/// A failed request.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    /// The `description` of the JSON document: null, a text, or an object with cause and reason.
    pub detail: Value,
    /// The methods that a 405 names in `Allow`.
    pub allow: Vec<&'static str>,
    /// `Retry-After` in seconds.
    pub retry_after_seconds: u64,
    /// The rule that caused a 403, for the log.
    pub rule: Option<Rule>,
    /// The refused caller, for the log, if known.
    pub caller: Option<Box<Caller>>,
    /// The `WWW-Authenticate` header of a 401.
    pub challenge: Option<Challenge>,
}

impl ApiError {
    pub fn new(status: StatusCode, detail: impl Into<Value>) -> Self {
        ApiError {
            status,
            detail: detail.into(),
            allow: Vec::new(),
            retry_after_seconds: RETRY_AFTER_SECONDS,
            rule: None,
            caller: None,
            challenge: None,
        }
    }

    pub fn bad_request(detail: impl Into<Value>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn not_found(detail: impl Into<Value>) -> Self {
        ApiError::new(StatusCode::NOT_FOUND, detail)
    }

    /// 404 for a path without a route.
    pub fn no_such_path() -> Self {
        ApiError::not_found(Value::Null)
    }

    /// 403 by this rule.
    pub fn forbidden_by(rule: Rule) -> Self {
        ApiError { rule: Some(rule), ..ApiError::new(StatusCode::FORBIDDEN, "") }
    }

    /// 403 for a listing in which the caller may see nothing.
    pub fn insufficient_privileges(rule: Rule) -> Self {
        ApiError { rule: Some(rule), ..ApiError::new(StatusCode::FORBIDDEN, "Insufficient privileges") }
    }

    pub fn method_not_allowed(allow: Vec<&'static str>) -> Self {
        ApiError { allow, ..ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "") }
    }

    pub fn too_large(detail: impl Into<Value>) -> Self {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    pub fn unavailable(detail: impl Into<Value>) -> Self {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// 500: stored data cannot be read, until somebody repairs or deletes it. A 503 would have clients try again.
    pub fn damaged(detail: impl Into<Value>) -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// 400 for an invalid query argument.
    pub fn argument(name: &str, reason: &str) -> Self {
        ApiError::bad_request(Value::cause_detail_reason("Argument value error", name, reason))
    }

    /// 500: a fault of the server; details are only in the log.
    pub fn internal() -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Value::Null)
    }

    /// Adds the caller to a refusal, for the log.
    #[must_use]
    pub fn to(mut self, caller: &Caller) -> Self {
        if matches!(self.status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
            self.caller = Some(Box::new(caller.clone()));
        }
        self
    }

    /// The audit log's entry.
    pub fn refused<'a>(
        &'a self,
        parts: &'a Parts,
        route: &'a str,
        peer: Option<IpAddr>,
    ) -> RefusedRequest<'a> {
        let reason = match &self.detail {
            Value::Str(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        };
        let (status, caller, rule) = (self.status, self.caller.as_deref(), self.rule);
        RefusedRequest { status, parts, route, peer, caller, rule, reason }
    }

    /// Whether the client should retry; such a response has `Retry-After`.
    pub fn is_retryable(&self) -> bool {
        matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }
}

impl From<HttpRefusal> for ApiError {
    fn from(refusal: HttpRefusal) -> Self {
        ApiError::new(refusal.status, refusal.text)
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Unknown { detail, challenge } => {
                ApiError { challenge, ..ApiError::new(StatusCode::UNAUTHORIZED, detail) }
            }
            AccessError::Unavailable(detail) => ApiError::unavailable(detail),
            AccessError::LimitExceeded { detail, retry_after_seconds } => ApiError {
                retry_after_seconds: retry_after_seconds.max(RETRY_AFTER_SECONDS),
                ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail)
            },
            AccessError::Indexer(error) => error.into(),
        }
    }
}

impl From<IndexerError> for ApiError {
    fn from(error: IndexerError) -> Self {
        let status = match &error {
            IndexerError::NoSuchArchivePolicy(_)
            | IndexerError::NoSuchArchivePolicyRule(_)
            | IndexerError::NoSuchMetric(_)
            | IndexerError::NoSuchResourceType(_)
            | IndexerError::NoSuchResource(_)
            | IndexerError::NoSuchAnnotation(_) => StatusCode::NOT_FOUND,
            IndexerError::ArchivePolicyAlreadyExists(_)
            | IndexerError::ArchivePolicyRuleAlreadyExists(_)
            | IndexerError::ResourceTypeAlreadyExists(_)
            | IndexerError::AttributeAlreadyExists { .. }
            | IndexerError::ResourceAlreadyExists(_)
            | IndexerError::AnnotationAlreadyExists(_) => StatusCode::CONFLICT,
            IndexerError::ResourceChanged(_) => StatusCode::PRECONDITION_FAILED,
            IndexerError::ArchivePolicyInUse(_)
            | IndexerError::UnsupportedArchivePolicyChange { .. }
            | IndexerError::UnsupportedArchivePolicyRuleChange { .. }
            | IndexerError::NoArchivePolicyRuleMatch(_)
            | IndexerError::NamedMetricAlreadyExists(_)
            | IndexerError::ResourceTypeInUse(_)
            | IndexerError::StartAfterEnd
            | IndexerError::TooManyAnnotations { .. }
            | IndexerError::NoSuchAttribute { .. }
            | IndexerError::InvalidAttributeValue { .. }
            | IndexerError::InvalidFilter
            | IndexerError::InvalidFilterValue { .. }
            | IndexerError::FilterTooLarge { .. }
            | IndexerError::InvalidPagination(_) => StatusCode::BAD_REQUEST,
            IndexerError::DamagedResource { .. }
            | IndexerError::DamagedMetric { .. }
            | IndexerError::DamagedItem { .. } => {
                tracing::error!(%error, "the index is damaged");
                StatusCode::INTERNAL_SERVER_ERROR
            }
            IndexerError::NoSpace(_)
            | IndexerError::Unavailable(_)
            | IndexerError::Contended(_)
            | IndexerError::Database(_) => {
                tracing::error!(%error, "the index failed a request");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        ApiError::new(status, error.to_string())
    }
}

impl From<InvalidPolicy> for ApiError {
    fn from(error: InvalidPolicy) -> Self {
        ApiError::bad_request(error.to_string())
    }
}

impl From<IncomingError> for ApiError {
    fn from(error: IncomingError) -> Self {
        let status = match &error {
            IncomingError::BacklogFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            IncomingError::NoSpace(_)
            | IncomingError::Poisoned(_)
            | IncomingError::Unavailable(_)
            | IncomingError::NoSplit(_)
            | IncomingError::Io(_) => {
                tracing::error!(%error, "the incoming store failed a request");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        ApiError::new(status, error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the aggregate store failed a request");
        match &error {
            StoreError::Damaged(_) => ApiError::damaged(error.to_string()),
            StoreError::Fenced { .. }
            | StoreError::Closed
            | StoreError::Unavailable(_)
            | StoreError::NoSpace(_)
            | StoreError::Io(_) => ApiError::unavailable(error.to_string()),
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Incoming(error) => error.into(),
            EngineError::Store(error) => error.into(),
            EngineError::Indexer(error) => error.into(),
            EngineError::Resample(_) => ApiError::bad_request(error.to_string()),
            EngineError::TooManyPoints(_) => ApiError::too_large(error.to_string()),
            EngineError::Damaged { .. } => {
                tracing::error!(%error, "stored aggregates are damaged");
                ApiError::damaged(error.to_string())
            }
            // Only workers return `Panicked`.
            EngineError::Panicked(_) | EngineError::RefreshTimeout(_) | EngineError::Coordination(_) => {
                ApiError::unavailable(error.to_string())
            }
        }
    }
}

impl From<CrossMeasuresError> for ApiError {
    fn from(error: CrossMeasuresError) -> Self {
        match error {
            CrossMeasuresError::Engine(error) => error.into(),
            CrossMeasuresError::Cross(error) => error.into(),
            CrossMeasuresError::UnknownAggregation { metric, method, .. } => {
                let reference: Value = vec![metric.to_string(), method].into();
                ApiError::not_found(Value::object([
                    ("cause", "Metrics with unknown aggregation".into()),
                    ("detail", Value::Array(vec![reference])),
                ]))
            }
            CrossMeasuresError::TooManyPoints => ApiError::too_large(error.to_string()),
            CrossMeasuresError::TooManyHeld => ApiError::unavailable(error.to_string()),
        }
    }
}

impl From<CrossError> for ApiError {
    fn from(error: CrossError) -> Self {
        let unaggregable = |reason: String, detail: Vec<Value>| {
            ApiError::bad_request(Value::cause_and_reason(
                "Metrics cannot be aggregated",
                reason,
                Value::Array(detail),
            ))
        };
        match error {
            CrossError::Unaggregable(unaggregated) => {
                let Unaggregable { reason, references } = *unaggregated;
                let references = references.into_iter().map(|(name, granularity)| {
                    let mut reference: Vec<Value> = vec![name.name.into(), name.aggregation.into()];
                    reference.extend(granularity.map(|granularity| Value::Float(granularity.as_secs_f64())));
                    Value::Array(reference)
                });
                unaggregable(reason, references.collect())
            }
            CrossError::Operation(error) => unaggregable(error.to_string(), Vec::new()),
            CrossError::TooManyPoints => ApiError::too_large(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::MetricId;

    use super::*;

    #[test]
    fn only_what_passes_is_worth_a_retry() {
        let (id, reason) = (MetricId(uuid::Uuid::nil()), "a checksum".to_owned());
        let damaged: [ApiError; 5] = [
            IndexerError::DamagedMetric { id, reason: reason.clone() }.into(),
            IndexerError::DamagedResource { id: id.0, reason: reason.clone() }.into(),
            IndexerError::DamagedItem { item: "a rule".to_owned(), reason: reason.clone() }.into(),
            EngineError::Damaged { metric: id, reason: reason.clone() }.into(),
            StoreError::Damaged(reason.clone()).into(),
        ];
        for error in damaged {
            assert_eq!((error.status.as_u16(), error.is_retryable()), (500, false), "{error:?}");
            assert!(matches!(&error.detail, Value::Str(text) if text.contains(&reason)), "{error:?}");
        }
        let passing: [ApiError; 2] =
            [IndexerError::NoSpace(reason.clone()).into(), StoreError::Unavailable(reason).into()];
        for error in passing {
            assert_eq!((error.status.as_u16(), error.is_retryable()), (503, true), "{error:?}");
        }
    }
}
