//! A Ceph cluster on loopback for one run: a monitor, a manager and two OSDs on the memory store, without authentication.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use gnudi_rados::{Cluster, ConnectOptions, Librados};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    START_DELAY_MAX,
    child::{Guarded, Leftovers, Signal, run_to_end},
    free_address,
};

/// As in the published runs.
pub const OSDS: usize = 2;
/// Ports that the daemons choose from, each the first that is free.
const DAEMON_PORTS: u16 = 200;
/// What the kernel takes, without the NUL at its end.
const SOCKET_PATH_LEN_MAX: usize = 107;
/// Objects asked for, for each placement group: by their names some fall into every group.
const PROBES: u32 = 8;
/// What each program comes in, as Debian names it.
const PACKAGES: [(&str, &str); 4] = [
    ("ceph-mon", "ceph-mon"),
    ("monmaptool", "ceph-base"),
    ("ceph-osd", "ceph-osd"),
    ("ceph-mgr", "ceph-mgr"),
];

/// How a cluster is started and spoken to.
#[derive(Clone, Debug, Args)]
pub struct CephOptions {
    /// Ceph's client library.
    #[arg(long, value_name = "FILE", default_value = Librados::NAME)]
    pub librados: PathBuf,
    /// An option of ceph.conf for the cluster that is started ("osd heartbeat grace=4"); can be repeated.
    #[arg(long = "ceph-option", value_name = "NAME=VALUE", value_parser = option)]
    pub ceph_options: Vec<(String, String)>,
}

fn option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !text.contains(['\n', '[', '#', ';']) => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("not of the form NAME=VALUE".to_owned()),
    }
}

/// A running cluster, which ends with this value: first the connection, then the daemons, then what they left on disk.
#[derive(Debug)]
pub struct Ceph {
    cluster: Cluster,
    daemons: Daemons,
    directory: TempDir,
}

/// In the order of their start; the monitor, started first, ends last.
#[derive(Debug)]
struct Daemons(Vec<Guarded>);

impl Drop for Daemons {
    fn drop(&mut self) {
        while let Some(daemon) = self.0.pop() {
            drop(daemon);
        }
    }
}

impl Ceph {
    /// Starts a cluster; its OSDs are up when this returns.
    pub fn start(librados: &Librados, options: &CephOptions, leftovers: &Leftovers) -> Result<Self> {
        check_installed(&PACKAGES)?;
        let directory =
            tempfile::Builder::new().prefix("gnudi-bench-ceph-").tempdir().context("a directory")?;
        leftovers.add_directory(directory.path());
        let root = directory.path();
        let socket_len = root.join("osd.0.asok").as_os_str().len();
        ensure!(
            socket_len <= SOCKET_PATH_LEN_MAX,
            "{} is too long for a socket's path: set TMPDIR",
            root.display()
        );
        let conf = root.join("ceph.conf");
        let monitor = format!("[v2:{},v1:{}]", free_address()?, free_address()?);
        let fsid = uuid::Uuid::new_v4().to_string();
        std::fs::write(&conf, configuration(root, &fsid, &monitor, &options.ceph_options)?)?;
        for name in ["mon", "mgr", "osd0", "osd1"] {
            std::fs::create_dir(root.join(name))?;
        }
        let mut daemons = Daemons(vec![start_monitor(root, &conf, &fsid, &monitor, leftovers)?]);
        let connect = ConnectOptions { conf: Some(conf.clone()), ..ConnectOptions::default() };
        let cluster = Cluster::connect(librados, &connect)
            .with_context(|| format!("the monitor says: {}", daemons.0[0].log_end()))?;
        for number in 0..OSDS {
            daemons.0.push(start_osd(root, &conf, &cluster, number, leftovers)?);
        }
        let mut command = Command::new("ceph-mgr");
        command.arg("-f").args(["-i", "x"]).arg("-c").arg(&conf);
        daemons.0.push(Guarded::start(command, &root.join("mgr.out"), Signal::Kill, leftovers)?);
        let mut ceph = Ceph { cluster, daemons, directory };
        ceph.wait_up()?;
        Ok(ceph)
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn conf(&self) -> PathBuf {
        self.directory().join("ceph.conf")
    }

    /// Of its daemons.
    pub fn pids(&self) -> Vec<u32> {
        self.daemons.0.iter().map(Guarded::pid).collect()
    }

    /// Where all files of the cluster lie.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn wait_up(&mut self) -> Result<()> {
        let cluster = &self.cluster;
        let last = self.daemons.0.last_mut().expect("started");
        last.wait_ready(START_DELAY_MAX, || {
            let up = |stat: Value| stat["num_up_osds"].as_u64() == Some(OSDS as u64);
            let active = |stat: Value| stat["available"].as_bool() == Some(true);
            monitor_command(cluster, &json!({"prefix": "osd stat"})).is_ok_and(up)
                && monitor_command(cluster, &json!({"prefix": "mgr dump"})).is_ok_and(active)
        })
    }
}

/// Sends a command to the monitors of a cluster: the JSON of the answer, null where there is none.
pub fn monitor_command(cluster: &Cluster, command: &Value) -> Result<Value> {
    let mut command = command.clone();
    command["format"] = json!("json");
    let answer = cluster.mon_command(&command.to_string())?;
    if answer.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&answer).with_context(|| format!("the answer to {command}"))
}

/// Creates a pool and waits until all of its placement groups take operations.
pub fn create_pool(cluster: &Cluster, name: &str, placement_groups: u32) -> Result<()> {
    let create = json!({
        "prefix": "osd pool create", "pool": name, "pg_num": placement_groups, "pgp_num": placement_groups,
        "autoscale_mode": "off",
    });
    monitor_command(cluster, &create)?;
    let tag = json!({"prefix": "osd pool application enable", "pool": name, "app": "gnudi"});
    monitor_command(cluster, &tag)?;
    // An operation on a placement group that is not yet active waits until it is.
    let pool = cluster.open_pool(name)?;
    let probes: Vec<_> =
        (0..placement_groups * PROBES).map(|number| pool.stat(&format!("probe.{number}"))).collect();
    for probe in probes {
        match probe.wait() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// An error that names the packages of the programs that are missing.
pub fn check_installed(programs: &[(&str, &str)]) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &str| std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let missing: Vec<&(&str, &str)> = programs.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = |of: fn(&(&str, &str)) -> String| {
        missing.iter().map(|missing| of(missing)).collect::<Vec<_>>().join(", ")
    };
    bail!(
        "not installed: {} (Debian's packages: {})",
        names(|(program, _)| (*program).to_owned()),
        names(|(_, package)| (*package).to_owned()),
    )
}

fn start_monitor(
    root: &Path,
    conf: &Path,
    fsid: &str,
    address: &str,
    leftovers: &Leftovers,
) -> Result<Guarded> {
    let map = root.join("monmap");
    let mut command = Command::new("monmaptool");
    command.args(["--create", "--fsid", fsid, "--addv", "a", address]).arg(&map);
    run_to_end(command)?;
    let mut command = Command::new("ceph-mon");
    command.args(["--mkfs", "-i", "a", "--monmap"]).arg(&map).arg("-c").arg(conf);
    run_to_end(command)?;
    let mut command = Command::new("ceph-mon");
    command.arg("-f").args(["-i", "a"]).arg("-c").arg(conf);
    Guarded::start(command, &root.join("mon.out"), Signal::Kill, leftovers)
}

fn start_osd(
    root: &Path,
    conf: &Path,
    cluster: &Cluster,
    number: usize,
    leftovers: &Leftovers,
) -> Result<Guarded> {
    let id = uuid::Uuid::new_v4().to_string();
    let answer = monitor_command(cluster, &json!({"prefix": "osd new", "uuid": id}))?;
    ensure!(answer["osdid"].as_u64() == Some(number as u64), "OSD {number} is called {answer}");
    let number = number.to_string();
    let mut command = Command::new("ceph-osd");
    command.args(["-i", &number, "--mkfs", "--osd-uuid", &id]).arg("-c").arg(conf);
    run_to_end(command)?;
    let mut command = Command::new("ceph-osd");
    command.arg("-f").args(["-i", &number]).arg("-c").arg(conf);
    Guarded::start(command, &root.join(format!("osd{number}.out")), Signal::Kill, leftovers)
}

fn configuration(root: &Path, fsid: &str, monitor: &str, more: &[(String, String)]) -> Result<String> {
    let first_port = free_address()?.port().min(u16::MAX - DAEMON_PORTS);
    let mut text = "[global]\n".to_owned();
    let mut set = |option: &str, value: &str| {
        writeln!(text, "{option} = {value}").expect("a String takes it");
    };
    set("fsid", fsid);
    set("mon host", monitor);
    set("ms bind port min", &first_port.to_string());
    set("ms bind port max", &(first_port + DAEMON_PORTS).to_string());
    for option in ["public addr", "cluster addr"] {
        set(option, "127.0.0.1");
    }
    // radosgw asks for more than a cluster without authentication offers.
    set("ms mon client mode", "crc");
    for option in ["auth cluster required", "auth service required", "auth client required"] {
        set(option, "none");
    }
    // One copy of each object, in pools whose placement groups only the run itself changes.
    set("osd pool default size", "1");
    set("osd pool default min size", "1");
    set("osd pool default pg num", "1");
    set("osd pool default pgp num", "1");
    set("osd pool default pg autoscale mode", "off");
    set("mon allow pool size one", "true");
    set("mon allow pool delete", "true");
    set("mon max pg per osd", "1000");
    // Two OSDs of one host.
    set("osd crush chooseleaf type", "0");
    set("osd objectstore", "memstore");
    set("memstore device bytes", &(4_u64 << 30).to_string());
    // The monitor's own disk must not stand in the way, and backfill goes as fast as it can.
    set("paxos propose interval", "0.05");
    set("paxos min wait", "0.01");
    set("mon data avail warn", "1");
    set("mon data avail crit", "0");
    // The manager acts on a pool's targets at its ticks, by what the OSDs have reported.
    set("mgr tick period", "1");
    set("mgr stats period", "1");
    set("osd recovery sleep", "0");
    set("osd recovery sleep hdd", "0");
    set("admin socket", "");
    set("run dir", &root.display().to_string());
    set("log file", &root.join("$name.log").display().to_string());
    set("mon data", &root.join("mon").display().to_string());
    set("mgr data", &root.join("mgr").display().to_string());
    set("osd data", &root.join("osd$id").display().to_string());
    for (option, value) in more {
        set(option, value);
    }
    // Through this socket's thread an OSD also answers commands that come over the network.
    text += "[osd]\n";
    writeln!(text, "admin socket = {}", root.join("$name.asok").display()).expect("a String takes it");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_told_with_their_packages() {
        let error = check_installed(&[("sh", "dash"), ("no-such-program", "some-package")]).unwrap_err();
        assert_eq!(error.to_string(), "not installed: no-such-program (Debian's packages: some-package)");
        assert!(check_installed(&[("sh", "dash")]).is_ok());
    }

    #[test]
    fn options_stand_after_ours_and_cannot_open_a_section() {
        let more = [option("osd heartbeat grace = 4").unwrap()];
        let text = configuration(Path::new("/d"), "id", "address", &more).unwrap();
        let (general, of_osds) = text.split_once("[osd]\n").unwrap();
        assert!(general.ends_with("osd heartbeat grace = 4\n"), "{general}");
        assert!(of_osds.contains("/d/$name.asok"), "{of_osds}");
        for bad in ["no value", "=4", "a=b\n[mon]", "a=[b]", "a=b#c"] {
            assert!(option(bad).is_err(), "{bad}");
        }
    }
}
