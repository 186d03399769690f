//! The workers' tasks, none of which may end before they are stopped.

use gnudi_model::Fault;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<Vec<AbortHandle>>);

impl Tasks {
    pub(crate) fn watch(&self, tasks: impl IntoIterator<Item = AbortHandle>) {
        self.0.lock().extend(tasks);
    }

    /// The tasks are being stopped.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        let has_ended = self.0.lock().iter().any(AbortHandle::is_finished);
        has_ended.then_some(Fault::Ended("a task of the workers"))
    }
}
