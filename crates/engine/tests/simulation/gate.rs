//! Stops a whole process, as SIGSTOP does: none of its code runs while it is stopped, whatever its timers.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use gnudi_engine::metricd::Task;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

pub struct Gate(Mutex<Instant>);

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::new(Gate(Mutex::new(Instant::now())))
    }

    /// Stops the process at its next await.
    pub fn stop(&self, span: Duration) {
        let mut until = self.0.lock();
        *until = (*until).max(Instant::now() + span);
    }

    /// The time until which it is stopped, or since which it runs.
    pub fn until(&self) -> Instant {
        *self.0.lock()
    }

    fn stopped_until(&self) -> Option<Instant> {
        let until = self.until();
        (until > Instant::now()).then_some(until)
    }
}

/// A task that runs only while its process does.
pub struct Gated {
    gate: Arc<Gate>,
    task: Task,
    wake: Option<Pin<Box<Sleep>>>,
}

impl Gated {
    pub fn new(gate: Arc<Gate>, task: Task) -> Self {
        Gated { gate, task, wake: None }
    }
}

impl Future for Gated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while let Some(until) = self.gate.stopped_until() {
            let wake = self.wake.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            wake.as_mut().reset(until);
            ready!(wake.as_mut().poll(context));
        }
        self.task.as_mut().poll(context)
    }
}
