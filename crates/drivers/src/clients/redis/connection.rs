//! Connects to a server: checks it, and loads the scripts. Asks sentinels and nodes where the servers are.

use std::{net::IpAddr, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    Pipeline, RedisConnectionInfo, TlsCertificates, Value, aio::MultiplexedConnection,
};
use tokio::time::Instant;

use super::{
    durability::RedisDurability,
    error::{ClientError, connection_error},
    script::Script,
    url::{Address, Credentials, RedisUrl, Tls},
};

/// How long one server is waited for before the next one is asked beside it.
const HEAD_START: Duration = Duration::from_millis(200);

/// The first success of requests to servers any of which may answer. They begin in order, each once the one before has
/// failed or has had its head start: one that hangs takes no other's time. `none` is the error if there are no requests.
pub(super) async fn first_answer<T>(
    requests: Vec<impl Future<Output = Result<T, ClientError>>>,
    none: ClientError,
) -> Result<T, ClientError> {
    let mut waiting = requests.into_iter();
    let mut running = FuturesUnordered::new();
    let mut last = none;
    loop {
        running.extend(waiting.next());
        if running.is_empty() {
            return Err(last);
        }
        match tokio::time::timeout(HEAD_START, running.next()).await {
            Ok(Some(Ok(answer))) => return Ok(answer),
            Ok(Some(Err(error))) => last = error,
            Ok(None) | Err(_) => {}
        }
    }
}

/// The answer that most servers give: one that is cut off from the others may be outdated. Once one has answered, the others
/// have a head start's time, unless more than half agree before. `none` is the error if there are no requests.
pub(super) async fn common_answer<T: PartialEq>(
    requests: Vec<impl Future<Output = Result<T, ClientError>>>,
    none: ClientError,
) -> Result<T, ClientError> {
    let half = requests.len() / 2;
    let mut running: FuturesUnordered<_> = requests.into_iter().collect();
    let mut answers: Vec<T> = Vec::new();
    let (mut last, mut until) = (none, None);
    loop {
        let next = match until {
            None => running.next().await,
            Some(until) => tokio::time::timeout_at(until, running.next()).await.ok().flatten(),
        };
        match next {
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(error)) => {
                last = error;
                continue;
            }
            None => break,
        }
        until = until.or_else(|| Some(tokio::time::Instant::now() + HEAD_START));
        if answers.iter().any(|answer| times(&answers, answer) > half) {
            break;
        }
    }
    // The first one of several that are equally frequent.
    let most = (0..answers.len()).rev().max_by_key(|index| times(&answers, &answers[*index]));
    most.map(|index| answers.swap_remove(index)).ok_or(last)
}

fn times<T: PartialEq>(answers: &[T], answer: &T) -> usize {
    answers.iter().filter(|other| *other == answer).count()
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Tcp(Address),
    Socket(std::path::PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tcp(address) => write!(formatter, "redis {address}"),
            Place::Socket(path) => write!(formatter, "redis {}", path.display()),
        }
    }
}

/// A ready connection, with the server's state.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) mux: MultiplexedConnection,
    pub(super) server: Server,
    /// `None` without permission for TIME.
    clock: Option<ServerClock>,
}

/// A server's clock.
#[derive(Clone, Copy, Debug)]
struct ServerClock {
    /// When it was asked for.
    asked: Instant,
    /// The answer, in microseconds since 1970.
    us: u64,
}

impl Connection {
    /// The server's time at a moment of ours, in microseconds since 1970, never too early: up to a round trip later, unless a
    /// clock is set. Empty if it is unknown.
    pub(super) fn server_time(&self, moment: Instant) -> String {
        let after = |clock: ServerClock| moment.saturating_duration_since(clock.asked).as_micros() as u64;
        self.clock.map(|clock| clock.us.saturating_add(after(clock)).to_string()).unwrap_or_default()
    }
}

/// The server's state, as reported.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) place: Place,
    /// Id of its data's history: changes with each start and failover.
    pub(super) run: String,
    pub(super) is_master: bool,
    pub(super) replicas: u32,
    pub(super) durability: RedisDurability,
    /// `noeviction`, or the policy for a full memory.
    pub(super) eviction: Option<String>,
    /// Whether it accepts writes beside another master: `active-replica` of `KeyDB`.
    pub(super) is_active_replica: bool,
}

/// Makes connections.
pub(super) struct Connector {
    pub(super) connect_timeout: Duration,
    pub(super) scripts: Vec<Script>,
}

impl Connector {
    /// Connects to a data server.
    pub(super) async fn connect(&self, url: &RedisUrl, place: &Place) -> Result<Connection, ClientError> {
        let settings = settings(&url.credentials).set_db(i64::from(url.db));
        let mut mux = self.open(place, url.tls.as_ref(), settings).await?;
        let mut pipeline = Pipeline::new();
        for script in &self.scripts {
            pipeline.add_command(script.load());
        }
        for section in ["replication", "memory"] {
            pipeline.add_command(redis::cmd("INFO").arg(section).take());
        }
        for name in ["appendonly", "appendfsync"] {
            pipeline.add_command(redis::cmd("CONFIG").arg("GET").arg(name).take());
        }
        pipeline.add_command(redis::cmd("TIME"));
        let asked = Instant::now();
        let answers = self.ask(&mut mux, place, &pipeline).await?;
        let (loaded, reported) = answers.split_at(self.scripts.len());
        for answer in loaded {
            if let Value::ServerError(error) = answer {
                return Err(unready(place, error));
            }
        }
        let [replication, memory, appendonly, appendfsync, time] = reported else {
            return Err(ClientError::Unavailable(format!("{place} returned an unexpected response")));
        };
        let server = Server::reported(place.clone(), replication, [appendonly, appendfsync], memory);
        let clock = redis::from_redis_value(time.clone()).ok().map(|(seconds, us): (u64, u64)| {
            let us = seconds.saturating_mul(1_000_000).saturating_add(us);
            ServerClock { asked, us }
        });
        Ok(Connection { mux, server, clock })
    }

    /// Queries a sentinel for the master.
    pub(super) async fn master(
        &self,
        url: &RedisUrl,
        sentinel: &Address,
        master: &str,
        tls: bool,
    ) -> Result<Option<Address>, ClientError> {
        let place = Place::Tcp(sentinel.clone());
        let tls = tls.then(|| url.tls.clone().unwrap_or_default());
        let mut mux = self.open(&place, tls.as_ref(), settings(&url.sentinel_credentials)).await?;
        let mut pipeline = Pipeline::new();
        pipeline.add_command(redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).take());
        match self.ask(&mut mux, &place, &pipeline).await?.pop() {
            Some(Value::ServerError(error)) => Err(unready(&place, &error)),
            Some(value) => {
                let found: Option<(String, u16)> = redis::from_redis_value(value).ok().flatten();
                Ok(found.map(|(host, port)| Address { host, port }))
            }
            None => Ok(None),
        }
    }

    /// A cluster's slot ranges, each with the address of its node.
    pub(super) async fn slots(
        &self,
        url: &RedisUrl,
        node: &Address,
    ) -> Result<Vec<(u16, u16, Address)>, ClientError> {
        let place = Place::Tcp(node.clone());
        let mut mux = self.open(&place, url.tls.as_ref(), settings(&url.credentials)).await?;
        let mut pipeline = Pipeline::new();
        pipeline.add_command(redis::cmd("CLUSTER").arg("SLOTS").take());
        let answer = self.ask(&mut mux, &place, &pipeline).await?.pop().unwrap_or_default();
        if let Value::ServerError(error) = &answer {
            return Err(unready(&place, error));
        }
        let ranges: Vec<Value> = redis::from_redis_value(answer).unwrap_or_default();
        Ok(ranges.into_iter().filter_map(|range| slot_range(range, &node.host)).collect())
    }

    async fn open(
        &self,
        place: &Place,
        tls: Option<&Tls>,
        settings: RedisConnectionInfo,
    ) -> Result<MultiplexedConnection, ClientError> {
        let failed = |error: redis::RedisError| connection_error(&place.to_string(), &error);
        let info = address(place, tls).into_connection_info().map_err(failed)?;
        let client = client(place, info.set_redis_settings(settings), tls).await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None);
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connection) => connection.map_err(failed),
            Err(_) => Err(late(place, self.connect_timeout)),
        }
    }

    async fn ask(
        &self,
        mux: &mut MultiplexedConnection,
        place: &Place,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, ClientError> {
        let asking = mux.send_packed_commands(pipeline, 0, pipeline.len());
        match tokio::time::timeout(self.connect_timeout, asking).await {
            Ok(answers) => answers.map_err(|error| connection_error(&place.to_string(), &error)),
            Err(_) => Err(late(place, self.connect_timeout)),
        }
    }
}

impl Server {
    fn reported(place: Place, replication: &Value, durability: [&Value; 2], memory: &Value) -> Self {
        // Without permission for INFO: as a master without replicas.
        let (is_master, replicas) = self::replication(replication).unwrap_or((true, 0));
        // Services that refuse CONFIG tell the policy here, too.
        let (replication, memory) = (info(replication), info(memory));
        let policy = field(&memory, "maxmemory_policy");
        Server {
            place,
            run: field(&replication, "master_replid").to_owned(),
            is_master,
            replicas,
            durability: RedisDurability::of(durability[0], durability[1]),
            eviction: (!policy.is_empty()).then(|| policy.to_owned()),
            is_active_replica: field(&replication, "role") == "active-replica",
        }
    }

    /// The policy for a full memory, if it drops keys that never expire.
    pub(super) fn harmful_eviction(&self) -> Option<&str> {
        self.eviction.as_deref().filter(|policy| *policy != "noeviction" && !policy.starts_with("volatile"))
    }
}

/// Whether a server is a master, and its number of replicas, from its response to `INFO replication`. `None` if it refuses to
/// tell: while a script takes long, for example. Replicas that still receive their first copy do not count: WAIT does not
/// count them, either.
pub(super) fn replication(answer: &Value) -> Option<(bool, u32)> {
    let info = info(answer);
    let role = field(&info, "role");
    let connected: u32 = field(&info, "connected_slaves").parse().unwrap_or(0);
    // `slave0:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0`
    let is_replica =
        |line: &str| line.strip_prefix("slave").is_some_and(|rest| rest.starts_with(char::is_numeric));
    let receiving = info.lines().filter(|line| is_replica(line) && !line.contains(",state=online,")).count();
    (!role.is_empty()).then_some((role != "slave", connected.saturating_sub(receiving as u32)))
}

fn info(answer: &Value) -> String {
    redis::from_redis_value(answer.clone()).unwrap_or_default()
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}

pub(super) fn late(place: &Place, after: Duration) -> ClientError {
    ClientError::Unavailable(format!("{place}: no answer within {} ms", after.as_millis()))
}

fn unready(place: &Place, error: &redis::ServerError) -> ClientError {
    let text = format!("{place}: {} {}", error.code(), error.details().unwrap_or_default());
    match error.code() {
        "NOAUTH" | "NOPERM" | "WRONGPASS" => ClientError::Refused(text),
        _ => ClientError::Unavailable(text),
    }
}

fn settings(credentials: &Credentials) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default().set_lib_name("gnudi", env!("CARGO_PKG_VERSION"));
    if let Some(username) = &credentials.username {
        settings = settings.set_username(username);
    }
    match &credentials.password {
        Some(password) => settings.set_password(password),
        None => settings,
    }
}

fn address(place: &Place, tls: Option<&Tls>) -> ConnectionAddr {
    match (place, tls) {
        (Place::Socket(path), _) => ConnectionAddr::Unix(path.clone()),
        (Place::Tcp(Address { host, port }), None) => ConnectionAddr::Tcp(host.clone(), *port),
        (Place::Tcp(Address { host, port }), Some(tls)) => ConnectionAddr::TcpTls {
            host: host.clone(),
            port: *port,
            insecure: tls.unverified,
            tls_params: None,
        },
    }
}

async fn client(place: &Place, info: ConnectionInfo, tls: Option<&Tls>) -> Result<Client, ClientError> {
    let failed = |error: redis::RedisError| connection_error(&place.to_string(), &error);
    let Some(tls) = tls.filter(|_| matches!(place, Place::Tcp(_))) else {
        return Client::open(info).map_err(failed);
    };
    // May be installed already; all parts of the program install the same.
    rustls::crypto::ring::default_provider().install_default().ok();
    let read = async |path: &std::path::PathBuf| {
        tokio::fs::read(path)
            .await
            .map_err(|error| ClientError::Refused(format!("{}: {error}", path.display())))
    };
    let root_cert = match &tls.ca_file {
        Some(path) => Some(read(path).await?),
        None => None,
    };
    let client_tls = match (&tls.certificate_file, &tls.key_file) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate).await?, client_key: read(key).await? })
        }
        _ => None,
    };
    Client::build_with_tls(info, TlsCertificates { client_tls, root_cert }).map_err(failed)
}

/// A range of the response to `CLUSTER SLOTS`: first, last, [host, port, ...], replicas. A node that does not
/// know its own address leaves it empty.
fn slot_range(range: Value, asked: &str) -> Option<(u16, u16, Address)> {
    let Value::Array(items) = range else { return None };
    let mut items = items.into_iter();
    let first = redis::from_redis_value(items.next()?).ok()?;
    let last = redis::from_redis_value(items.next()?).ok()?;
    let Value::Array(master) = items.next()? else { return None };
    let mut master = master.into_iter();
    let host: Option<String> = redis::from_redis_value(master.next()?).ok()?;
    let port = redis::from_redis_value(master.next()?).ok()?;
    let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.to_owned());
    Some((first, last, Address { host, port }))
}

/// The address in a redirection, `host:port`; an IPv6 address has no brackets there.
pub(super) fn redirected(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    let valid = !host.is_empty() && (!host.contains(':') || host.parse::<IpAddr>().is_ok());
    valid.then_some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_to_tell_has_not_lost_its_replicas() {
        let told = |text: &str| replication(&Value::BulkString(text.as_bytes().to_vec()));
        assert_eq!(told("# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"), Some((true, 2)));
        assert_eq!(told("role:slave\r\nconnected_slaves:0\r\n"), Some((false, 0)));
        assert_eq!((told(""), replication(&Value::Nil)), (None, None));
    }

    #[test]
    fn dangerous_settings_are_known_without_config() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let reported = |role: &str, policy: &str| {
            let place = Place::Socket("/redis".into());
            let replication = text(&format!("# Replication\r\nrole:{role}\r\nmaster_replid:f00\r\n"));
            let memory = text(&format!("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n"));
            Server::reported(place, &replication, [&Value::Nil; 2], &memory)
        };
        let harmful = |policy: &str| reported("master", policy).harmful_eviction().map(str::to_owned);
        for policy in ["noeviction", "volatile-lru", ""] {
            assert_eq!(harmful(policy), None);
        }
        // The second one is Dragonfly's, as a cache.
        for policy in ["allkeys-lru", "eviction"] {
            assert_eq!(harmful(policy).as_deref(), Some(policy));
        }
        let [one, many] = ["master", "active-replica"].map(|role| reported(role, "noeviction"));
        assert!(one.is_master && !one.is_active_replica && many.is_master && many.is_active_replica);
    }

    #[test]
    fn a_replica_that_receives_its_first_copy_does_not_count() {
        let told = |states: [&str; 2]| {
            let [one, other] =
                states.map(|state| format!("ip=10.0.0.2,port=6379,state={state},offset=0,lag=0"));
            let text = format!("role:master\r\nconnected_slaves:2\r\nslave0:{one}\r\nslave1:{other}\r\n");
            replication(&Value::BulkString(text.into_bytes())).unwrap().1
        };
        assert_eq!([told(["online"; 2]), told(["online", "wait_bgsave"]), told(["send_bulk"; 2])], [2, 1, 0]);
    }

    /// Server 0 hangs, server 1 is down.
    async fn ask(server: u32) -> Result<u32, ClientError> {
        match server {
            0 => std::future::pending().await,
            1 => Err(ClientError::Unavailable("down".to_owned())),
            server => Ok(server),
        }
    }

    fn none() -> ClientError {
        ClientError::Unavailable("none".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn one_server_does_not_outvote_the_others() {
        let began = tokio::time::Instant::now();
        assert_eq!(common_answer(Vec::from([2, 0, 3, 3, 1, 3, 3].map(ask)), none()).await, Ok(3));
        assert_eq!(common_answer(Vec::from([2, 3, 1, 3].map(ask)), none()).await, Ok(3));
        assert!(began.elapsed().is_zero(), "nobody waits for more");
        assert_eq!(common_answer(Vec::from([0, 0, 1, 2].map(ask)), none()).await, Ok(2));
        assert_eq!(began.elapsed().as_millis() / 100, 2);
        assert_eq!(common_answer(Vec::from([1].map(ask)), none()).await.unwrap_err().to_string(), "down");
        assert_eq!(common_answer(Vec::from([0; 0].map(ask)), none()).await, Err(none()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_takes_no_others_time() {
        let began = tokio::time::Instant::now();
        let answer = first_answer(Vec::from([0, 0, 1, 2, 3].map(ask)), none()).await;
        assert_eq!((answer, began.elapsed().as_millis() / 100), (Ok(2), 4));
        assert_eq!(first_answer(Vec::from([1].map(ask)), none()).await.unwrap_err().to_string(), "down");
        assert_eq!(first_answer(Vec::from([0; 0].map(ask)), none()).await, Err(none()));
    }
}
