//! Tasks of a driver, none of which may end before the driver is dropped.

use gnudi_model::Fault;
use tokio::task::JoinHandle;

/// Dropping it ends them.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    pub(crate) fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(tokio::spawn(task));
    }

    /// The fault of `what` if one of them has ended, by a panic.
    pub(crate) fn fault(&self, what: &'static str) -> Option<Fault> {
        self.0.iter().any(JoinHandle::is_finished).then_some(Fault::Ended(what))
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}
