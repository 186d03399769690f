//! The journal in front of the incoming store: `[incoming] journal`.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use gnudi_drivers::incoming::{
    Incoming,
    journal::{Journal, JournalOptions, Journaled},
    log::Durability,
};
use uuid::Uuid;

use super::embedded;
use crate::config::{Config, deployment::INCOMING};

/// Batches between requests and the journal's disk.
const QUEUE_BYTES_MAX: u32 = 64 << 20;

/// Whether a process keeps a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journaling {
    /// It takes no measures.
    Off,
    /// Where the configuration names a directory.
    Configured,
}

impl Journaling {
    /// The incoming store as measures come into it. `store`: the id that its index gave it.
    pub(super) fn over(
        self,
        incoming: Arc<dyn Incoming>,
        config: &Config,
        store: Uuid,
    ) -> Result<Arc<dyn Incoming>> {
        let Some(dir) = config.text(INCOMING, "journal").map(Path::new) else { return Ok(incoming) };
        if self == Journaling::Off {
            return Ok(incoming);
        }
        let options = JournalOptions {
            store,
            durability: match config.text(INCOMING, "durability") {
                Some("os") => Durability::Os,
                _ => Durability::Sync,
            },
            segment_bytes: embedded::segment_bytes(dir),
            queue_bytes_max: QUEUE_BYTES_MAX,
            clock: crate::commands::now,
        };
        let journal = Journal::open(dir, &options).with_context(|| config.place(INCOMING, "journal"))?;
        tracing::info!("measures that come in are kept in {}", dir.display());
        Ok(Arc::new(Journaled::new(journal, incoming)))
    }
}
