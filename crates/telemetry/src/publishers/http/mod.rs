//! `http://` and `https://`: posts samples and events as JSON, per message or one by one.
//!
//! Options: `batch` (true), `timeout` (5 seconds), `max_retries`, `verify_ssl` (true, false or a file), `clientcert`,
//! `clientkey`, `raw_only` (false: events; true: only the raw notifications kept with them).

mod endpoint;

use std::sync::Arc;

use gnudi_http::Bytes;
use gnudi_model::python::bool_of_text;

pub use self::endpoint::{HttpEndpoint, is_passing};
use super::{Opened, PublishError, Publisher, PublisherUrl, Receipt, figures::PublisherCounts};
use crate::{
    definitions::python,
    event::Event,
    sample::Sample,
    wire::{event_message, python_json, sample_record_json},
};

pub struct HttpPublisher {
    endpoint: Arc<HttpEndpoint>,
    is_batched: bool,
    is_raw_only: bool,
}

impl HttpPublisher {
    pub fn open(url: &PublisherUrl, counts: PublisherCounts) -> Opened {
        let option = |name| url.query.last(name).map(bool_of_text);
        // As in oslo, words that are not booleans are false.
        let is_batched = option("batch").is_none_or(|value| value == Some(true));
        let is_raw_only = option("raw_only") == Some(Some(true));
        let endpoint = HttpEndpoint::new(url, "application/json", counts)?;
        Ok(Arc::new(HttpPublisher { endpoint, is_batched, is_raw_only }))
    }

    fn post(&self, records: Vec<String>) -> Receipt {
        if records.is_empty() {
            return Receipt::done();
        }
        let endpoint = self.endpoint.clone();
        if self.is_batched {
            let body = Bytes::from(format!("[{}]", records.join(", ")));
            return begin(async move { endpoint.post("", body, records.len()).await });
        }
        begin(async move {
            let mut outcome = Ok(());
            for record in records {
                outcome = outcome.and(endpoint.post("", record.into(), 1).await);
            }
            outcome
        })
    }
}

/// Starts a post in a task; the receipt resolves at its end.
pub fn begin(work: impl Future<Output = Result<(), PublishError>> + Send + 'static) -> Receipt {
    let task = tokio::spawn(work);
    Receipt::of(async move {
        task.await.unwrap_or_else(|error| Err(PublishError(format!("a publisher failed: {error}"))))
    })
}

impl Publisher for HttpPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        self.post(samples.iter().map(sample_record_json).collect())
    }

    fn events(&self, events: &[Event]) -> Receipt {
        let records = if self.is_raw_only {
            let payloads = events.iter().filter_map(|event| event.raw.get("payload"));
            payloads.filter(|payload| python::is_true(payload)).map(python_json).collect()
        } else {
            events.iter().map(|event| python_json(&event_message(event))).collect()
        };
        self.post(records)
    }
}
