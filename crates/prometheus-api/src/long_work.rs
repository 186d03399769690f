//! Long work off the request threads. Searches are stopped when their request is gone or out of time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gnudi_engine::Engine;

/// The maximum and default query timeout, and the maximum time of any long work. Prometheus' default.
pub const TIMEOUT: Duration = Duration::from_mins(2);

/// Stops work on drop.
pub struct StopOnDrop(pub Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The number of items that are sorted and encoded in a few milliseconds.
const FEW_ITEMS_MAX: usize = 1_000;

/// Runs work that sorts or encodes this many items: off the request threads if there are many.
pub async fn on_items<T: Send + 'static>(
    engine: &Engine,
    items: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if items <= FEW_ITEMS_MAX { work() } else { engine.compute(work).await }
}

/// Runs work that parses queries or selectors: off the request threads if they have regular expressions. Compiling these may take a
/// tenth of a second, however short they are.
pub async fn on_expressions<T: Send + 'static>(
    engine: &Engine,
    has_expressions: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if has_expressions { engine.compute(work).await } else { work() }
}

/// Whether a query or a selector may have regular expressions.
pub fn may_have_expressions(text: &str) -> bool {
    text.contains('~')
}

/// Runs work that polls whether to stop; `None` if it takes longer than [`TIMEOUT`].
pub async fn run<T: Send + 'static>(
    engine: &Engine,
    work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
) -> Option<T> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let _stop = StopOnDrop(is_stopped.clone());
    let work = engine.compute(move || work(&|| is_stopped.load(Ordering::Relaxed)));
    tokio::time::timeout(TIMEOUT, work).await.ok()
}
