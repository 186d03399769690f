//! Which generation of the log this store holds, and what becomes of a log that is not the one that was followed.
//!
//! Each generation has an object that names it. Where it is missing or another's, or the log ends before what it had come to, the
//! store was emptied, replaced by an older copy, or is another one: the next generation begins (`incoming::registry`). What an older
//! copy holds is read as far as it goes, and the numbers from there to the first one of the new generation are a hole that
//! everybody passes over.
//!
//! A process that runs cannot go on: others may have begun the next generation, and would never see what it writes. It looks from
//! time to time, and when it finds another log in place of its own, it takes no more measures, and reports a fault that ends it.

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
    object::{HEAD_BYTES, last_position, number_of, seal, unseal},
    unavailable,
};
use crate::{
    incoming::{
        IncomingError, Position,
        registry::{self, LogRegistry, RegisteredLog},
    },
    objects::{ObjectError, Objects},
};

const KIND: u64 = 0x4e45_474c;
/// So many numbers are reserved at once.
const RESERVED_AT_ONCE: u64 = 1 << 16;
/// In so many looks in a row something must be missing: one answer may be wrong.
const MISSES_MAX: u32 = 2;

/// The generation that this process follows.
pub struct Registration {
    registry: Arc<dyn LogRegistry>,
    log: Mutex<RegisteredLog>,
    /// Why it cannot be followed any more.
    replaced: OnceLock<String>,
}

/// What the object of a generation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    identity: Uuid,
    first: Position,
}

impl Named {
    async fn read(objects: &dyn Objects, generation: u64) -> Result<Option<Self>, IncomingError> {
        let name = names::generation(generation);
        let Some(bytes) = objects.get(&name).await.map_err(unavailable)? else { return Ok(None) };
        let payload = unseal(KIND, &bytes).and_then(|(_, payload)| payload.split_first_chunk::<16>());
        let named = payload.and_then(|(identity, first)| {
            let first = Position(u64::from_le_bytes(first.try_into().ok()?));
            Some(Named { identity: Uuid::from_bytes(*identity), first })
        });
        named.map(Some).ok_or_else(|| IncomingError::Io(format!("the object {name} is damaged")))
    }

    async fn create(self, objects: &dyn Objects, generation: u64) -> Result<(), IncomingError> {
        let mut payload = self.identity.as_bytes().to_vec();
        payload.extend_from_slice(&self.first.0.to_le_bytes());
        match objects.create(&names::generation(generation), seal(KIND, &payload)).await {
            Ok(()) | Err(ObjectError::Exists(_)) => Ok(()),
            Err(error) => Err(unavailable(error)),
        }
    }
}

impl Registration {
    /// Finds which generation is followed; begins the first, or the next where the store does not hold that one. `is_new`: the
    /// store was empty.
    pub async fn find(
        objects: &dyn Objects,
        registry: Arc<dyn LogRegistry>,
        is_new: bool,
        sacks: SackCount,
    ) -> Result<Self, IncomingError> {
        loop {
            let newest = registry.newest_log().await.map_err(|error| registry::unavailable(&error))?;
            let Some(log) = newest else {
                let first = if is_new { whole(registry::above_clock()) } else { Position(0) };
                let identity = Uuid::new_v4();
                let (place, reached) = (objects.place(), Position(0));
                let log =
                    RegisteredLog { generation: 1, identity, place, sacks, first, floor: first, reached };
                register(&*registry, &log).await?;
                continue;
            };
            // A registry that was restored from a backup may not know of it.
            if let Some(next) = Named::read(objects, log.generation + 1).await? {
                let log = RegisteredLog {
                    first: next.first,
                    floor: next.first.max(log.floor),
                    ..log.successor(next.identity, objects.place())
                };
                register(&*registry, &log).await?;
                continue;
            }
            match Named::read(objects, log.generation).await? {
                Some(named) if named.identity == log.identity => {
                    return Ok(Self { registry, log: Mutex::new(log), replaced: OnceLock::new() });
                }
                // It was begun a moment ago.
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

    /// The number of the first object of the generation.
    pub fn first_number(&self) -> u64 {
        number_of(self.log.lock().first) + 1
    }

    /// Why it cannot be followed any more, if so.
    pub fn replaced(&self) -> Option<&str> {
        self.replaced.get().map(String::as_str)
    }

    /// Before an object of the number is created: raises the floor if it lies below.
    pub async fn reserve(&self, number: u64) -> Result<(), IncomingError> {
        if last_position(number) <= self.log.lock().floor {
            return Ok(());
        }
        self.raise(Position(0), last_position(number + RESERVED_AT_ONCE)).await
    }

    /// The log has come to this number: remembered, and the floor raised in time.
    pub async fn reach(&self, number: u64) -> Result<(), IncomingError> {
        let ahead = last_position(number + RESERVED_AT_ONCE / 2) > self.log.lock().floor;
        let floor = if ahead { last_position(number + RESERVED_AT_ONCE) } else { Position(0) };
        self.raise(last_position(number), floor).await
    }

    /// There are so many sacks now.
    pub async fn double(&self, sacks: SackCount) -> Result<(), IncomingError> {
        self.log.lock().sacks = sacks;
        self.raise(Position(0), Position(0)).await
    }

    async fn raise(&self, reached: Position, floor: Position) -> Result<(), IncomingError> {
        let log = self.log();
        let raised = self.registry.raise_log(log.generation, reached, floor, log.sacks).await;
        if !raised.map_err(|error| registry::unavailable(&error))? {
            return Err(self.give_up(format!("another log has taken the place of log {log}")));
        }
        let mut log = self.log.lock();
        log.reached = log.reached.max(reached);
        log.floor = log.floor.max(floor);
        Ok(())
    }

    /// Ends following the log; returns what whoever asks is told.
    fn give_up(&self, reason: String) -> IncomingError {
        IncomingError::Poisoned(self.replaced.get_or_init(|| reason).clone())
    }
}

/// A log that begins anew takes whole objects' numbers.
fn whole(position: Position) -> Position {
    last_position(number_of(position) + 1)
}

async fn register(registry: &dyn LogRegistry, log: &RegisteredLog) -> Result<(), IncomingError> {
    registry.register_log(log).await.map_err(|error| registry::unavailable(&error))
}

/// Begins the next generation, since `found` lies in place of the log.
async fn succeed(
    objects: &dyn Objects,
    registry: &dyn LogRegistry,
    log: &RegisteredLog,
    found: &str,
) -> Result<(), IncomingError> {
    let mut next = log.successor(Uuid::new_v4(), objects.place());
    next.first = whole(next.first);
    next.floor = next.first;
    registry::succeed(registry, log, &next, found).await
}

impl LogState {
    /// After the log was read to its end: where that lies before what it had come to, the store holds an older copy, and the next
    /// generation begins. Returns whether it did.
    pub async fn check_end(&self) -> Result<bool, IncomingError> {
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

    /// Before an object of the number is created.
    pub async fn reserve(&self, number: u64) -> Result<(), IncomingError> {
        match &self.registration {
            None => Ok(()),
            Some(registration) => match registration.replaced() {
                Some(reason) => Err(IncomingError::Poisoned(reason.to_owned())),
                None => registration.reserve(number).await,
            },
        }
    }

    /// Looks whether the store still holds the log that this process follows.
    pub async fn check_identity(&self, looks: &mut IdentityLooks) -> Result<(), IncomingError> {
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
            Some(Lies::Another(what)) => what,
            Some(Lies::Nothing(what)) => {
                looks.misses += 1;
                if looks.misses < MISSES_MAX {
                    return Ok(());
                }
                what.to_owned()
            }
        };
        let backlog = self.view.lock().backlog();
        let reason = format!("{}: {what} lies in place of log {log}", self.objects.place());
        tracing::error!(
            measures = backlog.measures,
            "{reason}: measures that wait there may be lost; nothing is accepted until this process is started anew"
        );
        registration.give_up(reason);
        Ok(())
    }

    /// What lies in place of the log; `anchor` was its newest object.
    async fn fault_of(
        &self,
        log: &RegisteredLog,
        anchor: Option<u64>,
    ) -> Result<Option<Lies>, IncomingError> {
        let objects = &*self.objects;
        if let Some(next) = Named::read(objects, log.generation + 1).await? {
            return Ok(Some(Lies::Another(format!("the next log ({})", next.identity))));
        }
        match Named::read(objects, log.generation).await? {
            Some(named) if named.identity == log.identity => {}
            Some(named) => return Ok(Some(Lies::Another(format!("another log ({})", named.identity)))),
            None => return Ok(Some(Lies::Nothing("nothing"))),
        }
        // What is known to be there is there.
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
        Ok(Some(Lies::Nothing("an older copy")))
    }
}

/// What lies in place of a log.
enum Lies {
    /// That will not change.
    Another(String),
    /// The store did not name it this time.
    Nothing(&'static str),
}

/// When the identity was looked at, and how often in a row it was not there.
#[derive(Default)]
pub struct IdentityLooks {
    last: Option<Instant>,
    misses: u32,
    /// The newest object at the last look: whoever writes on over an older copy does not hide that this one is gone.
    anchor: Option<u64>,
}

/// How often the identity is looked at.
pub const IDENTITY_DELAY: Duration = Duration::from_secs(2);
