//! Acknowledgements: each process with workers stores the sacks' progress in an object of its own.
//!
//! Progress is never undone, so all objects are merged by maximum, and reading an old one is
//! harmless. A process rewrites its object whenever it has something new, with one write at a time: later
//! changes go into the next write. Objects of processes that are gone are taken over by another process and
//! deleted.

use std::{
    collections::BTreeMap,
    num::NonZeroU16,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use gnudi_model::{Sack, SackCount, SackId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::{
    LogState,
    listing::{Listed, Listing},
    names,
    object::{check_version, last_position, seal, unseal},
    unavailable,
    view::Progress,
};
use crate::{
    incoming::{Position, Result},
    segments::frame::u64_at,
};

const KIND: u64 = 0x4b43_4120;
/// An object is rewritten after this time at least, which shows that its process is alive, and corrects a
/// delayed old write.
const REWRITTEN_EVERY: Duration = Duration::from_mins(5);
/// An object that was not rewritten for this time is taken over: each start of a process with workers leaves one, and all
/// processes read them. By a clock that is wrong one of a process that lives may be taken over, too. It is written again,
/// and what others learn late only costs repeated work.
const GONE_AFTER: Duration = Duration::from_hours(1);
/// How long a call waits for a new list of processes if it has an older one. A listing that takes longer is slow.
const LISTING_WAIT: Duration = Duration::from_secs(2);
/// A slow listing is repeated after this many times its duration, but at most after `LISTED_REST_MAX`.
const LISTING_SHARE: u32 = 10;
const LISTED_REST_MAX: Duration = Duration::from_mins(5);
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Acknowledgements {
    own: Mutex<Own>,
    changed: Notify,
    /// The newest generation written.
    written: watch::Sender<u64>,
    others: tokio::sync::Mutex<Others>,
    looked: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Own {
    sacks: BTreeMap<Sack, Progress>,
    generation: u64,
}

#[derive(Default)]
struct Others {
    /// When the last listing began.
    listed: Option<Instant>,
    /// How long the listing is used at least, whatever age a call allows. Zero unless the listing was slow.
    rest: Duration,
    processes: Vec<Uuid>,
    /// Those of them that are gone, and their progress, as of the last poll.
    gone: Vec<(Uuid, Vec<(Sack, Progress)>)>,
    /// The listing under way.
    listing: Option<Listing>,
}

impl Others {
    fn is_listed(&self, since: Instant, list_age_max: Duration) -> bool {
        self.listed.is_some_and(|listed| listed + list_age_max.max(self.rest) >= since)
    }
}

/// The contents of a process's object.
struct Statement {
    written_at_s: u64,
    sacks: Vec<(Sack, Progress)>,
}

impl Acknowledgements {
    /// Adds progress, to be written soon.
    pub fn add(&self, progress: impl IntoIterator<Item = (Sack, Progress)>) {
        let mut own = self.own.lock();
        let mut is_new = false;
        for (sack, progress) in progress {
            let known = own.sacks.entry(sack).or_default();
            is_new |= known.max(progress) != *known;
            *known = known.max(progress);
        }
        if is_new {
            own.generation += 1;
            drop(own);
            self.changed.notify_one();
        }
    }

    /// Waits until all progress added so far is written.
    pub async fn flush(&self) {
        let generation = self.own.lock().generation;
        let written = self.written.subscribe().wait_for(|written| *written >= generation).await.is_ok();
        assert!(written, "the sender lives as long as this");
    }

    /// The object's contents at a time (Unix, s), without progress below the mark: there everything is done.
    fn statement(&self, trimmed: Position, written_at_s: u64) -> (u64, Option<Bytes>) {
        let mut own = self.own.lock();
        own.sacks.retain(|_, progress| progress.acknowledged > trimmed);
        let mut payload = written_at_s.to_le_bytes().to_vec();
        for (sack, progress) in &own.sacks {
            payload.extend_from_slice(&sack.count.get().to_le_bytes());
            payload.extend_from_slice(&sack.id.0.to_le_bytes());
            payload.extend_from_slice(&progress.acknowledged.0.to_le_bytes());
            payload.extend_from_slice(&progress.trimmed.0.to_le_bytes());
        }
        (own.generation, (own.generation > 0).then(|| seal(KIND, &payload)))
    }
}

/// `None` if it is damaged.
fn decode(name: &str, bytes: &[u8]) -> Result<Option<Statement>> {
    let Some((version, payload)) = unseal(KIND, bytes) else { return Ok(None) };
    // What it means must not be guessed: measures that seem to be acknowledged are never folded.
    check_version(name, version)?;
    let Some((written_at_s, entries)) = payload.split_first_chunk::<8>() else { return Ok(None) };
    let sack = |entry: &[u8; 20]| {
        let count = NonZeroU16::new(u16::from_le_bytes([entry[0], entry[1]])).map(SackCount)?;
        let sack = Sack { count, id: SackId(u16::from_le_bytes([entry[2], entry[3]])) };
        let (acknowledged, trimmed) = (Position(u64_at(entry, 4)), Position(u64_at(entry, 12)));
        Some((sack, Progress { acknowledged, trimmed }))
    };
    let sacks = entries.as_chunks::<20>().0.iter().filter_map(sack).collect();
    Ok(Some(Statement { written_at_s: u64::from_le_bytes(*written_at_s), sacks }))
}

/// Seconds since 1970.
fn now_s() -> u64 {
    Timestamp::from(SystemTime::now()).secs().cast_unsigned()
}

/// Writes this process's object until the process ends.
pub async fn run(shared: Arc<LogState>) {
    let acknowledgements = &shared.acknowledgements;
    let mut delay = RETRY_DELAY_MIN;
    loop {
        let trimmed = last_position(shared.view.lock().trimmed());
        let (generation, statement) = acknowledgements.statement(trimmed, now_s());
        let is_written = *acknowledgements.written.borrow() >= generation;
        if let Some(statement) = statement {
            let name = names::acknowledged(shared.process);
            let put = async { shared.objects.put(&name, statement).await.map_err(unavailable) };
            match shared.within(put).await {
                Ok(()) => {
                    acknowledgements.written.send_replace(generation);
                    delay = RETRY_DELAY_MIN;
                }
                Err(error) => {
                    if delay == RETRY_DELAY_MIN {
                        tracing::warn!(%error, "acknowledgements cannot be written; retrying");
                    }
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                    // The failed write may still take effect, after the next one: so write again.
                    acknowledgements.own.lock().generation += 1;
                    continue;
                }
            }
        } else if !is_written {
            acknowledgements.written.send_replace(generation);
        }
        if acknowledgements.own.lock().generation == generation {
            // Whichever comes first.
            let _ = tokio::time::timeout(REWRITTEN_EVERY, acknowledgements.changed.notified()).await;
        }
    }
}

impl LogState {
    /// Reads the other processes' acknowledgements as of `since`. May miss those of processes that started
    /// within `list_age_max`, or earlier where a listing is slow.
    pub async fn poll_acknowledgements(&self, since: Instant, list_age_max: Duration) -> Result<()> {
        let mut guard = self.acknowledgements.others.lock().await;
        let others = &mut *guard;
        let is_listed = others.is_listed(since, list_age_max);
        if is_listed && self.acknowledgements.looked.lock().is_some_and(|looked| looked >= since) {
            return Ok(());
        }
        let started = Instant::now();
        self.list_others(others, since, list_age_max).await?;
        let read = async |process| self.objects.get(&names::acknowledged(process)).await.map_err(unavailable);
        let statements = try_join_all(others.processes.iter().map(|process| read(*process))).await?;
        others.gone.clear();
        let now_s = now_s();
        let mut view = self.view.lock();
        for (process, bytes) in others.processes.iter().zip(statements) {
            let Some(bytes) = bytes else { continue };
            let name = names::acknowledged(*process);
            let Some(statement) = decode(&name, &bytes)? else {
                self.report_small(&name);
                continue;
            };
            for (sack, progress) in &statement.sacks {
                view.progress(*sack, *progress);
            }
            if now_s.abs_diff(statement.written_at_s) > GONE_AFTER.as_secs() {
                others.gone.push((*process, statement.sacks));
            }
        }
        drop(view);
        *self.acknowledgements.looked.lock() = Some(started);
        Ok(())
    }

    /// Lists the other processes. If that takes long it goes on, and the processes known so far are used: progress that
    /// is learned late only costs repeated work.
    async fn list_others(&self, others: &mut Others, since: Instant, list_age_max: Duration) -> Result<()> {
        while !others.is_listed(since, list_age_max) {
            let half = self.options.timeout / 2;
            let wait = if others.listed.is_some() { LISTING_WAIT.min(half) } else { half };
            let under_way =
                others.listing.get_or_insert_with(|| Listing::begin(&self.objects, names::ACKNOWLEDGED));
            let Some(Listed { began, took, names }) = under_way.ended(wait).await else { return Ok(()) };
            others.listing = None;
            let names = names.map_err(unavailable)?;
            others.processes = names.iter().filter_map(|name| names::acknowledging_process(name)).collect();
            others.processes.retain(|process| *process != self.process);
            others.listed = Some(began);
            let rest = if took > LISTING_WAIT { took * LISTING_SHARE } else { Duration::ZERO };
            others.rest = rest.min(LISTED_REST_MAX);
        }
        Ok(())
    }

    /// Takes over the progress stored by processes that are gone.
    pub async fn take_over(&self) -> Result<()> {
        let gone = std::mem::take(&mut self.acknowledgements.others.lock().await.gone);
        if gone.is_empty() {
            return Ok(());
        }
        self.acknowledgements.add(gone.iter().flat_map(|(_, sacks)| sacks.iter().copied()));
        self.acknowledgements.flush().await;
        let names: Vec<String> = gone.iter().map(|(process, _)| names::acknowledged(*process)).collect();
        self.objects.delete(&names).await.map_err(unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        incoming::objects::{ObjectIncoming, ObjectIncomingOptions},
        objects::{Objects as _, memory::MemoryObjects},
    };

    /// By a clock that is wrong, too.
    #[tokio::test]
    async fn what_processes_that_are_gone_have_left_is_taken_over() {
        let (objects, now_s) = (MemoryObjects::default(), now_s());
        let sack = Sack { count: SackCount::DEFAULT, id: SackId(3) };
        let progress = |number: u64| Progress { acknowledged: Position(number << 16), ..Progress::default() };
        let [gone, alive, of_wrong_clock, own] = [1, 2, 3, 4].map(Uuid::from_u128);
        let written = [(gone, now_s - 3700, 5), (alive, now_s - 300, 9), (of_wrong_clock, now_s + 3700, 7)];
        for (process, at_s, number) in written {
            let acknowledgements = Acknowledgements::default();
            acknowledgements.add([(sack, progress(number))]);
            let (_, statement) = acknowledgements.statement(Position(0), at_s);
            objects.put(&names::acknowledged(process), statement.unwrap()).await.unwrap();
        }
        let options = ObjectIncomingOptions::default();
        let store = Arc::new(objects.clone());
        let log = ObjectIncoming::open(store, None, Uuid::nil(), own, options).await.unwrap();
        log.shared.take_over().await.unwrap();
        let left = objects.list(names::ACKNOWLEDGED).await.unwrap();
        assert_eq!(left, [alive, own].map(names::acknowledged));
        let name = names::acknowledged(own);
        let bytes = objects.get(&name).await.unwrap().unwrap();
        assert_eq!(decode(&name, &bytes).unwrap().unwrap().sacks, [(sack, progress(7))]);
    }
}
