//! Where this process spends its processor time: [`take`] samples all its threads for a while and draws what it saw.
//!
//! The kernel interrupts whichever thread runs, each time that the process has used another part of a second of processor
//! time; the stack of that moment is one sample. What waits (for the disk, a lock, a request) is not sampled.

mod function;
mod processor_time;
mod sampler;
mod stacks;
mod svg;
pub mod symbols;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use sampler::Sampler;
use stacks::Stacks;

/// How long a profile may take, and takes where nothing is said.
pub const SECONDS_MAX: u16 = 60;
pub const SECONDS_DEFAULT: u16 = 10;

/// Samples a second of processor time. The default is no divisor of what timers beat at, so that work done by the clock is
/// neither always nor never seen.
pub const FREQUENCY_HZ_MAX: u16 = 1000;
pub const FREQUENCY_HZ_DEFAULT: u16 = 99;

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

/// Samples for as long as the options say, and answers the flame graph as SVG. Dropped before its end, it stops to sample.
/// `program` looks the names up: see [`symbols`]. `release_memory` is called at the end.
///
/// Memory: 8 bytes for each function of each sample, until it is drawn.
pub async fn take(
    options: ProfileOptions,
    program: Option<PathBuf>,
    release_memory: fn(),
) -> Result<String, ProfileError> {
    let turn = Turn::take().ok_or(ProfileError::Busy)?;
    // Dropped with this future, when the client has gone away.
    let (_client, client_gone) = channel();
    let (answer, answered) = oneshot::channel();
    // A thread for it alone: none that serves others should fill megabytes and read files.
    let sampling = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        let drawn = sample(options, program.as_deref(), &client_gone);
        release_memory();
        drop(turn);
        let _ = answer.send(drawn);
    });
    sampling.map_err(|error| ProfileError::Failed(error.to_string()))?;
    answered.await.unwrap_or_else(|_| Err(ProfileError::Failed("the sampler has panicked".to_owned())))
}

/// Samples, until the time is over or nobody wants it any more, and draws; nothing in the latter case.
fn sample(
    options: ProfileOptions,
    program: Option<&Path>,
    client_gone: &Receiver<()>,
) -> Result<String, ProfileError> {
    let failed = |error: std::io::Error| ProfileError::Failed(error.to_string());
    let sampler =
        Sampler::start(options.frequency_hz, options.duration, &LIBRARIES_NOT_READ).map_err(failed)?;
    let used_before = processor_time::used();
    let is_wanted = client_gone.recv_timeout(options.duration) == Err(RecvTimeoutError::Timeout);
    let used = processor_time::used().zip(used_before).map(|(after, before)| after.saturating_sub(before));
    let samples = sampler.stop();
    if !is_wanted {
        return Ok(String::new());
    }
    let addresses: BTreeSet<usize> = samples.iter().flat_map(|sample| &sample.addresses).copied().collect();
    let symbols = symbols::of(&addresses, program)?;
    let mut stacks = Stacks::default();
    for sample in &samples {
        stacks.add(sample, &symbols);
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
