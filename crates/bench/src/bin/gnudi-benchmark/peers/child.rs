//! Server processes: each in its own process group, and never left behind.

use std::{
    fs::File,
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process_group};

/// Time to stop before a process is killed.
const STOP_DELAY_MAX: Duration = Duration::from_secs(20);

/// Poll interval while waiting for a process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Process groups and directories to clean up if the run is interrupted.
#[derive(Clone, Debug, Default)]
pub struct Leftovers(Arc<Mutex<(Vec<Pid>, Vec<PathBuf>)>>);

impl Leftovers {
    fn with<T>(&self, change: impl FnOnce(&mut (Vec<Pid>, Vec<PathBuf>)) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a directory to be removed if its owner does not do so.
    pub fn add_directory(&self, directory: &Path) {
        self.with(|(_, directories)| directories.push(directory.to_owned()));
    }

    pub fn clean(&self) {
        let (groups, directories) = self.with(std::mem::take);
        for group in groups {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for directory in directories {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// A process that is stopped when dropped, with its whole process group.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    name: String,
    pub stop: Signal,
    log: PathBuf,
    leftovers: Leftovers,
}

impl Guarded {
    /// Starts `command` with its output in `log`; `stop` is the signal that stops it.
    pub fn start(command: &mut Command, log: &Path, stop: Signal, leftovers: &Leftovers) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let output = File::create(log).with_context(|| log.display().to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        leftovers.with(|(groups, _)| groups.push(Pid::from_child(&child)));
        Ok(Guarded { child, name, stop, log: log.to_owned(), leftovers: leftovers.clone() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` returns true; errors include the end of the log.
    pub fn wait_ready(&mut self, timeout: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}: {}", self.name, self.log_end());
            }
            if start.elapsed() > timeout {
                bail!("{} is not ready after {} s: {}", self.name, timeout.as_secs(), self.log_end());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits until the process exits; `None` if `cut` returns true before (the process is not stopped here).
    pub fn wait_end(&mut self, mut cut: impl FnMut() -> bool) -> Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if cut() {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The last lines of the log, on one line.
    pub fn log_end(&self) -> String {
        log_end(&self.log)
    }

    fn end(&mut self) -> io::Result<()> {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, self.stop);
        let start = Instant::now();
        while self.child.try_wait()?.is_none() && start.elapsed() <= STOP_DELAY_MAX {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Also children that outlive their parent.
        let _ = kill_process_group(group, Signal::KILL);
        self.child.wait().map(drop)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.end();
        let group = Pid::from_child(&self.child);
        self.leftovers.with(|(groups, _)| groups.retain(|known| *known != group));
    }
}

/// Processes in the order of their start; later ones, which depend on earlier ones, stop first.
#[derive(Debug)]
pub struct Processes(pub Vec<Guarded>);

impl Drop for Processes {
    fn drop(&mut self) {
        while let Some(process) = self.0.pop() {
            drop(process);
        }
    }
}

/// The last lines of a log, on one line.
pub fn log_end(path: &Path) -> String {
    const LINES: usize = 5;
    let log = std::fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().rev().take(LINES).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

/// Runs a command to completion; returns its output, which errors include.
pub fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {name}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let end: Vec<&str> = text.lines().rev().take(3).collect();
        bail!("{name} ended with {}: {}", output.status, end.join(" | "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, directory: &Path, leftovers: &Leftovers) -> Guarded {
        let command = &mut Command::new("sh");
        Guarded::start(command.args(["-c", script]), &directory.join("log"), Signal::TERM, leftovers).unwrap()
    }

    fn is_alive(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_dropped_process_takes_its_children_along() {
        let directory = tempfile::tempdir().unwrap();
        let leftovers = Leftovers::default();
        let file = directory.path().join("pid");
        // The child ignores the parent's signal.
        let script = format!("trap '' TERM; sleep 60 & echo $! > {}; trap - TERM; wait", file.display());
        let mut parent = sh(&script, directory.path(), &leftovers);
        let child = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
        parent.wait_ready(Duration::from_secs(30), || child().is_some()).unwrap();
        let (parent_pid, child) = (parent.pid(), child().unwrap());
        assert!(is_alive(child));
        drop(parent);
        // The kernel ends a killed process a moment later.
        for _ in 0..2_000 {
            if !is_alive(parent_pid) && !is_alive(child) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_alive(parent_pid) && !is_alive(child));
        assert!(leftovers.with(|(groups, _)| groups.is_empty()));
    }

    #[test]
    fn an_early_end_is_told_with_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = sh("echo no such option >&2; exit 3", directory.path(), &Leftovers::default());
        let error = process.wait_ready(Duration::from_mins(1), || false).unwrap_err().to_string();
        assert!(error.contains("no such option") && error.contains('3'), "{error}");
    }
}
