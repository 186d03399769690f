//! Posts a batch to the store: creates unknown resources, bisects rejected requests to drop bad measures, and patches
//! changed attributes.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use gnudi_http::Answer;
use gnudi_model::python::quote;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    batch::{Batch, places},
    publisher::PublisherState,
    resource_cache::Resource,
    store::ERRORS_500_MAX,
};

/// Attempts to create resources for one request; resources still unknown after them are given up.
const CREATION_ROUNDS_MAX: u32 = 3;

/// Pause before a retry if the store accepts nothing.
const NOTHING_STORED_PAUSE: Duration = Duration::from_secs(5);

/// Measures tried one by one before each of these pauses.
const SUSPECTS_MAX: usize = 16;

/// The result of a part of a batch.
enum PartOutcome {
    Taken,
    /// The store rejects it, or a part of it.
    Refused {
        why: String,
        status: u16,
    },
}

/// Whether anything may be answered so: our own permissions may be wrong (403), a proxy may have no store behind it (404),
/// or the store fails (500).
fn is_suspect(status: u16) -> bool {
    matches!(status, 403 | 404 | 500)
}

/// Delivers a batch with unlimited retries, and resolves its receipts.
pub async fn deliver(shared: &PublisherState, mut batch: Batch, mut permit: OwnedSemaphorePermit) {
    batch.sort();
    let mut left_out = HashSet::new();
    post_all(shared, &mut batch, &mut left_out, &mut permit).await;
    // Let other batches be posted while attributes are patched.
    drop(permit);
    let mut changed = std::mem::take(&mut batch.changed);
    changed.sort_unstable();
    changed.dedup();
    changed.retain(|place| !left_out.contains(place));
    for (place, why) in patch_all(shared, &batch, changed).await {
        // The store has the measures, but not the resource's attributes.
        batch.fail(0..batch.len(), Some(place), &why);
    }
    shared.store.figures().messages_waiting.dec_by(batch.messages() as i64);
    batch.resolve();
}

/// Posts all measures, in parts where the store rejects some.
///
/// A suspected measure fails only if it is rejected again after anything was stored: until then the store may reject
/// everything. Metrics that are known to be damaged are posted after the others, one by one and without retries.
async fn post_all(
    shared: &PublisherState,
    batch: &mut Batch,
    left_out: &mut HashSet<u32>,
    permit: &mut OwnedSemaphorePermit,
) {
    let stored_before = shared.store.stored();
    let (sound, whole) = set_apart(shared, batch);
    let mut parts = whole.clone();
    // By suspected measure, how many batches were stored when it was first rejected.
    let mut rejected: HashMap<usize, u64> = HashMap::new();
    // Whether this round posts all measures, not the suspects of the former one alone.
    let mut is_whole = true;
    loop {
        let begun = shared.store.stored();
        // How many were stored when the first suspect of this round was rejected.
        let mut since = begun;
        let mut suspects: Vec<Range<usize>> = Vec::new();
        let mut last_why = String::new();
        while let Some(part) = parts.pop() {
            let is_known = part.start >= sound;
            let errors_500_max = if is_known { 1 } else { ERRORS_500_MAX };
            let PartOutcome::Refused { why, status } =
                post(shared, batch, part.clone(), left_out, errors_500_max).await
            else {
                if is_known {
                    shared.damaged.remove(batch.metric(part.start));
                }
                continue;
            };
            let is_still_damaged = is_known && status == 500;
            if !is_still_damaged && let Some(middle) = batch.cut(&part) {
                parts.extend([middle..part.end, part.start..middle]);
                continue;
            }
            let stored = shared.store.stored();
            let first = if is_still_damaged { stored_before } else { stored };
            if !is_suspect(status) || stored > *rejected.entry(part.start).or_insert(first) {
                if status == 500 {
                    shared.damaged.insert(batch.metric(part.start), Instant::now());
                }
                fail(shared, batch, part, None, &why);
                continue;
            }
            if suspects.is_empty() {
                since = stored;
            }
            suspects.push(part);
            if suspects.len().is_multiple_of(SUSPECTS_MAX) && stored == since {
                rest(shared, permit, &why).await;
            }
            last_why = why;
        }
        if suspects.is_empty() {
            return;
        }
        if shared.store.stored() > since {
            (parts, is_whole) = (suspects, false);
            continue;
        }
        if is_whole && since == begun {
            rest(shared, permit, &last_why).await;
        }
        is_whole = true;
        parts.clone_from(&whole);
    }
}

/// Moves the measures of metrics known to be damaged behind the others. Returns where they begin, and the parts to post,
/// the last one first.
fn set_apart(shared: &PublisherState, batch: &mut Batch) -> (usize, Vec<Range<usize>>) {
    let sound = match shared.damaged.known(Instant::now()) {
        Some(is_known) => batch.move_to_end(is_known),
        None => batch.len(),
    };
    let mut parts = batch.split_metrics(sound..batch.len());
    if sound > 0 {
        parts.push(0..sound);
    }
    (sound, parts)
}

/// Pauses while the store accepts nothing. Without a permit: batches of bad measures alone could hold all of them, and
/// only others show that the store accepts anything.
async fn rest(shared: &PublisherState, permit: &mut OwnedSemaphorePermit, why: &str) {
    tracing::error!("the store accepts nothing that is posted: {why}");
    shared.store.figures().retries.inc();
    let permits = permit.semaphore().clone();
    drop(permit.split(1));
    tokio::time::sleep(NOTHING_STORED_PAUSE).await;
    permit.merge(permits.acquire_owned().await.expect("never closed"));
}

fn fail(shared: &PublisherState, batch: &mut Batch, part: Range<usize>, resource: Option<u32>, why: &str) {
    let samples = batch.fail(part, resource, why);
    shared.store.figures().rejected.inc_by(samples as u64);
    tracing::warn!("the store refuses {samples} samples: {why}");
}

async fn post(
    shared: &PublisherState,
    batch: &mut Batch,
    part: Range<usize>,
    left_out: &mut HashSet<u32>,
    errors_500_max: u32,
) -> PartOutcome {
    let mut round = 0;
    loop {
        let (body, measures) = batch.body(part.clone(), left_out, &shared.definitions);
        if measures == 0 {
            return PartOutcome::Taken;
        }
        let answer = shared.store.post_batch(body, errors_500_max).await;
        if answer.status.is_success() {
            let figures = shared.store.figures();
            figures.samples.inc_by(measures as u64);
            figures.batch_samples.observe(measures as f64);
            return PartOutcome::Taken;
        }
        let unknown = unknown_resources(&answer, batch);
        if unknown.is_empty() {
            return PartOutcome::Refused { why: answer.text(), status: answer.status.as_u16() };
        }
        round += 1;
        for (place, why) in create_all(shared, batch, unknown, round > CREATION_ROUNDS_MAX).await {
            left_out.insert(place);
            fail(shared, batch, 0..batch.len(), Some(place), &why);
        }
    }
}

/// Indexes of the resources that the store reports as unknown.
fn unknown_resources(answer: &Answer, batch: &Batch) -> Vec<u32> {
    if answer.status.as_u16() != 400 {
        return Vec::new();
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let description = &body["description"];
    let Some(details) =
        description["detail"].as_array().filter(|_| description["cause"] == "Unknown resources")
    else {
        return Vec::new();
    };
    let places = places(&batch.resources);
    details
        .iter()
        .filter_map(|detail| places.get(detail["original_resource_id"].as_str()?).copied())
        .collect()
}

/// Creates resources; returns those that could not be created, with the store's error. `is_last`: resources that
/// somebody else created count as failures, since posting to them has failed.
async fn create_all(
    shared: &PublisherState,
    batch: &Batch,
    places: Vec<u32>,
    is_last: bool,
) -> Vec<(u32, String)> {
    let create = |place: u32| async move {
        let resource = &batch.resources[place as usize];
        let refused = if is_last {
            Some("the store does not know it although it was created".to_owned())
        } else {
            create(shared, resource).await.err()
        };
        refused.map(|why| (place, format!("resource {}: {why}", resource.id)))
    };
    refusals(shared, places, create).await
}

/// Patches attributes; returns the resources whose attributes were rejected, with the store's error.
async fn patch_all(shared: &PublisherState, batch: &Batch, places: Vec<u32>) -> Vec<(u32, String)> {
    let send = |place: u32| async move {
        let refused = patch(shared, &batch.resources[place as usize]).await.err();
        refused.map(|why| (place, why))
    };
    refusals(shared, places, send).await
}

/// Makes a request for each resource, several at a time; returns the store's errors.
async fn refusals<F: Future<Output = Option<(u32, String)>>>(
    shared: &PublisherState,
    places: Vec<u32>,
    request: impl Fn(u32) -> F,
) -> Vec<(u32, String)> {
    stream::iter(places.into_iter().map(request))
        .buffer_unordered(shared.limits.resource_requests_max)
        .filter_map(std::future::ready)
        .collect()
        .await
}

async fn create(shared: &PublisherState, resource: &Arc<Resource>) -> Result<(), String> {
    let _turn = resource.patching.lock().await;
    let (mut body, version, kind) = {
        let state = resource.state.lock();
        let mut body = state.attributes();
        body.insert("user_id".to_owned(), state.user_id.as_deref().into());
        (body, state.version, state.kind)
    };
    body.insert("id".to_owned(), (*resource.id).into());
    let resource_type = &shared.definitions.definition(kind).resource_type;
    let answer =
        shared.store.post(&format!("/v1/resource/{}", quote(resource_type, "")), &Value::Object(body)).await;
    match answer.status.as_u16() {
        200..300 => {
            shared.store.figures().resources_created.inc();
            let mut state = resource.state.lock();
            state.is_stored = state.version == version;
            Ok(())
        }
        // Created by somebody else meanwhile; patch it like any other.
        409 => {
            resource.state.lock().is_stored = false;
            Ok(())
        }
        _ => Err(answer.text()),
    }
}

/// Counts a rejected change of a resource, and reports it to its sender.
pub fn refused(shared: &PublisherState, why: String) -> Result<(), String> {
    shared.store.figures().refused.inc();
    tracing::warn!("the store refuses a change: {why}");
    Err(why)
}

/// Patches a resource until the store has the latest attributes. The error is the store's rejection; the attributes are
/// sent again with the next change or refresh.
pub async fn patch(shared: &PublisherState, resource: &Resource) -> Result<(), String> {
    let _turn = resource.patching.lock().await;
    let mut outcome = Ok(());
    loop {
        let (body, version, kind) = {
            let state = resource.state.lock();
            if state.is_stored {
                return outcome;
            }
            (state.attributes(), state.version, state.kind)
        };
        let resource_type = &shared.definitions.definition(kind).resource_type;
        let path = format!("/v1/resource/{}/{}", quote(resource_type, ""), quote(&resource.id, ""));
        let answer = shared.store.patch(&path, "application/json", &Value::Object(body)).await;
        let why = || format!("attributes of {resource_type} {}: {}", resource.id, answer.text());
        outcome = match answer.status.as_u16() {
            200..300 => {
                shared.store.figures().resources_patched.inc();
                Ok(())
            }
            // There is no resource of this type to patch. It gets all attributes when it is created.
            404 => {
                shared.store.figures().refused.inc();
                tracing::warn!("{}", why());
                Ok(())
            }
            _ => refused(shared, why()),
        };
        let mut state = resource.state.lock();
        if state.version == version {
            state.is_stored = true;
        }
    }
}
