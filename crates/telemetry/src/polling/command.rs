//! Runs commands for pollsters, with limits on time and output.

use std::{
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    runtime::Handle,
    time::{Instant, sleep, timeout_at},
};

use super::pollster::PollError;

/// A command that prints more is killed.
const OUTPUT_BYTES_MAX: usize = 16 << 20;
/// A longer timeout is as good as this one, which fits the clock.
const TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);
/// Interval of checking whether a command that closed its output has exited.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// The same for one that was killed: nobody waits for the answer.
const KILLED_LOOK_PAUSE: Duration = Duration::from_millis(200);

/// A command's output and exit status.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Empty if merged into `stdout`.
    pub stderr: Vec<u8>,
}

/// Where stderr goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    Apart,
    /// Merged into the output.
    Within,
}

/// Runs a command to completion, without input. On timeout, or when the future is dropped, its whole process group is
/// killed.
pub async fn run(mut command: Command, errors: Errors, timeout: Duration) -> Result<Ran, PollError> {
    use std::os::unix::process::CommandExt as _;

    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| PollError(format!("{name}: {error}"));
    let (out_reader, out_writer) = std::io::pipe().map_err(failed)?;
    let (error_reader, error_writer) = std::io::pipe().map_err(failed)?;
    match errors {
        Errors::Apart => command.stderr(error_writer),
        Errors::Within => {
            drop(error_writer);
            command.stderr(out_writer.try_clone().map_err(failed)?)
        }
    };
    let spawned = command.stdin(Stdio::null()).stdout(out_writer).process_group(0).spawn();
    // It holds the write ends of the pipes.
    drop(command);
    let mut group = ProcessGroup(Some(spawned.map_err(failed)?));
    let reader = |reader: std::io::PipeReader| pipe::Receiver::from_owned_fd(reader.into()).map_err(failed);
    let (mut out_reader, mut error_reader) = (reader(out_reader)?, reader(error_reader)?);
    let deadline = Instant::now() + timeout.min(TIMEOUT_MAX);
    let late = |_| PollError(format!("{name}: it takes more than {} s", timeout.as_secs_f64()));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let both = async {
        tokio::try_join!(whole(&mut out_reader, &mut stdout), whole(&mut error_reader, &mut stderr))
    };
    timeout_at(deadline, both).await.map_err(late)?.map_err(failed)?;
    let status = timeout_at(deadline, group.ended()).await.map_err(late)?.map_err(failed)?;
    Ok(Ran { status, stdout, stderr })
}

async fn whole(reader: &mut pipe::Receiver, out: &mut Vec<u8>) -> std::io::Result<()> {
    reader.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(out).await?;
    if out.len() > OUTPUT_BYTES_MAX {
        return Err(std::io::Error::other(format!("it prints more than {OUTPUT_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// A process group; `None` once it has exited.
struct ProcessGroup(Option<Child>);

impl ProcessGroup {
    async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        loop {
            let status = self.0.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = status {
                self.0 = None;
                return Ok(status);
            }
            sleep(LOOK_PAUSE).await;
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // A process in an uninterruptible kernel call ends when that returns. No thread waits for it: with many such
        // processes there may be no more threads.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            while matches!(child.try_wait(), Ok(None)) {
                sleep(KILLED_LOOK_PAUSE).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[tokio::test]
    async fn commands_are_run_to_their_end() {
        let limit = Duration::from_secs(20);
        let ran = run(shell("echo a; echo b >&2; exit 3"), Errors::Apart, limit).await.unwrap();
        assert_eq!((ran.status.code(), ran.stdout, ran.stderr), (Some(3), b"a\n".to_vec(), b"b\n".to_vec()));
        let ran = run(shell("echo a; echo b >&2"), Errors::Within, limit).await.unwrap();
        assert_eq!((ran.stdout, ran.stderr), (b"a\nb\n".to_vec(), Vec::new()));
        let ran = run(shell("echo a"), Errors::Apart, Duration::MAX).await.unwrap();
        assert_eq!(ran.stdout, b"a\n");
        let error = run(Command::new("/nowhere/at/all"), Errors::Apart, limit).await.unwrap_err();
        assert!(error.0.starts_with("/nowhere/at/all: "), "{error}");
        let error = run(shell("yes"), Errors::Apart, limit).await.unwrap_err();
        assert!(error.0.contains("prints more"), "{error}");
    }

    /// Runs a command that writes the number of a process to the file, until it is killed; returns the number.
    async fn killed(text: &str, file: &Path) -> String {
        loop {
            let error = run(shell(text), Errors::Within, Duration::from_millis(100)).await.unwrap_err();
            assert!(error.0.contains("more than 0.1 s"), "{error}");
            // On a busy machine it may not have started anything.
            let written = std::fs::read_to_string(file).unwrap_or_default();
            if let Some(process) = written.strip_suffix('\n') {
                return process.to_owned();
            }
        }
    }

    #[tokio::test]
    async fn who_is_killed_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("process");
        let text = format!("echo $$ > {}; exec sleep 600", file.display());
        let process = Path::new("/proc").join(killed(&text, &file).await);
        let ended = async {
            while process.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), ended).await.expect("it stays a zombie");
    }

    #[tokio::test]
    async fn slow_commands_are_killed_with_what_they_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("process");
        let text = format!("sh -c 'echo $$ > {}; exec sleep 600' & wait", file.display());
        let process = killed(&text, &file).await;
        let status = std::path::PathBuf::from(format!("/proc/{process}/stat"));
        // Nobody may have waited for it yet.
        let runs = || std::fs::read_to_string(&status).is_ok_and(|status| !status.contains(") Z "));
        let ended = async {
            while runs() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), ended).await.expect("what it started goes on");
    }
}
