//! Logs an outage of something that the workers need: one line when it begins, one when it ends, however
//! often calls failed.

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub struct Outage {
    /// What does not respond, for the log.
    of: &'static str,
    /// When the outage began and how many calls have failed since; `None` without an outage.
    began: Mutex<Option<(Instant, u64)>>,
}

impl Outage {
    pub fn new(of: &'static str) -> Self {
        Outage { of, began: Mutex::default() }
    }

    /// Records a failed call.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        let mut began = self.began.lock();
        if let Some((_, tries)) = &mut *began {
            *tries += 1;
        } else {
            *began = Some((Instant::now(), 1));
            tracing::error!(of = self.of, %error, "no response: retrying");
        }
    }

    /// Records a successful call.
    pub fn answered(&self) {
        let mut began = self.began.lock();
        if let Some((since, tries)) = began.take() {
            let seconds = since.elapsed().as_secs_f64();
            tracing::warn!(of = self.of, seconds, tries, "responds again");
        }
    }
}
