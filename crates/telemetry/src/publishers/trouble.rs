//! How publishers deal with a peer that does not answer: pauses that grow, and one line in the log when trouble begins and
//! one when it is over.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::figures::Counts;

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

/// How a try ended.
pub enum Tried {
    Taken,
    /// With the peer's reason: it would refuse the same again.
    Refused(String),
    /// With what failed: a later try may succeed.
    Again(String),
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

    /// Tries until the peer takes so many items or refuses them, or `retries_max` more tries have failed: the items are counted as lost
    /// then, and that is no error.
    ///
    /// # Errors
    /// The reason of a refusal.
    pub async fn deliver<F: Future<Output = Tried>>(
        &self,
        counts: &Counts,
        items: usize,
        retries_max: Option<u64>,
        attempt: impl Fn() -> F,
    ) -> Result<(), String> {
        let mut pauses = Pauses::default();
        loop {
            match attempt().await {
                Tried::Taken => {
                    self.ends();
                    counts.published.inc_by(items as u64);
                    return Ok(());
                }
                Tried::Refused(answer) => return Err(answer),
                Tried::Again(error) => {
                    self.begins(&error);
                    if retries_max.is_some_and(|max| pauses.count() >= max) {
                        counts.lost.inc_by(items as u64);
                        return Ok(());
                    }
                }
            }
            pauses.wait().await;
            counts.retries.inc();
        }
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
