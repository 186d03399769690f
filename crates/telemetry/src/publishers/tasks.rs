//! The tasks that publishers start for themselves.
//!
//! They outlive their publisher, since they publish what it has left. So nobody waits for them, and their
//! panics are received from [`PublisherPanics`].

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;

/// Starts tasks, and reports their panics.
#[derive(Clone, Debug)]
pub struct PublisherTasks(mpsc::UnboundedSender<&'static str>);

/// The panics of the tasks.
#[derive(Debug)]
pub struct PublisherPanics(mpsc::UnboundedReceiver<&'static str>);

impl PublisherTasks {
    /// Tasks of any number of publishers, and where their panics are reported.
    pub fn watched() -> (Self, PublisherPanics) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (PublisherTasks(sender), PublisherPanics(receiver))
    }

    /// Must be called within a Tokio runtime. `name` says in messages what the task does.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let panics = self.0.clone();
        tokio::spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                // The receiver is gone when the agent ends.
                let _ = panics.send(name);
            }
        });
    }
}

impl PublisherPanics {
    /// The name of a task that has panicked, once there is one.
    pub async fn recv(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_are_reported_and_ends_are_not() {
        let (tasks, mut panics) = PublisherTasks::watched();
        tasks.spawn("one", std::future::ready(()));
        tasks.spawn("two", async { panic!("a defect") });
        drop(tasks);
        assert_eq!(panics.recv().await, "two");
        tokio::task::yield_now().await;
        assert!(panics.recv().now_or_never().is_none());
    }
}
