//! Turns of queries with subqueries. These may make any number of steps without any data, and take all of their timeout.
//! Those of one project leave a processor to the queries and aggregates of others, however many it asks for.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of each project.
#[derive(Debug)]
pub struct Turns {
    of_project: usize,
    /// Of projects that have a turn, or wait for one.
    projects: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Turns {
    /// For so many queries at a time, of all projects.
    pub fn new(processors: usize) -> Self {
        Turns { of_project: processors.saturating_sub(1).max(1), projects: Mutex::default() }
    }

    /// Waits for a turn of the project. It ends when it is dropped.
    pub async fn turn(&self, project: &str) -> OwnedSemaphorePermit {
        let turns = self.of(project);
        turns.acquire_owned().await.expect("it is never closed")
    }

    fn of(&self, project: &str) -> Arc<Semaphore> {
        let mut projects = self.projects.lock();
        if let Some(known) = projects.get(project) {
            return known.clone();
        }
        projects.retain(|_, turns| Arc::strong_count(turns) > 1);
        let new = Arc::new(Semaphore::new(self.of_project));
        projects.insert(project.to_owned(), new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_project_leaves_a_turn_to_others() {
        let turns = Turns::new(3);
        let turn = |project: &str| turns.turn(project).now_or_never();
        let (first, second) = (turn("greedy"), turn("greedy"));
        assert!(first.is_some() && second.is_some() && turn("greedy").is_none());
        assert!(turn("other").is_some());
        drop(first);
        let third = turn("greedy");
        assert!(third.is_some() && turn("greedy").is_none());
        drop((second, third));
        // Nobody needs those of the others any more.
        assert!(turn("last").is_some());
        assert_eq!(turns.projects.lock().len(), 1);
        for processors in [0, 1, 2] {
            assert!(Turns::new(processors).turn("only").now_or_never().is_some());
        }
    }
}
