//! Objects in a Ceph pool, in a namespace of their own.
//!
//! Each object is one RADOS object, written in one operation of the cluster; `create` is the cluster's own
//! exclusive create. librados resends an operation by itself until its timeout, and the cluster detects
//! duplicates. The cluster's `osd_max_write_size` (default 90 MB) limits objects.
//!
//! There is no index of names: a listing scans the whole pool, other namespaces and programs included, and callers share
//! it (`scan`). `client` replaces a client that the cluster has blocklisted.

mod client;

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use gnudi_rados::{Cluster, ConnectOptions, Librados, Pending, Pool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ObjectError, Objects, Secret, check_name, is_name, scan::SharedScan};
use crate::OpenError;
use client::{Clients, Failed, PAUSE};

/// Bytes of the first read when an object's size is unknown.
const READ_BYTES: usize = 128 << 10;
/// Bytes in flight at once. librados has limits too (100 MB, 1,024 operations), but blocks the thread there.
const FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Minimum cost of an operation, which limits their number.
const OPERATION_BYTES: usize = 128 << 10;
const DELETES_AT_ONCE: usize = 64;
/// Omap keys read at once, and their cost.
const OMAP_KEYS_MAX: u64 = 1_000;
const OMAP_PAGE_BYTES: usize = 1 << 20;
/// librados requests a new map from the monitors once an operation has had no response for
/// `objecter_timeout`, 10 s by default, checked every `objecter_tick_interval`, 5 s. Operations that time out
/// before that never trigger it: after the death of an OSD an idle client would send to that OSD for ever.
const MAP_REFRESH_OPTIONS: [(&str, &str); 2] = [("objecter_timeout", "2"), ("objecter_tick_interval", "1")];
/// librados gives up at the deadline; this much later the caller stops waiting for it.
const GRACE: Duration = Duration::from_secs(1);

/// Gnocchi's options in `[storage]` with the prefix `ceph_`.
#[derive(Clone, Debug)]
pub struct CephOptions {
    pub pool: String,
    /// Without `client.`; `None` for `admin`.
    pub username: Option<String>,
    pub secret: Option<Secret>,
    pub keyring: Option<PathBuf>,
    pub conffile: PathBuf,
    /// Prefix of the namespace's name.
    pub namespace: String,
    /// Timeout of connecting; whole seconds.
    pub connect_timeout: Duration,
    /// Timeout of a call; whole seconds.
    pub deadline: Duration,
    /// Ceph's client library.
    pub librados: PathBuf,
}

impl Default for CephOptions {
    fn default() -> Self {
        Self {
            pool: "gnocchi".to_owned(),
            username: None,
            secret: None,
            keyring: None,
            conffile: PathBuf::from("/etc/ceph/ceph.conf"),
            namespace: "gnudi".to_owned(),
            connect_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(10),
            librados: PathBuf::from(Librados::NAME),
        }
    }
}

pub struct CephObjects {
    clients: Arc<Clients<Pool>>,
    place: String,
    deadline: Duration,
    /// Limits the bytes in flight.
    flight: Arc<Semaphore>,
    scan: SharedScan<Arc<Failed>>,
}

impl CephObjects {
    /// Opens the namespace `NAMESPACE-PURPOSE` of the pool, which must exist.
    pub async fn open(options: &CephOptions, purpose: &str) -> Result<Self, OpenError> {
        let namespace = format!("{}-{purpose}", options.namespace);
        let place = format!("ceph pool {}, namespace {namespace}", options.pool);
        Self::connect(options, namespace, place).await
    }

    async fn connect(options: &CephOptions, namespace: String, place: String) -> Result<Self, OpenError> {
        let (options, deadline, of_clients) = (options.clone(), options.deadline, place.clone());
        let connecting = tokio::task::spawn_blocking(move || {
            Clients::open(of_clients, PAUSE, move || connect(&options, &namespace))
        });
        let clients = connecting
            .await
            .expect("connecting does not panic")
            .map_err(|reason| OpenError::Engine { engine: place.clone(), reason })?;
        let flight = Arc::new(Semaphore::new(FLIGHT_BYTES_MAX));
        Ok(Self { clients, place, deadline, flight, scan: SharedScan::new() })
    }

    /// The addresses of the current client, as the cluster's blocklist names it.
    pub fn client_addresses(&self) -> Result<String, ObjectError> {
        let (pool, client) = self.clients.current();
        let addresses = pool.client_addresses();
        addresses.map_err(|error| self.unexpected(self.failure(&Failed { error, client })))
    }

    async fn read(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        // Never allocate more than the object's size, whatever the length, nor overflow at a huge start.
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut len_max = READ_BYTES.min(length);
        let start = start.min(i64::MAX as u64 - (1 << 40));
        // An object that was replaced by a larger one meanwhile is read again: never half of each.
        loop {
            match self.operate(len_max, |pool| pool.read(name, start, len_max)).await {
                Ok((bytes, size)) => {
                    let there = (size.saturating_sub(start) as usize).min(length);
                    if there <= bytes.len() {
                        return Ok(Some(bytes.into()));
                    }
                    if there <= len_max {
                        return Err(self.unavailable("an object was read in part"));
                    }
                    len_max = there;
                }
                Err(Failure::NotFound) => return Ok(None),
                Err(failure) => return Err(self.unexpected(failure)),
            }
        }
    }

    fn unavailable(&self, reason: &str) -> ObjectError {
        ObjectError::Unavailable(format!("{}: {reason}", self.place))
    }

    /// Submits an operation once there is room for its bytes, and waits for the result.
    async fn operate<T: Send + 'static>(
        &self,
        bytes: usize,
        submit: impl FnOnce(&Pool) -> Pending<T> + Send,
    ) -> Result<T, Failure> {
        let room = bytes.clamp(OPERATION_BYTES, FLIGHT_BYTES_MAX) as u32;
        let whole = async {
            let room = Arc::clone(&self.flight).acquire_many_owned(room).await.expect("never closed");
            // The client is not kept while the operation is in flight.
            let (pending, client) = {
                let (pool, client) = self.clients.current();
                (submit(&pool), client)
            };
            ended(pending, room).await.map_err(|error| Failed { error, client })
        };
        match tokio::time::timeout(self.deadline + GRACE, whole).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failed)) => Err(self.failure(&failed)),
            Err(_) => Err(Failure::Other(self.unavailable("no answer in time"))),
        }
    }

    /// Has a blocklisted client replaced. The operation is not repeated: an earlier attempt of librados may have been
    /// executed, and a create would be refused by itself.
    fn failure(&self, Failed { error, client }: &Failed) -> Failure {
        let text = format!("{}: {error}", self.place);
        if error.is_blocklisted() {
            self.clients.replace(*client);
            let text = format!("{text}: the cluster has blocklisted this client");
            return Failure::Other(ObjectError::Unavailable(text));
        }
        Failure::Other(match error.kind() {
            io::ErrorKind::NotFound => return Failure::NotFound,
            io::ErrorKind::AlreadyExists => return Failure::AlreadyExists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ObjectError::NoSpace(text),
            io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge => {
                ObjectError::Refused(text)
            }
            // EMSGSIZE has no `ErrorKind`.
            _ if text.ends_with("(os error 90)") => ObjectError::Refused(text),
            _ => ObjectError::Unavailable(text),
        })
    }

    /// For operations that do not fail on a missing or existing object.
    fn unexpected(&self, failure: Failure) -> ObjectError {
        match failure {
            Failure::Other(error) => error,
            Failure::NotFound | Failure::AlreadyExists => {
                ObjectError::Refused(format!("{}: the pool no longer exists", self.place))
            }
        }
    }
}

/// Reads a pool that another program writes, outside of all namespaces, with arbitrary names.
pub struct CephReader(CephObjects);

impl CephReader {
    /// Opens the pool, which must exist.
    pub async fn open(options: &CephOptions) -> Result<Self, OpenError> {
        let place = format!("ceph pool {}", options.pool);
        CephObjects::connect(options, String::new(), place).await.map(CephReader)
    }

    /// The object's bytes; `None` if absent.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        self.0.read(name, 0, u64::MAX).await
    }

    /// The omap entries of an object with keys that begin with `prefix`, sorted by bytes; none if the object
    /// is absent.
    pub async fn omap(&self, name: &str, prefix: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ObjectError> {
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        loop {
            let after = entries.last().map(|(key, _)| key.clone());
            let page = |pool: &Pool| pool.omap_page(name, after.as_deref(), prefix.as_bytes(), OMAP_KEYS_MAX);
            match self.0.operate(OMAP_PAGE_BYTES, page).await {
                Ok(page) => {
                    let is_last = !page.more || page.entries.is_empty();
                    entries.extend(page.entries);
                    if is_last {
                        return Ok(entries);
                    }
                }
                Err(Failure::NotFound) => return Ok(Vec::new()),
                Err(failure) => return Err(self.0.unexpected(failure)),
            }
        }
    }
}

/// The result of an operation in flight, which cannot be cancelled: it keeps its room until it has ended, also if its caller
/// is gone.
async fn ended<T: Send + 'static>(
    operation: impl Future<Output = T> + Send + 'static,
    room: OwnedSemaphorePermit,
) -> T {
    let waiting = tokio::spawn(async move {
        let answer = operation.await;
        drop(room);
        answer
    });
    waiting.await.expect("waiting does not panic")
}

/// How an operation failed.
enum Failure {
    NotFound,
    AlreadyExists,
    Other(ObjectError),
}

/// Blocks; the error is a text.
fn connect(options: &CephOptions, namespace: &str) -> Result<Pool, String> {
    let librados = Librados::load(&options.librados).map_err(|error| error.to_string())?;
    let mut more = MAP_REFRESH_OPTIONS.map(|(option, value)| (option.to_owned(), value.to_owned())).to_vec();
    more.extend(options.secret.iter().map(|secret| ("key".to_owned(), secret.reveal().to_owned())));
    let connect = ConnectOptions {
        conf: Some(options.conffile.clone()),
        user: options.username.clone().unwrap_or_else(|| "admin".to_owned()),
        keyring: options.keyring.clone(),
        options: more,
        connect_timeout: options.connect_timeout,
        operation_timeout: options.deadline,
    };
    let cluster = Cluster::connect(&librados, &connect).map_err(|error| error.to_string())?;
    cluster.open_namespace(&options.pool, namespace).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no such pool: create it with `ceph osd pool create {}`", options.pool)
        }
        _ => error.to_string(),
    })
}

#[async_trait]
impl Objects for CephObjects {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        let written = self.operate(bytes.len(), |pool| pool.write_full(name, &bytes)).await;
        written.map_err(|failure| self.unexpected(failure))
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        match self.operate(bytes.len(), |pool| pool.create_full(name, &bytes)).await {
            Err(Failure::AlreadyExists) => Err(ObjectError::Exists(name.to_owned())),
            created => created.map_err(|failure| self.unexpected(failure)),
        }
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        self.read(name, 0, u64::MAX).await
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        self.read(name, start, length).await
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        names.iter().try_for_each(|name| check_name(name))?;
        let removals = names.iter().map(|name| async move {
            match self.operate(0, |pool| pool.remove(name)).await {
                Ok(()) | Err(Failure::NotFound) => Ok(()),
                Err(failure) => Err(self.unexpected(failure)),
            }
        });
        let removals: Vec<_> = removals.collect();
        futures_util::stream::iter(removals).buffer_unordered(DELETES_AT_ONCE).try_collect().await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let (pool, client) = self.clients.current();
        let scan = move || -> Result<Vec<String>, Arc<Failed>> {
            let mut names = pool.list("").map_err(|error| Arc::new(Failed { error, client }))?;
            names.retain(|name| is_name(name));
            Ok(names)
        };
        let names = self.scan.names(scan).await;
        let names = names.map_err(|failed| self.unexpected(self.failure(&failed)))?;
        Ok(names.iter().filter(|name| name.starts_with(prefix)).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_operation_keeps_its_room_though_its_caller_is_gone() {
        let flight = Arc::new(Semaphore::new(1));
        let (sender, operation) = tokio::sync::oneshot::channel();
        let room = Arc::clone(&flight).acquire_owned().await.unwrap();
        let given_up = tokio::time::timeout(Duration::from_millis(10), ended(operation, room)).await;
        assert!(given_up.is_err());
        assert_eq!(flight.available_permits(), 0);
        sender.send(7).unwrap();
        let _free = flight.acquire().await.unwrap();
    }
}
