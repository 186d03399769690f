//! A CPU profiler: [`take`] samples all threads of this process for a while and draws a flame graph.
//!
//! The kernel sends a signal to the running thread at fixed intervals of the process' CPU time; the stack at
//! that moment is one sample. Time spent waiting (for the disk, a lock, a request) is not sampled.

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

/// The maximum and default duration of a profile.
pub const SECONDS_MAX: u16 = 60;
pub const SECONDS_DEFAULT: u16 = 10;

/// Samples per second of CPU time. The default is no divisor of common timer frequencies, so that periodic
/// work is neither always nor never sampled.
pub const FREQUENCY_HZ_MAX: u16 = 1000;
pub const FREQUENCY_HZ_DEFAULT: u16 = 99;

/// No stack is read while code of these libraries runs: it may hold state that reading a stack needs.
const LIBRARIES_NOT_READ: [&str; 3] = ["libgcc", "ld-linux", "vdso"];

/// The thread that runs the sampler and resolves symbols.
const THREAD: &str = "profiler";

/// Sampling options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    pub duration: Duration,
    /// Samples per second of CPU time, limited by the kernel's timer frequency, often 250.
    pub frequency_hz: u16,
}

/// Why a profile failed.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A process has one CPU-time timer, so only one profile can run at a time.
    #[error("A profile is being taken already: try again when it is done")]
    Busy,
    /// The sampler failed.
    #[error("The profile cannot be taken: {0}")]
    Failed(String),
}

/// Samples for the given duration and returns the flame graph as SVG. Sampling stops if the future is
/// dropped. `program` resolves the symbols: see [`symbols`]. `release_memory` is called at the end.
///
/// Memory: 8 bytes per function and sample, until the graph is drawn.
pub async fn take(
    options: ProfileOptions,
    program: Option<PathBuf>,
    release_memory: fn(),
) -> Result<String, ProfileError> {
    let turn = Turn::take().ok_or(ProfileError::Busy)?;
    // Dropped with this future when the client disconnects.
    let (_client, client_gone) = channel();
    let (answer, answered) = oneshot::channel();
    // A thread of its own: the work takes megabytes and reads files.
    let sampling = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        let drawn = sample(options, program.as_deref(), &client_gone);
        release_memory();
        drop(turn);
        let _ = answer.send(drawn);
    });
    sampling.map_err(|error| ProfileError::Failed(error.to_string()))?;
    answered.await.unwrap_or_else(|_| Err(ProfileError::Failed("the sampler panicked".to_owned())))
}

/// Samples until the time is over or the client is gone, and draws; returns an empty text in the latter case.
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

/// The right to run the only profile; released on drop.
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
