//! A listing that goes on when its caller gives up: Ceph has no index of names, and reads those of the whole pool.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::objects::{ObjectError, Objects};

/// A listing under way.
pub struct Listing {
    began: Instant,
    /// Has one task, which ends with this.
    task: JoinSet<Listed>,
}

/// A listing that has ended.
pub struct Listed {
    pub began: Instant,
    pub took: Duration,
    pub names: Result<Vec<String>, ObjectError>,
}

impl Listing {
    pub fn begin(objects: &Arc<dyn Objects>, prefix: &'static str) -> Self {
        let (objects, began) = (Arc::clone(objects), Instant::now());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let names = objects.list(prefix).await;
            Listed { began, took: began.elapsed(), names }
        });
        Self { began, task }
    }

    /// Waits for the end of the listing, at most until `wait` after its beginning. Must not be called again after it has
    /// returned the listing.
    pub async fn ended(&mut self, wait: Duration) -> Option<Listed> {
        let rest = wait.saturating_sub(self.began.elapsed());
        let done = tokio::time::timeout(rest, self.task.join_next()).await.ok()?;
        Some(done.expect("it has a task").expect("listing does not panic"))
    }
}
