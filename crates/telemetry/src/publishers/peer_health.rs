//! Retries with backoff, and one log line when a peer starts failing and one when it works again.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::figures::PublisherCounts;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Exponential backoff.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    failures: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { next: PAUSE_MIN, failures: 0 }
    }
}

impl Backoff {
    pub async fn wait(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        self.failures += 1;
        tokio::time::sleep(pause).await;
    }

    /// Number of pauses so far.
    pub fn count(&self) -> u64 {
        self.failures
    }
}

/// The result of an attempt.
pub enum AttemptResult {
    Taken,
    /// The peer's reason: it would reject the same again.
    Refused(String),
    /// The error: a later attempt may succeed.
    Again(String),
}

/// The state of a peer, so that each failure period is logged once.
#[derive(Debug)]
pub struct PeerHealth {
    /// The URL, without its password.
    name: String,
    is_failing: AtomicBool,
}

impl PeerHealth {
    pub fn new(name: impl fmt::Display) -> Self {
        PeerHealth { name: name.to_string(), is_failing: AtomicBool::new(false) }
    }

    /// Repeats `attempt` until the peer accepts or rejects the items, or `retries_max` retries have failed: then returns
    /// the last error.
    ///
    /// # Errors
    /// The reason of a rejection.
    pub async fn deliver<F: Future<Output = AttemptResult>>(
        &self,
        counts: &PublisherCounts,
        items: usize,
        retries_max: Option<u64>,
        attempt: impl Fn() -> F,
    ) -> Result<Option<String>, String> {
        let mut pauses = Backoff::default();
        loop {
            match attempt().await {
                AttemptResult::Taken => {
                    self.recovered();
                    counts.published.inc_by(items as u64);
                    return Ok(None);
                }
                AttemptResult::Refused(answer) => return Err(answer),
                AttemptResult::Again(error) => {
                    self.failed(&error);
                    if retries_max.is_some_and(|max| pauses.count() >= max) {
                        return Ok(Some(error));
                    }
                }
            }
            pauses.wait().await;
            counts.retries.inc();
        }
    }

    /// Logs a failure, unless already logged.
    pub fn failed(&self, error: &dyn fmt::Display) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(publisher = %self.name, %error, "cannot publish; retrying, without further lines until it works");
        }
    }

    /// Logs that it works again, if it did not.
    pub fn recovered(&self) {
        if self.is_failing.load(Ordering::Relaxed) && self.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!(publisher = %self.name, "publishes again");
        }
    }
}
