//! An HTTP endpoint: its options in the URL, and POSTs with retries.

use std::{path::PathBuf, sync::Arc, time::Duration};

use gnudi_http::{
    Bytes, ClientIdentity, HttpClient, HttpOptions, Method, Request, Trust, Uri, basic_authorization,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use gnudi_model::python::bool_of_text;
use tokio::sync::Semaphore;

use super::super::{
    OpenError, PublishError, PublisherUrl,
    figures::PublisherCounts,
    peer_health::{AttemptResult, PeerHealth},
    url::UrlQuery,
};

/// Default of `timeout`.
const TIMEOUT_SECONDS: i64 = 5;

/// Concurrent POSTs to an endpoint.
const POSTS_MAX: usize = 16;

/// The rest of a longer response is not read: its status counts.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The endpoint's URL and options.
pub struct HttpEndpoint {
    client: HttpClient,
    /// Scheme, host and path.
    base: String,
    /// With its `?`, if not empty.
    query: String,
    content_type: HeaderValue,
    authorization: Option<HeaderValue>,
    /// Retries of a failed POST; `None`: unlimited.
    retries_max: Option<u64>,
    posts: Semaphore,
    health: PeerHealth,
    counts: PublisherCounts,
}

impl HttpEndpoint {
    /// Options of the URL that are not a publisher's are sent to the endpoint.
    pub fn new(
        url: &PublisherUrl,
        content_type: &'static str,
        counts: PublisherCounts,
    ) -> Result<Arc<Self>, OpenError> {
        let mut query = url.query.clone();
        for of_publishers in ["batch", "raw_only"] {
            query.take(of_publishers);
        }
        if url.host().is_empty() {
            return Err(OpenError("names no host".to_owned()));
        }
        url.port()?;
        let timeout = whole_number(&mut query, "timeout")?.unwrap_or(TIMEOUT_SECONDS);
        let retries_max = whole_number(&mut query, "max_retries")?;
        let trust = trust(query.take("verify_ssl"));
        let certificate = query.take("clientcert").map(PathBuf::from);
        let key = query.take("clientkey").map(PathBuf::from);
        let is_secure = match url.scheme.as_str() {
            "https" => true,
            "http" => false,
            _ => query.take("ssl").is_some_and(|text| bool_of_text(&text) == Some(true)),
        };
        let client = HttpClient::new(&HttpOptions {
            trust: if is_secure { trust } else { Trust::Anyone },
            identity: certificate
                .filter(|_| is_secure)
                .map(|certificate| ClientIdentity { certificate, key }),
            timeout: Duration::from_secs(timeout.max(1) as u64),
            idle_connections_max: POSTS_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
            ..HttpOptions::default()
        })
        .map_err(|error| OpenError(error.to_string()))?;
        let authorization = url.login().map(|(user, password)| basic_authorization(user, password));
        let scheme = if is_secure { "https" } else { "http" };
        let base = format!("{scheme}://{}{}", url.host_and_port(), url.path);
        let query = Some(query.encoded()).filter(|text| !text.is_empty()).map(|text| format!("?{text}"));
        let query = query.unwrap_or_default();
        let _: Uri =
            format!("{base}{query}").parse().map_err(|_| OpenError(format!("{url} is not a valid URL")))?;
        Ok(Arc::new(HttpEndpoint {
            client,
            base,
            query,
            content_type: HeaderValue::from_static(content_type),
            authorization,
            retries_max: retries_max.map(|retries| retries.max(0) as u64),
            posts: Semaphore::new(POSTS_MAX),
            health: PeerHealth::new(url),
            counts,
        }))
    }

    /// Posts until the endpoint accepts or rejects it, or the retries are used up: then `items` are counted as lost,
    /// and the result is a success. `sub_path` is appended to the path.
    pub async fn post(&self, sub_path: &str, body: Bytes, items: usize) -> Result<(), PublishError> {
        self.post_checked(sub_path, body, items, |_| Ok(())).await
    }

    /// Like [`HttpEndpoint::post`]. `check` reads the body of a 2xx response: its error says what the endpoint rejects all
    /// the same.
    pub async fn post_checked(
        &self,
        sub_path: &str,
        body: Bytes,
        items: usize,
        check: fn(&[u8]) -> Result<(), String>,
    ) -> Result<(), PublishError> {
        let _place = self.posts.acquire().await.expect("never closed");
        let attempt = || self.attempt(sub_path, body.clone(), check);
        let delivered = self.health.deliver(&self.counts, items, self.retries_max, attempt).await;
        let refused = |answer: String| PublishError(format!("{}{sub_path} refuses: {answer}", self.base));
        if delivered.map_err(refused)?.is_some() {
            self.counts.lost.inc_by(items as u64);
        }
        Ok(())
    }

    async fn attempt(
        &self,
        sub_path: &str,
        body: Bytes,
        check: fn(&[u8]) -> Result<(), String>,
    ) -> AttemptResult {
        let uri = format!("{}{sub_path}{}", self.base, self.query);
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        match uri.parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return AttemptResult::Refused(format!("{sub_path} is no path")),
        }
        request.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        match self.client.send_for_status(request).await {
            Err(error) => AttemptResult::Again(error.to_string()),
            Ok(answer) if answer.status.is_success() => {
                check(&answer.body).map_or_else(AttemptResult::Refused, |()| AttemptResult::Taken)
            }
            Ok(answer) if is_passing(answer.status.as_u16()) => AttemptResult::Again(answer.text()),
            Ok(answer) => AttemptResult::Refused(answer.text()),
        }
    }
}

/// Whether a retry of a request with this status may succeed.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 401 | 403 | 408 | 425 | 429 | 500..)
}

fn whole_number(query: &mut UrlQuery, name: &str) -> Result<Option<i64>, OpenError> {
    let value = query.integer(name)?;
    query.take(name);
    Ok(value)
}

/// A boolean, or a file of certificates.
fn trust(verify: Option<String>) -> Trust {
    match verify.as_deref().map(bool_of_text) {
        None | Some(Some(true)) => Trust::System,
        Some(Some(false)) => Trust::Anyone,
        Some(None) => Trust::File(verify.unwrap_or_default().into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::test_server::serve;

    /// Posts once; returns how many items were accepted, and how many were lost.
    async fn posted(endpoint: &str) -> (u64, u64) {
        let url = PublisherUrl::parse(&format!("{endpoint}/?max_retries=0&timeout=30")).unwrap();
        let counts = PublisherCounts::default();
        let endpoint = HttpEndpoint::new(&url, "application/json", counts.clone()).unwrap();
        endpoint.post("", Bytes::from_static(b"[]"), 1).await.unwrap();
        (counts.published.get(), counts.lost.get())
    }

    #[tokio::test]
    async fn what_is_accepted_with_a_long_body_is_not_sent_again() {
        let body: &'static str = "x".repeat(2 * ANSWER_BYTES_MAX).leak();
        assert_eq!(posted(&serve(move |_, _| ("200 OK", body)).await).await, (1, 0));
        assert_eq!(posted(&serve(move |_, _| ("503 Service Unavailable", body)).await).await, (0, 1));
    }

    #[tokio::test]
    async fn what_is_accepted_with_a_body_that_is_cut_off_is_not_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            assert!(connection.read(&mut [0; 1024]).await.unwrap() > 0);
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").await.unwrap();
            connection.shutdown().await.unwrap();
            // Unread bytes would reset the connection.
            let _ = connection.read_to_end(&mut Vec::new()).await;
        };
        let ((), counts) = tokio::join!(answer, posted(&url));
        assert_eq!(counts, (1, 0));
    }
}
