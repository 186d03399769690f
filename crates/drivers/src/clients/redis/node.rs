//! A server and its connections: made on demand, and again after a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    connection::{Connection, Connector, Place, Server, common_answer, replication},
    error::ClientError,
    url::{Address, RedisUrl, Servers},
};
use crate::stopping;

/// For this long a failed attempt to connect fails the following ones, too.
const FAILURE_COUNTS_FOR: Duration = Duration::from_millis(100);
/// How long a call waits for a connection that the call before has not got. A node of a cluster that hangs would otherwise
/// hold up all calls that are sent together with one for it, and those behind them.
const RETRY_WAIT_MAX: Duration = Duration::from_millis(200);
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
    /// With its generation.
    connection: Option<(u64, Connection)>,
    /// The attempt under way, which its call may have given up, and its generation.
    connecting: Option<(u64, Connecting)>,
    failed: Option<(Instant, ClientError)>,
}

type Connecting = JoinHandle<Result<Connection, ClientError>>;

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

    /// The connection of a lane. Connecting goes on if the call is cancelled, or waits no longer.
    pub(super) async fn connection(
        &self,
        lane: usize,
        connector: &Arc<Connector>,
        url: &RedisUrl,
    ) -> Result<Connection, ClientError> {
        let mut lane = self.lanes[lane].lock().await;
        let Lane { connection, connecting, failed } = &mut *lane;
        let generation = self.generation.load(Ordering::Acquire);
        if let Some((of, connection)) = connection
            && *of == generation
        {
            return Ok(connection.clone());
        }
        if let Some((at, error)) = failed
            && at.elapsed() < FAILURE_COUNTS_FOR
        {
            return Err(error.clone());
        }
        *connection = None;
        let is_retry = failed.is_some() || connecting.is_some();
        let wait = if is_retry { RETRY_WAIT_MAX } else { Duration::MAX };
        if connecting.as_ref().is_some_and(|(of, _)| *of != generation) {
            // It may lead to a master that was left.
            *connecting = None;
        }
        let (of, attempt) = connecting.get_or_insert_with(|| (generation, self.connect(connector, url)));
        let of = *of;
        let ended = timeout(wait, attempt).await;
        let outcome = if let Ok(ended) = ended {
            *connecting = None;
            ended.unwrap_or_else(|error| Err(ClientError::Unavailable(stopping(error))))
        } else {
            let error = failed.take().map(|(_, error)| error);
            Err(error.unwrap_or_else(|| ClientError::Unavailable(format!("{url}: cannot connect"))))
        };
        match outcome {
            Ok(new) => {
                self.learn(&new.server);
                *connection = Some((of, new.clone()));
                *failed = None;
                Ok(new)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Begins to connect. In a task of its own, so that its timeouts hold if nobody waits: a connection knows the server's
    /// clock as exactly as it took to connect.
    fn connect(&self, connector: &Arc<Connector>, url: &RedisUrl) -> Connecting {
        let (place, connector, url) = (self.place.clone(), Arc::clone(connector), url.clone());
        tokio::spawn(async move {
            let place = match place {
                Some(place) => place,
                None => Place::Tcp(master(&connector, &url).await?),
            };
            let connection = connector.connect(&url, &place).await?;
            if connection.server.is_master {
                Ok(connection)
            } else {
                Err(ClientError::Unavailable(format!("{place} is a replica and read-only")))
            }
        })
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

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::watch,
    };

    use super::*;

    /// Answers OK to each command, once it is told to.
    async fn serve(listener: TcpListener, told: watch::Receiver<bool>) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut told = told.clone();
            tokio::spawn(async move {
                told.wait_for(|told| *told).await.unwrap();
                let mut bytes = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    // Each command begins with an asterisk.
                    let commands = bytes[..count].split(|byte| *byte == b'*').count() - 1;
                    stream.write_all("+OK\r\n".repeat(commands).as_bytes()).await.unwrap();
                }
            });
        }
    }

    /// The time to connect is far above what the test waits.
    #[tokio::test]
    async fn a_server_that_hangs_holds_up_no_later_call_and_is_connected_once_it_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url: RedisUrl = format!("redis://127.0.0.1:{port}").parse().unwrap();
        let (tell, told) = watch::channel(false);
        tokio::spawn(serve(listener, told));
        let node = Node::new(Some(Place::Tcp(Address { host: "127.0.0.1".to_owned(), port })), 1);
        let connector = Arc::new(Connector { connect_timeout: Duration::from_hours(1), scripts: Vec::new() });
        let connection = || node.connection(0, &connector, &url);
        // A call that is cancelled.
        assert!(connection().now_or_never().is_none());
        let limit = Duration::from_mins(1);
        let later = timeout(limit, join_all((0..4).map(|_| connection()))).await.expect("a call hung");
        assert!(later.iter().all(|later| matches!(later, Err(ClientError::Unavailable(_)))));
        tell.send_replace(true);
        let connected = async {
            while connection().await.is_err() {
                tokio::time::sleep(FAILURE_COUNTS_FOR).await;
            }
        };
        timeout(limit, connected).await.expect("it was not connected");
    }
}
