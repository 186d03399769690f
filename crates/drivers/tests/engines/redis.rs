//! Redis for tests: a server, a master with a replica and three sentinels, a cluster of three nodes; on
//! loopback.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{fs, path::PathBuf, process::Command, thread, time::Duration};

use tempfile::TempDir;

use super::server::{Server, folder, free_port, program};

/// Every write is on disk before the response.
pub const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

pub struct RedisServer {
    pub process: Server,
    pub port: u16,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server with further arguments; with none, nothing is persisted.
    pub fn start(arguments: &[&str]) -> Self {
        let (folder, port) = (folder(), free_port());
        let mut command = Command::new(program("redis-server", "redis-server"));
        command.args(["--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0"]);
        command.arg("--port").arg(port.to_string()).arg("--dir").arg(folder.path()).args(arguments);
        let is_ready = move || ask::<String>(port, &["PING"]).is_ok();
        let process = Server::start_until(command, port, &folder.path().join("log"), is_ready);
        RedisServer { process, port, folder }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Sends a command; fails if it is refused.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        ask(self.port, command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    pub fn used_memory_bytes(&self) -> u64 {
        let info: String = self.ask(&["INFO", "memory"]);
        info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap()
    }
}

/// Sends a command to a server on loopback.
pub fn ask<T: redis::FromRedisValue>(port: u16, command: &[&str]) -> redis::RedisResult<T> {
    let client = redis::Client::open(("127.0.0.1", port))?;
    let mut connection = client.get_connection_with_timeout(Duration::from_secs(2))?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut cmd = redis::Cmd::new();
    for word in command {
        cmd.arg(word);
    }
    cmd.query(&mut connection)
}

fn wait_until(what: &str, ready: impl Fn() -> bool) {
    for _ in 0..1200 {
        if ready() {
            return;
        }
        thread::sleep(Duration::from_millis(25));
    }
    panic!("{what}: not within 30 s");
}

/// A master, a replica, and three sentinels, which fail over when the master is gone for a second.
pub struct RedisSentinels {
    pub servers: [RedisServer; 2],
    sentinels: Vec<RedisSentinel>,
}

struct RedisSentinel {
    port: u16,
    _server: Server,
    _folder: TempDir,
}

impl RedisSentinels {
    pub fn start(arguments: &[&str]) -> Self {
        let master = RedisServer::start(arguments);
        let port = master.port.to_string();
        let replica = RedisServer::start(&[arguments, &["--replicaof", "127.0.0.1", &port]].concat());
        let sentinels: Vec<RedisSentinel> = (0..3).map(|_| RedisSentinel::start(master.port)).collect();
        for sentinel in &sentinels {
            wait_until("the sentinels know each other", || {
                let told: redis::RedisResult<Vec<String>> =
                    ask(sentinel.port, &["SENTINEL", "MASTER", "tests"]);
                let field = |told: &[String], name: &str| {
                    told.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
                };
                told.is_ok_and(|told| {
                    field(&told, "num-slaves").as_deref() == Some("1")
                        && field(&told, "num-other-sentinels").as_deref() == Some("2")
                })
            });
        }
        wait_until("the replica is there", || {
            let info: String = master.ask(&["INFO", "replication"]);
            info.contains("state=online")
        });
        RedisSentinels { servers: [master, replica], sentinels }
    }

    pub fn url(&self) -> String {
        let [first, others @ ..] = &self.sentinels[..] else { unreachable!() };
        let fallbacks = others.iter().map(|other| format!("&sentinel_fallback=127.0.0.1:{}", other.port));
        format!("redis://127.0.0.1:{}?sentinel=tests{}", first.port, fallbacks.collect::<String>())
    }

    /// The port of the sentinels' master.
    pub fn master_port(&self) -> u16 {
        let told: (String, u16) =
            ask(self.sentinels[0].port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "tests"]).unwrap();
        told.1
    }

    /// Makes the replica the sentinels' master. The former one is cut off from all of them, and goes on.
    pub fn replace_master(&self) {
        let replica = &self.servers[1];
        for sentinel in &self.sentinels {
            let port = replica.port.to_string();
            ask::<String>(sentinel.port, &["SENTINEL", "REMOVE", "tests"]).unwrap();
            ask::<String>(sentinel.port, &["SENTINEL", "MONITOR", "tests", "127.0.0.1", &port, "2"]).unwrap();
        }
        replica.ask::<String>(&["REPLICAOF", "NO", "ONE"]);
    }
}

impl RedisSentinel {
    fn start(master: u16) -> Self {
        let (folder, port) = (folder(), free_port());
        let file = folder.path().join("sentinel.conf");
        let configuration = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor tests 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds tests 1000\nsentinel failover-timeout tests 5000\n",
            folder.path().display()
        );
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(program("redis-server", "redis-server"));
        command.arg(&file).arg("--sentinel");
        let server = Server::start(command, port, &folder.path().join("log"));
        RedisSentinel { port, _server: server, _folder: folder }
    }
}

/// Three masters that share the slots.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    pub fn start(arguments: &[&str]) -> Self {
        let nodes: Vec<RedisServer> = (0..3).map(|_| Self::node(arguments)).collect();
        let bounds = [0, 5461, 10_923, 16_384];
        for (index, node) in nodes.iter().enumerate() {
            let (first, last) = (bounds[index].to_string(), (bounds[index + 1] - 1).to_string());
            node.ask::<String>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            node.ask::<String>(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for other in &nodes[1..] {
            let (_, bus): (String, String) = other.ask(&["CONFIG", "GET", "cluster-port"]);
            nodes[0].ask::<String>(&["CLUSTER", "MEET", "127.0.0.1", &other.port.to_string(), &bus]);
        }
        for node in &nodes {
            wait_until("the cluster has formed", || {
                let info: String = node.ask(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            });
        }
        RedisCluster { nodes }
    }

    fn node(arguments: &[&str]) -> RedisServer {
        let bus = free_port().to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", &bus];
        RedisServer::start(&[&own, arguments].concat())
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Moves a key's slot, with all its keys, to a node.
    pub fn move_slot_of(&self, key: &str, to: usize) {
        let slot: u16 = self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]);
        let slot = slot.to_string();
        let ids: Vec<String> = self.nodes.iter().map(|node| node.ask(&["CLUSTER", "MYID"])).collect();
        let has = |node: &RedisServer| {
            let nodes: String = node.ask(&["CLUSTER", "NODES"]);
            nodes.lines().any(|line| line.contains("myself") && covers(line, slot.parse().unwrap()))
        };
        let from = self.nodes.iter().position(has).unwrap();
        if from == to {
            return;
        }
        self.nodes[to].ask::<String>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[from]]);
        self.nodes[from].ask::<String>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[to]]);
        let mut client = redis::Client::open(self.nodes[from].url()).unwrap().get_connection().unwrap();
        loop {
            let keys: Vec<Vec<u8>> =
                redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(&slot).arg(100).query(&mut client).unwrap();
            if keys.is_empty() {
                break;
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.nodes[to].port).arg("").arg(0).arg(5000).arg("KEYS").arg(keys);
            migrate.exec(&mut client).unwrap();
        }
        for node in [to, from, 3 - to - from] {
            self.nodes[node].ask::<String>(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]);
        }
    }
}

/// Whether a line of `CLUSTER NODES` lists the slot.
fn covers(line: &str, slot: u16) -> bool {
    line.split_whitespace().skip(8).filter(|range| !range.starts_with('[')).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (first.parse().unwrap()..=last.parse().unwrap()).contains(&slot)
    })
}
