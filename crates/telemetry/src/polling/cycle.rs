//! The cache of one polling round, so that nothing is requested twice.

use std::{any::Any, collections::HashMap, future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

type Shared = Arc<OnceCell<Arc<dyn Any + Send + Sync>>>;

/// Dropped at the end of the round.
#[derive(Default)]
pub struct Cycle {
    answers: Mutex<HashMap<String, Shared>>,
}

impl Cycle {
    /// The value cached under `key`. The first caller runs `ask`; concurrent callers wait for it. A key has one type:
    /// anything else is a panic.
    pub async fn shared<T, F>(&self, key: String, ask: impl FnOnce() -> F) -> Arc<T>
    where
        T: Any + Send + Sync,
        F: Future<Output = T>,
    {
        let cell = Arc::clone(self.answers.lock().entry(key).or_default());
        let answer = cell.get_or_init(|| async { Arc::new(ask().await) as Arc<dyn Any + Send + Sync> }).await;
        Arc::clone(answer).downcast().expect("a key stands for one type")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_question_is_asked_once() {
        let cycle = Cycle::default();
        let asked = AtomicUsize::new(0);
        let ask = || async {
            tokio::task::yield_now().await;
            asked.fetch_add(1, Ordering::SeqCst)
        };
        let answers =
            futures_util::future::join_all((0..10).map(|_| cycle.shared("a".to_owned(), ask))).await;
        assert!(answers.iter().all(|answer| **answer == 0));
        assert_eq!(*cycle.shared("b".to_owned(), ask).await, 1);
    }
}
