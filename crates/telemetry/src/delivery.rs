//! Posts measures of named metrics, and creates the resources and the resource type that they need.
//!
//! Measures that cannot be posted because the store does not respond are retried with the next round. The backlog is
//! bounded: the oldest are dropped first. A rejected request is bisected: metrics that the store rejects for good are logged
//! and dropped, so that one bad metric costs no other; after 403 and 500 only if they are rejected again although the store
//! has accepted others meanwhile. Until then they are suspects, which wait behind the others. A store that does not respond
//! is logged at the start, before there are measures, and once more when it responds again.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    ops::Range,
    time::Duration,
};

use gnudi_client::{Client, ClientError, NamedMeasures, ResourceTypeSpec, ResourcesBatch};
use gnudi_model::{Measure, resource_type::GENERIC};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    task::JoinHandle,
};

/// Maximum number of measures in the backlog.
pub const BACKLOG_MEASURES_MAX: usize = 1_000_000;

/// Maximum number of resources known to exist; beyond it all are forgotten, and created again.
const KNOWN_MAX: usize = 100_000;

/// Approximate measures per request.
const REQUEST_MEASURES: usize = 20_000;

/// Suspects in a batch after which, if nothing was stored, no more are tried one by one.
const SUSPECTS_MAX: usize = 16;

/// Batches in a round that are held back as suspects, if nothing was stored.
const BATCHES_HELD_MAX: usize = 4;

/// Timeout for posting the last measures on shutdown.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Rounds queued while one is being posted.
const ROUNDS_MAX: usize = 64;

/// Measures of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricMeasures {
    /// The resource id, as text.
    pub resource: String,
    /// Attributes of the resource if it has to be created.
    pub attributes: BTreeMap<String, String>,
    pub metric: String,
    pub measures: Vec<Measure>,
}

/// How to create resources and metrics.
#[derive(Clone, Debug)]
pub struct DeliveryOptions {
    /// `None`: `generic`, which always exists.
    pub resource_type: Option<ResourceTypeSpec>,
    /// Of new metrics; `None` leaves the choice to the archive policy rules.
    pub archive_policy_name: Option<String>,
}

/// A bounded backlog of measures in front of the store.
#[derive(Debug)]
pub struct MeasureBacklog {
    client: Client,
    options: DeliveryOptions,
    /// Oldest first.
    backlog: VecDeque<MetricMeasures>,
    waiting_measures: usize,
    /// Cache of resources that exist.
    known: HashSet<String>,
    failing: bool,
    /// Metrics that were tried one by one while nothing was stored: the next round goes on after them.
    tried: usize,
}

/// Measures handed over together.
#[derive(Debug)]
struct Round {
    items: Vec<MetricMeasures>,
    /// Notified once they are stored or rejected for good.
    stored: Option<oneshot::Sender<()>>,
}

/// Runs a [`MeasureBacklog`] in its own task, round by round.
#[derive(Debug)]
pub struct Deliverer {
    rounds: mpsc::Sender<Round>,
    task: JoinHandle<()>,
}

impl Deliverer {
    /// Must be called within a Tokio runtime.
    pub fn start(mut delivery: MeasureBacklog) -> Self {
        let (rounds, mut received) = mpsc::channel::<Round>(ROUNDS_MAX);
        let task = tokio::spawn(async move {
            delivery.probe().await;
            let mut to_be_told = Vec::new();
            while let Some(first) = received.recv().await {
                let mut round = Some(first);
                while let Some(Round { items, stored }) = round {
                    to_be_told.extend(stored);
                    for item in items {
                        // Some measures were dropped: no receipt may report its round as stored.
                        if delivery.push(item) > 0 {
                            to_be_told.clear();
                        }
                    }
                    round = received.try_recv().ok();
                }
                delivery.post().await;
                if delivery.backlog.is_empty() {
                    for stored in to_be_told.drain(..) {
                        // The receiver may be gone.
                        let _ = stored.send(());
                    }
                }
            }
        });
        Deliverer { rounds, task }
    }

    /// Queues a round; an empty one retries the backlog, or looks whether a store that failed responds again.
    pub fn send(&self, items: Vec<MetricMeasures>) {
        // A queued round does the same. While a request takes long, empty ones would leave no room for measures.
        let is_queued = self.rounds.capacity() < self.rounds.max_capacity();
        if items.is_empty() && is_queued && !self.rounds.is_closed() {
            return;
        }
        self.try_send(Round { items, stored: None });
    }

    /// Queues a round. The receiver resolves once all of it is stored or rejected for good; it fails if the round, or a
    /// part of the backlog, is dropped.
    pub fn send_with_receipt(&self, items: Vec<MetricMeasures>) -> oneshot::Receiver<()> {
        let (stored, receipt) = oneshot::channel();
        self.try_send(Round { items, stored: Some(stored) });
        receipt
    }

    /// # Panics
    /// The task has ended, which only a panic causes: its callers must not continue without it.
    fn try_send(&self, round: Round) {
        let round = match self.rounds.try_send(round) {
            Ok(()) => return,
            Err(TrySendError::Full(round)) => round,
            Err(TrySendError::Closed(_)) => panic!("the task that posts measures has ended"),
        };
        let dropped = round.items.iter().map(|item| item.measures.len()).sum::<usize>();
        if dropped > 0 {
            tracing::warn!(dropped, "the store is too slow: measures are dropped");
        }
    }

    /// Waits until all rounds were tried, or the timeout.
    pub async fn finish(self) {
        drop(self.rounds);
        match tokio::time::timeout(FINISH_TIMEOUT, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "posting measures ended"),
            Err(_) => tracing::warn!("the store does not answer: the last measures are not stored"),
        }
    }
}

impl MeasureBacklog {
    pub fn new(client: Client, options: DeliveryOptions) -> Self {
        MeasureBacklog {
            client,
            options,
            backlog: VecDeque::new(),
            waiting_measures: 0,
            known: HashSet::new(),
            failing: false,
            tried: 0,
        }
    }

    /// Appends measures of a metric to the backlog. Returns the number of measures dropped for it.
    pub fn push(&mut self, mut item: MetricMeasures) -> usize {
        if item.measures.is_empty() {
            return 0;
        }
        self.waiting_measures += item.measures.len();
        if item.measures.len() <= REQUEST_MEASURES {
            self.backlog.push_back(item);
        } else {
            // The store limits the measures and the bytes of a request, and would refuse the metric for good.
            let measures = std::mem::take(&mut item.measures);
            let part = |part: &[Measure]| MetricMeasures { measures: part.to_vec(), ..item.clone() };
            self.backlog.extend(measures.chunks(REQUEST_MEASURES).map(part));
        }
        let mut dropped = 0;
        while self.waiting_measures > BACKLOG_MEASURES_MAX {
            let Some(oldest) = self.backlog.pop_front() else { break };
            self.waiting_measures -= oldest.measures.len();
            dropped += oldest.measures.len();
        }
        if dropped > 0 {
            tracing::warn!(dropped, "the backlog is full: the oldest measures are dropped");
        }
        dropped
    }

    /// Logs whether the store responds, if that has changed.
    async fn probe(&mut self) {
        match self.client.version().await {
            Err(error) if is_outage(&error) => self.log_failure(&error),
            _ => self.log_recovery("the store responds again"),
        }
    }

    fn log_failure(&mut self, error: &ClientError) {
        if !std::mem::replace(&mut self.failing, true) {
            let backlog = self.waiting_measures;
            tracing::warn!(%error, backlog, "measures cannot be stored; trying again with each flush");
        }
    }

    fn log_recovery(&mut self, message: &str) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("{message}");
        }
    }

    /// Posts the backlog, as far as the store accepts it. Without one, probes a store that failed.
    pub async fn post(&mut self) {
        if self.backlog.is_empty() && self.failing {
            self.probe().await;
        }
        // A measure that the store has accepted in this round.
        let mut accepted = ResourcesBatch::new();
        // Suspects from before that: they may fill requests.
        let mut held = VecDeque::new();
        let mut batches_held = 0;
        let mut failure = None;
        loop {
            if self.backlog.is_empty() && !accepted.is_empty() {
                self.backlog.append(&mut held);
            }
            if self.backlog.is_empty() {
                break;
            }
            let (items, batch) = self.next_batch();
            match self.post_items(items, &batch, &accepted).await {
                Ok(found) => {
                    if !found.is_empty() {
                        accepted = found;
                        failure = None;
                    }
                    if failure.is_none() {
                        self.log_recovery("measures are stored again");
                    }
                }
                Err(error) => {
                    let holds = accepted.is_empty() && is_suspect(&error) && batches_held < BATCHES_HELD_MAX;
                    failure = Some(error);
                    if !holds {
                        break;
                    }
                    batches_held += 1;
                    self.hold(&batch, &mut held);
                }
            }
        }
        // The next round begins with others.
        self.backlog.append(&mut held);
        if let Some(error) = failure {
            self.log_failure(&error);
        }
    }

    /// Posts the oldest items, which are `batch`, and removes them; after an error only those refused for good. Returns as
    /// [`MeasureBacklog::post_batch`].
    async fn post_items(
        &mut self,
        items: usize,
        batch: &ResourcesBatch,
        accepted: &ResourcesBatch,
    ) -> Result<ResourcesBatch, ClientError> {
        let mut refused = HashSet::new();
        let posted = self.post_batch(batch, accepted, &mut refused).await;
        if posted.is_ok() {
            for item in self.backlog.drain(..items) {
                self.waiting_measures -= item.measures.len();
            }
        } else {
            self.remove(items, &refused);
        }
        posted
    }

    /// Moves all measures of the batch's metrics to `held`.
    fn hold(&mut self, batch: &ResourcesBatch, held: &mut VecDeque<MetricMeasures>) {
        let is_held = |item: &MetricMeasures| {
            batch.get(&item.resource).is_some_and(|metrics| metrics.contains_key(&item.metric))
        };
        let (suspects, others): (VecDeque<_>, VecDeque<_>) = self.backlog.drain(..).partition(is_held);
        held.extend(suspects);
        self.backlog = others;
    }

    /// Removes refused metrics from the oldest items: the others are posted again without them.
    fn remove(&mut self, items: usize, refused: &HashSet<(&str, &str)>) {
        let mut later = self.backlog.split_off(items);
        self.backlog.retain(|item| {
            let is_refused = refused.contains(&(item.resource.as_str(), item.metric.as_str()));
            if is_refused {
                self.waiting_measures -= item.measures.len();
            }
            !is_refused
        });
        self.backlog.append(&mut later);
    }

    /// The oldest measures as one request, and their number of backlog items.
    fn next_batch(&self) -> (usize, ResourcesBatch) {
        let mut batch = ResourcesBatch::new();
        let (mut items, mut count) = (0, 0);
        for item in &self.backlog {
            if count > 0 && count + item.measures.len() > REQUEST_MEASURES {
                break;
            }
            let metrics = batch.entry(item.resource.clone()).or_default();
            let named = metrics.entry(item.metric.clone()).or_insert_with(|| NamedMeasures {
                archive_policy_name: self.options.archive_policy_name.clone(),
                measures: Vec::new(),
            });
            named.measures.extend_from_slice(&item.measures);
            items += 1;
            count += item.measures.len();
        }
        (items, batch)
    }

    /// Posts a batch; an error is to be retried. Adds to `refused` the metrics that the store rejects for good. `witness` is
    /// empty, or a measure that the store has accepted before: if it is accepted again, suspects are rejected for good.
    /// Returns such a measure of this batch; empty if all its metrics are rejected.
    async fn post_batch<'a>(
        &mut self,
        batch: &'a ResourcesBatch,
        witness: &'a ResourcesBatch,
        refused: &mut HashSet<(&'a str, &'a str)>,
    ) -> Result<ResourcesBatch, ClientError> {
        let error = match self.try_post(batch).await {
            Ok(()) => return Ok(all_metrics(batch).next().map(one_measure).unwrap_or_default()),
            Err(error) => error,
        };
        if !is_final(&error) && !is_suspect(&error) {
            return Err(error);
        }
        if let Some((resource, name)) = only_metric(batch) {
            if is_final(&error) {
                log_refused(&error, resource, name);
                return Ok(ResourcesBatch::new());
            }
            if witness.is_empty() {
                return Err(error);
            }
        }
        let mut metrics: Vec<_> = all_metrics(batch).collect();
        let all = 0..metrics.len();
        let first = self.tried % metrics.len();
        metrics.rotate_left(first);
        // With each part, whether it is a suspect: a metric that was refused before another one was stored.
        let mut parts: VecDeque<_> = halves(&all).map(|half| (half, false)).into();
        parts.retain(|(part, _)| !part.is_empty());
        if let Some(witness) = all_metrics(witness).next() {
            metrics.push(witness);
            parts.push_front((all.end..all.end + 1, false));
        }
        let mut accepted = None;
        let mut suspects = Vec::<(ClientError, Range<usize>)>::new();
        while let Some((part, is_again)) = parts.pop_front() {
            let (resource, name, _) = metrics[part.start];
            match self.try_post(&batch_of(&metrics[part.clone()])).await {
                Ok(()) => {
                    accepted = Some(part.start);
                    parts.extend(suspects.drain(..).map(|(_, part)| (part, true)));
                }
                Err(error) if part.len() > 1 && (is_final(&error) || is_suspect(&error)) => {
                    let [one, other] = halves(&part);
                    parts.push_front((other, false));
                    parts.push_front((one, false));
                }
                Err(error) if is_final(&error) || is_again && is_suspect(&error) => {
                    log_refused(&error, resource, name);
                    refused.insert((resource, name));
                }
                Err(error) if is_suspect(&error) => suspects.push((error, part)),
                // Part of the batch may be posted twice, which changes nothing.
                Err(error) => return Err(error),
            }
            if accepted.is_none() && suspects.len() >= SUSPECTS_MAX {
                self.tried = first + SUSPECTS_MAX;
                break;
            }
            if parts.is_empty() && !suspects.is_empty() {
                // The store may accept nothing any more: a metric that it has accepted shows it.
                parts.extend(accepted.take().map(|place| (place..place + 1, false)));
            }
        }
        // If nothing is accepted, our own permissions may be wrong, or the store fails.
        match suspects.into_iter().next() {
            Some((error, _)) => Err(error),
            None => Ok(accepted.map(|place| one_measure(metrics[place])).unwrap_or_default()),
        }
    }

    /// Posts a request; if resources are missing, creates them and posts again.
    async fn try_post(&mut self, batch: &ResourcesBatch) -> Result<(), ClientError> {
        self.make_resources(batch).await?;
        let posted = self.client.post_resources_batch(batch).await;
        match posted {
            Err(ClientError::Refused { refused, .. })
                if refused.status == 400 && refused.message.contains("Unknown resources") =>
            {
                self.known.clear();
                self.make_resources(batch).await?;
                self.client.post_resources_batch(batch).await
            }
            posted => posted,
        }
    }

    async fn make_resources(&mut self, batch: &ResourcesBatch) -> Result<(), ClientError> {
        let none = BTreeMap::new();
        for resource in batch.keys() {
            if self.known.contains(resource) {
                continue;
            }
            let resource_type = self.options.resource_type.as_ref().map_or(GENERIC, |spec| &spec.name);
            let item = self.backlog.iter().find(|item| item.resource == *resource);
            let attributes = item.map_or(&none, |item| &item.attributes);
            let mut made = self.client.create_resource(resource_type, resource, attributes).await;
            // Creating types needs an administrator: try it only if the type is missing.
            if let (Some(spec), Err(error)) = (&self.options.resource_type, &made)
                && error.status() == Some(404)
            {
                exists(self.client.create_resource_type(spec).await)?;
                made = self.client.create_resource(resource_type, resource, attributes).await;
            }
            exists(made)?;
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(resource.clone());
        }
        Ok(())
    }
}

/// The metrics of a batch, with their resources and names.
fn all_metrics(batch: &ResourcesBatch) -> impl Iterator<Item = (&str, &str, &NamedMeasures)> {
    batch.iter().flat_map(|(resource, metrics)| {
        metrics.iter().map(move |(name, named)| (resource.as_str(), name.as_str(), named))
    })
}

/// A batch of some metrics.
fn batch_of(metrics: &[(&str, &str, &NamedMeasures)]) -> ResourcesBatch {
    let mut batch = ResourcesBatch::new();
    for &(resource, name, named) in metrics {
        batch.entry(resource.to_owned()).or_default().insert(name.to_owned(), named.clone());
    }
    batch
}

/// A batch of the first measure of a metric.
fn one_measure((resource, name, named): (&str, &str, &NamedMeasures)) -> ResourcesBatch {
    let measures = named.measures.iter().take(1).copied().collect();
    let one = NamedMeasures { archive_policy_name: named.archive_policy_name.clone(), measures };
    ResourcesBatch::from([(resource.to_owned(), BTreeMap::from([(name.to_owned(), one)]))])
}

fn halves(part: &Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [part.start..middle, middle..part.end]
}

/// The resource and the name of a batch's metric, if it has no other.
fn only_metric(batch: &ResourcesBatch) -> Option<(&str, &str)> {
    let mut all = all_metrics(batch).map(|(resource, name, _)| (resource, name));
    all.next().filter(|_| all.next().is_none())
}

/// Without the measures, which may be many.
fn log_refused(error: &ClientError, resource: &str, name: &str) {
    tracing::error!(%error, resource, name, "the store refuses a metric: its measures are dropped");
}

/// Already existing counts as success.
fn exists(created: Result<(), ClientError>) -> Result<(), ClientError> {
    match created {
        Err(error) if error.status() == Some(409) => Ok(()),
        other => other,
    }
}

/// Whether no server responds, or a proxy without one.
fn is_outage(error: &ClientError) -> bool {
    matches!(error, ClientError::NoAnswer { .. }) || error.status().is_some_and(|status| status >= 500)
}

/// Whether a metric or a resource is somebody else's (403) or damaged (500), or the store refuses everything so.
fn is_suspect(error: &ClientError) -> bool {
    matches!(error.status(), Some(403 | 500))
}

/// Whether retrying the same request is pointless. The store never answers measures with 404 or 405, but a proxy without a
/// store does.
fn is_final(error: &ClientError) -> bool {
    let is_passing = |status: u16| matches!(status, 401 | 403 | 404 | 405 | 408 | 429);
    error.status().is_some_and(|status| (400..500).contains(&status) && !is_passing(status))
}

#[cfg(test)]
mod tests;
