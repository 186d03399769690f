//! Whether what the workers need answers: one line when it stops to, one when it does again, however often it was tried.

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub struct Outage {
    /// Who does not answer, for the log.
    of: &'static str,
    began: Mutex<Option<(Instant, u64)>>,
}

impl Outage {
    pub fn new(of: &'static str) -> Self {
        Outage { of, began: Mutex::default() }
    }

    /// A call was not answered.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        let mut began = self.began.lock();
        if let Some((_, tries)) = &mut *began {
            *tries += 1;
        } else {
            *began = Some((Instant::now(), 1));
            tracing::error!(of = self.of, %error, "no answer: tried until there is one");
        }
    }

    /// A call was answered.
    pub fn answered(&self) {
        let mut began = self.began.lock();
        if let Some((since, tries)) = began.take() {
            let seconds = since.elapsed().as_secs_f64();
            tracing::warn!(of = self.of, seconds, tries, "answers again");
        }
    }
}
