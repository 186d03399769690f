//! The memory of answers that their clients have not read yet, shared by all requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

use crate::error::ApiError;

/// How many bytes the rows of all answers take that their clients have not read yet.
#[derive(Debug)]
pub struct AnswerBudget {
    held: AtomicUsize,
    bytes_max: usize,
    /// Some were given back.
    given_back: Notify,
}

impl AnswerBudget {
    pub fn new(bytes_max: usize) -> Self {
        AnswerBudget { held: AtomicUsize::new(0), bytes_max, given_back: Notify::new() }
    }

    /// How many bytes are taken.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes so many bytes, whether or not that is too much; false where it is.
    fn take(&self, bytes: usize) -> bool {
        self.held.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.bytes_max
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// 503 where that is too much; they are taken all the same.
    pub fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        if self.take(bytes) {
            Ok(())
        } else {
            Err(ApiError::unavailable("Too many large answers are being read"))
        }
    }

    /// Gives so many bytes back.
    pub fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.given_back.notify_waiters();
    }

    /// Takes so many bytes once there is room for them.
    pub async fn take_when_free(&self, bytes: usize) {
        loop {
            let mut given_back = std::pin::pin!(self.given_back.notified());
            // What is given back from here on is noticed.
            given_back.as_mut().enable();
            let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.bytes_max);
            if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
                return;
            }
            given_back.await;
        }
    }
}

/// A part of the budget; given back when dropped.
pub struct Share {
    budget: Arc<AnswerBudget>,
    held: usize,
}

impl Share {
    pub fn new(budget: &Arc<AnswerBudget>) -> Self {
        Share { budget: budget.clone(), held: 0 }
    }

    /// Takes so many bytes more.
    ///
    /// # Errors
    /// 503 where there are no more.
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.held += bytes;
        self.budget.hold(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}
