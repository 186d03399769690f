//! Applies events: they create, update or end a resource, and end associated resources.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use gnudi_model::python::quote;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{
    definitions::{EventOperation, quoted},
    delivery,
    publisher::PublisherState,
};
use crate::{
    publishers::{PublishError, PublisherTasks},
    time::{naive_iso, now},
};

/// Number of lanes processed concurrently. Events of one resource stay in one lane, in order.
const LANES: usize = 8;

/// An event's effect on its resource.
#[derive(Debug)]
pub struct Action {
    pub operation: EventOperation,
    /// The definition that matches the event.
    pub definition: u16,
    pub id: String,
    /// All attributes except the id.
    pub attributes: Map<String, Value>,
    /// Process it after this batch: earlier samples are in batches up to it. Known once all of them are in batches.
    pub after_batch: oneshot::Receiver<u64>,
    pub done: oneshot::Sender<Result<(), PublishError>>,
}

/// Queues of events.
#[derive(Debug)]
pub struct Lanes(Vec<mpsc::UnboundedSender<Action>>);

impl Lanes {
    /// Must be called within a Tokio runtime. The queues are bounded by the callers, who wait for their receipts.
    pub fn start(shared: &Arc<PublisherState>, tasks: &PublisherTasks) -> Self {
        let lane = |_| {
            let (sender, mut actions) = mpsc::unbounded_channel();
            let shared = shared.clone();
            tasks.spawn("what publishes events to gnocchi://", async move {
                while let Some(action) = actions.recv().await {
                    // A panic drops the action with its receipt, and does not end the lane.
                    if AssertUnwindSafe(carry_out(&shared, action)).catch_unwind().await.is_err() {
                        tracing::error!("an event caused a panic: its message fails");
                    }
                }
            });
            sender
        };
        Lanes((0..LANES).map(lane).collect())
    }

    pub fn send(&self, action: Action) {
        let lane =
            action.id.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        // The lanes outlive `self`.
        let _ = self.0[lane % LANES].send(action);
    }
}

async fn carry_out(shared: &PublisherState, action: Action) {
    let Action { operation, definition, id, attributes, after_batch, done } = action;
    if operation != EventOperation::Create {
        // Samples that arrived before the event would create its resource again: wait until they are delivered.
        let number = after_batch.await.expect("the publisher's state outlives its lanes");
        shared.batches_end(number).await;
    }
    let outcome = match operation {
        EventOperation::Create => create(shared, definition, &id, attributes).await,
        EventOperation::Update => update(shared, definition, &id, attributes).await,
        EventOperation::Delete => end(shared, definition, &id).await,
    };
    if outcome.is_ok() {
        shared.store.figures().events.inc();
    }
    // The receiver may be gone.
    let _ = done.send(outcome.map_err(PublishError));
}

async fn create(
    shared: &PublisherState,
    definition: u16,
    id: &str,
    mut attributes: Map<String, Value>,
) -> Result<(), String> {
    let resource_type = &shared.definitions.definition(definition).resource_type;
    attributes.insert("id".to_owned(), id.into());
    let path = format!("/v1/resource/{}", quote(resource_type, ""));
    let answer = shared.store.post(&path, &Value::Object(attributes)).await;
    match answer.status.as_u16() {
        200..300 => drop(shared.store.figures().resources_created.inc()),
        409 => tracing::debug!("{resource_type} {id} is there already"),
        _ => {
            let why = format!("{resource_type} {id} was not created: {}", answer.text());
            return delivery::refused(shared, why);
        }
    }
    Ok(())
}

/// Patches the attributes. Associated resources are left alone: for them Ceilometer sends a whole search
/// result, which no store accepts.
async fn update(
    shared: &PublisherState,
    definition: u16,
    id: &str,
    attributes: Map<String, Value>,
) -> Result<(), String> {
    let kind = shared.definitions.definition(definition).kind;
    let resource = shared.resource(id, kind);
    {
        let mut state = resource.state.lock();
        if state.kind != kind {
            tracing::debug!("{id} is of another type");
            return Ok(());
        }
        state.apply_event(attributes);
    }
    delivery::patch(shared, &resource).await
}

/// Ends all resources that can be ended; returns the first error.
async fn end(shared: &PublisherState, definition: u16, id: &str) -> Result<(), String> {
    let definition = shared.definitions.definition(definition);
    let ended_at = json!({ "ended_at": naive_iso(now()) });
    let mut outcome = end_one(shared, &definition.resource_type, id, &ended_at).await;
    // Inside the query's own quotes.
    let id = quoted(id);
    let escaped = &id[1..id.len() - 1];
    for (resource_type, query) in &definition.associated {
        match search(shared, resource_type, &filled(query, escaped)).await {
            Ok(all) => {
                for Found { resource_type, id } in all {
                    outcome = outcome.and(end_one(shared, &resource_type, &id, &ended_at).await);
                }
            }
            Err(why) => outcome = outcome.and(Err(why)),
        }
    }
    outcome
}

/// A query with the id in the place of each `%s`; `%%` is a percent sign.
fn filled(query: &str, id: &str) -> String {
    let parts: Vec<String> = query.split("%%").map(|part| part.replace("%s", id)).collect();
    parts.join("%")
}

async fn end_one(
    shared: &PublisherState,
    resource_type: &str,
    id: &str,
    ended_at: &Value,
) -> Result<(), String> {
    let path = format!("/v1/resource/{}/{}", quote(resource_type, ""), quote(id, ""));
    let answer = shared.store.patch(&path, "application/json", ended_at).await;
    match answer.status.as_u16() {
        200..300 => Ok(()),
        404 => {
            tracing::debug!("{resource_type} {id} is not there");
            Ok(())
        }
        _ => delivery::refused(shared, format!("{resource_type} {id} was not ended: {}", answer.text())),
    }
}

/// A resource in the answer to a search; other fields are ignored.
#[derive(Deserialize)]
struct Found {
    #[serde(rename = "type")]
    resource_type: String,
    id: String,
}

/// The resources that a query finds.
async fn search(shared: &PublisherState, resource_type: &str, query: &str) -> Result<Vec<Found>, String> {
    let failed = |why: &str| {
        let refused = delivery::refused(shared, format!("search for {resource_type} by {query:?}: {why}"));
        refused.map(|()| Vec::new())
    };
    let body: Value = match serde_json::from_str(query) {
        Ok(body) => body,
        Err(error) => return failed(&error.to_string()),
    };
    let mut found = Vec::new();
    let mut marker: Option<String> = None;
    loop {
        let page = marker.as_deref().map_or(String::new(), |marker| format!("?marker={}", quote(marker, "")));
        let path = format!("/v1/search/resource/{}{page}", quote(resource_type, ""));
        let answer = shared.store.post(&path, &body).await;
        if answer.status.as_u16() == 404 {
            tracing::debug!("there is no type {resource_type}");
            return Ok(found);
        }
        if !answer.status.is_success() {
            return failed(&answer.text());
        }
        let resources: Vec<Found> = match serde_json::from_slice(&answer.body) {
            Ok(resources) => resources,
            Err(error) => return failed(&format!("its answer is no list of resources: {error}")),
        };
        found.extend(resources);
        // Only a store with pagination sends this link.
        let has_next = answer.header("link").is_some_and(|link| link.contains("rel=\"next\""));
        let last = found.last().map(|last| last.id.clone());
        if !has_next || last.is_none() || last == marker {
            return Ok(found);
        }
        marker = last;
    }
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn queries_are_formatted_as_by_python() {
        assert_eq!(filled(r#"{"=": {"a": "%s"}}"#, "x"), r#"{"=": {"a": "x"}}"#);
        assert_eq!(filled("%s-%% %%s", "100%%"), "100%%-% %s");
    }
}
