//! Puts the journal (`[incoming] journal`) in front of the incoming store.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use gnudi_drivers::{
    incoming::{
        Incoming,
        journal::{Journal, JournalOptions, Journaled},
    },
    reserve::Reserve,
};
use uuid::Uuid;

use super::embedded;
use crate::config::{Config, deployment::INCOMING};

/// Maximum bytes of batches queued for the journal's disk.
const QUEUE_BYTES_MAX: u32 = 64 << 20;

/// Whether a process keeps a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journaling {
    /// It accepts no measures.
    Off,
    /// If the configuration names a directory.
    Configured,
}

impl Journaling {
    /// The incoming store, with its journal. `store`: the store's id in the index. `reserve`: that of an embedded store.
    pub(super) fn over(
        self,
        incoming: Arc<dyn Incoming>,
        config: &Config,
        store: Uuid,
        reserve: Reserve,
    ) -> Result<Arc<dyn Incoming>> {
        let Some(dir) = config.text(INCOMING, "journal").map(Path::new) else { return Ok(incoming) };
        if self == Journaling::Off {
            return Ok(incoming);
        }
        let options = JournalOptions {
            store,
            durability: super::durability(config),
            segment_bytes: embedded::segment_bytes(dir),
            queue_bytes_max: QUEUE_BYTES_MAX,
            reserve,
            clock: crate::commands::now,
        };
        let journal = Journal::open(dir, &options).with_context(|| config.place(INCOMING, "journal"))?;
        tracing::info!("incoming measures are kept in the journal {}", dir.display());
        Ok(Arc::new(Journaled::new(journal, incoming)))
    }
}
