//! etcd's v3 API by its JSON gateway: sends requests to any endpoint that responds, with a timeout.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gnudi_http::{Request, StatusCode};
use serde_json::{Value, json};

use super::EtcdOptions;
use crate::{coordination::CoordinationError, objects::http::Http};

pub(in crate::coordination) struct Client {
    http: Http,
    endpoints: Vec<String>,
    /// The endpoint that responded last.
    current: AtomicUsize,
}

/// A key's current state.
#[derive(Clone, Debug, Default)]
pub(in crate::coordination) struct KeyValue {
    pub key: String,
    pub value: String,
    /// 0 if the key does not exist.
    pub mod_revision: u64,
}

impl Client {
    pub(in crate::coordination) fn new(options: &EtcdOptions) -> Result<Self, String> {
        let is_secure = options.endpoints.iter().any(|endpoint| endpoint.starts_with("https:"));
        let http = Http::new(&options.http, is_secure)?;
        Ok(Client { http, endpoints: options.endpoints.clone(), current: AtomicUsize::new(0) })
    }

    fn place(&self) -> String {
        format!("etcd at {}", self.endpoints.join(", "))
    }

    /// `None` if etcd says that the request's lease does not exist. The request may be executed twice.
    pub(in crate::coordination) async fn post(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Option<Value>, CoordinationError> {
        let place = self.place();
        let unavailable = |reason: String| CoordinationError::Unavailable(format!("{place}: {reason}"));
        let mut tries = self.http.tries();
        loop {
            let current = self.current.load(Ordering::Relaxed);
            let uri = format!("{}{path}", self.endpoints[current % self.endpoints.len()]);
            let request = Request::post(uri)
                .header("content-type", "application/json")
                .body(Bytes::from(body.to_string()))
                .map_err(|error| unavailable(error.to_string()))?;
            let reason = match self.http.send(&tries, request).await {
                Ok(answer) if answer.status == StatusCode::OK => {
                    let answer = serde_json::from_slice(&answer.body);
                    return answer.map(Some).map_err(|error| unavailable(error.to_string()));
                }
                Ok(answer) if answer.status == StatusCode::NOT_FOUND => {
                    if is_missing_lease(&answer.body) {
                        return Ok(None);
                    }
                    // No etcd, or one without the gateway or this version of the API. Others may have it.
                    answer.text()
                }
                Ok(answer) if answer.status.is_client_error() => return Err(unavailable(answer.text())),
                Ok(answer) => answer.text(),
                Err(reason) => reason,
            };
            self.current.store(current.wrapping_add(1), Ordering::Relaxed);
            tries
                .again(&place, &reason)
                .await
                .map_err(|error| CoordinationError::Unavailable(error.to_string()))?;
        }
    }

    /// A transaction: whether the comparisons held, and the results of the executed operations.
    pub(in crate::coordination) async fn transact(
        &self,
        compare: Vec<Value>,
        success: Vec<Value>,
        failure: Vec<Value>,
    ) -> Result<(bool, Vec<Vec<KeyValue>>), CoordinationError> {
        let body = json!({ "compare": compare, "success": success, "failure": failure });
        // The lease is missing: the session has ended.
        let answer = self.post("/v3/kv/txn", &body).await?.ok_or(CoordinationError::Expired)?;
        let responses = answer["responses"].as_array().cloned().unwrap_or_default();
        let found = |response: &Value| {
            let keys = response["response_range"]["kvs"].as_array().cloned().unwrap_or_default();
            keys.iter().map(decode).collect()
        };
        Ok((answer["succeeded"].as_bool().unwrap_or(false), responses.iter().map(found).collect()))
    }

    /// A new lease. They have whole seconds, and at least one.
    pub(in crate::coordination) async fn grant_lease(&self, ttl: Duration) -> Result<u64, CoordinationError> {
        let seconds = ttl.as_millis().div_ceil(1000).max(1);
        let granted = self.post("/v3/lease/grant", &json!({ "TTL": seconds.to_string() })).await?;
        match number(&granted.unwrap_or_default()["ID"]) {
            0 => Err(CoordinationError::Unavailable(format!("{}: no lease", self.place()))),
            lease => Ok(lease),
        }
    }

    /// Extends a lease; false if it has expired, and its keys are gone.
    pub(in crate::coordination) async fn keep_lease(&self, lease: u64) -> Result<bool, CoordinationError> {
        let kept = self.post("/v3/lease/keepalive", &json!({ "ID": lease.to_string() })).await?;
        let Some(kept) = kept else { return Ok(false) };
        // Of an expired one etcd omits the TTL. An answer without a result says nothing about the lease.
        match kept.get("result") {
            Some(result) => Ok(number(&result["TTL"]) != 0),
            None => Err(CoordinationError::Unavailable(format!("{}: {kept}", self.place()))),
        }
    }

    /// Discards what all keys were before a revision. Fails if that was done already.
    pub(super) async fn compact(&self, revision: u64) -> Result<(), CoordinationError> {
        self.post("/v3/kv/compaction", &json!({ "revision": revision.to_string() })).await.map(drop)
    }

    /// Ends a lease with its keys; a missing one is no error.
    pub(in crate::coordination) async fn revoke_lease(&self, lease: u64) -> Result<(), CoordinationError> {
        self.post("/v3/lease/revoke", &json!({ "ID": lease.to_string() })).await.map(drop)
    }
}

/// Whether this is the body of etcd's 404 for a missing lease. All other 404s are of somebody else: a proxy, or the
/// gateway for a path that it does not know, which newer ones answer with the same code.
fn is_missing_lease(body: &[u8]) -> bool {
    /// gRPC's code for what does not exist.
    const NOT_FOUND: u64 = 5;
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return false };
    // Up to etcd 3.5 the text is in both, or in `error` alone.
    let says_lease = |name: &str| answer[name].as_str().is_some_and(|text| text.contains("lease not found"));
    number(&answer["code"]) == NOT_FOUND && (says_lease("message") || says_lease("error"))
}

fn decode(key: &Value) -> KeyValue {
    let text = |name: &str| {
        let bytes = STANDARD.decode(key[name].as_str().unwrap_or_default()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    KeyValue { key: text("key"), value: text("value"), mod_revision: number(&key["mod_revision"]) }
}

/// The gateway's JSON has numbers as strings, and omits 0.
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_u64()).unwrap_or(0)
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

pub(super) fn get(key: &str) -> Value {
    json!({ "request_range": { "key": encoded(key) } })
}

/// All keys with this prefix, which must end with a slash.
pub(super) fn get_all(prefix: &str) -> Value {
    let end = format!("{}0", prefix.trim_end_matches('/'));
    json!({ "request_range": { "key": encoded(prefix), "range_end": encoded(&end) } })
}

/// Puts a key, attached to a lease unless that is 0.
pub(in crate::coordination) fn put(key: &str, value: &str, lease: u64) -> Value {
    put_bytes(key, value.as_bytes(), lease)
}

pub(in crate::coordination) fn put_bytes(key: &str, value: &[u8], lease: u64) -> Value {
    let value = STANDARD.encode(value);
    json!({ "request_put": { "key": encoded(key), "value": value, "lease": lease.to_string() } })
}

pub(in crate::coordination) fn delete(key: &str) -> Value {
    json!({ "request_delete_range": { "key": encoded(key) } })
}

/// Holds if the key has this revision; 0: if it does not exist.
pub(in crate::coordination) fn unchanged(key: &str, mod_revision: u64) -> Value {
    json!({ "target": "MOD", "result": "EQUAL", "key": encoded(key), "mod_revision": mod_revision.to_string() })
}

pub(super) fn exists(key: &str) -> Value {
    json!({ "target": "CREATE", "result": "GREATER", "key": encoded(key), "create_revision": "0" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::http::tests::server;

    /// A client of a server that gives this answer to all requests.
    async fn client(status: &'static str, body: &'static str) -> Client {
        let url = format!("etcd3+{}", server(status, body).await);
        let options = EtcdOptions::parse(&url).unwrap().with_deadline(Duration::from_secs(1));
        Client::new(&options).unwrap()
    }

    #[tokio::test]
    async fn only_a_missing_lease_ends_a_session() {
        for body in [
            r#"{"error":"etcdserver: requested lease not found","code":5}"#,
            r#"{"error":"etcdserver: requested lease not found","message":"the same","code":5}"#,
            r#"{"code":5,"message":"etcdserver: requested lease not found","details":[]}"#,
        ] {
            let client = client("404 Not Found", body).await;
            let written = client.transact(Vec::new(), vec![put("a", "b", 7)], Vec::new()).await;
            assert!(matches!(written, Err(CoordinationError::Expired)), "{written:?}");
            assert!(!client.keep_lease(7).await.unwrap());
            client.revoke_lease(7).await.unwrap();
        }
        for body in ["404 page not found", r#"{"code":5,"message":"Not Found","details":[]}"#] {
            let client = client("404 Not Found", body).await;
            let (written, kept, revoked) = tokio::join!(
                client.transact(Vec::new(), vec![put("a", "b", 7)], Vec::new()),
                client.keep_lease(7),
                client.revoke_lease(7),
            );
            for outcome in [written.map(drop), kept.map(drop), revoked] {
                assert!(matches!(outcome, Err(CoordinationError::Unavailable(_))), "{body}: {outcome:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_lease_has_expired_if_etcd_says_so() {
        let expired = client("200 OK", r#"{"result":{"header":{},"ID":"7"}}"#).await;
        assert!(!expired.keep_lease(7).await.unwrap());
        let kept = client("200 OK", r#"{"result":{"header":{},"ID":"7","TTL":"2"}}"#).await;
        assert!(kept.keep_lease(7).await.unwrap());
        let failed =
            client("200 OK", r#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#).await;
        assert!(matches!(failed.keep_lease(7).await, Err(CoordinationError::Unavailable(_))));
    }
}
