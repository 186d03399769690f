//! A server and its connections: made on demand, and again after a failure.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

use super::{
    connection::{Connection, Connector, Place, Server, common_answer, replication},
    error::ClientError,
    url::{Address, RedisUrl, Servers},
};

/// For this long a failed attempt to connect fails the following ones, too.
const FAILURE_COUNTS_FOR: Duration = Duration::from_millis(100);
/// How often the sentinels are asked whether there is another master.
const SENTINELS_ASKED_EVERY: Duration = Duration::from_secs(2);

/// A server, or the current master.
pub(super) struct Node {
    /// `None`: found by the sentinels.
    pub(super) place: Option<Place>,
    lanes: Vec<tokio::sync::Mutex<Lane>>,
    /// Connections of earlier generations are not reused.
    generation: AtomicU64,
    server: RwLock<Option<Server>>,
    /// When the sentinels were last asked for another master.
    asked: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Lane {
    connection: Option<(u64, Connection)>,
    failed: Option<(Instant, ClientError)>,
}

impl Node {
    pub(super) fn new(place: Option<Place>, lanes: usize) -> Self {
        let lanes = (0..lanes).map(|_| tokio::sync::Mutex::default()).collect();
        Node {
            place,
            lanes,
            generation: AtomicU64::new(0),
            server: RwLock::new(None),
            asked: Mutex::new(None),
        }
    }

    /// The server's state at the last connection.
    pub(super) fn server(&self) -> Option<Server> {
        self.server.read().clone()
    }

    /// Updates the replication state.
    pub(super) fn learn_replication(&self, info: &redis::Value) {
        let Some((is_master, replicas)) = replication(info) else { return };
        if !is_master {
            self.disconnect();
        }
        if let Some(server) = &mut *self.server.write()
            && server.replicas != replicas
        {
            tracing::warn!(server = %server.place, from = server.replicas, to = replicas, "the number of redis replicas has changed");
            server.replicas = replicas;
        }
    }

    /// Leaves a master if the sentinels have made another one, which responds. The former may be cut off from the others,
    /// even with a replica of its own: it ends no connection, and what it accepts is lost once it follows the new one.
    pub(super) async fn leave_deposed(&self, connector: &Connector, url: &RedisUrl) {
        let Some(server) = self.server().filter(|_| self.place.is_none()) else { return };
        {
            let mut asked = self.asked.lock();
            if asked.is_some_and(|at| at.elapsed() < SENTINELS_ASKED_EVERY) {
                return;
            }
            *asked = Some(Instant::now());
        }
        let Ok(address) = master(connector, url).await else { return };
        let place = Place::Tcp(address);
        // A sentinel that has just started may name a former master.
        if place != server.place
            && connector.connect(url, &place).await.is_ok_and(|other| other.server.is_master)
        {
            self.disconnect();
        }
    }

    /// Makes later calls reconnect.
    pub(super) fn disconnect(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The connection of a lane. Cancel-safe while connecting.
    pub(super) async fn connection(
        &self,
        lane: usize,
        connector: &Connector,
        url: &RedisUrl,
    ) -> Result<Connection, ClientError> {
        let mut lane = self.lanes[lane].lock().await;
        let generation = self.generation.load(Ordering::Acquire);
        if let Some((of, connection)) = &lane.connection
            && *of == generation
        {
            return Ok(connection.clone());
        }
        if let Some((at, error)) = &lane.failed
            && at.elapsed() < FAILURE_COUNTS_FOR
        {
            return Err(error.clone());
        }
        lane.connection = None;
        match self.connect(connector, url).await {
            Ok(connection) => {
                self.learn(&connection.server);
                *lane = Lane { connection: Some((generation, connection.clone())), failed: None };
                Ok(connection)
            }
            Err(error) => {
                lane.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn connect(&self, connector: &Connector, url: &RedisUrl) -> Result<Connection, ClientError> {
        let place = match &self.place {
            Some(place) => place.clone(),
            None => Place::Tcp(master(connector, url).await?),
        };
        let connection = connector.connect(url, &place).await?;
        if connection.server.is_master {
            Ok(connection)
        } else {
            Err(ClientError::Unavailable(format!("{place} is a replica and read-only")))
        }
    }

    /// Logs what changed since the last connection, once.
    fn learn(&self, server: &Server) {
        let mut known = self.server.write();
        if let Some(known) = &*known {
            if known.place != server.place {
                tracing::warn!(from = %known.place, to = %server.place, "the redis master has moved");
            }
            if known.durability != server.durability {
                tracing::warn!(server = %server.place, "redis now stores writes {}", server.durability);
            }
        }
        *known = Some(server.clone());
    }
}

/// The master that most sentinels name.
pub(super) async fn master(connector: &Connector, url: &RedisUrl) -> Result<Address, ClientError> {
    let Servers::Sentinels { sentinels, master, tls } = &url.servers else {
        return Err(ClientError::Refused(format!("{url} has no sentinels")));
    };
    let unknown = || ClientError::Unavailable(format!("no sentinel knows a master {master}"));
    let requests = sentinels.iter().map(|sentinel| async move {
        let found = connector.master(url, sentinel, master, *tls).await?;
        found.ok_or_else(unknown)
    });
    common_answer(requests.collect(), unknown()).await
}
