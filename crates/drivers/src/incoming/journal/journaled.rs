//! An incoming store with a journal: accepted measures are in both.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use gnudi_model::{Fault, MetricId, Numbering, Sack};

use super::{Journal, JournalFigures};
use crate::{
    Figure,
    incoming::{
        Append, Backlog, Batch, Consume, Incoming, Pending, Position, Positions, Result, Topology, TrimNeed,
    },
};

/// So many batches in a row must the store accept before the journal is written first again.
const STORE_FIRST: u32 = 1000;

/// Writes each batch to the journal before the store gets it, and answers once it is durable in both, so that
/// every acknowledged batch is in the journal. A batch that the store then refuses, or loses by a crash,
/// stays in the journal; its client was not acknowledged.
///
/// Clients repeat what is refused, which would fill the journal: once the store has refused a batch, it gets those
/// that follow before the journal. One that the journal then refuses stays in the store.
pub struct Journaled {
    journal: Journal,
    store: Arc<dyn Incoming>,
    /// So many more batches go to the store before the journal.
    store_first: AtomicU32,
}

impl Journaled {
    pub fn new(journal: Journal, store: Arc<dyn Incoming>) -> Self {
        Self { journal, store, store_first: AtomicU32::new(0) }
    }

    async fn append_to_store(&self, batch: Batch) -> Result<()> {
        let taken = self.store.append(batch).await;
        if taken.is_err() {
            self.store_first.store(STORE_FIRST, Relaxed);
        } else {
            // Nothing is left to count down in normal operation.
            let _ = self.store_first.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        }
        taken
    }
}

#[async_trait]
impl Append for Journaled {
    async fn append(&self, batch: Batch) -> Result<()> {
        if batch.entries.is_empty() {
            return self.store.append(batch).await;
        }
        if self.store_first.load(Relaxed) > 0 {
            self.append_to_store(batch.clone()).await?;
            return self.journal.append(&batch).await;
        }
        // Both syncs in parallel: in sequence they halved a client's throughput.
        let written = self.journal.write(&batch).await?;
        let (durable, taken) = tokio::join!(written.durable(), self.append_to_store(batch));
        durable.and(taken)
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.store.backlog().await
    }

    async fn backlog_by_metric(&self) -> Result<HashMap<MetricId, u64>> {
        self.store.backlog_by_metric().await
    }
}

#[async_trait]
impl Consume for Journaled {
    fn numbering(&self) -> Numbering {
        self.store.numbering()
    }

    async fn pending(&self, sack: Sack, after: Position, bytes_max: usize) -> Result<Pending> {
        self.store.pending(sack, after, bytes_max).await
    }

    async fn acknowledge(&self, sack: Sack, up_to: Position) -> Result<()> {
        self.store.acknowledge(sack, up_to).await
    }

    async fn acknowledge_again(&self, sack: Sack, up_to: Position) -> Result<()> {
        self.store.acknowledge_again(sack, up_to).await
    }

    async fn trim(&self, up_to: &[(Sack, Position)]) -> Result<()> {
        self.store.trim(up_to).await
    }

    fn trim_need(&self) -> TrimNeed {
        self.store.trim_need()
    }

    async fn positions(&self, sacks: &[Sack]) -> Result<Vec<Positions>> {
        self.store.positions(sacks).await
    }

    async fn reachable_positions(&self, sacks: &[Sack]) -> Result<Vec<(Sack, Positions)>> {
        self.store.reachable_positions(sacks).await
    }

    async fn arrivals(&self) -> Vec<Sack> {
        self.store.arrivals().await
    }
}

impl Incoming for Journaled {
    fn fault(&self) -> Option<Fault> {
        self.journal.fault().or_else(|| self.store.fault())
    }

    fn topology(&self) -> Option<&dyn Topology> {
        self.store.topology()
    }

    fn damaged(&self) -> u64 {
        self.store.damaged()
    }

    fn shared_figures(&self) -> Vec<Figure> {
        self.store.shared_figures()
    }

    fn journal(&self) -> Option<JournalFigures> {
        Some(self.journal.figures())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gnudi_model::{SackCount, Timestamp};
    use uuid::Uuid;

    use super::*;
    use crate::{
        incoming::{
            IncomingError,
            journal::{Found, JournalOptions, JournalPosition, JournalReader},
            log::{Durability, LocalIncoming, LocalIncomingOptions},
        },
        reserve::Reserve,
    };

    const STORE: Uuid = Uuid::from_u128(7 << 64);

    fn options() -> JournalOptions {
        JournalOptions {
            store: STORE,
            durability: Durability::Sync,
            segment_bytes: 1 << 16,
            queue_bytes_max: 1 << 20,
            reserve: Reserve::default(),
            clock: || Timestamp(5),
        }
    }

    fn batch(metric: u128, text: &str) -> Batch {
        let mut batch = Batch::default();
        batch.push(MetricId(Uuid::from_u128(metric)), 1, |out| out.extend_from_slice(text.as_bytes()));
        batch
    }

    fn journal(dir: &Path) -> Vec<String> {
        let mut reader = JournalReader::open(dir, STORE, JournalPosition::default()).unwrap();
        let mut texts = Vec::new();
        while let Some(found) = reader.next().unwrap() {
            let Found::Entry(entry) = found else { panic!("damage") };
            texts.extend(
                entry.records.iter().map(|record| String::from_utf8_lossy(&record.points).into_owned()),
            );
        }
        texts
    }

    #[tokio::test]
    async fn what_is_taken_is_in_both_and_a_full_backlog_fills_no_journal() {
        let root = tempfile::tempdir().unwrap();
        let (log, dir) = (root.path().join("log"), root.path().join("journal"));
        let local = LocalIncomingOptions {
            backlog_bytes_max: 300,
            sack_count: SackCount::DEFAULT,
            ..LocalIncomingOptions::default()
        };
        let store = LocalIncoming::open(&log, &local).unwrap();
        let journaled = Journaled::new(Journal::open(&dir, &options()).unwrap(), store);
        let text = "x".repeat(100);
        let mut taken = 0;
        let mut refused = 0;
        for number in 0..20 {
            match journaled.append(batch(number, &text)).await {
                Ok(()) => taken += 1,
                Err(error) => {
                    assert!(matches!(error, IncomingError::BacklogFull { limit: 300, .. }), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(taken > 0 && refused > 10);
        assert!(journal(&dir).len() <= taken + 1, "what is refused again and again is not written");
        let sack = SackCount::DEFAULT;
        for id in sack.iter() {
            let sack = Sack { count: sack, id };
            let newest = journaled.positions(&[sack]).await.unwrap()[0].newest;
            journaled.acknowledge(sack, newest).await.unwrap();
        }
        journaled.append(batch(99, "after")).await.unwrap();
        assert_eq!(journal(&dir).last().map(String::as_str), Some("after"));
        let JournalFigures { bytes, files, appends, failures, .. } = journaled.journal().unwrap();
        assert_eq!((appends as usize, files, failures), (journal(&dir).len(), 1, 0));
        drop(journaled);
        let on_disk = std::fs::metadata(dir.join("00000001.log")).unwrap().len();
        assert!((1..=on_disk).contains(&bytes), "{bytes} of {on_disk}");
        let again = Journal::open(&dir, &options()).unwrap().figures();
        assert!(again.files == 2 && again.bytes > bytes && again.appends == 0, "{again:?}");
    }

    /// Their points alone would fit.
    #[tokio::test]
    async fn a_full_backlog_fills_no_journal_with_small_batches() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("journal");
        let local = LocalIncomingOptions { backlog_bytes_max: 300, ..LocalIncomingOptions::default() };
        let store = LocalIncoming::open(&root.path().join("log"), &local).unwrap();
        let journaled = Journaled::new(Journal::open(&dir, &options()).unwrap(), store);
        let mut taken = 0;
        for number in 0..50 {
            taken += usize::from(journaled.append(batch(number, "points")).await.is_ok());
        }
        assert!((1..40).contains(&taken), "{taken}");
        assert!(journal(&dir).len() <= taken + 1, "what is refused again and again is not written");
    }

    /// Otherwise the aggregates are made durable every few seconds.
    #[tokio::test]
    async fn a_trim_waits_until_the_store_wants_one() {
        let root = tempfile::tempdir().unwrap();
        let store = LocalIncoming::open(&root.path().join("log"), &LocalIncomingOptions::default()).unwrap();
        let journal = Journal::open(&root.path().join("journal"), &options()).unwrap();
        assert_eq!(store.trim_need(), TrimNeed::None);
        assert_eq!(Journaled::new(journal, store).trim_need(), TrimNeed::None);
    }

    #[tokio::test]
    async fn what_the_journal_does_not_take_the_store_does_not_get() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("journal");
        let store = LocalIncoming::open(&root.path().join("log"), &LocalIncomingOptions::default()).unwrap();
        let journal = Journal::open(&dir, &options()).unwrap();
        journal.poisoned.set("a test".to_owned()).unwrap();
        let journaled = Journaled::new(journal, store);
        let refused = journaled.append(batch(1, "x")).await;
        assert_eq!(refused, Err(IncomingError::Poisoned("the journal: a test".to_owned())));
        assert_eq!(journaled.backlog().await.unwrap().measures, 0);
        assert!(journaled.fault().is_some());
    }

    #[tokio::test]
    async fn a_journal_has_one_writer_and_one_store() {
        let root = tempfile::tempdir().unwrap();
        let first = Journal::open(root.path(), &options()).unwrap();
        let error = Journal::open(root.path(), &options()).err().unwrap();
        assert!(error.to_string().contains("another process writes this journal"), "{error}");
        drop(first);
        let other = JournalOptions { store: Uuid::from_u128(8 << 64), ..options() };
        let error = Journal::open(root.path(), &other).err().unwrap();
        assert!(error.to_string().contains("belongs to another store"), "{error}");
        assert!(JournalReader::open(root.path(), other.store, JournalPosition::default()).is_err());
        Journal::open(root.path(), &options()).unwrap();
    }
}
