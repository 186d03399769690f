//! Coordination on etcd (v3).
//!
//! A session is a lease with attached keys: its information, its name, and one key with all its sacks, as
//! runs. So few keys are read and written, however many sacks there are. Acquiring writes the counter of
//! tokens in the same transaction, on condition that it has not changed since all owners were read: of
//! several concurrent attempts one succeeds, and the others retry.
//!
//! etcd keeps all that its keys ever were until a client discards it, and refuses writes once that takes 2 GiB. Members tell
//! about themselves every few seconds. So they discard what is old ([`History`]).

pub(super) mod client;
mod runs;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use gnudi_model::Sack;
use parking_lot::Mutex;
use serde_json::json;
use uuid::Uuid;

use super::{
    Arbiter, CoordinationError, Coordinator, Member, Owners, Ownership, Session, free_of, tokens_of,
};
use crate::{OpenError, objects::HttpOptions};
use client::{Client, KeyValue, delete, exists, get, get_all, put, unchanged};

/// How many operations a transaction may have (etcd's limit is 128).
const OPERATIONS_MAX: usize = 100;
/// Maximum random delay before the loser of a race retries.
const PAUSE_MAX_MS: u64 = 20;

/// Other programs with the same etcd may read its history, too: Kubernetes leaves them five minutes.
const HISTORY_KEPT: Duration = Duration::from_mins(15);

/// Where etcd is, and the HTTP settings.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `http://host:port`; any of them may respond.
    pub endpoints: Vec<String>,
    pub http: HttpOptions,
    /// How much of etcd's history is kept, at least.
    pub history_kept: Duration,
}

impl EtcdOptions {
    /// From `etcd3+http://host:port`, `etcd3+https://`, `etcd3://` or `etcd://`, with several hosts separated
    /// by commas; `?ca_cert=FILE` has trusted certificates. Errors never contain passwords.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.trim().split_once("://").ok_or("expected etcd3+http://host:port")?;
        let transport = match scheme {
            "etcd3+http" | "etcd3" | "etcd" | "etcd+http" => "http",
            "etcd3+https" | "etcd+https" => "https",
            _ => return Err("expected etcd3+http://host:port or etcd3+https://host:port".to_owned()),
        };
        let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));
        let hosts = hosts.trim_end_matches('/');
        if hosts.contains('@') {
            return Err("users and passwords of etcd are not supported".to_owned());
        }
        let mut http = HttpOptions { deadline: Duration::from_secs(5), ..HttpOptions::default() };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("ca_cert", file)) => http.ca_file = Some(file.into()),
                Some(("api_version" | "timeout" | "lock_timeout" | "membership_timeout", _)) => {}
                _ => return Err("an option of etcd's URL is not supported: only ca_cert is".to_owned()),
            }
        }
        let endpoint = |host: &str| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let uri =
                if has_port { format!("{transport}://{host}") } else { format!("{transport}://{host}:2379") };
            let is_uri = uri
                .parse::<gnudi_http::Uri>()
                .is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty()));
            if is_uri { Ok(uri) } else { Err("etcd's URL names no host".to_owned()) }
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Result<_, _>>()?;
        let options = EtcdOptions { endpoints, http, history_kept: HISTORY_KEPT };
        Ok(options.with_deadline(Duration::from_secs(5)))
    }

    /// Timeout of a call; an unresponsive endpoint costs a third of it.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.http.deadline = deadline;
        self.http.attempt_timeout = deadline / 3;
        self
    }
}

/// Which revision is old enough to discard what was before it.
struct History {
    kept: Duration,
    /// A revision, and since when this process has known it.
    known: Mutex<Option<(u64, Instant)>>,
}

impl History {
    /// Learns a revision; returns an earlier one that has been known for long enough.
    fn past(&self, revision: u64, now: Instant) -> Option<u64> {
        let mut known = self.known.lock();
        let (old, since) = *known.get_or_insert((revision, now));
        if now.duration_since(since) < self.kept {
            return None;
        }
        *known = Some((revision, now));
        (old < revision).then_some(old)
    }
}

/// A process's client of the sessions, ownerships and claims in etcd.
pub struct EtcdCoordinator {
    client: Arc<Client>,
    /// Prefix of all keys.
    root: String,
    history: History,
}

impl EtcdCoordinator {
    /// Several clusters of gnudi on one etcd are isolated: each has its own keys.
    pub async fn open(options: EtcdOptions, cluster: Uuid) -> Result<Self, OpenError> {
        let failed = |reason| OpenError::Engine { engine: options.endpoints.join(", "), reason };
        let client = Arc::new(Client::new(&options).map_err(failed)?);
        let history = History { kept: options.history_kept, known: Mutex::default() };
        let coordinator = EtcdCoordinator { client, root: format!("/gnudi/{cluster}/"), history };
        coordinator.members().await.map_err(|error| failed(error.to_string()))?;
        Ok(coordinator)
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}/{name}", self.root)
    }

    fn session_key(&self, session: Session) -> String {
        self.key("session", &session.0.to_string())
    }

    fn owned_key(&self, session: Session) -> String {
        self.key("owned", &session.0.to_string())
    }

    async fn read(
        &self,
        operations: Vec<serde_json::Value>,
    ) -> Result<Vec<Vec<KeyValue>>, CoordinationError> {
        self.client.transact(Vec::new(), operations, Vec::new()).await.map(|(_, found)| found)
    }

    fn owned(&self, found: &[KeyValue]) -> Vec<Ownership> {
        let prefix = self.key("owned", "");
        let of = |found: &KeyValue| {
            let session = Session(found.key.strip_prefix(&prefix)?.parse().ok()?);
            let sacks = runs::decode(&found.value).into_iter();
            Some(sacks.map(move |(sack, token)| Ownership { sack, session, token }).collect::<Vec<_>>())
        };
        found.iter().filter_map(of).flatten().collect()
    }

    fn member(&self, found: &KeyValue) -> Option<Member> {
        let session = Session(found.key.strip_prefix(&self.key("session", ""))?.parse().ok()?);
        let (name, about) = serde_json::from_str(&found.value).ok()?;
        Some(Member { session, name, about })
    }

    /// Has etcd discard old history. A renewal does not wait for that, and what fails is done later, or by another member.
    fn discard_old(&self, revision: u64) {
        let Some(old) = self.history.past(revision, Instant::now()) else { return };
        let client = self.client.clone();
        tokio::spawn(async move {
            if let Err(error) = client.compact(old).await {
                tracing::debug!(%error, "old history was not discarded");
            }
        });
    }

    /// Delay after losing a race.
    async fn pause() {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..PAUSE_MAX_MS))).await;
    }
}

fn first(found: &[Vec<KeyValue>], index: usize) -> KeyValue {
    found.get(index).and_then(|found| found.first()).cloned().unwrap_or_default()
}

#[async_trait]
impl Coordinator for EtcdCoordinator {
    async fn join(&self, name: &str, about: &str, ttl: Duration) -> Result<Session, CoordinationError> {
        let session = Session(self.client.grant_lease(ttl).await?);
        let name_key = self.key("name", name);
        let life = json!([name, about]).to_string();
        loop {
            let before = first(&self.read(vec![get(&name_key)]).await?, 0);
            let mut writes = vec![
                put(&name_key, &session.0.to_string(), session.0),
                put(&self.session_key(session), &life, session.0),
            ];
            let earlier = before.value.parse().ok().map(Session).filter(|earlier| *earlier != session);
            if let Some(earlier) = earlier {
                writes.extend([delete(&self.session_key(earlier)), delete(&self.owned_key(earlier))]);
            }
            let compare = vec![unchanged(&name_key, before.mod_revision)];
            if self.client.transact(compare, writes, Vec::new()).await?.0 {
                if let Some(earlier) = earlier {
                    // Its keys are gone; if this fails, the lease expires.
                    self.client.revoke_lease(earlier.0).await.ok();
                }
                return Ok(session);
            }
            Self::pause().await;
        }
    }

    async fn renew(&self, session: Session, about: &str) -> Result<(), CoordinationError> {
        if !self.client.keep_lease(session.0).await? {
            return Err(CoordinationError::Expired);
        }
        let key = self.session_key(session);
        let found = first(&self.read(vec![get(&key)]).await?, 0);
        let member = self.member(&found).ok_or(CoordinationError::Expired)?;
        // Of the last change of this member: as long as there is none, it adds no history.
        self.discard_old(found.mod_revision);
        // Avoid writes: each stays in etcd's history for a while.
        if member.about == about {
            return Ok(());
        }
        let life = json!([member.name, about]).to_string();
        let (is_there, _) =
            self.client.transact(vec![exists(&key)], vec![put(&key, &life, session.0)], Vec::new()).await?;
        if is_there { Ok(()) } else { Err(CoordinationError::Expired) }
    }

    async fn leave(&self, session: Session) -> Result<(), CoordinationError> {
        self.client.revoke_lease(session.0).await
    }

    async fn members(&self) -> Result<Vec<Member>, CoordinationError> {
        let found = self.read(vec![get_all(&self.key("session", ""))]).await?;
        let mut members: Vec<Member> =
            found.iter().flatten().filter_map(|found| self.member(found)).collect();
        members.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(members)
    }

    async fn acquire(&self, session: Session, sacks: &[Sack]) -> Result<Vec<Option<u64>>, CoordinationError> {
        let (token_key, owned_key) = (self.key("token", ""), self.owned_key(session));
        let session_key = self.session_key(session);
        loop {
            let found =
                self.read(vec![get(&session_key), get(&token_key), get_all(&self.key("owned", ""))]).await?;
            if first(&found, 0).mod_revision == 0 {
                return Err(CoordinationError::Expired);
            }
            let token = first(&found, 1);
            let own = found.get(2).and_then(|all| all.iter().find(|found| found.key == owned_key));
            let own_revision = own.map_or(0, |own| own.mod_revision);
            let owned = self.owned(found.get(2).map_or(&[], Vec::as_slice));
            let mut owners: Owners =
                owned.iter().map(|owned| (owned.sack, (owned.session, owned.token))).collect();
            let free = free_of(sacks, &owners);
            let mut last: u64 = token.value.parse().unwrap_or(0);
            for sack in &free {
                last += 1;
                owners.insert(*sack, (session, last));
            }
            let tokens = tokens_of(session, sacks, &owners);
            if free.is_empty() {
                return Ok(tokens);
            }
            let mine = owners.iter().filter(|(_, (owner, _))| *owner == session);
            let mine = runs::encode(mine.map(|(sack, (_, token))| (*sack, *token)).collect());
            let compare = vec![
                exists(&session_key),
                unchanged(&token_key, token.mod_revision),
                unchanged(&owned_key, own_revision),
            ];
            let writes = vec![put(&token_key, &last.to_string(), 0), put(&owned_key, &mine, session.0)];
            if self.client.transact(compare, writes, Vec::new()).await?.0 {
                return Ok(tokens);
            }
            Self::pause().await;
        }
    }

    async fn release(&self, session: Session, sacks: &[Sack]) -> Result<(), CoordinationError> {
        let key = self.owned_key(session);
        loop {
            let own = first(&self.read(vec![get(&key)]).await?, 0);
            let mut owned = runs::decode(&own.value);
            let count = owned.len();
            let given: std::collections::HashSet<&Sack> = sacks.iter().collect();
            owned.retain(|(sack, _)| !given.contains(sack));
            if owned.len() == count {
                return Ok(());
            }
            let write = put(&key, &runs::encode(owned), session.0);
            let compare = vec![unchanged(&key, own.mod_revision)];
            match self.client.transact(compare, vec![write], Vec::new()).await {
                Ok((true, _)) | Err(CoordinationError::Expired) => return Ok(()),
                Ok((false, _)) => Self::pause().await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn ownerships(&self) -> Result<Vec<Ownership>, CoordinationError> {
        let found = self.read(vec![get_all(&self.key("owned", ""))]).await?;
        let mut owned = self.owned(found.first().map_or(&[], Vec::as_slice));
        owned.sort_by_key(|owned| owned.sack);
        Ok(owned)
    }

    async fn advance_tokens(&self, past: u64) -> Result<(), CoordinationError> {
        let key = self.key("token", "");
        loop {
            let token = first(&self.read(vec![get(&key)]).await?, 0);
            if token.value.parse().unwrap_or(0) >= past {
                return Ok(());
            }
            let compare = vec![unchanged(&key, token.mod_revision)];
            if self.client.transact(compare, vec![put(&key, &past.to_string(), 0)], Vec::new()).await?.0 {
                return Ok(());
            }
            Self::pause().await;
        }
    }
}

#[async_trait]
impl Arbiter for EtcdCoordinator {
    async fn claim(&self, name: &str, value: &str) -> Result<String, CoordinationError> {
        let key = self.key("claim", name);
        let compare = vec![unchanged(&key, 0)];
        let (is_ours, found) =
            self.client.transact(compare, vec![put(&key, value, 0)], vec![get(&key)]).await?;
        Ok(if is_ours { value.to_owned() } else { first(&found, 0).value })
    }

    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, CoordinationError> {
        let mut values = Vec::with_capacity(names.len());
        for names in names.chunks(OPERATIONS_MAX) {
            let found = self.read(names.iter().map(|name| get(&self.key("claim", name))).collect()).await?;
            values.extend(found.into_iter().map(|found| found.into_iter().next().map(|found| found.value)));
        }
        Ok(values)
    }

    async fn unclaim(&self, names: &[String]) -> Result<(), CoordinationError> {
        for names in names.chunks(OPERATIONS_MAX) {
            self.read(names.iter().map(|name| delete(&self.key("claim", name))).collect()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_is_discarded() {
        let history = History { kept: Duration::from_mins(15), known: Mutex::default() };
        let (start, minute) = (Instant::now(), Duration::from_mins(1));
        let discarded: Vec<_> = [(0, 10), (14, 20), (15, 30), (29, 40), (30, 40), (45, 40), (60, 7), (75, 8)]
            .into_iter()
            .filter_map(|(minutes, revision)| history.past(revision, start + minute * minutes))
            .collect();
        // Without changes nothing, and nothing ahead of an etcd that was restored.
        assert_eq!(discarded, [10, 30, 7]);
    }

    #[test]
    fn urls() {
        let endpoints = |url| EtcdOptions::parse(url).map(|options| options.endpoints);
        assert_eq!(endpoints("etcd3+http://a:1,b").unwrap(), ["http://a:1", "http://b:2379"]);
        assert_eq!(endpoints("etcd3+https://a/?ca_cert=/x&api_version=v3").unwrap(), ["https://a:2379"]);
        assert_eq!(endpoints("etcd://10.0.0.1:2379").unwrap(), ["http://10.0.0.1:2379"]);
        for url in
            ["etcd3+http://", "zookeeper://a", "etcd3://u:secret@a", "etcd3://a?password=secret", "a:2379"]
        {
            let error = endpoints(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
