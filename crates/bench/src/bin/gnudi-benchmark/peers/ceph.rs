//! A temporary Ceph cluster on loopback: a monitor, a manager and two OSDs on the memory store, without authentication.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use gnudi_rados::{Cluster, ConnectOptions, Librados};
use serde_json::{Value, json};

use super::{
    START_DELAY_MAX, Site,
    child::{Guarded, Processes, Signal, output_of},
    free_address,
};

/// The cluster's folder in a site.
const FOLDER: &str = "ceph";
/// As in the published runs.
pub const OSDS: usize = 2;
/// Range of ports of the daemons, which each use the first free ones.
const DAEMON_PORTS: u16 = 200;
/// The kernel's limit, without the final NUL.
const SOCKET_PATH_LEN_MAX: usize = 107;
/// Probe objects per placement group: with these, every group gets some.
const PROBES: u32 = 8;
const PACKAGES: [(&str, &str); 4] = [
    ("ceph-mon", "ceph-mon"),
    ("monmaptool", "ceph-base"),
    ("ceph-osd", "ceph-osd"),
    ("ceph-mgr", "ceph-mgr"),
];

/// Settings that do not depend on the directory.
const SETTINGS: &str = include_str!("ceph.conf");

/// A running cluster; dropping it closes the connection and stops the daemons.
#[derive(Debug)]
pub struct Ceph {
    pub cluster: Cluster,
    daemons: Processes,
    pub conf: PathBuf,
}

impl Ceph {
    /// Starts a cluster in a folder of the site's directory; returns once its OSDs are up.
    pub(super) fn start(librados: &Librados, site: &Site) -> Result<Self> {
        check_installed(&PACKAGES)?;
        let root = site.directory.join(FOLDER);
        let socket_len = root.join("osd.0.asok").as_os_str().len();
        ensure!(
            socket_len <= SOCKET_PATH_LEN_MAX,
            "{} is too long for a socket's path: set TMPDIR",
            root.display()
        );
        for name in ["mon", "mgr", "osd0", "osd1"] {
            std::fs::create_dir_all(root.join(name))?;
        }
        let conf = root.join("ceph.conf");
        let monitor = format!("[v2:{},v1:{}]", free_address()?, free_address()?);
        let fsid = uuid::Uuid::new_v4().to_string();
        std::fs::write(&conf, configuration(&root, &fsid, &monitor)?)?;
        let site = CephSite { site, conf: &conf };
        let mut daemons = Processes(vec![site.start_monitor(&fsid, &monitor)?]);
        let connect = ConnectOptions { conf: Some(conf.clone()), ..ConnectOptions::default() };
        let cluster = Cluster::connect(librados, &connect)
            .with_context(|| format!("the monitor says: {}", daemons.0[0].log_end()))?;
        for number in 0..OSDS {
            daemons.0.push(site.start_osd(&cluster, number)?);
        }
        daemons.0.push(site.start("ceph-mgr", "x", "mgr.out")?);
        let up = |stat: Value| stat["num_up_osds"].as_u64() == Some(OSDS as u64);
        let active = |stat: Value| stat["available"].as_bool() == Some(true);
        let last = daemons.0.last_mut().expect("started");
        last.wait_ready(START_DELAY_MAX, || {
            monitor_command(&cluster, &json!({"prefix": "osd stat"})).is_ok_and(up)
                && monitor_command(&cluster, &json!({"prefix": "mgr dump"})).is_ok_and(active)
        })?;
        Ok(Ceph { cluster, daemons, conf })
    }

    pub fn pids(&self) -> Vec<u32> {
        self.daemons.0.iter().map(Guarded::pid).collect()
    }
}

/// Sends a command to the monitors; returns the JSON of the response, or null.
pub fn monitor_command(cluster: &Cluster, command: &Value) -> Result<Value> {
    let mut command = command.clone();
    command["format"] = json!("json");
    let answer = cluster.mon_command(&command.to_string())?;
    if answer.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&answer).with_context(|| format!("the answer to {command}"))
}

/// Creates a pool and waits until all its placement groups accept operations.
pub fn create_pool(cluster: &Cluster, name: &str, placement_groups: u32) -> Result<()> {
    let create = json!({
        "prefix": "osd pool create", "pool": name, "pg_num": placement_groups, "pgp_num": placement_groups,
        "autoscale_mode": "off",
    });
    monitor_command(cluster, &create)?;
    let tag = json!({"prefix": "osd pool application enable", "pool": name, "app": "gnudi"});
    monitor_command(cluster, &tag)?;
    // An operation waits until its placement group is active.
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

/// An error with the packages of missing programs.
pub fn check_installed(programs: &[(&str, &str)]) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &str| std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let missing: Vec<_> = programs.iter().copied().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, packages): (Vec<&str>, Vec<&str>) = missing.into_iter().unzip();
    bail!("not installed: {} (Debian's packages: {})", programs.join(", "), packages.join(", "))
}

struct CephSite<'a> {
    site: &'a Site<'a>,
    conf: &'a Path,
}

impl CephSite<'_> {
    /// A program as the daemon with this name.
    fn command(&self, program: &str, id: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["-i", id]).arg("-c").arg(self.conf);
        command
    }

    fn start(&self, program: &str, id: &str, log: &str) -> Result<Guarded> {
        let log = format!("{FOLDER}/{log}");
        self.site.start(self.command(program, id).arg("-f"), &log, Signal::KILL, || true)
    }

    fn start_monitor(&self, fsid: &str, address: &str) -> Result<Guarded> {
        let map = self.conf.with_file_name("monmap");
        let options = ["--create", "--fsid", fsid, "--addv", "a", address];
        output_of(Command::new("monmaptool").args(options).arg(&map))?;
        output_of(self.command("ceph-mon", "a").args(["--mkfs", "--monmap"]).arg(&map))?;
        self.start("ceph-mon", "a", "mon.out")
    }

    fn start_osd(&self, cluster: &Cluster, number: usize) -> Result<Guarded> {
        let id = uuid::Uuid::new_v4().to_string();
        let answer = monitor_command(cluster, &json!({"prefix": "osd new", "uuid": id}))?;
        ensure!(answer["osdid"].as_u64() == Some(number as u64), "OSD {number} is called {answer}");
        let name = number.to_string();
        output_of(self.command("ceph-osd", &name).args(["--mkfs", "--osd-uuid", &id]))?;
        self.start("ceph-osd", &name, &format!("osd{number}.out"))
    }
}

fn configuration(root: &Path, fsid: &str, monitor: &str) -> Result<String> {
    let first_port = free_address()?.port().min(u16::MAX - DAEMON_PORTS);
    let last_port = first_port + DAEMON_PORTS;
    let root = root.display();
    // Through the OSDs' sockets they also execute commands from the network.
    Ok(format!(
        "[global]\nfsid = {fsid}\nmon host = {monitor}\nms bind port min = {first_port}\nms bind port max = {last_port}\n\
         run dir = {root}\nlog file = {root}/$name.log\nmon data = {root}/mon\nmgr data = {root}/mgr\n\
         osd data = {root}/osd$id\n{SETTINGS}[osd]\nadmin socket = {root}/$name.asok\n"
    ))
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
}
