//! Objects in a container of Swift, or of radosgw with Swift's API.
//!
//! Swift has no exclusive create. A put object is stored under its own name; a created one is stored under
//! its name followed by `~` and something unique (no name contains `~`), and an [`Arbiter`] decides which of
//! those the name refers to: first the bytes are written, then the name is claimed, and the loser removes
//! its bytes. Leftovers of dead processes are removed by a listing of a process that has known them for a day.
//!
//! A read tries the object's own name first, and the arbiter only if it is absent; in folders of created
//! objects the other way round. So put objects need no look-up, and created ones need one each.

mod account;
mod auth;
mod reader;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use gnudi_http::{Method, StatusCode, header::RANGE};
use parking_lot::Mutex;
use uuid::Uuid;

use self::account::{Account, Call};
pub use self::reader::SwiftReader;
use super::{
    ObjectError, Objects, Secret, check_name,
    clock::Moment,
    http::{HttpOptions, part_of},
    is_name, open_error, range_of,
};
use crate::{OpenError, coordination::Arbiter};

/// Separates a name from the unique part.
const MARK: char = '~';
/// A create that takes longer writes its bytes again: it never relies on bytes that a listing may remove.
const CREATE_TIME_MAX: Duration = Duration::from_hours(1);
/// Unclaimed bytes are removed once this process has known them for so long, by a clock that nobody sets: how old they
/// are by the clocks of other machines does not matter.
const UNCLAIMED_FOR_MIN: Duration = Duration::from_hours(24);
/// How many unclaimed objects are remembered.
const UNCLAIMED_MAX: usize = 10_000;
/// Names per request to the arbiter.
const CLAIMS_AT_ONCE: usize = 1000;
const DELETES_AT_ONCE: usize = 16;
/// How many folders with created objects are remembered.
const FOLDERS_MAX: usize = 10_000;

/// Gnocchi's options in `[storage]` with the prefix `swift_`; those for certificates and timeouts are in
/// `http`.
#[derive(Clone, Debug)]
pub struct SwiftOptions {
    /// `1`, or `3` for Keystone.
    pub auth_version: String,
    pub authurl: String,
    /// The account's URL, instead of that from the login.
    pub url: Option<String>,
    /// A token to use with `url`, until it expires.
    pub preauthtoken: Option<Secret>,
    pub user: String,
    pub key: Secret,
    pub user_domain_name: String,
    pub project_name: Option<String>,
    pub project_domain_name: String,
    pub region: Option<String>,
    pub endpoint_type: String,
    pub service_type: String,
    /// Prefix of the container's name.
    pub container_prefix: String,
    /// For a new container.
    pub storage_policy: Option<String>,
    pub http: HttpOptions,
}

impl Default for SwiftOptions {
    fn default() -> Self {
        Self {
            auth_version: "1".to_owned(),
            authurl: "http://localhost:8080/auth/v1.0".to_owned(),
            url: None,
            preauthtoken: None,
            user: "admin:admin".to_owned(),
            key: Secret::new("admin"),
            user_domain_name: "Default".to_owned(),
            project_name: None,
            project_domain_name: "Default".to_owned(),
            region: None,
            endpoint_type: "publicURL".to_owned(),
            service_type: "object-store".to_owned(),
            container_prefix: "gnocchi".to_owned(),
            storage_policy: None,
            http: HttpOptions::default(),
        }
    }
}

pub struct SwiftObjects {
    account: Account,
    container: String,
    arbiter: Arc<dyn Arbiter>,
    /// Folders that contain created objects.
    created: Mutex<HashSet<String>>,
    unclaimed: Unclaimed,
}

/// The unclaimed raw names in this process's listings, each with the time of the first listing that had it.
#[derive(Default)]
struct Unclaimed(Mutex<HashMap<String, Instant>>);

impl Unclaimed {
    /// Of the unclaimed names in a listing, those that no running create can still claim.
    fn abandoned(&self, raw: Vec<String>, now: Instant) -> Vec<String> {
        let mut found = self.0.lock();
        // Forget old entries: most of these names have been removed or claimed.
        found.retain(|_, since| now.duration_since(*since) < 2 * UNCLAIMED_FOR_MIN);
        let is_abandoned = |raw: &String| match found.get(raw).copied() {
            Some(since) if now.duration_since(since) > UNCLAIMED_FOR_MIN => found.remove(raw).is_some(),
            Some(_) => false,
            None => {
                if found.len() < UNCLAIMED_MAX {
                    found.insert(raw.clone(), now);
                }
                false
            }
        };
        raw.into_iter().filter(is_abandoned).collect()
    }
}

/// The part of an object to read, as its start and length; `None` for all of it.
type Part = Option<(u64, u64)>;

impl SwiftObjects {
    /// Opens the container `PREFIX-gnudi-PURPOSE`, creating it if missing.
    pub async fn open(
        options: &SwiftOptions,
        purpose: &str,
        arbiter: Arc<dyn Arbiter>,
    ) -> Result<Self, OpenError> {
        let container = format!("{}-gnudi-{purpose}", options.container_prefix);
        let place = format!("swift container {container} of {}", options.authurl);
        let account = Account::new(options, place)?;
        let (created, unclaimed) = (Mutex::default(), Unclaimed::default());
        let store = Self { account, container, arbiter, created, unclaimed };
        store.make_container().await.map_err(|error| open_error(&store.account.place, &error))?;
        Ok(store)
    }

    async fn make_container(&self) -> Result<(), ObjectError> {
        let mut call = Call::new(Method::PUT, &self.container, "");
        if let Some(policy) = &self.account.options.storage_policy {
            call.headers = vec![("x-storage-policy", policy)];
        }
        self.account.expect(&call).await.map(drop)
    }

    async fn write(&self, raw: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let call = Call { body: bytes, ..Call::new(Method::PUT, &self.container, raw) };
        self.account.expect(&call).await.map(drop)
    }

    /// Reads an object by its raw name.
    async fn read(&self, raw: &str, part: Part) -> Result<Option<Bytes>, ObjectError> {
        let range = part.and_then(|(start, length)| range_of(start, length));
        let is_empty = part.is_some() && range.is_none();
        let mut call = Call::new(if is_empty { Method::HEAD } else { Method::GET }, &self.container, raw);
        if let Some(range) = &range {
            call.headers.push((RANGE.as_str(), range));
        }
        if !raw.contains(MARK) {
            // Not all replicas may have its newest version.
            call.headers.push(("x-newest", "true"));
        }
        let answer = self.account.request(&call).await?;
        match (answer.status, part) {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (StatusCode::RANGE_NOT_SATISFIABLE, _) => Ok(Some(Bytes::new())),
            (status, _) if !status.is_success() => Err(self.account.refusal(&call, &answer)),
            _ if is_empty => Ok(Some(Bytes::new())),
            (_, None) => Ok(Some(answer.body)),
            (_, Some((start, length))) => Ok(Some(part_of(&answer, start, length))),
        }
    }

    async fn remove(&self, raw: &str) -> Result<(), ObjectError> {
        let call = Call::new(Method::DELETE, &self.container, raw);
        let answer = self.account.request(&call).await?;
        let is_gone = answer.status.is_success() || answer.status == StatusCode::NOT_FOUND;
        if is_gone { Ok(()) } else { Err(self.account.refusal(&call, &answer)) }
    }

    async fn remove_all(&self, raw: &[String]) -> Result<(), ObjectError> {
        let removals: Vec<_> = raw.iter().map(|raw| self.remove(raw)).collect();
        futures_util::stream::iter(removals).buffer_unordered(DELETES_AT_ONCE).try_collect().await
    }

    /// The arbiter's name for an object: it serves other containers too.
    fn claim_name(&self, name: &str) -> String {
        format!("{}/{name}", self.container)
    }

    /// The raw names that the names refer to.
    async fn claimed(&self, names: &[String]) -> Result<Vec<Option<String>>, ObjectError> {
        let claims: Vec<String> = names.iter().map(|name| self.claim_name(name)).collect();
        let values = self.decide(self.arbiter.claimed(&claims)).await?;
        let raw = values.into_iter().zip(names).map(|(value, name)| Some(format!("{name}{MARK}{}", value?)));
        Ok(raw.collect())
    }

    /// A result of the arbiter, with the timeout.
    async fn decide<T>(
        &self,
        asked: impl Future<Output = Result<T, crate::coordination::CoordinationError>> + Send,
    ) -> Result<T, ObjectError> {
        let unavailable = |text: String| ObjectError::Unavailable(format!("{}: {text}", self.account.place));
        match tokio::time::timeout(self.account.options.http.deadline, asked).await {
            Ok(answer) => answer.map_err(|error| unavailable(error.to_string())),
            Err(_) => Err(unavailable("the coordinator does not answer in time".to_owned())),
        }
    }

    /// Reads an object by its claim.
    async fn read_claimed(&self, name: &str, part: Part) -> Result<Option<Bytes>, ObjectError> {
        let names = [name.to_owned()];
        let mut last = None;
        loop {
            let Some(raw) = self.claimed(&names).await?.remove(0) else { return Ok(None) };
            if last.as_ref() == Some(&raw) {
                let text = format!("{}: {name} is claimed, but {raw} is not there", self.account.place);
                return Err(ObjectError::Unavailable(text));
            }
            if let Some(bytes) = self.read(&raw, part).await? {
                self.remember(name);
                return Ok(Some(bytes));
            }
            // It may have been deleted meanwhile, and maybe created again.
            last = Some(raw);
        }
    }

    async fn find(&self, name: &str, part: Part) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        let claims_first = self.created.lock().contains(folder_of(name));
        if claims_first && let Some(bytes) = self.read_claimed(name, part).await? {
            return Ok(Some(bytes));
        }
        match self.read(name, part).await? {
            None if !claims_first => self.read_claimed(name, part).await,
            found => Ok(found),
        }
    }

    /// From now on tries the claims first for objects in this folder.
    fn remember(&self, name: &str) {
        let mut created = self.created.lock();
        if created.len() >= FOLDERS_MAX {
            created.clear();
        }
        if !created.contains(folder_of(name)) {
            created.insert(folder_of(name).to_owned());
        }
    }
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[async_trait]
impl Objects for SwiftObjects {
    fn place(&self) -> String {
        self.account.place.clone()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        self.write(name, bytes).await
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        let began = Moment::now();
        let own = Uuid::new_v4().simple().to_string();
        let raw = format!("{name}{MARK}{own}");
        self.write(&raw, bytes.clone()).await?;
        let claim_name = self.claim_name(name);
        if self.decide(self.arbiter.claim(&claim_name, &own)).await? != own {
            // If that fails, a listing removes it.
            let _ = self.remove(&raw).await;
            return Err(ObjectError::Exists(name.to_owned()));
        }
        self.remember(name);
        if began.elapsed() > CREATE_TIME_MAX {
            // This process was suspended so long that a listing may have removed the bytes.
            let written = self.write(&raw, bytes).await;
            // Its name is claimed already.
            written.map_err(|error| ObjectError::Unavailable(error.to_string()))?;
        }
        Ok(())
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        self.find(name, None).await
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        self.find(name, Some((start, length))).await
    }

    /// Removes first the claims, then the bytes: the object is absent at once; a listing removes bytes that
    /// stay.
    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        names.iter().try_for_each(|name| check_name(name))?;
        for part in names.chunks(CLAIMS_AT_ONCE) {
            let claimed = self.claimed(part).await?;
            let claims = part.iter().zip(&claimed).filter(|(_, raw)| raw.is_some());
            let claims: Vec<String> = claims.map(|(name, _)| self.claim_name(name)).collect();
            if !claims.is_empty() {
                self.decide(self.arbiter.unclaim(&claims)).await?;
            }
            let raw = claimed.into_iter().zip(part).map(|(raw, name)| raw.unwrap_or_else(|| name.clone()));
            self.remove_all(&raw.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        // The container was made at the start. Empty it must not look because a proxy finds nothing: a shard of which nothing
        // is listed begins anew.
        let names = self.account.names(&self.container, prefix).await?.ok_or_else(|| {
            ObjectError::Unavailable(format!("{}: the container is not found", self.account.place))
        })?;
        let (plain, raw): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| is_name(name));
        let mut names = plain;
        for raw in raw.chunks(CLAIMS_AT_ONCE) {
            let raw = raw.iter().filter_map(|raw| Some((raw, raw.split_once(MARK)?)));
            let raw: Vec<_> = raw.filter(|(_, (name, _))| is_name(name)).collect();
            let candidates: Vec<String> = raw.iter().map(|(_, (name, _))| (*name).to_owned()).collect();
            let claimed = self.claimed(&candidates).await?;
            let mut unclaimed = Vec::new();
            for ((raw, (name, _)), claimed) in raw.into_iter().zip(claimed) {
                if claimed.as_ref() == Some(raw) {
                    names.push(name.to_owned());
                } else {
                    unclaimed.push(raw.clone());
                }
            }
            self.remove_all(&self.unclaimed.abandoned(unclaimed, Instant::now())).await?;
        }
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{coordination::memory::MemoryArbiter, objects::http::tests::server};

    #[tokio::test]
    async fn a_container_that_is_not_found_is_not_empty() {
        let options = SwiftOptions {
            url: Some(server("404 Not Found", "404 page not found").await),
            preauthtoken: Some(Secret::new("tok")),
            ..SwiftOptions::default()
        };
        let store = SwiftObjects {
            account: Account::new(&options, "swift".to_owned()).unwrap(),
            container: "container".to_owned(),
            arbiter: Arc::new(MemoryArbiter::default()),
            created: Mutex::default(),
            unclaimed: Unclaimed::default(),
        };
        let listed = store.list("").await;
        assert!(matches!(listed, Err(ObjectError::Unavailable(_))), "{listed:?}");
    }

    #[test]
    fn one_listing_removes_nothing() {
        let (unclaimed, now) = (Unclaimed::default(), Instant::now());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let abandoned = |raw: &[&str], after: Duration| unclaimed.abandoned(names(raw), now + after);
        let long = UNCLAIMED_FOR_MIN + Duration::from_secs(1);
        assert!(abandoned(&["a~1"], Duration::ZERO).is_empty());
        assert!(abandoned(&["a~1", "b~1"], UNCLAIMED_FOR_MIN).is_empty());
        assert_eq!(abandoned(&["a~1", "b~1", "c~1"], long), ["a~1"]);
        assert_eq!(abandoned(&["a~1", "b~1", "c~1"], long * 2), ["b~1", "c~1"]);
        // It was removed, or could not be.
        assert!(abandoned(&["a~1"], long * 2).is_empty());
    }

    #[test]
    fn a_name_is_in_a_folder() {
        assert_eq!((folder_of("a/b/c"), folder_of("a")), ("a/b", ""));
    }
}
