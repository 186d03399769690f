//! Opens the store that the configuration names: the only place that picks drivers.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, bail};
use gnudi_drivers::{
    aggregates::local::{LocalAggregates, LocalAggregatesOptions},
    data_dir::DataDir,
    incoming::log::{Durability, LocalIncoming, LocalIncomingOptions},
};
use gnudi_engine::Engine;
use gnudi_indexer::{
    cache::{CacheOptions, CachedIndexer},
    sql::{SqlIndexer, SqliteOptions},
};
use gnudi_model::SackCount;

use crate::{args::StoreArgs, config::Config};

/// An open store. Field order is drop order: the lock on the directory goes last.
pub struct Store {
    pub engine: Arc<Engine>,
    pub indexer: Arc<CachedIndexer<SqlIndexer>>,
    pub incoming: Arc<LocalIncoming>,
    pub aggregates: Arc<LocalAggregates>,
    _dir: DataDir,
}

impl Store {
    /// Opens the embedded store, creating it where there is none. `sacks` counts only for a new one.
    pub async fn open(args: &StoreArgs, config: &Config, sacks: Option<SackCount>) -> Result<Self> {
        refuse_other_engines(args, config)?;
        let path = data_dir(args, config);
        let dir = DataDir::open(&path)?;
        let configured = u16::try_from(config.size("incoming", "sacks")).ok().and_then(NonZeroU16::new);
        let incoming = LocalIncoming::open(
            &dir.incoming(),
            &LocalIncomingOptions {
                sack_count: sacks.or(configured.map(SackCount)).unwrap_or(SackCount::DEFAULT),
                durability: match config.text("incoming", "durability") {
                    Some("os") => Durability::Os,
                    _ => Durability::Sync,
                },
                backlog_bytes_max: config.size("incoming", "backlog_bytes_max") as u64,
                ..LocalIncomingOptions::default()
            },
        )?;
        let aggregates = LocalAggregates::open(
            &dir.aggregates(),
            &LocalAggregatesOptions {
                recent_bytes_max: config.size("storage", "recent_bytes_max") as u64,
                ..LocalAggregatesOptions::default()
            },
        )?;
        let sql = SqlIndexer::open(&SqliteOptions::new(dir.indexer())).await?;
        let options = CacheOptions {
            metrics_cached_max: config.size("indexer", "metrics_cached_max"),
            resources_cached_max: config.size("indexer", "resources_cached_max"),
        };
        let indexer = Arc::new(CachedIndexer::new(sql, &options));
        tokio::spawn(warm(indexer.clone()));
        let engine = Arc::new(Engine::new(indexer.clone(), incoming.clone(), aggregates.clone()));
        Ok(Store { engine, indexer, incoming, aggregates, _dir: dir })
    }
}

/// Fills the cache beside the first requests, which load what they miss.
async fn warm(indexer: Arc<CachedIndexer<SqlIndexer>>) {
    match indexer.warm().await {
        Ok(metrics) => tracing::debug!(metrics, "the index is in the cache"),
        Err(error) => tracing::warn!(%error, "the index cannot be loaded ahead"),
    }
}

fn data_dir(args: &StoreArgs, config: &Config) -> PathBuf {
    let configured = || config.text("storage", "file_basepath").map(PathBuf::from);
    args.data_dir.clone().or_else(configured).unwrap_or_else(|| Path::new("gnudi-data").to_owned())
}

/// A file that names engines which this version does not have must not silently start an empty store; naming the data
/// directory on the command line says that the embedded store is meant.
fn refuse_other_engines(args: &StoreArgs, config: &Config) -> Result<()> {
    let others = [("storage", "driver"), ("incoming", "driver"), ("indexer", "url")];
    for (section, name) in others {
        let Some(value) = config.text(section, name) else { continue };
        if matches!(value, "local" | "file") {
            continue;
        }
        let place = config.place(section, name);
        // A URL may hold a password.
        let engine = value.split(':').next().unwrap_or_default();
        if args.data_dir.is_none() {
            bail!(
                "{place}: this version has the embedded store only, not {engine}; give --data-dir to use that instead"
            );
        }
        tracing::warn!("{place}: {engine} is not used: --data-dir names the embedded store");
    }
    Ok(())
}
