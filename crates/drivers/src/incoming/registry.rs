//! Which log of measures the aggregates follow, where processes share the stores.
//!
//! A head ignores records at positions that it has applied. So a log that was lost, replaced by an older copy of itself or by another
//! store must not begin again below them: new records would be taken for old ones, acknowledged and dropped. Each log has an
//! identity, kept beside it; the index's database remembers which one is followed and how far its positions may have come. The logs
//! that followed each other are numbered: each is a generation.
//!
//! 1. The newest generation that is registered is the one that all processes follow; the first to register a number decides.
//! 2. No position is used in a generation above its floor: the floor is raised before.
//! 3. Positions of a generation begin above the floors of those before it.
//!
//! A log of objects reserves numbers before it uses them. Positions in Redis follow its clock, or the last one; the floor is kept a day
//! above both.
//!
//! What a driver finds in place of its log, and what it does then, is the driver's (`objects::registration`, `redis::registration`). The
//! embedded store has one process and files of its own (`log::followed`).

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use gnudi_model::SackCount;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{IncomingError, Position};
use crate::coordination::CoordinationError;

/// So far above the clock a log begins where nothing tells how far the one before it came: positions in Redis follow its clock, and
/// are some hours ahead of it after failovers.
pub(super) const AHEAD_OF_CLOCK: Duration = Duration::from_hours(24);

/// A log, as it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredLog {
    /// From 1 on.
    pub generation: u64,
    pub identity: Uuid,
    /// The store, for messages.
    pub place: String,
    /// How many sacks the next log begins with, if this one is lost.
    pub sacks: SackCount,
    /// Positions begin above this one.
    pub first: Position,
    /// No position above this one was used.
    pub floor: Position,
    /// The newest position that is known to be used; lags behind by seconds.
    pub reached: Position,
}

impl RegisteredLog {
    /// The log that takes this one's place, beginning above all of its positions and above the clock.
    #[must_use]
    pub fn successor(&self, identity: Uuid, place: String) -> Self {
        let first = self.floor.max(self.reached).max(above_clock());
        Self {
            generation: self.generation + 1,
            identity,
            place,
            sacks: self.sacks,
            first,
            floor: first,
            reached: Position(0),
        }
    }
}

/// Its number, identity and place.
impl fmt::Display for RegisteredLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}, {})", self.generation, self.identity, self.place)
    }
}

/// Begins the next log, since `found` lies in place of `log`; says so.
pub(super) async fn succeed(
    registry: &dyn LogRegistry,
    log: &RegisteredLog,
    next: &RegisteredLog,
    found: &str,
) -> Result<(), IncomingError> {
    tracing::error!(
        "{}: {found} lies in place of the log that the aggregates follow, {log}: measures that were accepted there and not yet processed are lost; log {next} begins, above position {}",
        next.place,
        next.first.0
    );
    registry.register_log(next).await.map_err(|error| unavailable(&error))
}

/// A position in microseconds that is above those of every clock.
pub(super) fn above_clock() -> Position {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Position((since_epoch + AHEAD_OF_CLOCK).as_micros() as u64)
}

/// What the registry did not answer.
pub(super) fn unavailable(error: &CoordinationError) -> IncomingError {
    IncomingError::Unavailable(format!("which log is followed is not known: {error}"))
}

/// Where it is kept. One for a cluster.
#[async_trait]
pub trait LogRegistry: Send + Sync + 'static {
    /// The log that is followed; `None` before the first one.
    async fn newest_log(&self) -> Result<Option<RegisteredLog>, CoordinationError>;

    /// Registers a log, unless one of its generation is registered. Durable; the newest log tells who was first.
    async fn register_log(&self, log: &RegisteredLog) -> Result<(), CoordinationError>;

    /// Raises what is remembered of a log: each of the figures never goes down. Durable. Returns whether it is still the one that is
    /// followed; nothing is changed otherwise.
    async fn raise_log(
        &self,
        generation: u64,
        reached: Position,
        floor: Position,
        sacks: SackCount,
    ) -> Result<bool, CoordinationError>;
}

/// In memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryLogRegistry(Mutex<Vec<RegisteredLog>>);

impl MemoryLogRegistry {
    /// All logs so far, oldest first.
    pub fn logs(&self) -> Vec<RegisteredLog> {
        self.0.lock().clone()
    }

    /// Puts back what [`MemoryLogRegistry::logs`] was, as who restores an older backup of the index.
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

    async fn raise_log(
        &self,
        generation: u64,
        reached: Position,
        floor: Position,
        sacks: SackCount,
    ) -> Result<bool, CoordinationError> {
        let mut logs = self.0.lock();
        let Some(log) = logs.last_mut().filter(|log| log.generation == generation) else { return Ok(false) };
        log.reached = log.reached.max(reached);
        log.floor = log.floor.max(floor);
        log.sacks = log.sacks.max(sacks);
        Ok(true)
    }
}
