//! The tasks and threads that publishers start for themselves.
//!
//! They outlive their publisher, to publish what is still queued. [`PublisherPanics`] reports their panics, and waits for
//! their end.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use futures_util::FutureExt as _;
use tokio::sync::mpsc;

/// Starts tasks and threads, and reports their panics.
#[derive(Clone, Debug)]
pub struct PublisherTasks(mpsc::UnboundedSender<&'static str>);

/// The panics of the tasks and threads.
#[derive(Debug)]
pub struct PublisherPanics(mpsc::UnboundedReceiver<&'static str>);

impl PublisherTasks {
    /// For any number of publishers; with the receiver of their panics.
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

    /// The same for a thread, called `thread` by the operating system: for work that blocks.
    pub fn spawn_thread(
        &self,
        name: &'static str,
        thread: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let panics = self.0.clone();
        let watched = move || {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                let _ = panics.send(name);
            }
        };
        thread::Builder::new().name(thread.to_owned()).spawn(watched).map(drop)
    }
}

impl PublisherPanics {
    /// Waits for a panic; returns the name of the task or thread.
    pub async fn recv(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }

    /// Waits until all tasks and threads have ended. Their publishers, and whatever starts others, must be dropped before.
    pub async fn ended(mut self) {
        // Each of them holds a sender.
        while self.0.recv().await.is_some() {}
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

    #[tokio::test]
    async fn the_end_of_all_can_be_waited_for() {
        let (tasks, panics) = PublisherTasks::watched();
        let (end, ending) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("one", async move {
            let _ = ending.await;
        });
        tasks.spawn("two", async { panic!("a defect") });
        drop(tasks);
        let mut ended = std::pin::pin!(panics.ended());
        for _ in 0..10 {
            tokio::task::yield_now().await;
            assert!(ended.as_mut().now_or_never().is_none());
        }
        end.send(()).unwrap();
        ended.await;
    }

    #[tokio::test]
    async fn panics_of_threads_are_reported_too() {
        let (tasks, mut panics) = PublisherTasks::watched();
        tasks.spawn_thread("one", "test-one", || {}).unwrap();
        tasks.spawn_thread("two", "test-two", || panic!("a defect")).unwrap();
        assert_eq!(panics.recv().await, "two");
    }
}
