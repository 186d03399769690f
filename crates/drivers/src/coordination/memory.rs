//! Coordination in memory: for tests, simulations, and processes that are threads of one program.
//!
//! All users of one [`MemoryCoordinator`] are processes of its cluster. The caller provides the clock, so
//! that a simulation controls time. Nothing survives the program.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use gnudi_model::Sack;
use parking_lot::{Mutex, RwLock};

use super::{Arbiter, CoordinationError, Coordinator, Member, Owners, Ownership, Session};

/// Time since some origin; never goes back.
type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

pub struct MemoryCoordinator {
    now: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: BTreeMap<Session, Life>,
    owners: Owners,
    last_session: u64,
    last_token: u64,
}

struct Life {
    name: String,
    about: String,
    ttl: Duration,
    /// When the session expires.
    until: Duration,
    sacks: BTreeSet<Sack>,
}

impl State {
    fn end(&mut self, session: Session) {
        if let Some(life) = self.members.remove(&session) {
            for sack in life.sacks {
                self.owners.remove(&sack);
            }
        }
    }

    fn end_where(&mut self, over: impl Fn(&Life) -> bool) {
        let ended: Vec<Session> =
            self.members.iter().filter(|(_, life)| over(life)).map(|(session, _)| *session).collect();
        for session in ended {
            self.end(session);
        }
    }
}

impl MemoryCoordinator {
    /// `now`: time since some origin, which never goes back.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        MemoryCoordinator { now: Box::new(now), state: Mutex::default() }
    }

    /// With the machine's clock.
    pub fn by_machine_clock() -> Self {
        let beginning = Instant::now();
        Self::new(move || beginning.elapsed())
    }

    /// Runs `act` on the current state, without expired sessions.
    fn at_present<T>(&self, act: impl FnOnce(&mut State, Duration) -> T) -> T {
        let mut state = self.state.lock();
        let now = (self.now)();
        state.end_where(|life| life.until <= now);
        act(&mut state, now)
    }
}

#[async_trait]
impl Coordinator for MemoryCoordinator {
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError> {
        Ok(self.at_present(|state, now| {
            state.end_where(|life| life.name == name);
            state.last_session += 1;
            let session = Session(state.last_session);
            let (name, about, until) = (name.to_owned(), about.to_owned(), now + ttl);
            state.members.insert(session, Life { name, about, ttl, until, sacks: BTreeSet::new() });
            session
        }))
    }

    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError> {
        self.at_present(|state, now| {
            let life = state.members.get_mut(&session).ok_or(CoordinationError::Expired)?;
            life.until = now + life.ttl;
            about.clone_into(&mut life.about);
            Ok(())
        })
    }

    async fn leave(&self, session: Session) -> Result<(), CoordinationError> {
        self.at_present(|state, _| state.end(session));
        Ok(())
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinationError> {
        let mut members: Vec<Member> = self.at_present(|state, _| {
            let member = |(session, life): (&Session, &Life)| Member {
                session: *session,
                name: life.name.clone(),
                about: life.about.clone(),
            };
            state.members.iter().map(member).collect()
        });
        members.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(members)
    }

    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError> {
        self.at_present(|state, _| {
            let State { members, owners, last_token, .. } = state;
            let life = members.get_mut(&session).ok_or(CoordinationError::Expired)?;
            let token = |sack: &Sack| {
                let (owner, token) = *owners.entry(*sack).or_insert_with(|| {
                    *last_token += 1;
                    life.sacks.insert(*sack);
                    (session, *last_token)
                });
                (owner == session).then_some(token)
            };
            Ok(sacks.iter().map(token).collect())
        })
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        self.at_present(|state, _| {
            if let Some(life) = state.members.get_mut(&session) {
                for sack in sacks {
                    if life.sacks.remove(sack) {
                        state.owners.remove(sack);
                    }
                }
            }
        });
        Ok(())
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        let mut owned: Vec<Ownership> = self.at_present(|state, _| {
            let owners = state.owners.iter();
            owners
                .map(|(sack, (session, token))| Ownership { sack: *sack, session: *session, token: *token })
                .collect()
        });
        owned.sort_by_key(|owned| owned.sack);
        Ok(owned)
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        self.at_present(|state, _| state.last_token = state.last_token.max(past));
        Ok(())
    }
}

/// The names' values, for all who share it.
#[derive(Debug, Default)]
pub struct MemoryArbiter(RwLock<HashMap<String, String>>);

#[async_trait]
impl Arbiter for MemoryArbiter {
    async fn claim(&self, name: &str, value: &str) -> Result<String, CoordinationError> {
        Ok(self.0.write().entry(name.to_owned()).or_insert_with(|| value.to_owned()).clone())
    }

    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, CoordinationError> {
        let claims = self.0.read();
        Ok(names.iter().map(|name| claims.get(name).cloned()).collect())
    }

    async fn unclaim(&self, names: &[String]) -> Result<(), CoordinationError> {
        let mut claims = self.0.write();
        for name in names {
            claims.remove(name);
        }
        Ok(())
    }
}
