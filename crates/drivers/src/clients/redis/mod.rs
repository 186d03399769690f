//! Redis: one server, a master behind sentinels, or a cluster.
//!
//! A driver passes calls, each for the node that has its tag; those for one node go in one round trip. The
//! client connects, finds the master or the slot's node, waits for replicas if requested, and applies the
//! timeout.

mod connection;
mod durability;
mod error;
mod node;
mod routes;
mod script;
mod slots;
mod url;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use redis::{Pipeline, Value};
use tokio::time::Instant;

pub(crate) use self::script::scripts;
use self::{
    connection::{Connector, late},
    error::{Refusal, connection_error, refusal},
    node::Node,
    routes::Routes,
};
pub use self::{
    durability::RedisDurability,
    error::ClientError,
    script::{Call, Script, Tag},
    url::{Address, Credentials, RedisUrl, Servers, Tls, UrlError},
};
use crate::Figure;

/// Redirections that a call follows before it fails.
const REDIRECTIONS_MAX: u32 = 8;
/// How long a call waits for a server that loads its data, or for a cluster that reassigns slots.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(25);
/// How often the servers' replicas are checked.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    pub url: RedisUrl,
    /// Timeout of a call.
    pub timeout: Duration,
    pub connect_timeout: Duration,
    /// How many replicas must confirm a write. `None`: one, if there are sentinels and the master has a
    /// replica.
    pub replicas_min: Option<u32>,
    /// How long to wait for the replicas.
    pub replicas_timeout: Duration,
}

impl RedisOptions {
    pub fn new(url: RedisUrl) -> Self {
        let timeout = url.socket_timeout.unwrap_or(Duration::from_secs(5));
        RedisOptions {
            url,
            timeout,
            connect_timeout: timeout.min(Duration::from_secs(2)),
            replicas_min: None,
            replicas_timeout: timeout.min(Duration::from_secs(1)),
        }
    }
}

/// Counters of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedisFigures {
    /// Round trips to a server, however many commands each had.
    pub trips: u64,
    /// Of all of them together.
    pub trip_time: Duration,
    pub commands: u64,
}

impl RedisFigures {
    /// With the number of damaged places that the driver has found.
    pub(crate) fn list(self, damaged: u64) -> Vec<Figure> {
        vec![
            Figure::counter("trips", "Round trips to Redis", self.trips),
            Figure::time("trip_seconds", "Time of the round trips in seconds", self.trip_time),
            Figure::counter("commands", "Commands to Redis", self.commands),
            Figure::counter("damaged", "Damaged places found", damaged),
        ]
    }
}

/// When a call counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    Master,
    /// As many replicas have it as the options require.
    Replicas,
}

pub struct RedisClient {
    options: RedisOptions,
    connector: Arc<Connector>,
    routes: Routes,
    trips: AtomicU64,
    trip_us: AtomicU64,
    commands: AtomicU64,
}

/// A call in progress.
struct PendingCall {
    index: usize,
    call: Call,
    /// The node of a one-time redirection (ASK).
    ask: Option<Address>,
}

impl RedisClient {
    /// Sends nothing yet.
    fn unconnected(options: RedisOptions, scripts: Vec<Script>, lanes: usize) -> Self {
        let connector = Arc::new(Connector { connect_timeout: options.connect_timeout, scripts });
        let routes = Routes::new(&options.url, lanes);
        RedisClient {
            options,
            connector,
            routes,
            trips: AtomicU64::new(0),
            trip_us: AtomicU64::new(0),
            commands: AtomicU64::new(0),
        }
    }

    /// Connects to the server, or to the nodes of a cluster, of which some may be down. Each has `lanes` connections, made on
    /// demand.
    pub async fn connect(
        options: RedisOptions,
        scripts: Vec<Script>,
        lanes: usize,
    ) -> Result<Self, ClientError> {
        if !options.url.unknown.is_empty() {
            tracing::warn!(options = ?options.url.unknown, "unknown options of redis_url are ignored");
        }
        let client = RedisClient::unconnected(options, scripts, lanes);
        client.routes.refresh(&client.connector, &client.options.url).await?;
        let nodes = client.routes.nodes();
        let mut down = Vec::new();
        for node in &nodes {
            match node.connection(0, &client.connector, &client.options.url).await {
                Err(error @ ClientError::Unavailable(_)) => down.push(error),
                connected => drop(connected?),
            }
        }
        if down.len() == nodes.len()
            && let Some(error) = down.pop()
        {
            return Err(error);
        }
        for error in down {
            tracing::warn!(%error, "a node of the cluster does not respond: the others are used");
        }
        client.log_durability();
        Ok(client)
    }

    pub fn place(&self) -> String {
        self.options.url.to_string()
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.options.url.servers, Servers::Cluster(_))
    }

    pub fn figures(&self) -> RedisFigures {
        RedisFigures {
            trips: self.trips.load(Ordering::Relaxed),
            trip_time: Duration::from_micros(self.trip_us.load(Ordering::Relaxed)),
            commands: self.commands.load(Ordering::Relaxed),
        }
    }

    /// The weakest durability of all servers, as reported at the last connection.
    pub fn durability(&self) -> RedisDurability {
        let servers = self.routes.nodes().into_iter().filter_map(|node| node.server());
        servers.map(|server| server.durability).min().unwrap_or(RedisDurability::Unknown)
    }

    /// Sends calls concurrently to the nodes that have their tags; one result for each, in order.
    pub async fn call(
        &self,
        lane: usize,
        confirm: Confirm,
        calls: Vec<Call>,
    ) -> Vec<Result<Value, ClientError>> {
        let deadline = Instant::now() + self.options.timeout;
        let mut answers: Vec<Option<Result<Value, ClientError>>> = calls.iter().map(|_| None).collect();
        let mut waiting: Vec<PendingCall> = calls
            .into_iter()
            .enumerate()
            .map(|(index, call)| PendingCall { index, call, ask: None })
            .collect();
        let mut attempt =
            Attempt { redirections: 0, patient_until: Instant::now() + PATIENCE, repeated: false };
        while !waiting.is_empty() {
            waiting = self.round(lane, confirm, deadline, waiting, &mut answers, &mut attempt).await;
        }
        answers.into_iter().map(|answer| answer.expect("each call was answered")).collect()
    }

    /// One round trip to each node; returns the calls that must be sent again.
    async fn round(
        &self,
        lane: usize,
        confirm: Confirm,
        deadline: Instant,
        waiting: Vec<PendingCall>,
        answers: &mut [Option<Result<Value, ClientError>>],
        attempt: &mut Attempt,
    ) -> Vec<PendingCall> {
        let parcels = match self.parcels(waiting, deadline).await {
            Ok(parcels) => parcels,
            Err((waiting, error)) => {
                for waiting in waiting {
                    answers[waiting.index] = Some(Err(error.clone()));
                }
                return Vec::new();
            }
        };
        let sent =
            join_all(parcels.iter().map(|(node, calls)| self.send(node, lane, confirm, deadline, calls)));
        let outcomes = sent.await;
        let mut again = Again::default();
        for ((node, calls), outcome) in parcels.into_iter().zip(outcomes) {
            match outcome {
                Ok(values) => {
                    for (waiting, value) in calls.into_iter().zip(values) {
                        again.sort(&self.routes, &node, waiting, value, answers);
                    }
                }
                Err(Failure { error, may_repeat }) => {
                    self.routes.suspect();
                    if may_repeat && !attempt.repeated && calls.iter().all(|waiting| waiting.call.repeatable)
                    {
                        again.reason = error.to_string();
                        again.repeated.extend(calls);
                        continue;
                    }
                    for waiting in calls {
                        answers[waiting.index] = Some(Err(error.clone()));
                    }
                }
            }
        }
        self.prepare(again, deadline, answers, attempt).await
    }

    /// Prepares the calls that must be sent again, or fails them.
    async fn prepare(
        &self,
        again: Again,
        deadline: Instant,
        answers: &mut [Option<Result<Value, ClientError>>],
        attempt: &mut Attempt,
    ) -> Vec<PendingCall> {
        let Again { mut redirected, later, mut repeated, reason } = again;
        if !repeated.is_empty() {
            attempt.repeated = true;
        }
        if !redirected.is_empty() {
            attempt.redirections += 1;
            // A one-time redirection does not change the slots.
            if redirected.iter().any(|waiting| waiting.ask.is_none()) {
                self.routes.suspect();
            }
        }
        repeated.append(&mut redirected);
        let now = Instant::now();
        let may_follow = attempt.redirections <= REDIRECTIONS_MAX && now < deadline;
        let may_wait = may_follow && now < attempt.patient_until;
        let waits = may_wait && !later.is_empty();
        let mut failed = if may_follow { Vec::new() } else { std::mem::take(&mut repeated) };
        let of_later = if may_wait { &mut repeated } else { &mut failed };
        of_later.extend(later);
        for waiting in failed {
            answers[waiting.index] = Some(Err(ClientError::Unavailable(reason.clone())));
        }
        if waits {
            tokio::time::sleep(PAUSE).await;
        }
        repeated
    }

    /// Groups the calls by node.
    async fn parcels(
        &self,
        waiting: Vec<PendingCall>,
        deadline: Instant,
    ) -> Result<Vec<(Arc<Node>, Vec<PendingCall>)>, (Vec<PendingCall>, ClientError)> {
        if self.routes.is_suspect() {
            // Asks several nodes if need be; one call at a time.
            let refreshing = self.routes.refresh(&self.connector, &self.options.url);
            let refreshed = tokio::time::timeout_at(deadline, refreshing).await.unwrap_or_else(|_| {
                Err(ClientError::Unavailable(format!("{}: no node responds in time", self.options.url)))
            });
            if let Err(error) = refreshed {
                return Err((waiting, error));
            }
        }
        let mut parcels: Vec<(Arc<Node>, Vec<PendingCall>)> = Vec::new();
        for waiting in waiting {
            let node = match &waiting.ask {
                Some(address) => self.routes.node_at(address),
                None => self.routes.node_of(waiting.call.slot),
            };
            match parcels.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &node)) {
                Some((_, calls)) => calls.push(waiting),
                None => parcels.push((node, vec![waiting])),
            }
        }
        Ok(parcels)
    }

    /// One round trip.
    async fn send(
        &self,
        node: &Node,
        lane: usize,
        confirm: Confirm,
        deadline: Instant,
        calls: &[PendingCall],
    ) -> Result<Vec<Value>, Failure> {
        let connecting = node.connection(lane, &self.connector, &self.options.url);
        let connected = tokio::time::timeout_at(deadline, connecting).await.unwrap_or_else(|_| {
            Err(ClientError::Unavailable(format!("{}: cannot connect", self.options.url)))
        });
        let mut connection = connected.map_err(|error| Failure { error, may_repeat: false })?;
        let place = connection.server.place.clone();
        let mut pipeline = Pipeline::with_capacity(calls.len() + 1);
        for PendingCall { call, ask, .. } in calls {
            if ask.is_some() {
                pipeline.add_command(redis::cmd("ASKING"));
            }
            pipeline.add_command(call.packed(&connection, deadline));
        }
        let replicas_min = match confirm {
            Confirm::Master => 0,
            Confirm::Replicas => self.replicas_min(node),
        };
        if replicas_min > 0 {
            let timeout_ms = self.options.replicas_timeout.as_millis() as u64;
            pipeline.add_command(redis::cmd("WAIT").arg(replicas_min).arg(timeout_ms).take());
        }
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.commands.fetch_add(pipeline.len() as u64, Ordering::Relaxed);
        let sending = connection.mux.send_packed_commands(&pipeline, 0, pipeline.len());
        let began = Instant::now();
        let sent = tokio::time::timeout_at(deadline, sending).await;
        self.trip_us.fetch_add(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        let mut values = match sent {
            Ok(Ok(values)) => values,
            Ok(Err(error)) => {
                node.disconnect();
                let error = connection_error(&place.to_string(), &error);
                return Err(Failure { error, may_repeat: true });
            }
            Err(_) => {
                node.disconnect();
                return Err(Failure { error: late(&place, self.options.timeout), may_repeat: false });
            }
        };
        let confirmation = if replicas_min > 0 { values.pop() } else { None };
        // Skip the responses to ASKING.
        let mut values = values.into_iter();
        let answer = |waiting: &PendingCall| {
            if waiting.ask.is_some() {
                values.next();
            }
            values.next().unwrap_or_default()
        };
        let answers: Vec<Value> = calls.iter().map(answer).collect();
        // Where all calls are refused nothing waits for replicas; a server that has become one refuses WAIT, too.
        let is_written = answers.iter().any(|answer| !matches!(answer, Value::ServerError(_)));
        if replicas_min > 0 && is_written {
            let outcome = confirmed(confirmation, replicas_min, &place.to_string());
            if outcome.is_err() {
                // It may have become a replica, or its replicas may follow another master, which the sentinels know.
                node.disconnect();
            }
            outcome?;
        }
        Ok(answers)
    }

    fn replicas_min(&self, node: &Node) -> u32 {
        self.options.replicas_min.unwrap_or_else(|| {
            let sentinels = matches!(self.options.url.servers, Servers::Sentinels { .. });
            u32::from(sentinels && node.server().is_some_and(|server| server.replicas > 0))
        })
    }

    /// Updates the number of replicas, and leaves a master that was replaced. Called from time to time.
    pub async fn refresh_replicas(&self) {
        if !matches!(self.options.url.servers, Servers::Sentinels { .. }) {
            return;
        }
        let node = self.routes.node_of(0);
        let mut cmd = redis::cmd("INFO");
        cmd.arg("replication");
        let connecting = node.connection(0, &self.connector, &self.options.url);
        let Ok(Ok(mut connection)) = tokio::time::timeout(self.options.timeout, connecting).await else {
            return;
        };
        let asking = connection.mux.send_packed_command(&cmd);
        let Ok(Ok(value)) = tokio::time::timeout(self.options.timeout, asking).await else {
            node.disconnect();
            return;
        };
        node.learn_replication(&value);
        // If the sentinels do not respond, there is nothing to leave it for.
        let leaving = node.leave_deposed(&self.connector, &self.options.url);
        let _ = tokio::time::timeout(self.options.timeout, leaving).await;
    }

    /// Calls [`RedisClient::refresh_replicas`] until the client is dropped.
    pub(crate) async fn watch(client: Weak<Self>) {
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let Some(client) = client.upgrade() else { return };
            client.refresh_replicas().await;
        }
    }

    /// Logs the servers' durability, and dangerous settings.
    fn log_durability(&self) {
        for node in self.routes.nodes() {
            let Some(server) = node.server() else { continue };
            let replicas = self.replicas_min(&node);
            tracing::info!(
                server = %server.place, replicas, "redis stores writes {}", server.durability
            );
            if let Some(policy) = server.harmful_eviction() {
                tracing::error!(
                    server = %server.place,
                    "maxmemory-policy {policy} lets redis drop measures and aggregates: set noeviction"
                );
            }
            if server.is_active_replica {
                tracing::error!(
                    server = %server.place,
                    "an active replica of KeyDB overwrites data with those of the other master: \
                     set active-replica no"
                );
            }
        }
    }
}

struct Attempt {
    redirections: u32,
    patient_until: Instant,
    /// Whether calls were already sent again after a broken connection.
    repeated: bool,
}

/// A failed round trip.
struct Failure {
    error: ClientError,
    /// Whether the connection broke, so that a retry may succeed.
    may_repeat: bool,
}

/// Calls to send again.
#[derive(Default)]
struct Again {
    redirected: Vec<PendingCall>,
    later: Vec<PendingCall>,
    repeated: Vec<PendingCall>,
    reason: String,
}

impl Again {
    fn sort(
        &mut self,
        routes: &Routes,
        node: &Node,
        waiting: PendingCall,
        value: Value,
        answers: &mut [Option<Result<Value, ClientError>>],
    ) {
        let Value::ServerError(error) = value else {
            answers[waiting.index] = Some(Ok(value));
            return;
        };
        match refusal(&error) {
            Refusal::Final(error) => answers[waiting.index] = Some(Err(error)),
            Refusal::Moved(address) => {
                if let Some(address) = connection::redirected(&address) {
                    routes.moved(waiting.call.slot, &address);
                }
                self.redirect("the cluster keeps redirecting", PendingCall { ask: None, ..waiting });
            }
            Refusal::Ask(address) => {
                let ask = connection::redirected(&address);
                self.redirect("the cluster keeps redirecting", PendingCall { ask, ..waiting });
            }
            Refusal::NoScript => {
                node.disconnect();
                self.redirect("the server forgets scripts", PendingCall { ask: None, ..waiting });
            }
            Refusal::Late => {
                // If there is time left a clock was set: a new connection asks for it.
                node.disconnect();
                self.redirect("it arrived too late", PendingCall { ask: None, ..waiting });
            }
            Refusal::NotMaster => {
                node.disconnect();
                self.delay("the server is not the master any more".to_owned(), waiting);
            }
            Refusal::Later(reason) => self.delay(reason, waiting),
        }
    }

    fn redirect(&mut self, reason: &str, waiting: PendingCall) {
        reason.clone_into(&mut self.reason);
        self.redirected.push(waiting);
    }

    fn delay(&mut self, reason: String, waiting: PendingCall) {
        self.reason = reason;
        self.later.push(waiting);
    }
}

fn confirmed(answer: Option<Value>, replicas_min: u32, place: &str) -> Result<(), Failure> {
    let failure = |reason: String| {
        Err(Failure { error: ClientError::Unavailable(format!("{place}: {reason}")), may_repeat: false })
    };
    match answer {
        Some(Value::Int(have)) if have >= i64::from(replicas_min) => Ok(()),
        Some(Value::Int(have)) => {
            failure(format!("{have} of {replicas_min} replicas have it, which is too few"))
        }
        Some(Value::ServerError(error)) => {
            failure(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        _ => failure("no answer to WAIT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To connect may take longer than a call waits for a server that loads its data.
    #[tokio::test]
    async fn a_late_redirection_is_followed() {
        let options = RedisOptions::new("redis+cluster://127.0.0.1:1".parse().unwrap());
        let client = RedisClient::unconnected(options, Vec::new(), 1);
        let call = |index| PendingCall { index, call: Call::command("PING", &Tag::new("any")), ask: None };
        let now = Instant::now();
        for (redirections, followed) in [(0, vec![0]), (REDIRECTIONS_MAX, vec![])] {
            let again = Again { redirected: vec![call(0)], later: vec![call(1)], ..Again::default() };
            let mut attempt = Attempt { redirections, patient_until: now, repeated: false };
            let mut answers: Vec<Option<Result<Value, ClientError>>> = vec![None, None];
            let next = client.prepare(again, now + Duration::from_hours(1), &mut answers, &mut attempt).await;
            assert_eq!(next.iter().map(|waiting| waiting.index).collect::<Vec<_>>(), followed);
            assert_eq!(answers.iter().filter(|answer| answer.is_some()).count(), 2 - followed.len());
        }
    }

    /// Nodes that accept connections and never answer; the time to connect to all is far above the timeout.
    #[tokio::test]
    async fn a_call_keeps_its_timeout_while_no_node_answers() {
        let nodes: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let hosts: Vec<String> = nodes.iter().map(|node| node.local_addr().unwrap().to_string()).collect();
        let url: RedisUrl = format!("redis+cluster://{}", hosts.join(",")).parse().unwrap();
        let options = RedisOptions {
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_mins(1),
            ..RedisOptions::new(url)
        };
        let client = RedisClient::unconnected(options, Vec::new(), 1);
        let call = || client.call(0, Confirm::Master, vec![Call::command("PING", &Tag::new("any"))]);
        // Three calls: two of them wait for the first one's refresh.
        let calls = join_all((0..3).map(|_| call()));
        let answers = tokio::time::timeout(Duration::from_secs(20), calls).await.expect("a call hung");
        let unavailable =
            |answer: &Result<Value, ClientError>| matches!(answer, Err(ClientError::Unavailable(_)));
        assert!(answers.iter().flatten().all(unavailable), "{answers:?}");
    }
}
