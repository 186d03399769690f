//! Fairness between projects: each may use a limited number of turns at a time, and queries that wait get the processors
//! project by project. So a project with many queries delays the others no more than one with a few.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::futures::TaskLocalFuture,
};

tokio::task_local! {
    static CURRENT: Project;
}

/// A project may hold so many times what it leaves free of a common limit: each further project finds some.
pub const TIMES_FREE_MAX: usize = 7;

/// A project, by a hash of its name with a secret key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Project(u64);

impl Project {
    pub fn named(name: &str) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Project(KEY.hash_one(name))
    }

    /// The project for which the running task works; outside of [`Project::run`] none, which has turns like any other.
    pub fn current() -> Self {
        CURRENT.try_with(|project| *project).unwrap_or_default()
    }

    /// Runs work for the project, except for the tasks that it spawns.
    pub fn run<F: Future>(self, work: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, work)
    }
}

/// A number of turns at a time for each project.
#[derive(Debug)]
pub struct Turns {
    of_project: usize,
    /// Of projects that have a turn, or wait for one.
    projects: Mutex<HashMap<Project, Arc<Semaphore>>>,
}

impl Turns {
    pub fn new(of_project: usize) -> Self {
        Turns { of_project, projects: Mutex::default() }
    }

    /// Waits for a turn of the current project. It ends when it is dropped.
    pub async fn turn(&self) -> OwnedSemaphorePermit {
        let turns = self.of(Project::current());
        turns.acquire_owned().await.expect("it is never closed")
    }

    fn of(&self, project: Project) -> Arc<Semaphore> {
        let mut projects = self.projects.lock();
        if let Some(known) = projects.get(&project) {
            return known.clone();
        }
        projects.retain(|_, turns| Arc::strong_count(turns) > 1);
        let new = Arc::new(Semaphore::new(self.of_project));
        projects.insert(project, new.clone());
        new
    }
}

/// The processors for queries. Projects that wait get them by turns.
#[derive(Debug)]
pub(crate) struct Processors {
    free: Arc<Semaphore>,
    turns: Turns,
}

impl Processors {
    pub fn new(count: usize) -> Self {
        Processors { free: Arc::new(Semaphore::new(count)), turns: Turns::new(1) }
    }

    /// Waits for a processor, for the current project.
    pub async fn one(&self) -> OwnedSemaphorePermit {
        // One of each project waits for the processors. Its next one gets behind those of all others.
        let _turn = self.turns.turn().await;
        self.free.clone().acquire_owned().await.expect("it is never closed")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_project_leaves_a_turn_to_others() {
        let turns = Turns::new(2);
        let turn = |project: &str| Project::named(project).run(turns.turn()).now_or_never();
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
    }

    #[test]
    fn projects_get_processors_by_turns() {
        let processors = Processors::new(1);
        let mut held = processors.one().now_or_never();
        assert!(held.is_some());
        let wait = |project| (project, Box::pin(Project::named(project).run(processors.one())));
        let mut waiting: Vec<_> = ["a", "a", "a", "b", "c", "b"].map(wait).into();
        assert!(waiting.iter_mut().all(|(_, one)| one.as_mut().now_or_never().is_none()));
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(held.take());
            let next = waiting.iter_mut().enumerate();
            let next = next.filter_map(|(at, (_, one))| Some((at, one.as_mut().now_or_never()?)));
            let mut next: Vec<_> = next.collect();
            assert_eq!(next.len(), 1);
            let (at, processor) = next.remove(0);
            held = Some(processor);
            order.push(waiting.remove(at).0);
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
    }
}
