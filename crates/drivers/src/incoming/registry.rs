//! Registry of the log of measures that the aggregates follow, for shared stores.
//!
//! A head ignores records at positions that it has applied. So if a log was lost, or replaced by an older
//! copy or another store, the new log must not begin below those positions: its records would be taken for
//! old ones, acknowledged and dropped. Each log has an identity, stored beside it; the index's database
//! records which log is followed and an upper bound of its positions. Successive logs are numbered: each is a
//! generation.
//!
//! 1. All processes follow the newest registered generation; the first to register a number wins.
//! 2. No position is used in a generation above its floor: the floor is raised before.
//! 3. Positions of a generation begin above the floors of those before it.
//!
//! A log of objects reserves numbers before it uses them. Positions in Redis follow its clock, or the last
//! one; the floor is kept a day above both.
//!
//! Each driver checks for itself which log it finds, and what to do then (`objects::registration`,
//! `redis::registration`). The embedded store has a single process and files of its own (`log::followed`).

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use gnudi_model::SackCount;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{IncomingError, Position, Result};
use crate::coordination::CoordinationError;

/// Where a log begins above the clock if its predecessor's positions are unknown: positions in Redis follow
/// its clock, and are some hours ahead of it after failovers.
pub(super) const AHEAD_OF_CLOCK: Duration = Duration::from_hours(24);

/// A registered log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredLog {
    /// Counts from 1.
    pub generation: u64,
    pub identity: Uuid,
    /// The store, for messages.
    pub place: String,
    /// The sack count of the next log, should this one be lost; in Redis, during a split, that from before it.
    pub sacks: SackCount,
    /// Positions begin above this one.
    pub first: Position,
    /// No position above this one was used.
    pub floor: Position,
    /// The newest position known to be used; lags by seconds.
    pub reached: Position,
}

impl RegisteredLog {
    /// The first log; begins above `first`.
    pub(super) fn beginning(identity: Uuid, place: String, sacks: SackCount, first: Position) -> Self {
        Self { generation: 1, identity, place, sacks, first, floor: first, reached: Position(0) }
    }

    /// The log that replaces this one; begins above all its positions and above the clock.
    #[must_use]
    pub fn successor(&self, identity: Uuid, place: String) -> Self {
        let first = self.floor.max(self.reached).max(above_clock());
        Self { generation: self.generation + 1, ..Self::beginning(identity, place, self.sacks, first) }
    }
}

/// Its number, identity and place.
impl fmt::Display for RegisteredLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}, {})", self.generation, self.identity, self.place)
    }
}

/// The sack count of a new log: that of its predecessor.
pub(super) async fn sacks(registry: &dyn LogRegistry, configured: SackCount) -> Result<SackCount> {
    Ok(registry.newest_log().await?.map_or(configured, |log| log.sacks))
}

/// Registers and logs that `next` replaces `log`, since `found` was found instead of it.
pub(super) async fn succeed(
    registry: &dyn LogRegistry,
    log: &RegisteredLog,
    next: &RegisteredLog,
    found: &str,
) -> Result<()> {
    tracing::error!(
        "{}: found {found} instead of the log that the aggregates follow, {log}: measures that were accepted there and not yet processed are lost; log {next} begins, above position {}",
        next.place,
        next.first.0
    );
    Ok(registry.register_log(next).await?)
}

/// A position in microseconds above all clocks' positions.
pub(super) fn above_clock() -> Position {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Position((since_epoch + AHEAD_OF_CLOCK).as_micros() as u64)
}

/// The registry does not respond.
impl From<CoordinationError> for IncomingError {
    fn from(error: CoordinationError) -> Self {
        IncomingError::Unavailable(format!("the followed log is unknown: {error}"))
    }
}

/// The registry, one per cluster.
#[async_trait]
pub trait LogRegistry: Send + Sync + 'static {
    /// The log to follow; `None` before the first one.
    async fn newest_log(&self) -> Result<Option<RegisteredLog>, CoordinationError>;

    /// Registers a log durably, unless its generation is registered already; [`LogRegistry::newest_log`] then
    /// returns the winner.
    async fn register_log(&self, log: &RegisteredLog) -> Result<(), CoordinationError>;

    /// Durably raises the figures of a log's generation to these (`reached`, `floor`, `sacks`); none ever
    /// decreases. Returns whether the generation is still the followed one; otherwise changes nothing.
    async fn raise_log(&self, log: &RegisteredLog) -> Result<bool, CoordinationError>;
}

/// In memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryLogRegistry(Mutex<Vec<RegisteredLog>>);

impl MemoryLogRegistry {
    /// All logs so far, oldest first.
    pub fn logs(&self) -> Vec<RegisteredLog> {
        self.0.lock().clone()
    }

    /// Restores an earlier result of [`MemoryLogRegistry::logs`], as restoring an older backup of the index
    /// does.
    pub fn restore(&self, logs: Vec<RegisteredLog>) {
        *self.0.lock() = logs;
    }
}

#[async_trait]
impl LogRegistry for MemoryLogRegistry {
    async fn newest_log(&self) -> Result<Option<RegisteredLog>, CoordinationError> {
        Ok(self.0.lock().last().cloned())
    }

    async fn register_log(&self, log: &RegisteredLog) -> Result<(), CoordinationError> {
        let mut logs = self.0.lock();
        if logs.iter().all(|other| other.generation != log.generation) {
            logs.push(log.clone());
            logs.sort_by_key(|log| log.generation);
        }
        Ok(())
    }

    async fn raise_log(&self, log: &RegisteredLog) -> Result<bool, CoordinationError> {
        let mut logs = self.0.lock();
        let Some(newest) = logs.last_mut().filter(|newest| newest.generation == log.generation) else {
            return Ok(false);
        };
        newest.reached = newest.reached.max(log.reached);
        newest.floor = newest.floor.max(log.floor);
        newest.sacks = newest.sacks.max(log.sacks);
        Ok(true)
    }
}
