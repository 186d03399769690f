//! A limit on the memory of responses that clients have not read yet, shared by all requests.
//!
//! A project gets a part of what the others leave. So none holds all of it, and each further one finds some, however slowly
//! the first ones read.

use std::{collections::HashMap, sync::Arc};

use gnudi_engine::{Project, TIMES_FREE_MAX};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{ApiError, Result};

/// Bytes held by the rows and details of all responses that are not fully read, as one project adds to them.
#[derive(Clone, Debug)]
pub struct AnswerBudget {
    all: Arc<All>,
    /// `None`: of no project, which may take all that is free.
    project: Option<Project>,
}

#[derive(Debug)]
struct All {
    held: Mutex<Held>,
    bytes_max: usize,
    /// Notified when bytes are released.
    given_back: Notify,
}

/// Bytes currently reserved.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    of_projects: HashMap<Project, usize>,
}

impl AnswerBudget {
    pub fn new(bytes_max: usize) -> Self {
        let all = All { held: Mutex::default(), bytes_max, given_back: Notify::new() };
        AnswerBudget { all: Arc::new(all), project: None }
    }

    /// The same budget, for the responses to a project.
    pub fn of_project(&self, project: Project) -> Self {
        AnswerBudget { all: self.all.clone(), project: Some(project) }
    }

    /// Bytes currently reserved, by all.
    pub fn held(&self) -> usize {
        self.all.held.lock().bytes
    }

    /// Whether so many more bytes are within the limits.
    fn fits(&self, held: &Held, bytes: usize) -> bool {
        let free = held.bytes.checked_add(bytes).and_then(|held| self.all.bytes_max.checked_sub(held));
        let (Some(free), Some(project)) = (free, self.project) else { return free.is_some() };
        let own = held.of_projects.get(&project).copied().unwrap_or(0) + bytes;
        own / TIMES_FREE_MAX <= free
    }

    fn take(&self, held: &mut Held, bytes: usize) {
        held.bytes += bytes;
        if let (Some(project), 1..) = (self.project, bytes) {
            *held.of_projects.entry(project).or_default() += bytes;
        }
    }

    /// Reserves bytes.
    ///
    /// # Errors
    /// 503 if a limit is exceeded; the bytes stay reserved even then.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        let mut held = self.all.held.lock();
        let fits = self.fits(&held, bytes);
        self.take(&mut held, bytes);
        if fits { Ok(()) } else { Err(ApiError::unavailable("Too many large answers are being read")) }
    }

    /// Releases bytes.
    pub fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        {
            let mut held = self.all.held.lock();
            held.bytes -= bytes;
            if let Some(project) = &self.project {
                let own = held.of_projects.get_mut(project).expect("these bytes are counted");
                *own -= bytes;
                if *own == 0 {
                    held.of_projects.remove(project);
                }
            }
        }
        self.all.given_back.notify_waiters();
    }

    /// Waits until the bytes fit into the budget, and reserves them.
    pub async fn take_when_free(&self, bytes: usize) {
        loop {
            let mut given_back = std::pin::pin!(self.all.given_back.notified());
            // Subscribe before the check, so that no release is missed.
            given_back.as_mut().enable();
            if self.take_if_free(bytes) {
                return;
            }
            given_back.await;
        }
    }

    fn take_if_free(&self, bytes: usize) -> bool {
        let mut held = self.all.held.lock();
        let fits = self.fits(&held, bytes);
        if fits {
            self.take(&mut held, bytes);
        }
        fits
    }
}

/// A reservation in the budget; released on drop.
pub struct Share {
    budget: AnswerBudget,
    held: usize,
}

impl Share {
    pub fn new(budget: &AnswerBudget) -> Self {
        Share { budget: budget.clone(), held: 0 }
    }

    /// Reserves more bytes.
    ///
    /// # Errors
    /// 503 if a limit is exceeded.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.held += bytes;
        self.budget.hold(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_leaves_room_to_each_further_one() {
        let budget = AnswerBudget::new(800);
        let of_project = |name| budget.of_project(Project::named(name));
        let (first, second) = (of_project("first"), of_project("second"));
        assert!(first.hold(300).is_ok() && of_project("first").hold(400).is_ok());
        assert!(first.hold(1).is_err());
        first.give_back(1);
        assert!(second.hold(80).is_ok() && of_project("third").hold(10).is_ok());
        assert!(second.hold(80).is_err());
        assert_eq!(budget.held(), 700 + 160 + 10);
        second.give_back(160);
        // What is of no project takes the rest.
        assert!(budget.hold(90).is_ok() && budget.hold(1).is_err());
        budget.give_back(91);
        first.give_back(700);
        of_project("third").give_back(10);
        let held = budget.all.held.lock();
        assert!(held.bytes == 0 && held.of_projects.is_empty());
    }

    #[tokio::test]
    async fn who_waits_gets_what_others_release() {
        let budget = AnswerBudget::new(80);
        let [slow, other] = ["slow", "other"].map(|name| budget.of_project(Project::named(name)));
        slow.take_when_free(70).await;
        let more = tokio::time::timeout(std::time::Duration::from_millis(10), slow.take_when_free(7)).await;
        assert!(more.is_err());
        other.take_when_free(7).await;
        let give_back = async { slow.give_back(70) };
        tokio::join!(other.take_when_free(60), give_back);
        assert_eq!(budget.held(), 67);
    }
}
