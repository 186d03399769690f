//! Common to all test engines: finds a program, a port and a folder, and ends started processes.
//!
//! Engines listen on loopback only. Each is a child of the test and ends with it. A test that needs an engine
//! includes this file and the engine's as sibling modules.
#![allow(dead_code, reason = "each engine needs a part of this")]

use std::{
    env,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener, TcpStream},
    ops::Range,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Timeout of an engine's start or end.
const PATIENCE: Duration = Duration::from_mins(3);

const MEMORY: &str = "/dev/shm";
/// Space that the engines of a test may fill.
const ROOM_BYTES: u64 = 4 << 30;

/// Folders of programs that may not be in PATH.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// A program's path; the test fails if it is missing, and names its package.
pub fn program(name: &str, package: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    env::split_paths(&path)
        .chain(FOLDERS.map(PathBuf::from))
        .chain(versions.into_iter().rev())
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: install the package {package}"))
}

/// A unique name.
pub fn fresh_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Below the ports that Linux gives to outgoing connections.
const PORTS: Range<u16> = 20_000..32_000;
/// Ports that one process gives out.
const PORTS_BLOCK: u16 = 500;

/// The block of ports of this process: locked, as `tests/support/process.py` locks its own of the same range.
struct Ports {
    _lock: File,
    first: u16,
    next: Mutex<u16>,
}

static PORTS_HERE: LazyLock<Ports> = LazyLock::new(|| {
    let count = u32::from((PORTS.end - PORTS.start) / PORTS_BLOCK);
    for number in 0..count {
        let block = u16::try_from((std::process::id() + number) % count).unwrap();
        let first = PORTS.start + block * PORTS_BLOCK;
        if let Ok(lock) = File::create(env::temp_dir().join(format!("gnudi-test-ports-{first}")))
            && lock.try_lock().is_ok()
        {
            return Ports { _lock: lock, first, next: Mutex::new(first) };
        }
    }
    panic!("other test runs have all ports of {PORTS:?}");
});

/// A free port, which no other test gets.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of as many ports in a row, which no other test gets. That one is free, and the others are but for a chance.
pub fn free_ports(count: u16) -> u16 {
    let Ports { first, next, .. } = &*PORTS_HERE;
    let mut next = next.lock().unwrap();
    for _ in 0..PORTS_BLOCK {
        if *next + count > first + PORTS_BLOCK {
            *next = *first;
        }
        let port = *next;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            *next = port + count;
            return port;
        }
        *next += 1;
    }
    panic!("no port is free");
}

/// A folder accessible to every user, since some engines run as their own. In memory if there is room: no
/// engine must survive the machine, and a slow disk must not delay one.
pub fn folder() -> TempDir {
    let parent = if has_room(MEMORY) { MEMORY } else { "/tmp" };
    let dir = tempfile::Builder::new().prefix("gnudi-engine-").tempdir_in(parent).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn has_room(folder: &str) -> bool {
    let room = rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    room > ROOM_BYTES && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Runs the command as this user, if the test runs as root, and gives it the folder.
pub fn run_as(command: &mut Command, user: &str, folder: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with(&format!("{user}:")));
    let ids: Vec<u32> = line
        .unwrap_or_else(|| panic!("there is no user {user}"))
        .split(':')
        .skip(2)
        .take(2)
        .map(|id| id.parse().unwrap())
        .collect();
    std::os::unix::fs::chown(folder, Some(ids[0]), Some(ids[1])).unwrap();
    command.uid(ids[0]).gid(ids[1]).current_dir(folder);
}

/// Runs a command to its end, and returns its output; fails with that.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

/// A server; ends when dropped.
pub struct Server {
    command: Command,
    child: Child,
    port: u16,
    log: PathBuf,
    ready: Box<dyn Fn() -> bool + Send + Sync>,
    /// Signal for ending it in the test.
    stop: Signal,
    /// Signal for ending it on drop.
    end: Signal,
}

impl Server {
    /// Starts it and waits until `port` accepts connections; its output goes to `log`.
    pub fn start(command: Command, port: u16, log: &Path) -> Self {
        Self::start_until(command, port, log, || true)
    }

    /// Like [`Server::start`], and waits until it is ready.
    pub fn start_until(
        mut command: Command,
        port: u16,
        log: &Path,
        ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let out = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (log, ready) = (log.to_owned(), Box::new(ready));
        let mut server = Server { command, child, port, log, ready, stop: Signal::KILL, end: Signal::KILL };
        server.wait_until_ready();
        server
    }

    #[must_use]
    pub fn ended_by(mut self, stop: Signal, end: Signal) -> Self {
        (self.stop, self.end) = (stop, end);
        self
    }

    /// Starts it again with the same data on disk.
    pub fn start_again(&mut self) {
        self.child = self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let address = (Ipv4Addr::LOCALHOST, self.port);
        self.wait_until(|_| TcpStream::connect(address).is_ok());
        self.wait_until(|server| (server.ready)());
    }

    pub fn stop(&mut self) {
        self.end(self.stop);
    }

    /// Suspends it until it is resumed.
    pub fn pause(&self) {
        self.signal_family(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal_family(Signal::CONT);
    }

    /// Fails if the server ends, or takes too long.
    pub fn wait_until(&mut self, ready: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !ready(self) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the engine does not start ({ended:?}):\n{}",
                fs::read_to_string(&self.log).unwrap_or_default()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal to the server and its child processes.
    fn signal_family(&self, signal: Signal) {
        send(Pid::from_child(&self.child), signal);
        let own = self.child.id();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let id: Option<i32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // `pid (name) state parent ...`
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
            if let Some(id) = id.and_then(Pid::from_raw)
                && parent == Some(&own.to_string())
            {
                // It may have ended meanwhile.
                send(id, signal);
            }
        }
    }

    /// Ends it with this signal; no error if it has ended.
    fn end(&mut self, signal: Signal) {
        if self.child.try_wait().unwrap().is_some() {
            return;
        }
        send(Pid::from_child(&self.child), signal);
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                self.child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.resume();
            self.end(self.end);
        }
    }
}

/// Returns after a SIGSTOP only once the process is stopped: its threads stop one after the other, and
/// respond until then.
fn send(process: Pid, signal: Signal) {
    // It may have ended.
    if kill_process(process, signal).is_err() || signal != Signal::STOP {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    while threads_running(process) {
        assert!(Instant::now() < deadline, "process {process:?} does not stop");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a thread of the process is neither stopped nor ended.
fn threads_running(process: Pid) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    tasks.into_iter().flatten().flatten().any(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // `id (name) state ...`
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !"TtZX".contains(state))
    })
}
