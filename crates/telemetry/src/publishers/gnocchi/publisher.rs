//! The publisher: adds samples to the open batch, and delivers batches.
//!
//! A batch is closed when it is full, when nothing is in flight and no more samples arrive, or at its timeout.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet, VecDeque},
    panic::AssertUnwindSafe,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use gnudi_model::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, oneshot};

use super::{
    Result,
    batch::Batch,
    damaged::DamagedMetrics,
    definitions::Definitions,
    delivery,
    events::{Action, Lanes},
    figures::GnocchiFigures,
    filter,
    options::{GnocchiLimits, GnocchiOptions, GnocchiUrl, StoreAccess},
    resource_cache::{Clock, Resource, ResourceCache},
    resource_types,
    store::Store,
};
use crate::{
    event::Event,
    publishers::{PublishError, Publisher, PublisherTasks, PublisherUrl, Receipt},
    sample::Sample,
    time::now,
};

/// Interval of checking the open batch: if it has not grown and nothing is in flight, it is closed.
const LOOK: Duration = Duration::from_millis(2);

/// The type whose resources are projects.
const SWIFT_ACCOUNT: &str = "swift_account";

type Sender = oneshot::Sender<Result<(), PublishError>>;
type Answered = oneshot::Receiver<Result<(), PublishError>>;

/// Publishes to Gnocchi, or to gnudi: `gnocchi://`.
pub struct GnocchiPublisher {
    shared: Arc<PublisherState>,
    lanes: Lanes,
}

/// State shared by the publisher and its tasks.
pub struct PublisherState {
    pub store: Store,
    pub definitions: Definitions,
    pub limits: GnocchiLimits,
    pub damaged: DamagedMetrics,
    begun: Instant,
    inner: Mutex<Inner>,
    /// Set once the id of the filtered project is known.
    filtered: OnceLock<Option<Box<str>>>,
    /// Notified when the open batch begins or is full, when a batch was delivered, and on close.
    changed: Notify,
    delivered: Notify,
    is_closed: AtomicBool,
}

struct Inner {
    known: ResourceCache,
    open: Batch,
    /// Full batches not yet being delivered, and the ids of those in flight.
    full: VecDeque<Batch>,
    under_way: BTreeSet<u64>,
    /// What arrived before the filtered project was known, in order.
    early: Vec<Early>,
    /// Unknown meters that were logged.
    unknown_meters: HashSet<String>,
}

/// A message or an event that waits until the filtered project is known.
enum Early {
    Message(Vec<Sample<'static>>, Sender),
    /// Gets the number of the last batch with earlier samples.
    Event(oneshot::Sender<u64>),
}

/// Maximum number of unknown meters to log.
const UNKNOWN_METERS_MAX: usize = 1_000;

impl GnocchiPublisher {
    /// Loads definitions and certificates, and starts its tasks; sends no request yet. Must be called within a Tokio
    /// runtime.
    pub fn start(
        url: &PublisherUrl,
        options: &GnocchiOptions,
        figures: GnocchiFigures,
        tasks: &PublisherTasks,
    ) -> Result<Self> {
        let url = GnocchiUrl::read(url)?;
        let definitions = Definitions::load(
            url.resources_definition_file.as_deref(),
            &options.config_dirs,
            url.archive_policy.as_deref(),
        )?;
        let begun = Instant::now();
        let shared = Arc::new(PublisherState {
            store: Store::new(options, url.timeout, figures)?,
            definitions,
            limits: options.limits.clone(),
            damaged: DamagedMetrics::default(),
            begun,
            inner: Mutex::new(Inner {
                known: ResourceCache::new(options.limits.resources_max),
                open: Batch::new(0, begun),
                full: VecDeque::new(),
                under_way: BTreeSet::new(),
                early: Vec::new(),
                unknown_meters: HashSet::new(),
            }),
            filtered: OnceLock::new(),
            changed: Notify::new(),
            delivered: Notify::new(),
            is_closed: AtomicBool::new(false),
        });
        match (url.filter, options.cloud.clone()) {
            (filter, None) => {
                if let Some(filter) = filter {
                    tracing::debug!("filter_project {}: no Keystone is configured: ignored", filter.project);
                }
                shared.open_gate(None);
            }
            (None, _) => shared.open_gate(None),
            (Some(filter), Some(cloud)) => {
                let shared = shared.clone();
                let needs_login = matches!(options.access, StoreAccess::Keystone(_));
                tasks.spawn("what looks up the filtered project of gnocchi://", async move {
                    let id = filter::project_id(&cloud, &filter, needs_login).await;
                    shared.open_gate(id.map(Into::into));
                });
            }
        }
        let lanes = Lanes::start(&shared, tasks);
        let create_resource_types = options.create_resource_types;
        let loading = shared.clone();
        tasks.spawn("what publishes samples to gnocchi://", async move {
            prepare(&loading, create_resource_types).await;
            run(loading).await;
        });
        Ok(GnocchiPublisher { shared, lanes })
    }
}

impl Drop for GnocchiPublisher {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.changed.notify_one();
    }
}

impl Publisher for GnocchiPublisher {
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let (sender, receiver) = oneshot::channel();
        let shared = &self.shared;
        let receipt = receipt(shared.clone(), vec![receiver]);
        if shared.filtered.get().is_none() {
            let mut inner = shared.inner.lock();
            // `open_gate` takes the same lock.
            if shared.filtered.get().is_none() {
                let samples = samples.iter().map(Sample::to_static).collect();
                inner.early.push(Early::Message(samples, sender));
                return receipt;
            }
        }
        shared.add_message(samples, sender, shared.filtered.get().and_then(Option::as_deref));
        receipt
    }

    fn events(&self, events: &[Event]) -> Receipt {
        let mut receivers = Vec::new();
        for event in events {
            let Some((definition, operation)) = self.shared.definitions.event(&event.event_type) else {
                continue;
            };
            let mut attributes = self.shared.definitions.definition(definition).event_attributes(event);
            let id = match attributes.remove("id") {
                Some(Value::String(id)) if !id.is_empty() => id,
                Some(Value::Number(id)) => id.to_string(),
                _ => {
                    tracing::warn!("event {} ({}) names no resource", event.event_type, event.message_id);
                    continue;
                }
            };
            let (done, receiver) = oneshot::channel();
            let after_batch = self.shared.last_batch();
            self.lanes.send(Action { operation, definition, id, attributes, after_batch, done });
            receivers.push(receiver);
        }
        receipt(self.shared.clone(), receivers)
    }
}

/// Waits for all outcomes; fails with the first error.
fn receipt(shared: Arc<PublisherState>, receivers: Vec<Answered>) -> Receipt {
    Receipt::of(async move {
        let mut outcome = Ok(());
        for receiver in receivers {
            outcome = outcome.and(match receiver.await {
                Ok(answered) => answered,
                // A panic has dropped the sender.
                Err(_) if !shared.is_closed.load(Ordering::Relaxed) => {
                    Err(PublishError("a panic while it was published to the store".to_owned()))
                }
                // The publisher has ended: never resolve, so that nothing counts as published or as refused.
                Err(_) => std::future::pending().await,
            });
        }
        outcome
    })
}

impl PublisherState {
    /// The cached resource with this id; a new one of type `kind` if there is none.
    pub fn resource(&self, id: &str, kind: u16) -> Arc<Resource> {
        self.inner.lock().known.resource(id, kind)
    }

    /// Waits until all batches up to this one are delivered.
    pub async fn batches_end(&self, number: u64) {
        loop {
            let delivered = self.delivered.notified();
            tokio::pin!(delivered);
            delivered.as_mut().enable();
            {
                let inner = self.inner.lock();
                let is_open = inner.open.number <= number && !inner.open.is_empty();
                let waits = inner.full.front().is_some_and(|batch| batch.number <= number);
                let is_under_way = inner.under_way.first().is_some_and(|first| *first <= number);
                if !is_open && !waits && !is_under_way {
                    return;
                }
            }
            delivered.await;
        }
    }

    /// Resolves to the number of the last batch with samples that have arrived before.
    fn last_batch(&self) -> oneshot::Receiver<u64> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.inner.lock();
        if self.filtered.get().is_none() {
            inner.early.push(Early::Event(sender));
        } else {
            let _ = sender.send(inner.open.number);
        }
        receiver
    }

    /// Processes the queue of early messages and events in order, until it is empty: more may arrive meanwhile.
    fn open_gate(&self, project: Option<Box<str>>) {
        loop {
            let early = {
                let mut inner = self.inner.lock();
                if inner.early.is_empty() {
                    let _ = self.filtered.set(project);
                    return;
                }
                std::mem::take(&mut inner.early)
            };
            for one in early {
                match one {
                    Early::Message(samples, sender) => {
                        self.add_message(&samples, sender, project.as_deref());
                    }
                    Early::Event(sender) => {
                        // The receiver is gone if the publisher has ended.
                        let _ = sender.send(self.inner.lock().open.number);
                    }
                }
            }
        }
    }

    /// Adds a message's samples to the open batch, without those of the project `filtered`; the receipt resolves when
    /// they are stored.
    fn add_message(&self, samples: &[Sample<'_>], sender: Sender, filtered: Option<&str>) {
        let begun = Instant::now();
        let clock = Clock {
            now_s: (begun - self.begun).as_secs() as u32,
            refresh_after_s: u32::try_from(self.limits.refresh_after.as_secs()).unwrap_or(u32::MAX / 4),
        };
        let time = now();
        let mut inner = self.inner.lock();
        let was_empty = inner.open.is_empty();
        let before = inner.open.len();
        let mut failure = None;
        let mut rejected = 0;
        for sample in samples {
            if let Err(why) = self.add_sample(&mut inner, sample, filtered, clock, time) {
                rejected += 1;
                failure.get_or_insert_with(|| {
                    format!("sample {} of {}: {why}", sample.name, sample.resource_id)
                });
            }
        }
        self.store.figures().rejected.inc_by(rejected);
        if inner.open.len() == before {
            let _ = sender.send(failure.map_or(Ok(()), |failure| Err(PublishError(failure))));
            return;
        }
        if was_empty {
            inner.open.begun = begun;
        }
        inner.open.end_message(sender, failure);
        let is_full = inner.open.len() >= self.limits.batch_measures_max
            || inner.open.bytes() >= self.limits.batch_bytes_max;
        if is_full {
            inner.close_batch(begun);
        }
        drop(inner);
        self.store.figures().messages_waiting.inc();
        if was_empty || is_full {
            self.changed.notify_one();
        }
    }

    fn add_sample(
        &self,
        inner: &mut Inner,
        sample: &Sample<'_>,
        filtered: Option<&str>,
        clock: Clock,
        time: Timestamp,
    ) -> Result<(), String> {
        let figures = self.store.figures();
        let metric = self.definitions.metric(&sample.name);
        let definition = metric.map(|metric| self.definitions.definition(metric.definition));
        if let Some(project) = filtered
            && (sample.project_id.as_deref() == Some(project)
                || sample.resource_id == project
                    && definition.is_some_and(|definition| definition.resource_type == SWIFT_ACCOUNT))
        {
            figures.filtered.inc();
            return Ok(());
        }
        let Some((metric, definition)) = metric.zip(definition) else {
            figures.unknown.inc();
            if inner.unknown_meters.len() < UNKNOWN_METERS_MAX
                && inner.unknown_meters.insert(sample.name.to_string())
            {
                tracing::warn!("metric {} is not handled by Gnocchi", sample.name);
            }
            return Ok(());
        };
        if sample.resource_id.is_empty() {
            return Err("no resource_id".to_owned());
        }
        // Resource ids hold no slash in Gnocchi.
        let id: Cow<'_, str> = if sample.resource_id.contains('/') {
            sample.resource_id.replace('/', "_").into()
        } else {
            (&*sample.resource_id).into()
        };
        let resource = inner.known.resource(&id, definition.kind);
        let mut state = resource.state.lock();
        let place = inner.open.place(&resource, &mut state.place);
        inner.open.add(place, metric.number, sample, time)?;
        if state.observe(sample, metric, definition, &id, clock) {
            inner.open.changed.push(place);
        }
        Ok(())
    }
}

impl Inner {
    /// Queues the open batch for delivery and opens a new one.
    fn close_batch(&mut self, now: Instant) {
        let next = Batch::new(self.open.number + 1, now);
        self.full.push_back(std::mem::replace(&mut self.open, next));
    }
}

/// Creates what the store needs before the first measure.
async fn prepare(shared: &PublisherState, create_resource_types: bool) {
    for policy in &shared.definitions.archive_policies {
        let answer = shared.store.post("/v1/archive_policy", policy).await;
        // 409: it exists.
        if !answer.status.is_success() && answer.status.as_u16() != 409 {
            tracing::error!("archive policy {}: {}", policy["name"], answer.text());
        }
    }
    if create_resource_types && let Err(error) = resource_types::upgrade(&shared.store).await {
        tracing::error!("{error}");
    }
}

/// Delivers batches until the publisher is closed and all are delivered.
async fn run(shared: Arc<PublisherState>) {
    let turns = Arc::new(Semaphore::new(shared.limits.requests_max.max(1)));
    loop {
        let Some(batch) = next_batch(&shared).await else { return };
        let turn = turns.clone().acquire_owned().await.expect("never closed");
        let number = batch.number;
        let shared = shared.clone();
        tokio::spawn(async move {
            // A panic drops the batch with its receipts, and fails no other.
            let delivered = AssertUnwindSafe(delivery::deliver(&shared, batch, turn)).catch_unwind().await;
            if delivered.is_err() {
                tracing::error!("a batch caused a panic: its messages fail");
            }
            shared.inner.lock().under_way.remove(&number);
            shared.delivered.notify_waiters();
            shared.changed.notify_one();
        });
    }
}

/// The next batch to deliver; `None` after the last.
async fn next_batch(shared: &PublisherState) -> Option<Batch> {
    let mut measures = 0;
    loop {
        let is_closed = shared.is_closed.load(Ordering::Relaxed);
        let pause = {
            let mut inner = shared.inner.lock();
            let now = Instant::now();
            let is_alone = inner.under_way.is_empty();
            if inner.full.is_empty() && !inner.open.is_empty() {
                let has_grown = std::mem::replace(&mut measures, inner.open.len()) != inner.open.len();
                let is_over = now - inner.open.begun >= shared.limits.batch_timeout;
                if is_closed || is_over || is_alone && !has_grown {
                    inner.close_batch(now);
                }
            }
            if let Some(batch) = inner.full.pop_front() {
                inner.under_way.insert(batch.number);
                return Some(batch);
            }
            if inner.open.is_empty() && is_closed && is_alone {
                return None;
            }
            // While others are in flight, wait for one of them to end, or for the batch's timeout.
            if inner.open.is_empty() {
                None
            } else if is_alone {
                Some(LOOK)
            } else {
                Some(shared.limits.batch_timeout.saturating_sub(now - inner.open.begun))
            }
        };
        match pause {
            None => shared.changed.notified().await,
            Some(pause) => drop(tokio::time::timeout(pause, shared.changed.notified()).await),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
