//! The one task that writes.
//!
//! Whatever waits when it is free becomes one transaction with one commit, so that many callers share one sync of the
//! disk: single changes one after the other, then all new metrics with few multi-row statements, then all deletions.
//! Calls that wait together are concurrent, hence any order among them is right. Each caller gets its own answer, after
//! the commit. An item that is refused leaves its neighbours alone; trouble with the database fails the whole group,
//! and nothing of it was changed.
//!
//! A call that nobody waits for any more (its future was dropped) is carried out all the same.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Metric, MetricId};
use parking_lot::Mutex;
use sqlx::{ConnectOptions, Connection as _, Executor, sqlite::SqliteConnectOptions};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    Connection,
    failure::{Failure, indexer_error},
    metric, refresh_statistics,
};
use crate::IndexerError;

/// How many calls may wait; further ones wait for a place.
const CALLS_WAITING_MAX: usize = 4096;
/// How many calls share a transaction at most.
const CALLS_GROUPED_MAX: usize = 1024;

/// After how many new metrics the planner's statistics are refreshed.
const METRICS_BETWEEN_STATISTICS: usize = 100_000;

/// A change of something of which there is little: applied on its own, within the group's transaction.
#[async_trait]
pub(super) trait Change: Send + 'static {
    type Answer: Send + 'static;

    async fn apply(self, connection: &mut Connection) -> Result<Self::Answer, Failure>;
}

/// Items that are written together with those of other calls, and where the answers go, in order.
#[derive(Debug)]
pub(super) struct Bulk<T> {
    items: Vec<T>,
    answer: oneshot::Sender<Vec<Result<(), IndexerError>>>,
}

enum Work {
    Change(Box<dyn Step>),
    CreateMetrics(Bulk<Arc<Metric>>),
    DeleteMetrics(Bulk<MetricId>),
}

/// The writer's end for callers.
#[derive(Debug)]
pub(super) struct Writer {
    work: mpsc::Sender<Work>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// `options` serve to connect anew after trouble.
    pub(super) fn start(options: SqliteConnectOptions, connection: Connection) -> Self {
        let (work, waiting) = mpsc::channel(CALLS_WAITING_MAX);
        let task = tokio::spawn(write_groups(options, connection, waiting));
        Writer { work, task: Mutex::new(Some(task)) }
    }

    pub(super) async fn change<C: Change>(&self, change: C) -> Result<C::Answer, IndexerError> {
        let (answer, answered) = oneshot::channel();
        let step = Pending { change: Some(change), outcome: None, answer };
        self.work.send(Work::Change(Box::new(step))).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    pub(super) async fn create_metrics(&self, metrics: Vec<Arc<Metric>>) -> Vec<Result<(), IndexerError>> {
        self.bulk(metrics, Work::CreateMetrics).await
    }

    pub(super) async fn delete_metrics(&self, ids: Vec<MetricId>) -> Vec<Result<(), IndexerError>> {
        self.bulk(ids, Work::DeleteMetrics).await
    }

    async fn bulk<T>(&self, items: Vec<T>, work: fn(Bulk<T>) -> Work) -> Vec<Result<(), IndexerError>> {
        let count = items.len();
        let (answer, answered) = oneshot::channel();
        if self.work.send(work(Bulk { items, answer })).await.is_err() {
            return vec![Err(stopped()); count];
        }
        answered.await.unwrap_or_else(|_| vec![Err(stopped()); count])
    }

    /// Carries out what waits and closes the connection.
    pub(super) async fn close(self) {
        drop(self.work);
        let task = self.task.into_inner();
        if let Some(task) = task {
            // A panic of the task has been reported where it happened.
            task.await.ok();
        }
    }
}

fn stopped() -> IndexerError {
    IndexerError::Database("the index's writer has stopped".to_owned())
}

/// A [`Change`] of any kind, with its answer between the statements and the commit.
#[async_trait]
trait Step: Send {
    /// Fails only where the transaction is lost.
    async fn apply(&mut self, connection: &mut Connection) -> Result<(), IndexerError>;

    fn answer(self: Box<Self>, committed: Result<(), IndexerError>);
}

struct Pending<C: Change> {
    change: Option<C>,
    outcome: Option<Result<C::Answer, IndexerError>>,
    answer: oneshot::Sender<Result<C::Answer, IndexerError>>,
}

#[async_trait]
impl<C: Change> Step for Pending<C> {
    async fn apply(&mut self, connection: &mut Connection) -> Result<(), IndexerError> {
        let change = self.change.take().expect("a change is applied once");
        self.outcome = Some(match change.apply(connection).await {
            Ok(answer) => Ok(answer),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Broken(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), IndexerError>) {
        let Pending { outcome, answer, .. } = *self;
        let outcome = committed.and_then(|()| outcome.expect("a change was applied before the commit"));
        // The caller may have gone.
        answer.send(outcome).ok();
    }
}

/// What one transaction carries out.
#[derive(Default)]
struct Group {
    changes: Vec<Box<dyn Step>>,
    created: Vec<Arc<Metric>>,
    created_calls: Calls,
    deleted: Vec<MetricId>,
    deleted_calls: Calls,
}

/// For each call how many items are its own, and where their answers go.
type Calls = Vec<(usize, oneshot::Sender<Vec<Result<(), IndexerError>>>)>;

impl Group {
    fn take(work: &mut Vec<Work>) -> Self {
        let mut group = Group::default();
        for work in work.drain(..) {
            match work {
                Work::Change(step) => group.changes.push(step),
                Work::CreateMetrics(Bulk { mut items, answer }) => {
                    group.created_calls.push((items.len(), answer));
                    group.created.append(&mut items);
                }
                Work::DeleteMetrics(Bulk { mut items, answer }) => {
                    group.deleted_calls.push((items.len(), answer));
                    group.deleted.append(&mut items);
                }
            }
        }
        group
    }

    async fn run(&mut self, connection: &mut Connection) -> Result<Outcomes, IndexerError> {
        let lost = |error: sqlx::Error| indexer_error(&error);
        connection.execute("BEGIN IMMEDIATE").await.map_err(lost)?;
        for change in &mut self.changes {
            change.apply(connection).await?;
        }
        let created = metric::insert(connection, &self.created).await.map_err(lost)?;
        let deleted = metric::mark_deleted(connection, &self.deleted).await.map_err(lost)?;
        connection.execute("COMMIT").await.map_err(lost)?;
        Ok(Outcomes { created, deleted })
    }

    fn answer(self, outcomes: Result<Outcomes, IndexerError>) {
        let committed = outcomes.as_ref().map(|_| ()).map_err(Clone::clone);
        for change in self.changes {
            change.answer(committed.clone());
        }
        let (created, deleted) = match outcomes {
            Ok(outcomes) => (outcomes.created, outcomes.deleted),
            Err(error) => {
                (vec![Err(error.clone()); self.created.len()], vec![Err(error); self.deleted.len()])
            }
        };
        for (outcomes, calls) in [(created, self.created_calls), (deleted, self.deleted_calls)] {
            let mut outcomes = outcomes.into_iter();
            for (count, answer) in calls {
                answer.send(outcomes.by_ref().take(count).collect()).ok();
            }
        }
    }
}

struct Outcomes {
    created: Vec<Result<(), IndexerError>>,
    deleted: Vec<Result<(), IndexerError>>,
}

async fn write_groups(
    options: SqliteConnectOptions,
    connection: Connection,
    mut waiting: mpsc::Receiver<Work>,
) {
    let mut connection = Some(connection);
    let mut work = Vec::new();
    let mut created = 0;
    while waiting.recv_many(&mut work, CALLS_GROUPED_MAX).await > 0 {
        let mut group = Group::take(&mut work);
        let outcomes = match connect(&options, &mut connection).await {
            Ok(open) => group.run(open).await,
            Err(error) => Err(error),
        };
        created += group.created.len();
        if let Err(error) = &outcomes {
            tracing::error!(%error, "a group of index writes failed");
            abandon(&mut connection).await;
        }
        group.answer(outcomes);
        // Whoever was answered may come again at once: let them, instead of starting with the few that are there.
        tokio::task::yield_now().await;
        if created >= METRICS_BETWEEN_STATISTICS
            && let Some(open) = &mut connection
        {
            created = 0;
            refresh_statistics(open).await;
        }
    }
    if let Some(connection) = connection {
        connection.close().await.ok();
    }
}

/// The connection, made anew where trouble has cost the last one.
async fn connect<'a>(
    options: &SqliteConnectOptions,
    connection: &'a mut Option<Connection>,
) -> Result<&'a mut Connection, IndexerError> {
    let open = match connection.take() {
        Some(open) => open,
        None => options.connect().await.map_err(|error| indexer_error(&error))?,
    };
    Ok(connection.insert(open))
}

/// Ends the transaction; a connection that can't even do that is dropped.
async fn abandon(connection: &mut Option<Connection>) {
    let Some(mut open) = connection.take() else { return };
    // SQLite ends the transaction itself on some errors, and then refuses the ROLLBACK: also a reason to start afresh.
    if open.execute("ROLLBACK").await.is_ok() {
        *connection = Some(open);
    } else {
        open.close().await.ok();
    }
}
