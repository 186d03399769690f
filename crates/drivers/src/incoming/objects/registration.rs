//! The generation of the log in this store, and the handling of a store that does not hold the followed log.
//!
//! Each generation has an object that names it. If that is missing or another's, or the log ends before its
//! known progress, the store was emptied or replaced: the next generation begins (`incoming::registry`). An
//! older copy is read as far as it goes; the numbers from its end to the first one of the new generation are
//! a hole that all processes skip.
//!
//! A running process cannot continue: others may have begun the next generation, and would never see what it
//! writes. It checks from time to time; if it finds another log instead of its own, it accepts no more
//! measures, and reports a fault that ends it.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use gnudi_model::SackCount;
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    LogState,
    mark::Mark,
    names,
    object::{HEAD_BYTES, check_version, last_position, number_of, seal, unseal},
    unavailable,
};
use crate::{
    incoming::{
        IncomingError, Position, Result,
        registry::{self, LogRegistry, RegisteredLog},
    },
    objects::{ObjectError, Objects},
};

const KIND: u64 = 0x4e45_474c;
/// How many numbers are reserved at once.
const RESERVED_AT_ONCE: u64 = 1 << 16;
/// How many checks in a row must find something missing: a single response may be wrong.
const MISSES_MAX: u32 = 2;

/// The generation that this process follows.
pub struct Registration {
    registry: Arc<dyn LogRegistry>,
    log: Mutex<RegisteredLog>,
    /// Why it is no longer followed.
    replaced: OnceLock<String>,
}

/// The contents of a generation's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    identity: Uuid,
    first: Position,
}

impl Named {
    async fn read(objects: &dyn Objects, generation: u64) -> Result<Option<Self>> {
        let name = names::generation(generation);
        let Some(bytes) = objects.get(&name).await.map_err(unavailable)? else { return Ok(None) };
        let damaged = || IncomingError::Io(format!("the object {name} is damaged"));
        let (version, payload) = unseal(KIND, &bytes).ok_or_else(damaged)?;
        check_version(&name, version)?;
        let (identity, first) = payload.split_first_chunk::<16>().ok_or_else(damaged)?;
        let first = Position(u64::from_le_bytes(first.try_into().map_err(|_| damaged())?));
        Ok(Some(Named { identity: Uuid::from_bytes(*identity), first }))
    }

    async fn create(self, objects: &dyn Objects, generation: u64) -> Result<()> {
        let mut payload = self.identity.as_bytes().to_vec();
        payload.extend_from_slice(&self.first.0.to_le_bytes());
        match objects.create(&names::generation(generation), seal(KIND, &payload)).await {
            Ok(()) | Err(ObjectError::Exists(_)) => Ok(()),
            Err(error) => Err(unavailable(error)),
        }
    }
}

impl Registration {
    /// Finds the followed generation; begins the first one, or the next if the store does not hold the
    /// followed one. `is_new`: the store was empty.
    pub async fn find(
        objects: &dyn Objects,
        registry: Arc<dyn LogRegistry>,
        is_new: bool,
        sacks: SackCount,
    ) -> Result<Self> {
        loop {
            let Some(log) = registry.newest_log().await? else {
                let first = if is_new { whole(registry::above_clock()) } else { Position(0) };
                let log = RegisteredLog::beginning(Uuid::new_v4(), objects.place(), sacks, first);
                registry.register_log(&log).await?;
                continue;
            };
            // A registry restored from a backup may lack it.
            if let Some(next) = Named::read(objects, log.generation + 1).await? {
                let log = RegisteredLog {
                    first: next.first,
                    floor: next.first.max(log.floor),
                    ..log.successor(next.identity, objects.place())
                };
                registry.register_log(&log).await?;
                continue;
            }
            match Named::read(objects, log.generation).await? {
                Some(named) if named.identity == log.identity => {
                    return Ok(Self { registry, log: Mutex::new(log), replaced: OnceLock::new() });
                }
                // Its creation was interrupted.
                None if log.floor == log.first && log.place == objects.place() => {
                    Named { identity: log.identity, first: log.first }
                        .create(objects, log.generation)
                        .await?;
                }
                found => {
                    let found = found.map_or_else(
                        || if is_new { "no log" } else { "a log without its name" }.to_owned(),
                        |named| format!("another log ({})", named.identity),
                    );
                    succeed(objects, &*registry, &log, &found).await?;
                }
            }
        }
    }

    pub fn log(&self) -> RegisteredLog {
        self.log.lock().clone()
    }

    /// The number of the generation's first object.
    pub fn first_number(&self) -> u64 {
        number_of(self.log.lock().first) + 1
    }

    /// Why it is no longer followed, if so.
    pub fn replaced(&self) -> Option<&str> {
        self.replaced.get().map(String::as_str)
    }

    /// Must be called before object `number` is created: raises the floor if needed.
    pub async fn reserve(&self, number: u64) -> Result<()> {
        if last_position(number) <= self.log.lock().floor {
            return Ok(());
        }
        self.raise(Position(0), last_position(number + RESERVED_AT_ONCE)).await
    }

    /// Records that the log has reached this number, and raises the floor ahead of it.
    pub async fn reach(&self, number: u64) -> Result<()> {
        let ahead = last_position(number + RESERVED_AT_ONCE / 2) > self.log.lock().floor;
        let floor = if ahead { last_position(number + RESERVED_AT_ONCE) } else { Position(0) };
        self.raise(last_position(number), floor).await
    }

    /// Records a new sack count.
    pub async fn double(&self, sacks: SackCount) -> Result<()> {
        self.log.lock().sacks = sacks;
        self.raise(Position(0), Position(0)).await
    }

    async fn raise(&self, reached: Position, floor: Position) -> Result<()> {
        let log = self.log();
        if !self.registry.raise_log(&RegisteredLog { floor, reached, ..log.clone() }).await? {
            return Err(self.give_up(format!("another log has replaced log {log}")));
        }
        let mut log = self.log.lock();
        log.reached = log.reached.max(reached);
        log.floor = log.floor.max(floor);
        Ok(())
    }

    /// Ends following the log; returns the error for callers.
    fn give_up(&self, reason: String) -> IncomingError {
        IncomingError::Poisoned(self.replaced.get_or_init(|| reason).clone())
    }
}

/// Rounds up to the last position of an object: a new log begins with a new object.
fn whole(position: Position) -> Position {
    last_position(number_of(position) + 1)
}

/// Begins the next generation, since `found` was found instead of the log.
async fn succeed(
    objects: &dyn Objects,
    registry: &dyn LogRegistry,
    log: &RegisteredLog,
    found: &str,
) -> Result<()> {
    let mut next = log.successor(Uuid::new_v4(), objects.place());
    next.first = whole(next.first);
    next.floor = next.first;
    registry::succeed(registry, log, &next, found).await
}

impl LogState {
    /// Called once the log was read to its end. If that is before the known progress, the store holds an
    /// older copy: begins the next generation, and returns true.
    pub async fn check_end(&self) -> Result<bool> {
        let Some(registration) = &self.registration else { return Ok(false) };
        let end = self.view.lock().next() - 1;
        let log = registration.log();
        if log.reached <= last_position(end) {
            registration.reach(end).await?;
            return Ok(false);
        }
        let found = format!("an older copy, which ends at position {},", last_position(end).0);
        succeed(&*self.objects, &*registration.registry, &log, &found).await?;
        let (registry, sacks) = (Arc::clone(&registration.registry), self.view.lock().numbering().count);
        let next = Registration::find(&*self.objects, registry, false, sacks).await?;
        *registration.log.lock() = next.log();
        self.view.lock().begin_at(registration.first_number());
        Ok(true)
    }

    /// Must be called before object `number` is created. If the log ends at a number that was reached before, it is an older
    /// copy, whose end was not known at the start, because it has a gap: the next generation begins, and the call fails.
    pub async fn reserve(&self, number: u64) -> Result<()> {
        let Some(registration) = &self.registration else { return Ok(()) };
        if let Some(reason) = registration.replaced() {
            return Err(IncomingError::Poisoned(reason.to_owned()));
        }
        let reached = registration.log.lock().reached;
        if last_position(number) <= reached {
            // Its end is unknown while an outage interrupts the reading.
            self.catch_up(Instant::now()).await?;
            let _tail = self.tail.lock().await;
            if self.check_end().await? {
                return Err(IncomingError::Unavailable("the next log begins".to_owned()));
            }
        }
        registration.reserve(number).await
    }

    /// Checks that the store still holds the followed log.
    pub async fn check_identity(&self, looks: &mut IdentityLooks) -> Result<()> {
        let Some(registration) = &self.registration else { return Ok(()) };
        if registration.replaced().is_some()
            || looks.last.is_some_and(|last| last.elapsed() < self.options.identity_delay)
        {
            return Ok(());
        }
        looks.last = Some(Instant::now());
        let log = registration.log();
        let what = match self.fault_of(&log, looks.anchor).await? {
            None => {
                looks.misses = 0;
                looks.anchor = self.view.lock().newest_kept();
                return Ok(());
            }
            Some(Mismatch::Another(what)) => {
                let _tail = self.tail.lock().await;
                // This process may have begun that log itself meanwhile.
                if registration.log().generation != log.generation {
                    return Ok(());
                }
                what
            }
            Some(Mismatch::Missing(what)) => {
                looks.misses += 1;
                if looks.misses < MISSES_MAX {
                    return Ok(());
                }
                what.to_owned()
            }
        };
        let backlog = self.view.lock().backlog();
        let reason = format!("{}: found {what} instead of log {log}", self.objects.place());
        tracing::error!(
            measures = backlog.measures,
            "{reason}: pending measures there may be lost; nothing is accepted until this process restarts"
        );
        registration.give_up(reason);
        Ok(())
    }

    /// What the store holds instead of the log, if so; `anchor` was its newest object.
    async fn fault_of(&self, log: &RegisteredLog, anchor: Option<u64>) -> Result<Option<Mismatch>> {
        let objects = &*self.objects;
        if let Some(next) = Named::read(objects, log.generation + 1).await? {
            return Ok(Some(Mismatch::Another(format!("the next log ({})", next.identity))));
        }
        match Named::read(objects, log.generation).await? {
            Some(named) if named.identity == log.identity => {}
            Some(named) => return Ok(Some(Mismatch::Another(format!("another log ({})", named.identity)))),
            None => return Ok(Some(Mismatch::Missing("nothing"))),
        }
        // Check that known objects exist.
        let mut tail = self.tail.lock().await;
        tail.mark = tail.mark.newest(objects).await?;
        let anchor = {
            let mut view = self.view.lock();
            view.forget(&tail.mark);
            anchor.filter(|anchor| *anchor > view.trimmed())
        };
        let is_there = match anchor {
            Some(number) => objects
                .get_range(&names::log(number), 0, HEAD_BYTES as u64)
                .await
                .map_err(unavailable)?
                .is_some(),
            None => tail.mark.version == 0 || Mark::read(objects, tail.mark.version).await?.is_some(),
        };
        if is_there || tail.mark.newest(objects).await?.version > tail.mark.version {
            return Ok(None);
        }
        Ok(Some(Mismatch::Missing("an older copy")))
    }
}

/// What was found instead of a log.
enum Mismatch {
    /// Definite.
    Another(String),
    /// A read found nothing; may be temporary.
    Missing(&'static str),
}

/// The last check, and the number of consecutive misses.
#[derive(Default)]
pub struct IdentityLooks {
    last: Option<Instant>,
    misses: u32,
    /// The newest object at the last check. If it is missing, the log was replaced, even if others write on
    /// over an older copy.
    anchor: Option<u64>,
}

/// Interval of identity checks.
pub const IDENTITY_DELAY: Duration = Duration::from_secs(2);
