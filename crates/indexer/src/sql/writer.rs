//! The writer task.
//!
//! All queued calls become one transaction with one commit, so that many callers share one disk sync: single changes
//! one after the other, then all new resources and metrics in few multi-row statements, then all deletions. Queued
//! calls are concurrent, so any order is valid. Each caller gets its own result, after the commit. A rejected item does
//! not affect others; a database failure fails the whole group, and nothing of it is changed.
//!
//! A call whose caller is gone (its future was dropped, or timed out) is executed all the same.
//!
//! Other processes may write, too: a transaction begins when all others have ended (`Connection::begin`), so that what
//! it has read stays valid until its commit. If a server still aborts it because of another, the whole transaction is
//! retried.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use gnudi_model::{Fault, MetricId, Resource};
use gnudi_sql::{
    CheckpointFailure, Checkpoints, Connection, Connector, Dialect, DiskSpace, Pool, Purpose,
    sqlite::refresh_statistics,
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};
use uuid::Uuid;

use super::{
    damage::Damage,
    failure::Failure,
    feed,
    interner::Texts,
    metric::{self, NewRow},
    resource::{create, create::Draft, delete},
    types,
    types::{TypeCache, Types},
};
use crate::{IndexerError, Result, Touched};

/// Maximum queued calls; further ones wait.
const CALLS_WAITING_MAX: usize = 4096;
/// Attempts to free space for a group that finds none; the pause grows with each.
const ROOMS_MADE_MAX: u32 = 3;
const PAUSE_FOR_ROOM: Duration = Duration::from_millis(200);
/// Maximum calls per transaction.
const CALLS_GROUPED_MAX: usize = 1024;

/// New metrics and resources between two refreshes of the planner's statistics: frequent at first, then ten times
/// rarer, up to the last value.
const ROWS_BETWEEN_STATISTICS: [usize; 3] = [1_000, 10_000, 100_000];

/// Every how many feed rows this process looks for old ones to remove.
const FEED_ROWS_BETWEEN_REMOVALS: u32 = 200;

/// Attempts for a group that a server aborts because of others.
const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt; doubled before each further one.
const PAUSE_BEFORE_ATTEMPT: Duration = Duration::from_millis(10);

/// A rare kind of change: applied on its own, within the group's transaction.
#[async_trait]
pub(super) trait Change: Send + Sync + 'static {
    type Answer: Send + Sync + 'static;

    /// May be called again after the transaction was lost.
    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<Self::Answer>;
}

/// The result, and what other processes must invalidate once the change is committed.
pub(super) type Applied<A> = Result<(A, Touched), Failure>;

type Answers<A> = Vec<Result<A>>;

/// Items that are written together with those of other calls, and the receivers of the results, in order.
#[derive(Debug)]
pub(super) struct Bulk<T, A> {
    items: Vec<T>,
    answer: oneshot::Sender<Answers<A>>,
}

/// Work of one call.
pub(super) enum Work {
    Change(Box<dyn Step>),
    CreateResources(Bulk<Draft, Arc<Resource>>),
    CreateMetrics(Bulk<NewRow, ()>),
    DeleteMetrics(Bulk<MetricId, ()>),
    /// Answers the metrics of each resource.
    DeleteResources(Bulk<Uuid, Vec<MetricId>>),
}

/// The callers' end.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` once it is closed.
    work: Mutex<Option<mpsc::Sender<Work>>>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// The callers' timeout.
    limit: Option<Duration>,
    checkpoint_failure: CheckpointFailure,
    /// Those of the task.
    types: Arc<TypeCache>,
}

impl Writer {
    /// Connects if necessary, and reconnects after a failure.
    pub(super) fn start(connector: Connector, connection: Option<Connection>, mut context: Context) -> Self {
        let (work, waiting) = mpsc::channel(CALLS_WAITING_MAX);
        let limit = connector.limit();
        context.checkpoints = Checkpoints::new(&connector);
        let (checkpoint_failure, types) = (context.checkpoints.failure(), context.types.clone());
        let task = tokio::spawn(write_groups(connector, connection, waiting, context));
        let (work, task) = (Mutex::new(Some(work)), Mutex::new(Some(task)));
        Writer { work, task, limit, checkpoint_failure, types }
    }

    /// See [`super::SqlIndexer::forget_types`].
    pub(super) fn forget_types(&self) {
        self.types.forget();
    }

    pub(super) async fn change<C: Change>(&self, change: C) -> Result<C::Answer> {
        let (answer, answered) = oneshot::channel();
        let step = Pending { change, outcome: None, answer };
        self.ask(Work::Change(Box::new(step)), answered).await?
    }

    /// One result for each item, in order.
    pub(super) async fn bulk<T, A: Clone>(
        &self,
        items: Vec<T>,
        work: fn(Bulk<T, A>) -> Work,
    ) -> Vec<Result<A>> {
        let count = items.len();
        let (answer, answered) = oneshot::channel();
        match self.ask(work(Bulk { items, answer }), answered).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); count],
        }
    }

    /// Queues work and waits for its result.
    async fn ask<A>(&self, work: Work, answered: oneshot::Receiver<A>) -> Result<A> {
        let answer = async {
            let sender = self.work.lock().clone().ok_or_else(stopped)?;
            sender.send(work).await.map_err(|_| stopped())?;
            drop(sender);
            answered.await.map_err(|_| stopped())
        };
        let Some(limit) = self.limit else { return answer.await };
        timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(IndexerError::Unavailable(format!("no answer within {} ms", limit.as_millis())))
        })
    }

    /// The task has ended without being closed, or refuses all changes.
    pub(super) fn fault(&self) -> Option<Fault> {
        if self.work.lock().as_ref().is_some_and(mpsc::Sender::is_closed) {
            return Some(Fault::Ended("the index's writer"));
        }
        self.checkpoint_failure.get().map(|reason| Fault::OutOfOrder(format!("the index: {reason}")))
    }

    /// Executes queued writes and closes the connection.
    pub(super) async fn close(&self) {
        drop(self.work.lock().take());
        let task = self.task.lock().take();
        if let Some(task) = task {
            // A panic of the task has already been reported.
            task.await.ok();
        }
    }
}

fn stopped() -> IndexerError {
    IndexerError::Database("the index's writer has stopped".to_owned())
}

/// A [`Change`] of any kind, with its result between the statements and the commit.
#[async_trait]
pub(super) trait Step: Send {
    /// Fails only if the transaction is lost.
    async fn apply(&mut self, connection: &mut Connection, context: &Context) -> Result<()>;

    /// After a successful `apply`.
    fn touched(&self) -> Touched;

    fn answer(self: Box<Self>, committed: Result<()>);
}

struct Pending<C: Change> {
    change: C,
    outcome: Option<Result<(C::Answer, Touched)>>,
    answer: oneshot::Sender<Result<C::Answer>>,
}

#[async_trait]
impl<C: Change> Step for Pending<C> {
    async fn apply(&mut self, connection: &mut Connection, context: &Context) -> Result<()> {
        self.outcome = Some(match self.change.apply(connection, context).await {
            Ok(applied) => Ok(applied),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Broken(error)) => return Err(error),
        });
        Ok(())
    }

    fn touched(&self) -> Touched {
        match &self.outcome {
            Some(Ok((_, touched))) => touched.clone(),
            _ => Touched::default(),
        }
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let Pending { outcome, answer, .. } = *self;
        let outcome = committed.and_then(|()| outcome.expect("a change was applied before the commit"));
        // The caller may be gone.
        answer.send(outcome.map(|(answer, _)| answer)).ok();
    }
}

/// The work of one transaction.
#[derive(Default)]
struct WriteGroup {
    /// Whether its transaction has begun.
    is_begun: bool,
    changes: Vec<Box<dyn Step>>,
    resources: BulkCalls<Draft, Arc<Resource>>,
    metrics: BulkCalls<NewRow, ()>,
    deleted_metrics: BulkCalls<MetricId, ()>,
    deleted_resources: BulkCalls<Uuid, Vec<MetricId>>,
}

/// The items of several calls.
struct BulkCalls<T, A> {
    items: Vec<T>,
    /// For each call, its number of items, and the receiver of the results.
    calls: Vec<(usize, oneshot::Sender<Answers<A>>)>,
}

impl<T, A> Default for BulkCalls<T, A> {
    fn default() -> Self {
        BulkCalls { items: Vec::new(), calls: Vec::new() }
    }
}

impl<T, A: Clone> BulkCalls<T, A> {
    fn gather(&mut self, bulk: Bulk<T, A>) {
        let Bulk { mut items, answer } = bulk;
        self.calls.push((items.len(), answer));
        self.items.append(&mut items);
    }

    fn answer(self, outcomes: Result<Answers<A>>) {
        let mut outcomes = outcomes.map(Vec::into_iter);
        for (count, answer) in self.calls {
            let answers = match &mut outcomes {
                Ok(outcomes) => outcomes.take(count).collect(),
                Err(error) => vec![Err(error.clone()); count],
            };
            answer.send(answers).ok();
        }
    }
}

impl WriteGroup {
    fn take(work: &mut Vec<Work>) -> Self {
        let mut group = WriteGroup::default();
        for work in work.drain(..) {
            match work {
                Work::Change(step) => group.changes.push(step),
                Work::CreateResources(bulk) => group.resources.gather(bulk),
                Work::CreateMetrics(bulk) => group.metrics.gather(bulk),
                Work::DeleteMetrics(bulk) => group.deleted_metrics.gather(bulk),
                Work::DeleteResources(bulk) => group.deleted_resources.gather(bulk),
            }
        }
        group
    }

    /// Approximate number of changes.
    fn changes(&self) -> usize {
        self.changes.len()
            + self.resources.items.len()
            + self.metrics.items.len()
            + self.deleted_metrics.items.len()
            + self.deleted_resources.items.len()
    }

    async fn run(&mut self, connection: &mut Connection, context: &Context) -> Result<Outcomes> {
        let bounds = self.bounds_of_resources(connection);
        self.is_begun = false;
        if !bounds.begins {
            begin(connection).await?;
        }
        self.is_begun = true;
        for change in &mut self.changes {
            change.apply(connection, context).await?;
        }
        let created = create::insert(connection, context, &mut self.resources.items, bounds).await?;
        let outcomes = Outcomes {
            resources: created.outcomes,
            metrics: metric::insert(connection, &self.metrics.items).await?,
            deleted_metrics: metric::mark_deleted(connection, &self.deleted_metrics.items).await?,
            deleted_resources: delete::delete(connection, context, &self.deleted_resources.items).await?,
        };
        if connection.dialect().is_server() {
            let touched = self.touched(&outcomes);
            record_touched(connection, context, &touched).await?;
        }
        if !created.committed {
            connection.run("COMMIT").await?;
        }
        Ok(outcomes)
    }

    /// What other processes must invalidate.
    fn touched(&self, outcomes: &Outcomes) -> Touched {
        let mut touched = Touched::default();
        for change in &self.changes {
            touched.merge(change.touched());
        }
        let attached = self.resources.items.iter().flat_map(Draft::attached);
        touched = touched.with_metrics_of_any_resource(attached);
        let created = self.metrics.items.iter().zip(&outcomes.metrics).filter(|(_, outcome)| outcome.is_ok());
        touched = touched.with_created(created.clone().map(|(row, _)| row.metric.id));
        touched = touched.with_resources(created.filter_map(|(row, _)| row.metric.resource_id));
        for (draft, _) in
            self.resources.items.iter().zip(&outcomes.resources).filter(|(_, outcome)| outcome.is_ok())
        {
            touched = touched.with_created(draft.created().map(|metric| metric.id));
        }
        let deleted = self.deleted_metrics.items.iter().zip(&outcomes.deleted_metrics);
        touched = touched
            .with_metrics_of_any_resource(deleted.filter(|(_, outcome)| outcome.is_ok()).map(|(id, _)| *id));
        for (id, outcome) in self.deleted_resources.items.iter().zip(&outcomes.deleted_resources) {
            if let Ok(metrics) = outcome {
                touched = touched.with_resources([*id]).with_metrics(metrics.iter().copied());
            }
        }
        touched
    }

    /// Whether the creation of resources begins or ends the transaction, since each trip to `SQLite`'s thread costs
    /// time.
    fn bounds_of_resources(&self, connection: &Connection) -> create::Bounds {
        let creates = !self.resources.items.is_empty() && !connection.dialect().is_server();
        let others = [
            self.metrics.items.is_empty(),
            self.deleted_metrics.items.is_empty(),
            self.deleted_resources.items.is_empty(),
        ];
        create::Bounds { begins: creates && self.changes.is_empty(), ends: creates && others == [true; 3] }
    }

    fn answer(self, outcomes: Result<Outcomes>) {
        let committed = outcomes.as_ref().map(|_| ()).map_err(Clone::clone);
        for change in self.changes {
            change.answer(committed.clone());
        }
        let Outcomes { resources, metrics, deleted_metrics, deleted_resources } =
            outcomes.unwrap_or_default();
        self.resources.answer(committed.clone().map(|()| resources));
        self.metrics.answer(committed.clone().map(|()| metrics));
        self.deleted_metrics.answer(committed.clone().map(|()| deleted_metrics));
        self.deleted_resources.answer(committed.map(|()| deleted_resources));
    }
}

/// Records what other processes must invalidate.
async fn record_touched(
    connection: &mut Connection,
    context: &Context,
    touched: &Touched,
) -> Result<(), gnudi_sql::Error> {
    if touched.is_nothing() {
        return Ok(());
    }
    feed::append(connection, touched).await?;
    if context.told.fetch_add(1, Ordering::Relaxed).is_multiple_of(FEED_ROWS_BETWEEN_REMOVALS) {
        feed::prune(connection).await?;
    }
    Ok(())
}

#[derive(Default)]
struct Outcomes {
    resources: Answers<Arc<Resource>>,
    metrics: Answers<()>,
    deleted_metrics: Answers<()>,
    deleted_resources: Answers<Vec<MetricId>>,
}

/// The writer's state across groups.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) texts: Arc<Texts>,
    pub(super) damage: Arc<Damage>,
    types: Arc<TypeCache>,
    /// Number of feed rows written.
    told: AtomicU32,
    checkpoints: Checkpoints,
    /// Those of this process.
    readers: Arc<Pool>,
    space: Option<Arc<dyn DiskSpace>>,
}

impl Context {
    pub(super) fn new(
        texts: Arc<Texts>,
        damage: Arc<Damage>,
        readers: Arc<Pool>,
        space: Option<Arc<dyn DiskSpace>>,
    ) -> Self {
        let (types, checkpoints) = (Arc::default(), Checkpoints::default());
        Context { texts, damage, types, told: AtomicU32::new(0), checkpoints, readers, space }
    }

    /// The types as seen by this transaction.
    pub(super) async fn types(&self, connection: &mut Connection) -> Result<Arc<Types>> {
        let version = types::version(&mut *connection).await?;
        self.types_at(connection, version).await
    }

    /// As [`Context::types`], if their version is already known.
    pub(super) async fn types_at(&self, connection: &mut Connection, version: i64) -> Result<Arc<Types>> {
        if let Some(types) = self.types.at(version) {
            return Ok(types);
        }
        let types = types::load(connection).await?;
        self.types.keep(&types);
        Ok(types)
    }

    /// After a write that found no space: frees some, and checkpoints `SQLite`'s log, which then need not grow.
    async fn make_room(&mut self, connector: &Connector, connection: &mut Option<Connection>) {
        if let Some(space) = &self.space {
            space.make_room();
        }
        match connect(connector, connection).await {
            Ok(open) => self.checkpoints.now(open).await,
            Err(error) => {
                tracing::warn!(%error, "the index's write-ahead log could not be checkpointed to free space");
            }
        }
    }

    /// After a transaction: checkpoints `SQLite`'s log if it is due, or space is short.
    async fn fold(&mut self, connection: &mut Connection, changes: usize) {
        if self.space.as_ref().is_some_and(|space| space.is_short()) {
            self.checkpoints.now(connection).await;
        } else {
            self.checkpoints.after(connection, changes).await;
        }
    }
}

async fn write_groups(
    connector: Connector,
    mut connection: Option<Connection>,
    mut waiting: mpsc::Receiver<Work>,
    mut context: Context,
) {
    let mut work = Vec::new();
    let mut created = 0;
    let mut between = ROWS_BETWEEN_STATISTICS.into_iter().peekable();
    while waiting.recv_many(&mut work, CALLS_GROUPED_MAX).await > 0 {
        let mut group = WriteGroup::take(&mut work);
        let changes = group.changes();
        let outcomes = execute(&connector, &mut connection, &mut group, &mut context).await;
        if let Ok(outcomes) = &outcomes {
            created += outcomes.metrics.len() + outcomes.resources.len();
        }
        group.answer(outcomes);
        // Callers that got their results may call again immediately: let them, instead of starting a small group.
        tokio::task::yield_now().await;
        if let Some(open) = &mut connection {
            context.fold(open, changes).await;
        }
        if created >= *between.peek().expect("the last stays")
            && let Some(open) = &mut connection
        {
            created = 0;
            between.next_if(|rows| *rows < ROWS_BETWEEN_STATISTICS[2]);
            refresh_statistics(open).await;
        }
    }
    if let Some(connection) = connection {
        context.checkpoints.finish(connection).await;
    }
}

/// Executes a group; retries after conflicts, or if the connection was already broken.
async fn execute(
    connector: &Connector,
    connection: &mut Option<Connection>,
    group: &mut WriteGroup,
    context: &mut Context,
) -> Result<Outcomes> {
    context.checkpoints.check().map_err(IndexerError::Database)?;
    let start = Instant::now();
    let (mut pause, mut rooms_made) = (PAUSE_BEFORE_ATTEMPT, 0);
    for attempt in 1.. {
        let is_new = connection.is_none();
        let outcomes = match connect(connector, connection).await {
            Ok(open) => group.run(open, context).await,
            Err(error) => Err(error),
        };
        let Err(error) = &outcomes else { return outcomes };
        if connection.as_ref().is_some_and(Connection::is_lost) {
            context.readers.forget_connections();
        }
        abandon(connection, group, context).await;
        if matches!(error, IndexerError::NoSpace(_)) && rooms_made < ROOMS_MADE_MAX {
            // Freed space may take a moment to become available.
            sleep(PAUSE_FOR_ROOM * rooms_made).await;
            context.make_room(connector, connection).await;
            rooms_made += 1;
            continue;
        }
        let may_pass = match error {
            IndexerError::Contended(_) => true,
            IndexerError::Unavailable(_) => !is_new && !group.is_begun,
            _ => false,
        };
        // Callers have already waited too long for a retry.
        let has_time = connector.limit().is_some_and(|limit| start.elapsed() < limit / 2);
        if !may_pass || !has_time || attempt == ATTEMPTS_MAX {
            tracing::error!(%error, "a group of index writes failed");
            return outcomes;
        }
        tracing::debug!(%error, attempt, "a group of index writes is tried again");
        sleep(pause).await;
        pause *= 2;
    }
    unreachable!("the last attempt returns")
}

/// The connection; reconnects after a failure.
async fn connect<'a>(
    connector: &Connector,
    connection: &'a mut Option<Connection>,
) -> Result<&'a mut Connection> {
    let open = match connection.take() {
        Some(open) => open,
        None => connector.connect(Purpose::Write).await?,
    };
    Ok(connection.insert(open))
}

/// Rolls back the transaction; drops the connection if that fails. Types that it has changed may be others at the same
/// version next time.
async fn abandon(connection: &mut Option<Connection>, group: &mut WriteGroup, context: &Context) {
    context.types.forget();
    group.resources.items.iter_mut().for_each(Draft::forget_types);
    let Some(mut open) = connection.take() else { return };
    if open.is_lost() {
        return;
    }
    // SQLite ends the transaction itself on some errors, and then rejects the ROLLBACK: reconnect then, too.
    if open.run("ROLLBACK").await.is_ok() {
        *connection = Some(open);
    } else {
        open.close().await;
    }
}

/// Begins a write transaction: one at a time over all processes.
async fn begin(connection: &mut Connection) -> Result<(), gnudi_sql::Error> {
    let begin = match connection.dialect() {
        Dialect::Sqlite => "BEGIN IMMEDIATE",
        // "gnudi" in bytes, and a number.
        Dialect::Postgres => "BEGIN; SELECT pg_advisory_xact_lock(113724113578241)",
        Dialect::Mysql => "START TRANSACTION; SELECT id FROM cluster FOR UPDATE",
    };
    connection.run(begin).await
}

#[cfg(test)]
mod tests;
