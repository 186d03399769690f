//! A limit on the memory of responses that clients have not read yet, shared by all requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

use crate::error::{ApiError, Result};

/// Bytes held by the rows and details of all responses that are not fully read.
#[derive(Debug)]
pub struct AnswerBudget {
    held: AtomicUsize,
    bytes_max: usize,
    /// Notified when bytes are released.
    given_back: Notify,
}

impl AnswerBudget {
    pub fn new(bytes_max: usize) -> Self {
        AnswerBudget { held: AtomicUsize::new(0), bytes_max, given_back: Notify::new() }
    }

    /// Bytes currently reserved.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Reserves bytes unconditionally; returns whether the total is still within the limit.
    fn take(&self, bytes: usize) -> bool {
        self.held.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.bytes_max
    }

    /// Reserves bytes.
    ///
    /// # Errors
    /// 503 if the limit is exceeded; the bytes stay reserved even then.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        if self.take(bytes) {
            Ok(())
        } else {
            Err(ApiError::unavailable("Too many large answers are being read"))
        }
    }

    /// Releases bytes.
    pub fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.given_back.notify_waiters();
    }

    /// Waits until the bytes fit into the budget, and reserves them.
    pub async fn take_when_free(&self, bytes: usize) {
        loop {
            let mut given_back = std::pin::pin!(self.given_back.notified());
            // Subscribe before the check, so that no release is missed.
            given_back.as_mut().enable();
            let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.bytes_max);
            if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
                return;
            }
            given_back.await;
        }
    }
}

/// A reservation in the budget; released on drop.
pub struct Share {
    budget: Arc<AnswerBudget>,
    held: usize,
}

impl Share {
    pub fn new(budget: &Arc<AnswerBudget>) -> Self {
        Share { budget: budget.clone(), held: 0 }
    }

    /// Reserves more bytes.
    ///
    /// # Errors
    /// 503 if the limit is exceeded.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.held += bytes;
        self.budget.hold(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}
