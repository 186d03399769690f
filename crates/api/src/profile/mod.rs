//! Where this process spends its processor time: [`take`] samples all its threads for a while and draws what it saw.
//!
//! The kernel interrupts whichever thread runs, each time that the process has used another part of a second of processor
//! time; the stack of that moment is one sample. What waits (for the disk, a lock, a request) is not sampled.

mod stacks;
mod svg;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use tokio::task::JoinError;

use stacks::Stacks;

/// Libraries in whose code no stack is read: they may be in the middle of what reading a stack needs.
const LIBRARIES_NOT_READ: [&str; 3] = ["libgcc", "ld-linux", "vdso"];

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

impl From<JoinError> for ProfileError {
    fn from(error: JoinError) -> Self {
        ProfileError::Failed(error.to_string())
    }
}

/// Samples for as long as the options say, and answers the flame graph as SVG. Dropped before its end, it stops to sample.
///
/// Memory: the first profile of a process takes about 70 MB that stay, and the debug information of what it names.
pub async fn take(options: ProfileOptions) -> Result<String, ProfileError> {
    let turn = Turn::take().ok_or(ProfileError::Busy)?;
    // Start and end of the sampler fill megabytes, and names are looked up in files: nothing for threads that serve.
    let sampler = tokio::task::spawn_blocking(move || Sampler::start(turn, options.frequency_hz)).await??;
    tokio::time::sleep(options.duration).await;
    tokio::task::spawn_blocking(move || {
        let stacks = sampler.finish()?;
        Ok(svg::draw(&stacks, options))
    })
    .await?
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

/// What samples, and the turn that it has; both end together.
struct Sampler(Option<(ProfilerGuard<'static>, Turn)>);

impl Sampler {
    fn start(turn: Turn, frequency_hz: u16) -> Result<Self, ProfileError> {
        let builder = ProfilerGuardBuilder::default().frequency(i32::from(frequency_hz));
        Ok(Sampler(Some((builder.blocklist(&LIBRARIES_NOT_READ).build()?, turn))))
    }

    fn finish(mut self) -> Result<Stacks, ProfileError> {
        let (guard, turn) = self.0.take().expect("it is taken once");
        let report = guard.report().build();
        drop(guard);
        drop(turn);
        let mut stacks = Stacks::default();
        for (frames, count) in &report?.data {
            stacks.add(frames, usize::try_from(*count).unwrap_or(0));
        }
        Ok(stacks)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // The client has gone away, on a thread that serves others.
        let Some(running) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(running));
        }
    }
}
