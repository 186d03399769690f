//! Where this process spends its processor time: [`take`] samples all its threads for a while and draws what it saw.
//!
//! The kernel interrupts whichever thread runs, each time that the process has used another part of a second of processor
//! time; the stack of that moment is one sample. What waits (for the disk, a lock, a request) is not sampled.

mod function;
mod processor_time;
mod stacks;
mod svg;

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use pprof::ProfilerGuardBuilder;
use tokio::sync::oneshot;

use stacks::Stacks;

/// Libraries in whose code no stack is read: they may be in the middle of what reading a stack needs.
const LIBRARIES_NOT_READ: [&str; 3] = ["libgcc", "ld-linux", "vdso"];

/// The thread that starts the sampler, and looks names up.
const THREAD: &str = "profiler";

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    pub duration: Duration,
    /// Samples a second of processor time; the kernel's own clock is the limit, often 250.
    pub frequency_hz: u16,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is one clock of processor time in a process, and so one profile at a time.
    #[error("A profile is being taken already: try again when it is done")]
    Busy,
    /// The sampler failed.
    #[error("The profile cannot be taken: {0}")]
    Failed(String),
}

impl From<pprof::Error> for ProfileError {
    fn from(error: pprof::Error) -> Self {
        ProfileError::Failed(error.to_string())
    }
}

/// Samples for as long as the options say, and answers the flame graph as SVG. Dropped before its end, it stops to sample.
///
/// Memory: the first profile of a process takes some 300 MB, for stacks and for the debug information that names are looked up
/// in. What is mapped of it is given back; some 250 MB stay with the allocator, and further profiles take no more.
pub async fn take(options: ProfileOptions) -> Result<String, ProfileError> {
    let turn = Turn::take().ok_or(ProfileError::Busy)?;
    // Dropped with this future, when the client has gone away.
    let (_client, client_gone) = channel();
    let (answer, answered) = oneshot::channel();
    // A thread for it alone: none that serves others should fill megabytes and read files.
    let sampling = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        let drawn = sample(options, &client_gone);
        drop(turn);
        let _ = answer.send(drawn);
    });
    sampling.map_err(|error| ProfileError::Failed(error.to_string()))?;
    answered.await.unwrap_or_else(|_| Err(ProfileError::Failed("the sampler has panicked".to_owned())))
}

/// Samples, until the time is over or nobody wants it any more, and draws; nothing in the latter case.
fn sample(options: ProfileOptions, client_gone: &Receiver<()>) -> Result<String, ProfileError> {
    let builder = ProfilerGuardBuilder::default().frequency(i32::from(options.frequency_hz));
    let sampler = builder.blocklist(&LIBRARIES_NOT_READ).build()?;
    let used_before = processor_time::used();
    let is_wanted = client_gone.recv_timeout(options.duration) == Err(RecvTimeoutError::Timeout);
    let used = processor_time::used().zip(used_before).map(|(after, before)| after.saturating_sub(before));
    let report = is_wanted.then(|| sampler.report().build());
    drop(sampler);
    // The mapped debug information would stay for ever.
    backtrace::clear_symbol_cache();
    let Some(report) = report else { return Ok(String::new()) };
    let mut stacks = Stacks::default();
    for (frames, count) in &report?.data {
        stacks.add(frames, usize::try_from(*count).unwrap_or(0));
    }
    Ok(svg::draw(&stacks, options, used))
}

/// The right to take the one profile there can be; given back when dropped.
struct Turn;

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Turn {
    fn take() -> Option<Turn> {
        TAKEN.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}
