//! How publishers deal with a peer that does not answer: pauses that grow, and one line in the log when trouble begins and
//! one when it is over.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Pauses between tries: each twice as long as the one before, up to a limit.
#[derive(Debug)]
pub struct Pauses {
    next: Duration,
    failures: u64,
}

impl Default for Pauses {
    fn default() -> Self {
        Pauses { next: PAUSE_MIN, failures: 0 }
    }
}

impl Pauses {
    pub async fn wait(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        self.failures += 1;
        tokio::time::sleep(pause).await;
    }

    /// Pauses so far.
    pub fn count(&self) -> u64 {
        self.failures
    }
}

/// Whether a peer is in trouble, so that it is told once.
#[derive(Debug)]
pub struct Trouble {
    /// Whose peer: a URL without its password.
    name: String,
    is_failing: AtomicBool,
}

impl Trouble {
    pub fn new(name: impl fmt::Display) -> Self {
        Trouble { name: name.to_string(), is_failing: AtomicBool::new(false) }
    }

    /// Tells what is wrong, unless that was told.
    pub fn begins(&self, error: &dyn fmt::Display) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(publisher = %self.name, %error, "cannot publish; nothing more is said until it works again");
        }
    }

    /// Tells that it works again, where it did not.
    pub fn ends(&self) {
        if self.is_failing.load(Ordering::Relaxed) && self.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!(publisher = %self.name, "publishes again");
        }
    }
}
