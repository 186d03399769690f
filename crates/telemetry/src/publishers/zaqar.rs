//! `zaqar://?queue=NAME`: posts samples and events to a Zaqar queue, with the credentials of `[zaqar]`.
//!
//! Options: `queue`, and `ttl`, the messages' lifetime in seconds (3600). Transient errors are retried without limit; a
//! rejection is final.

use std::sync::Arc;

use gnudi_http::Bytes;
use gnudi_keystone::KeystoneOptions;
use gnudi_model::python::quote;
use uuid::Uuid;

use super::{
    OpenError, Opened, PublishError, Publisher, PublisherUrl, Receipt,
    figures::PublisherCounts,
    http::{begin, is_passing},
    peer_health::{AttemptResult, PeerHealth},
};
use crate::{
    event::Event,
    polling::cloud::{Cloud, CloudError},
    sample::Sample,
    wire::{event_message, python_json, sample_record_json},
};

/// Default of `ttl`.
const TTL_S: i64 = 3600;
/// Zaqar's type in the catalogue.
const SERVICE: &str = "messaging";
/// Zaqar's default limit is 256 KiB per request.
const POST_BYTES_MAX: usize = 240 << 10;
/// Concurrent posts.
const POSTS_MAX: usize = 16;

pub struct ZaqarPublisher(Arc<Queue>);

struct Queue {
    cloud: Cloud,
    name: String,
    ttl_s: i64,
    /// Identifies the sender to Zaqar.
    client_id: String,
    health: PeerHealth,
    counts: PublisherCounts,
}

impl ZaqarPublisher {
    /// `keystone` is the login that posts.
    pub fn open(url: &PublisherUrl, keystone: &KeystoneOptions, counts: PublisherCounts) -> Opened {
        let (name, ttl_s) = queue(url)?;
        let cloud = Cloud::new(keystone.clone(), POSTS_MAX);
        Ok(Arc::new(ZaqarPublisher(Arc::new(Queue {
            cloud: cloud.map_err(|error| OpenError(error.to_string()))?,
            name: quote(name, ""),
            ttl_s,
            client_id: Uuid::new_v4().simple().to_string(),
            health: PeerHealth::new(url),
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
        let delivered = self.health.deliver(&self.counts, items, None, || self.attempt(body)).await;
        let refused = |answer: String| PublishError(format!("queue {} refuses: {answer}", self.name));
        delivered.map(drop).map_err(refused)
    }

    async fn attempt(&self, body: &Bytes) -> AttemptResult {
        let sent = async {
            let endpoint = self.cloud.endpoint(SERVICE).await?;
            let url = format!("{}/v2/queues/{}/messages", endpoint.trim_end_matches("/v2"), self.name);
            let headers = [("content-type", "application/json"), ("client-id", self.client_id.as_str())];
            self.cloud.post(&url, &headers, body).await
        };
        match sent.await {
            Ok(_) => AttemptResult::Taken,
            Err(CloudError::Refused { status, text, .. }) if !is_passing(status) => {
                AttemptResult::Refused(text)
            }
            Err(error) => AttemptResult::Again(error.to_string()),
        }
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

/// The queue's name, and the lifetime of messages in seconds. As for Ceilometer, of repeated options the first counts.
fn queue(url: &PublisherUrl) -> Result<(&str, i64), OpenError> {
    let ttl_s = url.query.first_integer("ttl")?.unwrap_or(TTL_S);
    let name = url.query.first("queue");
    let name = name.ok_or_else(|| OpenError("names no queue: zaqar://?queue=NAME".to_owned()))?;
    Ok((name, ttl_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_repeated_options_the_first_counts() {
        let url = |query: &str| PublisherUrl::parse(&format!("zaqar://?{query}")).unwrap();
        assert_eq!(queue(&url("queue=a&queue=b&ttl=1&ttl=2")), Ok(("a", 1)));
        assert_eq!(queue(&url("queue=a")), Ok(("a", TTL_S)));
        assert!(queue(&url("ttl=1")).is_err());
    }

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
