//! A process's state of the log: waiting records and progress by sack, and the numbering.
//!
//! It is derived from the objects, in order, and from the acknowledgements. `bodies` caches the records'
//! bytes; nothing here blocks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use gnudi_model::{Numbering, Sack, SackCount};
use uuid::Uuid;

use super::{
    bodies::Bodies,
    mark::Mark,
    object::{Head, LogObjectKind, Object, ObjectExtent, last_position, number_of},
};
use crate::{
    incoming::{Backlog, Position, Positions, log::entries::decode},
    segments::frame::ITEM_HEADER_BYTES,
};

/// How many of the newest objects, and of what age, are used to detect other writers.
const RECENT_WRITERS_MAX: usize = 16;
const RECENT_WRITERS_AGE_MAX: Duration = Duration::from_secs(1);

/// A waiting part of a batch, for one sack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingExtent {
    pub position: Position,
    pub measures: u32,
    /// Its share of the backlog.
    pub bytes: u32,
    /// Of the payload, in the object.
    pub offset: u32,
    pub length: u32,
}

impl PendingExtent {
    pub fn number(&self) -> u64 {
        number_of(self.position)
    }
}

/// A sack's progress, as a process states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub acknowledged: Position,
    /// Up to here the aggregates are durable.
    pub trimmed: Position,
}

impl Progress {
    pub fn max(self, other: Progress) -> Progress {
        Progress {
            acknowledged: self.acknowledged.max(other.acknowledged),
            trimmed: self.trimmed.max(other.trimmed),
        }
    }
}

/// Waiting records and progress of a sack.
#[derive(Default)]
struct SackState {
    waiting: VecDeque<PendingExtent>,
    /// The newest record in each object, as far as it is not trimmed.
    untrimmed: VecDeque<Position>,
    progress: Progress,
    newest: Position,
    /// The newest part that was given up.
    lost: Position,
}

impl SackState {
    fn arrive(&mut self, position: Position) {
        self.newest = position;
        if position > self.progress.trimmed {
            self.untrimmed.pop_back_if(|last| number_of(*last) == number_of(position));
            self.untrimmed.push_back(position);
        }
    }

    fn forget_trimmed(&mut self) {
        while self.untrimmed.pop_front_if(|position| *position <= self.progress.trimmed).is_some() {}
        if self.untrimmed.is_empty() && self.untrimmed.capacity() > WAITING_KEPT_MAX {
            self.untrimmed = VecDeque::new();
        }
    }
}

/// An object that is not trimmed.
struct Applied {
    /// When this process read it.
    seen: Instant,
    head: Option<Head>,
    bytes: usize,
    /// Number of its parts that wait.
    waiting: u32,
    /// The numbering behind this object.
    numbering: Numbering,
}

pub struct View {
    me: Uuid,
    /// The number of the first object not read yet.
    next: u64,
    /// An object with this number is known to exist.
    at_least: u64,
    /// Where the log's generation begins: missing numbers before it are no gap.
    begins_at: u64,
    /// All objects up to here are trimmed.
    trimmed: u64,
    /// Objects up to here may have been trimmed before this process read them.
    skipped: u64,
    numbering: Numbering,
    /// The numbering at the mark.
    base: Numbering,
    sacks: HashMap<Sack, SackState>,
    objects: BTreeMap<u64, Applied>,
    backlog: Backlog,
    /// Bytes queued for the log.
    queued_bytes: u64,
    unnamed: BTreeSet<Sack>,
    /// The highest sequence of this process's objects in the log.
    own: u64,
    /// Writers of the newest objects.
    writers: VecDeque<(Uuid, Instant)>,
    pub bodies: Bodies,
}

impl View {
    pub fn new(me: Uuid, mark: &Mark, bodies: Bodies) -> Self {
        Self {
            me,
            next: mark.through + 1,
            at_least: 0,
            begins_at: 1,
            trimmed: mark.through,
            skipped: 0,
            numbering: mark.numbering,
            base: mark.numbering,
            sacks: HashMap::new(),
            objects: BTreeMap::new(),
            backlog: Backlog::default(),
            queued_bytes: 0,
            unnamed: BTreeSet::new(),
            own: 0,
            writers: VecDeque::new(),
            bodies,
        }
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records that an object with this number, or a later one, exists.
    pub fn expect(&mut self, number: u64) {
        self.at_least = self.at_least.max(number);
    }

    /// Sets the first number of the log's generation.
    pub fn begin_at(&mut self, number: u64) {
        self.begins_at = number;
    }

    /// Skips the hole before the log's generation; returns whether there was one ahead.
    pub fn pass_hole(&mut self) -> bool {
        let is_ahead = self.next < self.begins_at;
        self.next = self.next.max(self.begins_at);
        is_ahead
    }

    /// Whether the next number is certainly taken, though its object is not read yet.
    pub fn is_behind(&self) -> bool {
        self.next <= self.at_least || self.next < self.begins_at
    }

    /// The newest object that is not trimmed.
    pub fn newest_kept(&self) -> Option<u64> {
        self.objects.last_key_value().map(|(number, _)| *number)
    }

    /// The numbers of known objects up to `number`.
    pub fn kept_through(&self, number: u64) -> Vec<u64> {
        self.objects.range(..=number).map(|(number, _)| *number).collect()
    }

    pub fn trimmed(&self) -> u64 {
        self.trimmed
    }

    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    pub fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// Whether these are the bytes of an applied object: below the mark another may have its number.
    pub fn is_same(&self, number: u64, body: &Bytes) -> bool {
        let applied = self.objects.get(&number);
        applied.is_some_and(|applied| applied.head == Object::parse_head(number, body))
    }

    /// The highest sequence of this process's objects in the log.
    pub fn own(&self) -> u64 {
        self.own
    }

    pub fn backlog(&self) -> Backlog {
        self.backlog.clone()
    }

    pub fn is_idle(&self) -> bool {
        self.backlog == Backlog::default()
    }

    /// Admits bytes to the queue; if that exceeds the limit, fails with the bytes that wait.
    pub fn admit(&mut self, bytes: u64, limit: u64) -> Result<(), u64> {
        let inside = self.backlog.bytes + self.queued_bytes;
        if inside.saturating_add(bytes) > limit {
            return Err(inside);
        }
        self.queued_bytes += bytes;
        Ok(())
    }

    /// Subtracts bytes that left the queue, written or not.
    pub fn leave_queue(&mut self, bytes: u64) {
        self.queued_bytes -= bytes;
    }

    /// Number of other processes that have written recently.
    pub fn other_writers(&self) -> usize {
        let is_recent =
            |(writer, seen): &&(Uuid, Instant)| *writer != self.me && seen.elapsed() < RECENT_WRITERS_AGE_MAX;
        self.writers.iter().filter(is_recent).map(|(writer, _)| writer).collect::<BTreeSet<_>>().len()
    }

    /// Applies the next object. Returns whether any of its records wait.
    pub fn apply(&mut self, number: u64, object: &Object, body: &Bytes, now: Instant) -> bool {
        assert_eq!(number, self.next, "objects are applied one after the other");
        self.next += 1;
        if let Some(head) = &object.head {
            self.apply_head(head, now);
        }
        let mut applied = Applied {
            seen: now,
            head: object.head,
            bytes: body.len(),
            waiting: 0,
            numbering: self.numbering,
        };
        let count = self.numbering.count;
        for part in &object.parts {
            if part.count == Some(count) && part.sack.0 < count.get() {
                let bytes = (ITEM_HEADER_BYTES as u32 + part.length).next_multiple_of(8);
                self.take(&mut applied, Sack { count, id: part.sack }, part, part.measures, bytes);
            } else {
                self.regroup(&mut applied, part, body, count);
            }
        }
        let waits = applied.waiting > 0;
        if waits {
            self.bodies.offer(number, body, now);
        }
        self.objects.insert(number, applied);
        waits
    }

    fn apply_head(&mut self, head: &Head, now: Instant) {
        if head.writer == self.me {
            self.own = self.own.max(head.sequence);
        }
        self.writers.push_back((head.writer, now));
        if self.writers.len() > RECENT_WRITERS_MAX {
            self.writers.pop_front();
        }
        let numbering = self.numbering;
        match head.kind {
            // A duplicate, from two concurrent requests, has no effect.
            LogObjectKind::Split(count) if !numbering.draining && numbering.count == count => {
                if let Some(count) = count.doubled() {
                    self.numbering = Numbering { count, draining: true };
                }
            }
            LogObjectKind::Settle(count) if numbering.draining && numbering.count == count => {
                // Its writer has seen that everything was acknowledged.
                for sack in numbering.units().sacks() {
                    let newest = self.sacks.get(&sack).map(|state| state.newest);
                    let progress =
                        Progress { acknowledged: newest.unwrap_or_default(), ..Progress::default() };
                    self.progress(sack, progress);
                }
                self.numbering.draining = false;
            }
            LogObjectKind::Measures
            | LogObjectKind::Split(_)
            | LogObjectKind::Settle(_)
            | LogObjectKind::Lost => {}
        }
    }

    /// Regroups a part whose writer used another sack count.
    fn regroup(&mut self, applied: &mut Applied, part: &ObjectExtent, body: &Bytes, count: SackCount) {
        let mut records = Vec::new();
        // Entries before an invalid one are valid; the checksum matched.
        decode(&part.payload(body), part.position, &mut records);
        let mut sacks: BTreeMap<Sack, (u32, u32)> = BTreeMap::new();
        for record in records {
            let sum = sacks.entry(Sack::of(record.metric, count)).or_default();
            *sum = (sum.0 + record.measures, sum.1 + 20 + record.points.len() as u32);
        }
        for (sack, (measures, bytes)) in sacks {
            self.take(applied, sack, part, measures, bytes);
        }
    }

    fn take(&mut self, applied: &mut Applied, sack: Sack, part: &ObjectExtent, measures: u32, bytes: u32) {
        let state = self.sacks.entry(sack).or_default();
        let ObjectExtent { position, offset, length, .. } = *part;
        state.arrive(position);
        if position <= state.progress.acknowledged {
            return;
        }
        state.waiting.push_back(PendingExtent { position, measures, bytes, offset, length });
        applied.waiting += 1;
        self.backlog.measures += u64::from(measures);
        self.backlog.bytes += u64::from(bytes);
        self.unnamed.insert(sack);
    }

    /// Skips objects that were trimmed before this process read them.
    pub fn skip(&mut self, mark: &Mark) {
        assert!(mark.through >= self.next, "nothing to skip");
        self.next = mark.through + 1;
        (self.trimmed, self.skipped) = (mark.through, mark.through);
        (self.numbering, self.base) = (mark.numbering, mark.numbering);
        self.objects.clear();
        self.bodies.clear();
        self.backlog = Backlog::default();
        let known = last_position(mark.through);
        for state in self.sacks.values_mut() {
            state.waiting.clear();
            state.untrimmed.clear();
            state.progress =
                state.progress.max(Progress { acknowledged: state.newest, trimmed: state.newest });
            debug_assert!(state.newest <= known);
        }
    }

    /// Applies a sack's progress.
    pub fn progress(&mut self, sack: Sack, progress: Progress) {
        let state = self.sacks.entry(sack).or_default();
        state.progress = state.progress.max(progress);
        state.forget_trimmed();
        while let Some(waiting) =
            state.waiting.pop_front_if(|waiting| waiting.position <= state.progress.acknowledged)
        {
            leave(&mut self.backlog, &mut self.objects, &mut self.bodies, &waiting);
        }
        if state.waiting.is_empty() && state.waiting.capacity() > WAITING_KEPT_MAX {
            state.waiting = VecDeque::new();
        }
    }

    /// Removes an unreadable part.
    pub fn give_up(&mut self, sack: Sack, lost: &PendingExtent) {
        let Some(state) = self.sacks.get_mut(&sack) else { return };
        let at = state.waiting.binary_search_by_key(&lost.position, |waiting| waiting.position);
        let Some(waiting) = at.ok().and_then(|at| state.waiting.remove(at)) else { return };
        let last = state.waiting.back().map(|waiting| waiting.position);
        state.newest = last.unwrap_or_default().max(state.progress.acknowledged);
        state.lost = state.lost.max(lost.position);
        leave(&mut self.backlog, &mut self.objects, &mut self.bodies, &waiting);
    }

    /// The progress past the parts that were given up, once nothing else of the sack waits.
    pub fn past_lost(&self, sack: Sack) -> Option<Progress> {
        let state = self.sacks.get(&sack)?;
        let is_due = state.waiting.is_empty() && state.lost > state.progress.acknowledged;
        is_due.then_some(Progress { acknowledged: state.lost, ..Progress::default() })
    }

    /// A sack's parts after `after`, of about `bytes_max` bytes, from objects of about `span_bytes_max` bytes
    /// in total; and whether there are more.
    pub fn pending(
        &self,
        sack: Sack,
        after: Position,
        bytes_max: usize,
        span_bytes_max: usize,
    ) -> (Vec<PendingExtent>, bool) {
        let Some(state) = self.sacks.get(&sack) else { return (Vec::new(), false) };
        let start = state.waiting.partition_point(|waiting| waiting.position <= after);
        let mut parts: Vec<PendingExtent> = Vec::new();
        let (mut bytes, mut span, mut last) = (0, 0, None);
        for waiting in state.waiting.range(start..) {
            let begins_batch = parts.last().is_none_or(|part| part.position != waiting.position);
            if last != Some(waiting.number()) {
                last = Some(waiting.number());
                span += self.objects.get(&waiting.number()).map_or(0, |object| object.bytes);
            }
            if begins_batch && !parts.is_empty() && (bytes >= bytes_max || span > span_bytes_max) {
                return (parts, true);
            }
            bytes += waiting.bytes as usize;
            parts.push(*waiting);
        }
        (parts, false)
    }

    pub fn positions(&self, sack: Sack) -> Positions {
        let (progress, newest) =
            self.sacks.get(&sack).map_or_else(Default::default, |state| (state.progress, state.newest));
        // Another process may have acknowledged records that this one has not read yet.
        Positions { acknowledged: progress.acknowledged, newest: newest.max(progress.acknowledged) }
    }

    /// All waiting parts.
    pub fn all_waiting(&self) -> Vec<(Sack, PendingExtent)> {
        let sacks = self.sacks.iter();
        sacks.flat_map(|(sack, state)| state.waiting.iter().map(|waiting| (*sack, *waiting))).collect()
    }

    /// Whether everything from before the doubling is acknowledged.
    pub fn is_drained(&self) -> bool {
        self.numbering.units().sacks().all(|sack| self.positions(sack).is_idle())
    }

    pub fn take_unnamed(&mut self) -> Vec<Sack> {
        std::mem::take(&mut self.unnamed).into_iter().collect()
    }

    /// Sacks outside the current numbering are settled: acknowledged records there are durable at the next
    /// trim.
    pub fn trim_settled(&mut self) {
        let Numbering { count, .. } = self.numbering;
        let units = self.numbering.units();
        for (sack, state) in &mut self.sacks {
            if sack.count != count && sack.count != units {
                state.progress.trimmed = state.progress.acknowledged;
                state.forget_trimmed();
            }
        }
    }

    /// The number up to which everything is trimmed and was read at least `keep` ago, and the numbering
    /// there.
    pub fn trimmable(&self, now: Instant, keep: Duration) -> Option<(u64, Numbering)> {
        let untrimmed = self.sacks.values().filter_map(|state| state.untrimmed.front()).min();
        let end = untrimmed.map_or(u64::MAX, |position| number_of(*position));
        let is_old = |(_, object): &(&u64, &Applied)| now.duration_since(object.seen) >= keep;
        let trimmed = self.objects.range(..end).take_while(is_old);
        trimmed.last().map(|(number, object)| (*number, object.numbering))
    }

    /// Forgets the objects up to a mark.
    pub fn forget(&mut self, mark: &Mark) {
        if mark.through >= self.next {
            return self.skip(mark);
        }
        self.trimmed = self.trimmed.max(mark.through);
        let trimmed = last_position(self.trimmed);
        // Another process has seen acknowledgements that this one has not.
        let passed = self.sacks.iter().filter_map(|(sack, state)| {
            let end = state.untrimmed.partition_point(|position| *position <= trimmed);
            Some((*sack, state.untrimmed[end.checked_sub(1)?]))
        });
        for (sack, newest) in passed.collect::<Vec<_>>() {
            self.progress(sack, Progress { acknowledged: newest, trimmed: newest });
        }
        let kept = self.objects.split_off(&(self.trimmed + 1));
        let forgotten = std::mem::replace(&mut self.objects, kept);
        if let Some((_, last)) = forgotten.last_key_value() {
            self.base = last.numbering;
        }
        let kept = [self.numbering.count, self.numbering.units(), self.base.count];
        self.sacks.retain(|sack, state| kept.contains(&sack.count) || state.newest > trimmed);
    }
}

/// Removes a part from the backlog.
fn leave(
    backlog: &mut Backlog,
    objects: &mut BTreeMap<u64, Applied>,
    bodies: &mut Bodies,
    waiting: &PendingExtent,
) {
    backlog.measures -= u64::from(waiting.measures);
    backlog.bytes -= u64::from(waiting.bytes);
    if let Some(object) = objects.get_mut(&waiting.number()) {
        object.waiting -= 1;
        if object.waiting == 0 {
            bodies.remove(waiting.number());
        }
    }
}

/// An empty sack's queues keep capacity for this many parts.
const WAITING_KEPT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use gnudi_model::SackId;

    use super::{super::object::position, *};

    /// The objects of the log stay, but what is known of other sacks goes.
    #[test]
    fn a_sack_that_stands_still_keeps_only_its_own_records() {
        let count = SackCount(NonZeroU16::new(2).unwrap());
        let [still, moving] = [0, 1].map(|id| Sack { count, id: SackId(id) });
        let (now, any_age) = (Instant::now(), Duration::ZERO);
        let mut view = View::new(Uuid::nil(), &Mark::beginning(count), Bodies::new(0));
        let trim = |view: &mut View, sack, number| {
            let at = position(number, 2);
            view.progress(sack, Progress { acknowledged: at, trimmed: at });
        };
        for number in 1..=100 {
            let part = |sack: Sack, index| ObjectExtent {
                position: position(number, index),
                count: Some(count),
                sack: sack.id,
                measures: 1,
                offset: 0,
                length: 8,
            };
            let parts = vec![part(still, 1), part(moving, 1), part(moving, 2)];
            view.apply(number, &Object { parts, ..Object::default() }, &Bytes::new(), now);
            trim(&mut view, moving, number);
        }
        let untrimmed = |view: &View| [still, moving].map(|sack| view.sacks[&sack].untrimmed.len());
        assert_eq!((untrimmed(&view), view.trimmable(now, any_age)), ([100, 0], None));
        trim(&mut view, still, 60);
        assert_eq!(untrimmed(&view), [40, 0]);
        assert_eq!(view.trimmable(now, any_age).map(|(through, _)| through), Some(60));
        assert_eq!(view.trimmable(now, Duration::from_secs(1)), None);
        // Another process has trimmed more.
        view.forget(&Mark { through: 90, ..Mark::beginning(count) });
        assert_eq!((untrimmed(&view), view.backlog().measures), ([10, 0], 10));
    }
}
