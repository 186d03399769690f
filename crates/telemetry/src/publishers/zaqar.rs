//! `zaqar://?queue=NAME`: posts samples and events to a Zaqar queue, with the credentials of `[zaqar]`.
//!
//! Options: `queue`, and `ttl`, the messages' lifetime in seconds (3600). Transient errors are retried without limit; a
//! rejection is final.

use std::{sync::Arc, time::Duration};

use gnudi_http::{Bytes, HttpClient, HttpOptions, Request, StatusCode, Trust};
use gnudi_keystone::{KeystoneOptions, Session};
use gnudi_model::python::quote;
use uuid::Uuid;

use super::{
    OpenError, Opened, PublishError, Publisher, PublisherUrl, Receipt,
    figures::PublisherCounts,
    http::begin,
    trouble::{AttemptResult, PeerHealth},
};
use crate::{
    event::Event,
    sample::Sample,
    wire::{event_message, python_json, sample_record_json},
};

/// Default of `ttl`.
const TTL_S: i64 = 3600;
/// Zaqar's type in the catalogue.
const SERVICE: &str = "messaging";
/// Zaqar's default limit is 256 KiB per request.
const POST_BYTES_MAX: usize = 240 << 10;
const TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 1 << 20;

pub struct ZaqarPublisher(Arc<Queue>);

struct Queue {
    session: Session,
    http: HttpClient,
    name: String,
    ttl_s: i64,
    /// Identifies the sender to Zaqar.
    client_id: String,
    trouble: PeerHealth,
    counts: PublisherCounts,
}

impl ZaqarPublisher {
    /// `keystone` is the session that posts; the authorities that it trusts are trusted for Zaqar, too.
    pub fn open(url: &PublisherUrl, keystone: &KeystoneOptions, counts: PublisherCounts) -> Opened {
        let mut query = url.query.clone();
        let ttl_s = query.integer("ttl")?.unwrap_or(TTL_S);
        let name = query.take("queue").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| OpenError("names no queue: zaqar://?queue=NAME".to_owned()))?;
        let session = Session::new(keystone.clone()).map_err(|error| OpenError(error.to_string()))?;
        let mut options = HttpOptions {
            trust: keystone.trust.clone(),
            identity: keystone.identity.clone(),
            timeout: TIMEOUT,
            answer_bytes_max: ANSWER_BYTES_MAX,
            ..HttpOptions::default()
        };
        let http = HttpClient::new(&options).or_else(|error| {
            // A machine without certificates can still use plain HTTP, as the session does.
            if options.trust != Trust::System || !keystone.auth_url.starts_with("http://") {
                return Err(error);
            }
            options.trust = Trust::Anyone;
            HttpClient::new(&options)
        });
        Ok(Arc::new(ZaqarPublisher(Arc::new(Queue {
            session,
            http: http.map_err(|error| OpenError(error.to_string()))?,
            name: quote(&name, ""),
            ttl_s,
            client_id: Uuid::new_v4().simple().to_string(),
            trouble: PeerHealth::new(url),
            counts,
        }))))
    }

    fn post(&self, records: Vec<String>) -> Receipt {
        if records.is_empty() {
            return Receipt::done();
        }
        let queue = Arc::clone(&self.0);
        begin(async move {
            let mut outcome = Ok(());
            for (body, items) in bodies(&records, queue.ttl_s) {
                outcome = outcome.and(queue.post(&body, items).await);
            }
            outcome
        })
    }
}

/// Bodies `{"messages": [...]}`, each with as many records as Zaqar accepts, and their number.
fn bodies(records: &[String], ttl_s: i64) -> Vec<(Bytes, usize)> {
    let mut bodies = Vec::new();
    let (mut messages, mut items) = (String::new(), 0);
    let body = |messages: &str| Bytes::from(format!("{{\"messages\": [{messages}]}}"));
    for record in records {
        let message = format!("{{\"body\": {record}, \"ttl\": {ttl_s}}}");
        if items > 0 && messages.len() + message.len() > POST_BYTES_MAX {
            bodies.push((body(&messages), items));
            messages.clear();
            items = 0;
        }
        if items > 0 {
            messages.push_str(", ");
        }
        messages.push_str(&message);
        items += 1;
    }
    bodies.push((body(&messages), items));
    bodies
}

impl Queue {
    /// Posts until Zaqar accepts or rejects it.
    async fn post(&self, body: &Bytes, items: usize) -> Result<(), PublishError> {
        let delivered = self.trouble.deliver(&self.counts, items, None, || self.attempt(body.clone())).await;
        delivered.map_err(|answer| PublishError::new(format!("queue {} refuses: {answer}", self.name)))
    }

    async fn attempt(&self, body: Bytes) -> AttemptResult {
        let (endpoint, token) = match self.access().await {
            Ok(access) => access,
            Err(error) => return AttemptResult::Again(error),
        };
        let url = format!("{}/v2/queues/{}/messages", endpoint.trim_end_matches("/v2"), self.name);
        let request = Request::post(&url)
            .header("content-type", "application/json")
            .header("client-id", &self.client_id)
            .header("x-auth-token", &*token)
            .body(body);
        let request = match request {
            Ok(request) => request,
            Err(error) => return AttemptResult::Refused(format!("{url}: {error}")),
        };
        let answer = match self.http.send(request).await {
            Ok(answer) => answer,
            Err(error) => {
                // The service may have moved.
                self.session.forget_endpoints();
                return AttemptResult::Again(format!("{url}: {error}"));
            }
        };
        match answer.status {
            status if status.is_success() => AttemptResult::Taken,
            StatusCode::UNAUTHORIZED => {
                self.session.forget_token(&token);
                AttemptResult::Again(answer.text())
            }
            StatusCode::FORBIDDEN | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                AttemptResult::Again(answer.text())
            }
            status if status.is_server_error() => AttemptResult::Again(answer.text()),
            _ => AttemptResult::Refused(answer.text()),
        }
    }

    async fn access(&self) -> Result<(Arc<str>, Arc<str>), String> {
        let endpoint = self.session.endpoint(SERVICE).await.map_err(|error| error.to_string())?;
        let Some(endpoint) = endpoint else {
            // It may be registered later than this agent is started.
            self.session.forget_endpoints();
            return Err(format!("the catalogue has no service {SERVICE}"));
        };
        let token = self.session.token().await.map_err(|error| error.to_string())?;
        Ok((endpoint, token))
    }
}

impl Publisher for ZaqarPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        self.post(samples.iter().map(sample_record_json).collect())
    }

    fn events(&self, events: &[Event]) -> Receipt {
        self.post(events.iter().map(|event| python_json(&event_message(event))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_no_larger_than_zaqar_takes() {
        let records = ["1".to_owned(), "2".to_owned()];
        let found = bodies(&records, 5);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, 2);
        let wanted: &[u8] = b"{\"messages\": [{\"body\": 1, \"ttl\": 5}, {\"body\": 2, \"ttl\": 5}]}";
        assert_eq!(&found[0].0[..], wanted);
        let long = vec![format!("\"{}\"", "x".repeat(POST_BYTES_MAX / 3)); 7];
        let found = bodies(&long, 5);
        assert_eq!(found.iter().map(|(_, items)| *items).collect::<Vec<_>>(), [2, 2, 2, 1]);
    }
}
