//! Metrics of the engine and the drivers, for `/metrics`.

use std::{fmt, path::PathBuf, sync::Arc};

use gnudi_drivers::{
    Figure, FigureValue,
    aggregates::{AggregateStore, local::LocalAggregates},
    disk::{Disk as _, LocalDisk},
    incoming::{Incoming, journal::JournalFigures, log::LocalIncoming},
    reserve::Reserve,
};
use gnudi_engine::Engine;
use gnudi_indexer::{Indexer as _, cache::CachedIndexer, sql::SqlIndexer};
use gnudi_telemetry::figures::{counter, gauge};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, registry::Registry};
use tokio::runtime::Handle;

use crate::{process_figures::ProcessFigures, store::Store};

/// Reads the counters of an open store at each scrape.
struct StoreFigures {
    engine: Arc<Engine>,
    indexer: Arc<CachedIndexer<SqlIndexer>>,
    incoming: Arc<dyn Incoming>,
    aggregates: Arc<dyn AggregateStore>,
    local: Option<LocalParts>,
}

/// Of an embedded store.
struct LocalParts {
    incoming: Arc<LocalIncoming>,
    aggregates: Arc<LocalAggregates>,
    reserve: Reserve,
    data_dir: PathBuf,
}

impl StoreFigures {
    fn of(store: &Store) -> Self {
        StoreFigures {
            engine: store.engine.clone(),
            indexer: store.indexer.clone(),
            incoming: store.incoming.clone(),
            aggregates: store.aggregates.clone(),
            local: store.local.as_ref().map(|local| LocalParts {
                incoming: local.incoming.clone(),
                aggregates: local.aggregates.clone(),
                reserve: local.reserve.clone(),
                data_dir: local.dir.path().to_owned(),
            }),
        }
    }
}

/// Registers the figures of an open store, and those of the process with these runtimes.
pub fn register(registry: &mut Registry, store: &Store, runtimes: Vec<(&'static str, Handle)>) {
    registry.register_collector(Box::new(StoreFigures::of(store)));
    registry.register_collector(Box::new(ProcessFigures::of(runtimes)));
}

impl fmt::Debug for StoreFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreFigures")
    }
}

impl Collector for StoreFigures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, help, value) in self.engine.figures().list() {
            counter(&mut encoder, &format!("gnudi_metricd_{name}"), help, value)?;
        }
        let oldest = self.engine.oldest_waiting().as_secs_f64();
        let help = "Longest time that a sack has waited for a worker";
        gauge(&mut encoder, "gnudi_metricd_oldest_waiting_seconds", help, oldest)?;
        let help = "Memory of measures that are acknowledged and folded later, in bytes";
        gauge(&mut encoder, "gnudi_metricd_deferred_bytes", help, self.engine.deferred_bytes() as f64)?;
        let cache = self.indexer.figures();
        counter(&mut encoder, "gnudi_cache_hits", "Metrics found in the cache", cache.hits as f64)?;
        counter(&mut encoder, "gnudi_cache_misses", "Metrics looked up in the index", cache.misses as f64)?;
        let damaged = self.indexer.damaged() as f64;
        let help = "Damaged resources and metrics left out of listings";
        counter(&mut encoder, "gnudi_index_damaged", help, damaged)?;
        if let Some(journal) = self.incoming.journal() {
            encode_journal(&mut encoder, journal)?;
        }
        encode_shared(&mut encoder, "incoming", self.incoming.shared_figures())?;
        encode_shared(&mut encoder, "aggregates", self.aggregates.shared_figures())?;
        let Some(LocalParts { incoming, aggregates, reserve, data_dir }) = &self.local else { return Ok(()) };
        encode_log(&mut encoder, incoming)?;
        // Also without a reserve.
        if let Ok(space) = LocalDisk.space(data_dir) {
            let help = "Free bytes on the disk of the data directory, without the reserve";
            gauge(&mut encoder, "gnudi_disk_free_bytes", help, space.free_bytes as f64)?;
        }
        encode_reserve(&mut encoder, reserve)?;
        encode_aggregates(&mut encoder, aggregates)
    }
}

/// Figures of shared stores; those of the embedded store have functions of their own.
fn encode_shared(encoder: &mut DescriptorEncoder, store: &str, figures: Vec<Figure>) -> fmt::Result {
    for Figure { name, help, value } in figures {
        let name = format!("gnudi_{store}_{name}");
        match value {
            FigureValue::Counter(value) => counter(encoder, &name, help, value as f64)?,
            FigureValue::Time(value) => counter(encoder, &name, help, value.as_secs_f64())?,
            FigureValue::Gauge(value) => gauge(encoder, &name, help, value as f64)?,
        }
    }
    Ok(())
}

fn encode_journal(encoder: &mut DescriptorEncoder, journal: JournalFigures) -> fmt::Result {
    let JournalFigures { bytes, files, appends, failures, syncs, sync_time } = journal;
    gauge(encoder, "gnudi_journal_bytes", "Size of the journal's files", bytes as f64)?;
    gauge(encoder, "gnudi_journal_files", "Files of the journal", files as f64)?;
    counter(encoder, "gnudi_journal_appends", "Requests made durable in the journal", appends as f64)?;
    counter(encoder, "gnudi_journal_failures", "Requests that the journal rejected", failures as f64)?;
    counter(encoder, "gnudi_journal_syncs", "Syncs of the journal", syncs as f64)?;
    let seconds = sync_time.as_secs_f64();
    counter(encoder, "gnudi_journal_sync_seconds", "Time of the journal's syncs in seconds", seconds)
}

fn encode_log(encoder: &mut DescriptorEncoder, incoming: &LocalIncoming) -> fmt::Result {
    let log = incoming.figures();
    counter(encoder, "gnudi_incoming_appends", "Requests made durable", log.appends as f64)?;
    counter(encoder, "gnudi_incoming_syncs", "Syncs of the log", log.syncs as f64)?;
    let seconds = log.sync_time.as_secs_f64();
    counter(encoder, "gnudi_incoming_sync_seconds", "Time of the syncs in seconds", seconds)?;
    counter(encoder, "gnudi_incoming_damaged", "Damaged places found", log.damaged as f64)?;
    gauge(encoder, "gnudi_incoming_segments", "Log files in use", log.segments as f64)?;
    let poisoned = f64::from(u8::from(log.poisoned));
    gauge(encoder, "gnudi_incoming_poisoned", "1 once a disk failure has stopped the log", poisoned)
}

fn encode_reserve(encoder: &mut DescriptorEncoder, reserve: &Reserve) -> fmt::Result {
    let space = reserve.figures();
    let help = "Bytes to reserve on that disk for deletions, the index and acknowledgements";
    gauge(encoder, "gnudi_disk_reserve_bytes", help, space.wanted_bytes as f64)?;
    let help = "Bytes of the reserve that exist now: 0 while the disk is full";
    gauge(encoder, "gnudi_disk_reserve_held_bytes", help, space.held_bytes as f64)
}

fn encode_aggregates(encoder: &mut DescriptorEncoder, aggregates: &LocalAggregates) -> fmt::Result {
    let store = aggregates.figures();
    let bytes = (store.log_bytes + store.run_bytes) as f64;
    counter(encoder, "gnudi_aggregates_written_bytes", "Bytes written to the log and to runs", bytes)?;
    counter(encoder, "gnudi_aggregates_syncs", "Syncs of the aggregates", store.syncs as f64)?;
    counter(encoder, "gnudi_aggregates_flushes", "Logs sorted into a run", store.flushes as f64)?;
    let waited = store.flushes_waited as f64;
    counter(encoder, "gnudi_aggregates_flushes_waited", "Flushes that waited for merges", waited)?;
    counter(encoder, "gnudi_aggregates_merges", "Merges of runs", store.merges as f64)?;
    let waited = store.merges_waited as f64;
    counter(encoder, "gnudi_aggregates_merges_waited", "Merges that waited for space", waited)?;
    let waits = f64::from(u8::from(store.merge_waits));
    gauge(encoder, "gnudi_aggregates_merge_waits", "1 while a merge waits for space", waits)?;
    counter(encoder, "gnudi_aggregates_damaged", "Damaged places found", store.damaged as f64)?;
    gauge(encoder, "gnudi_aggregates_runs", "Number of runs", store.runs as f64)?;
    gauge(encoder, "gnudi_aggregates_runs_bytes", "Size of the runs", store.runs_size_bytes as f64)?;
    let recent = store.recent_entries as f64;
    gauge(encoder, "gnudi_aggregates_recent_entries", "Heads and blocks in the recent layer", recent)?;
    let help = "Heads in memory that no file has yet; the log of measures can repeat them";
    gauge(encoder, "gnudi_aggregates_dirty_heads", help, store.dirty_heads as f64)?;
    gauge(encoder, "gnudi_aggregates_dirty_bytes", "Memory of these heads", store.dirty_bytes as f64)?;
    let poisoned = f64::from(u8::from(store.poisoned));
    gauge(encoder, "gnudi_aggregates_poisoned", "1 once a disk failure has stopped writes", poisoned)
}
