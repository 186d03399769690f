//! Leases the units that the ring assigns to this process, and opens them to its workers.
//!
//! A unit is opened in the order: lease, fence, passes; and closed in the order: no new pass, the running one
//! ends, release. A process that cannot renew its lease closes all units at once, by its own clock without
//! communication; whatever it still writes is refused by the fence once the unit has its next owner.
//! `assignment` decides who should own what, `membership` whether this process is a member. If the store is
//! closed (`gnudi move`), the process leaves, so that processes with the new store get its sacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use gnudi_drivers::{
    aggregates::{Fence, StoreError},
    coordination::{CoordinationError, Session},
};
use gnudi_model::{Sack, SackCount};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    assignment::{self, Assignment},
    membership::{Kept, Membership},
    scheduler::SackQueue,
};
use crate::{
    Engine,
    process_status::{self, Observer},
    units::Unit,
};

/// Fences raised concurrently.
const RAISES_AT_ONCE: usize = 16;
/// Attempts to acquire a missing unit within a lease's duration.
const RETRIES: u32 = 20;
/// Checks for a renumbering within a lease's duration.
const LOOKS: u32 = 40;

pub(super) struct Owner {
    engine: Arc<Engine>,
    queue: Arc<SackQueue>,
    membership: Membership,
    observer: Observer,
    assignment: Assignment,
    /// Members with workers; `None` if they must be read.
    workers: Option<Vec<String>>,
    session: Option<Session>,
    /// Units that the session may have leased: a response may have been lost.
    leased: BTreeSet<Sack>,
    /// Those of them that have been opened.
    opened: BTreeSet<Sack>,
    /// Closed units whose last pass may still run.
    closing: BTreeMap<Sack, Arc<Unit>>,
    /// Whether an acquisition or a release of the session got no answer: it may take effect at any time, also after a
    /// later request about the same units.
    has_unanswered: bool,
    count: SackCount,
    /// Whether the store refuses all writes for good.
    is_closed: bool,
}

impl Owner {
    pub fn new(
        engine: Arc<Engine>,
        queue: Arc<SackQueue>,
        membership: Membership,
        observer: Observer,
    ) -> Self {
        let count = engine.incoming.numbering().units();
        engine.units.renumber(count);
        Owner {
            engine,
            queue,
            membership,
            observer,
            assignment: Assignment::default(),
            workers: None,
            session: None,
            leased: BTreeSet::new(),
            opened: BTreeSet::new(),
            closing: BTreeMap::new(),
            has_unanswered: false,
            count,
            is_closed: false,
        }
    }

    /// Runs until `leaving`, then releases everything.
    pub async fn run(mut self, mut leaving: watch::Receiver<bool>) {
        while !*leaving.borrow() && !self.is_closed {
            let pause = match self.round().await {
                Ok(missing) => {
                    self.membership.outage.answered();
                    if missing { self.membership.lease / RETRIES } else { Duration::MAX }
                }
                Err(error) => {
                    if error == CoordinationError::Expired {
                        self.membership.forget();
                    } else {
                        self.membership.outage.failed(&error);
                    }
                    self.membership.lease / RETRIES
                }
            };
            self.wait(pause.min(self.membership.due_in()), &mut leaving).await;
        }
        self.give_up();
        self.membership.leave().await;
        // A task that ends by itself would be a fault.
        let _ = leaving.wait_for(|leave| *leave).await;
    }

    /// Waits for the next round: until a pause has passed, a unit was lost, or the sacks were renumbered.
    async fn wait(&self, pause: Duration, leaving: &mut watch::Receiver<bool>) {
        let until = Instant::now() + pause.max(Duration::from_millis(1));
        while Instant::now() < until {
            let look = until.min(Instant::now() + self.membership.lease / LOOKS);
            tokio::select! {
                biased;
                _ = leaving.wait_for(|leave| *leave) => return,
                () = self.engine.units.lost.notified() => return,
                () = tokio::time::sleep_until(look) => {}
            }
            if self.engine.incoming.numbering().units() != self.count {
                return;
            }
        }
    }

    /// Reads the members, then releases and acquires units; returns whether units of this process are still
    /// missing.
    async fn round(&mut self) -> Result<bool, CoordinationError> {
        let session = self.keep().await?;
        self.renumber();
        let numbering = self.engine.incoming.numbering();
        let workers = self.workers.clone().unwrap_or_default();
        let wanted = self.assignment.wanted(&self.membership.name, workers, numbering).clone();
        self.release(session, &wanted).await?;
        // A unit whose last pass still runs is left to a later round: with the same token the fence would not keep two passes
        // from overwriting each other's heads.
        let is_missing = |sack: &Sack| !self.opened.contains(sack) && !self.closing.contains_key(sack);
        let missing: Vec<Sack> =
            wanted.iter().filter(|sack| is_missing(sack) && sack.count == self.count).copied().collect();
        if !missing.is_empty() {
            self.acquire(session, &missing).await?;
        }
        Ok(wanted.iter().any(|sack| !self.opened.contains(sack)))
    }

    /// Acquires and opens those of the missing units that are free.
    async fn acquire(&mut self, session: Session, missing: &[Sack]) -> Result<(), CoordinationError> {
        let owned = self.membership.within(self.membership.coordinator.ownerships()).await?;
        let free = assignment::free(missing, &owned, session);
        if free.is_empty() {
            return Ok(());
        }
        self.leased.extend(&free);
        let tokens = self.membership.within(self.membership.coordinator.acquire(session, &free)).await;
        self.has_unanswered |= tokens.is_err();
        let tokens = tokens?;
        let mut fences = Vec::with_capacity(free.len());
        for (sack, token) in free.into_iter().zip(tokens) {
            match token {
                Some(token) => fences.push(Fence { sack, token }),
                None => drop(self.leased.remove(&sack)),
            }
        }
        self.open(session, fences).await
    }

    /// Keeps the session, and reads the other members. Learns which units the session has leased or released unnoticed.
    async fn keep(&mut self) -> Result<Session, CoordinationError> {
        let session = match self.session {
            Some(session) if !self.membership.due_in().is_zero() => session,
            _ => self.renew().await?,
        };
        if self.workers.is_none() {
            let members = self.membership.within(self.membership.coordinator.members()).await?;
            if self.has_unanswered {
                let owned = self.membership.within(self.membership.coordinator.ownerships()).await?;
                let own = owned.into_iter().filter(|owned| owned.session == session);
                let own: BTreeSet<Sack> = own.map(|owned| owned.sack).collect();
                // They count as lost, and are acquired again.
                for released in self.opened.difference(&own) {
                    if let Some(unit) = self.engine.units.close(*released) {
                        self.closing.insert(*released, unit);
                    }
                }
                self.leased.extend(own);
            }
            self.workers = Some(process_status::workers(members));
        }
        Ok(session)
    }

    async fn renew(&mut self) -> Result<Session, CoordinationError> {
        let about = self.observer.look(&self.engine, self.membership.renewal_delay() / 2).await;
        let session = match self.membership.keep(&about).await? {
            Kept::Same(session) => session,
            Kept::New(session) => {
                self.give_up();
                session
            }
        };
        self.session = Some(session);
        self.engine.units.extend(self.membership.valid_until().expect("it was just renewed"));
        self.workers = None;
        Ok(session)
    }

    /// Closes all units: their leases are gone.
    fn give_up(&mut self) {
        self.engine.units.renumber(self.count);
        self.leased.clear();
        self.has_unanswered = false;
        self.opened.clear();
        self.closing.clear();
    }

    /// Closes all units if their count has changed. Their leases are released once their passes have ended.
    fn renumber(&mut self) {
        let count = self.engine.incoming.numbering().units();
        if count == self.count {
            return;
        }
        tracing::info!(from = self.count.get(), to = count.get(), "the sacks were renumbered");
        self.count = count;
        self.closing
            .extend(self.engine.units.renumber(count).into_iter().map(|unit| (unit.fence.sack, unit)));
        self.opened.clear();
        self.queue.renumber(count);
    }

    /// Releases unwanted units, and lost ones, so that they can be acquired again with a new token.
    async fn release(&mut self, session: Session, wanted: &BTreeSet<Sack>) -> Result<(), CoordinationError> {
        let lost = self.opened.iter().filter(|sack| !self.engine.units.is_open(**sack)).copied();
        let mut given_up: BTreeSet<Sack> = lost.collect();
        given_up.extend(assignment::surplus(&self.leased, wanted));
        if given_up.is_empty() && self.closing.is_empty() {
            return Ok(());
        }
        for sack in &given_up {
            if self.opened.remove(sack)
                && let Some(unit) = self.engine.units.close(*sack)
            {
                self.closing.insert(*sack, unit);
            }
        }
        // A pass that runs too long is waited for again in the next round.
        let _ = timeout(self.membership.renewal_delay() / 4, async {
            for unit in self.closing.values() {
                unit.rest().await;
            }
        })
        .await;
        self.closing.retain(|_, unit| !unit.rests());
        let released: Vec<Sack> =
            given_up.into_iter().filter(|sack| !self.closing.contains_key(sack)).collect();
        if released.is_empty() { Ok(()) } else { self.give_back(session, &released).await }
    }

    /// Ends the leases of closed units.
    async fn give_back(&mut self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        let released = self.membership.within(self.membership.coordinator.release(session, sacks)).await;
        self.has_unanswered |= released.is_err();
        released?;
        for sack in sacks {
            self.leased.remove(sack);
        }
        Ok(())
    }

    /// Raises the fences of leased units, then opens them to the workers.
    async fn open(&mut self, session: Session, leased: Vec<Fence>) -> Result<(), CoordinationError> {
        let engine = Arc::clone(&self.engine);
        let store = &engine.store;
        // What has not begun by then is left to the next round. What has begun is awaited: on a store whose requests take long
        // it would never end if each round began it anew.
        let until = Instant::now() + self.membership.due_in() + self.membership.renewal_delay() / 2;
        let mut leased = leased.into_iter();
        let next = move || leased.next().filter(|_| Instant::now() < until);
        let raises = stream::iter(std::iter::from_fn(next))
            .map(async |fence| (fence, store.raise(fence).await))
            .buffer_unordered(RAISES_AT_ONCE);
        tokio::pin!(raises);
        let mut refused = Vec::new();
        let mut is_closed = false;
        loop {
            let Ok(raise) = timeout(self.membership.due_in(), raises.next()).await else {
                // The session must be renewed meanwhile.
                if self.renew().await? == session {
                    continue;
                }
                return Ok(());
            };
            let Some((fence, raised)) = raise else { break };
            match raised {
                Ok(()) => {
                    engine.outage.answered();
                    engine.units.insert(fence);
                    self.queue.push_now(fence.sack.id);
                    self.opened.insert(fence.sack);
                }
                Err(StoreError::Fenced { held, .. }) => refused.push((fence.sack, held)),
                Err(StoreError::Closed) => is_closed = true,
                Err(error) => engine.outage.failed(&error),
            }
        }
        if is_closed {
            let error = StoreError::Closed;
            tracing::error!(%error, "this process stops processing measures; other processes must process those it accepts");
            self.is_closed = true;
            return Ok(());
        }
        let Some(held) = refused.iter().map(|(_, held)| *held).max() else { return Ok(()) };
        tracing::warn!(
            held,
            units = refused.len(),
            "the store has higher fencing tokens: later leases get tokens above them"
        );
        self.membership.within(self.membership.coordinator.advance_tokens(held)).await?;
        let refused: Vec<Sack> = refused.into_iter().map(|(sack, _)| sack).collect();
        self.give_back(session, &refused).await
    }
}
