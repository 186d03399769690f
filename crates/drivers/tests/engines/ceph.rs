//! A Ceph for tests, on loopback: a monitor and two OSDs with the memory store, without authentication.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use gnudi_drivers::objects::ceph::CephOptions;
use gnudi_rados::{Cluster, ConnectOptions, Librados};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Server, folder, free_port, free_ports, program, run};

const OSDS: usize = 2;
/// Daemons take the first free port of this many.
const DAEMON_PORTS: u16 = 200;

pub struct Ceph {
    osds: Vec<Server>,
    _monitor: Server,
    cluster: Cluster,
    port: u16,
    folder: TempDir,
}

impl Ceph {
    /// Returns once its OSDs are up, and pools can be created.
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        let root = folder.path();
        let (fsid, conf) = (uuid::Uuid::new_v4().to_string(), root.join("ceph.conf"));
        let address = format!("[v2:127.0.0.1:{port},v1:127.0.0.1:{}]", free_port());
        fs::write(&conf, configuration(root, &fsid, &address)).unwrap();
        for name in ["mon", "osd0", "osd1"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let map = root.join("monmap");
        let make = ["--create", "--fsid", &fsid, "--addv", "a", &address];
        run(Command::new(program("monmaptool", "ceph-base")).args(make).arg(&map));
        let monitor = || {
            let mut command = Command::new(program("ceph-mon", "ceph-mon"));
            command.args(["-i", "a", "-c"]).arg(&conf).env_remove("CEPH_ARGS");
            command
        };
        run(monitor().args(["--mkfs", "--monmap"]).arg(&map));
        let mut serving = monitor();
        serving.arg("-f");
        let monitor = Server::start(serving, port, &root.join("mon.out"));
        let librados = Librados::load(Path::new(Librados::NAME)).unwrap();
        let connect = ConnectOptions { conf: Some(conf), ..ConnectOptions::default() };
        let cluster = Cluster::connect(&librados, &connect).unwrap();
        let mut ceph = Ceph { osds: Vec::new(), _monitor: monitor, cluster, port, folder };
        for number in 0..OSDS {
            let id = uuid::Uuid::new_v4().to_string();
            ceph.command(&json!({"prefix": "osd new", "uuid": id}));
            run(ceph.osd_command(number).args(["--mkfs", "--osd-uuid", &id]));
            let osd = ceph.serve(number);
            ceph.osds.push(osd);
        }
        ceph.wait_up(OSDS);
        ceph
    }

    pub fn conf(&self) -> PathBuf {
        self.folder.path().join("ceph.conf")
    }

    /// For its pool `gnocchi`.
    pub fn options(&self) -> CephOptions {
        CephOptions { conffile: self.conf(), ..CephOptions::default() }
    }

    pub fn create_pool(&self, name: &str) {
        self.command(&json!({"prefix": "osd pool create", "pool": name, "pg_num": 4, "pgp_num": 4}));
    }

    /// Suspends an OSD like a stalled machine: it keeps its data, but does not respond until resumed.
    pub fn pause_osd(&self, number: usize) {
        self.osds[number].pause();
    }

    pub fn resume_osd(&self, number: usize) {
        self.osds[number].resume();
    }

    /// Ends an OSD, whose data in memory is lost.
    pub fn lose_osd(&mut self, number: usize) {
        self.osds[number].stop();
    }

    /// Refuses the client with these addresses from now on.
    pub fn blocklist(&self, addresses: &str) {
        self.command(&json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": addresses}));
    }

    /// How many OSDs are up, according to the monitor.
    pub fn osds_up(&self) -> usize {
        self.command(&json!({"prefix": "osd stat", "format": "json"}))["num_up_osds"].as_u64().unwrap()
            as usize
    }

    fn wait_up(&mut self, count: usize) {
        let cluster = self.cluster.clone();
        let stat = json!({"prefix": "osd stat", "format": "json"}).to_string();
        self.osds.last_mut().unwrap().wait_until(|_| {
            let answer: Value = serde_json::from_slice(&cluster.mon_command(&stat).unwrap()).unwrap();
            answer["num_up_osds"] == json!(count)
        });
    }

    fn osd_command(&self, number: usize) -> Command {
        let mut command = Command::new(program("ceph-osd", "ceph-osd"));
        command.args(["-i", &number.to_string(), "-c"]).arg(self.conf()).env_remove("CEPH_ARGS");
        command
    }

    fn serve(&self, number: usize) -> Server {
        let log = self.folder.path().join(format!("osd{number}.out"));
        // Its port is unknown; the monitor's is open, so this does not wait.
        let mut command = self.osd_command(number);
        command.arg("-f");
        Server::start(command, self.port, &log)
    }

    /// `Null` if the command has no output.
    fn command(&self, command: &Value) -> Value {
        let answer = self.cluster.mon_command(&command.to_string()).unwrap();
        if command["format"] == "json" { serde_json::from_slice(&answer).unwrap() } else { Value::Null }
    }
}

fn configuration(root: &Path, fsid: &str, monitor: &str) -> String {
    let first_port = free_ports(DAEMON_PORTS);
    let last_port = (first_port + DAEMON_PORTS - 1).to_string();
    let file = |name: &str| root.join(name).display().to_string();
    let mut text = "[global]\n".to_owned();
    for (option, value) in [
        ("fsid", fsid),
        ("mon host", monitor),
        ("public addr", "127.0.0.1"),
        ("cluster addr", "127.0.0.1"),
        ("ms bind port min", &first_port.to_string()),
        ("ms bind port max", &last_port),
        ("auth cluster required", "none"),
        ("auth service required", "none"),
        ("auth client required", "none"),
        ("ms mon client mode", "crc"),
        // Each object is on both OSDs.
        ("osd pool default size", "2"),
        ("osd pool default min size", "1"),
        ("osd pool default pg num", "4"),
        ("osd pool default pg autoscale mode", "off"),
        ("mon max pg per osd", "5000"),
        ("mon allow pool delete", "true"),
        ("osd crush chooseleaf type", "0"),
        ("osd objectstore", "memstore"),
        ("memstore device bytes", "2147483648"),
        ("mon data avail crit", "0"),
        ("paxos propose interval", "0.05"),
        // A dead OSD is noticed by its closed port. A slow one must not count as dead: writes meanwhile would
        // be on the other only.
        ("osd heartbeat grace", "300"),
        // A fraction of the grace: until the lost OSD's read lease ends, 6 seconds, no other serves its
        // objects.
        ("osd pool default read lease ratio", "0.02"),
        ("mon osd min down reporters", "1"),
        ("admin socket", ""),
        ("run dir", &file("")),
        ("log file", &file("$name.log")),
        ("mon data", &file("mon")),
        ("osd data", &file("osd$id")),
    ] {
        writeln!(text, "{option} = {value}").unwrap();
    }
    text
}
