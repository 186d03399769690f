//! The context of all commands: a runtime for calls that are not measured, and the stop signal.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use tokio::runtime::Runtime;

/// State shared by the commands of a run.
#[derive(Debug)]
pub struct Context {
    /// For calls that are not measured.
    pub runtime: Runtime,
    pub stop: Stop,
    /// Show the progress of loads.
    pub verbose: bool,
}

impl Context {
    /// Handles ctrl-C from now on: the first ends loads early, the second calls `clean` and exits.
    pub fn new(verbose: bool, clean: impl FnOnce() + Send + 'static) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let context = Context { runtime, stop: Stop::default(), verbose };
        let stop = context.stop.clone();
        context.runtime.spawn(async move {
            if interrupted().await.is_ok() {
                stop.set();
                eprintln!("stopping: once more to stop at once, without results");
            }
            if interrupted().await.is_ok() {
                clean();
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            }
        });
        Ok(context)
    }
}

/// The shell's exit code for a program interrupted by ctrl-C.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Whether the run was told to end early.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

async fn interrupted() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
