//! Opens the engines that the configuration names: the only place that picks drivers.
//!
//! `embedded` opens the data directory, `shared` the engines that processes share, with `patience` while they do not answer;
//! `engines` turns options into those of the drivers; `gnocchi` opens what is imported, `journal` what keeps the measures that come in.

mod embedded;
mod engines;
pub mod gnocchi;
mod journal;
mod patience;
pub mod shared;

pub use journal::Journaling;
pub use patience::Patience;

use std::sync::Arc;

use anyhow::Result;
use gnudi_drivers::{
    aggregates::{AggregateStore, local::LocalAggregates},
    data_dir::DataDir,
    incoming::{Incoming, log::LocalIncoming},
    reserve::Reserve,
};
use gnudi_engine::{Engine, OnDamage};
use gnudi_indexer::{
    cache::{CacheOptions, CachedIndexer},
    sql::SqlIndexer,
};
use gnudi_model::SackCount;
use tokio::task::JoinHandle;

use crate::{
    args::StoreArgs,
    config::{Config, Deployment},
};

/// Open engines.
pub struct Store {
    pub engine: Arc<Engine>,
    pub indexer: Arc<CachedIndexer<SqlIndexer>>,
    pub incoming: Arc<dyn Incoming>,
    pub aggregates: Arc<dyn AggregateStore>,
    /// Of the embedded store.
    pub local: Option<Local>,
    /// Loads the index into its cache.
    warming: JoinHandle<()>,
}

/// What the embedded store tells of itself, and its lock. Field order is drop order: the lock on the directory goes last.
pub struct Local {
    pub incoming: Arc<LocalIncoming>,
    pub aggregates: Arc<LocalAggregates>,
    pub reserve: Reserve,
    pub dir: DataDir,
}

impl Store {
    /// Opens what the configuration names, creating what is not there. `sacks` counts only for a new incoming store. Waits for
    /// engines that do not answer, with `patience`.
    pub async fn open(
        args: &StoreArgs,
        config: &Config,
        sacks: Option<SackCount>,
        patience: Patience,
    ) -> Result<Self> {
        Self::open_with(args, config, sacks, patience, Journaling::Off).await
    }

    /// The same, for a process that takes measures: they go into the journal, too, if there is to be one.
    pub async fn open_for_measures(args: &StoreArgs, config: &Config, patience: Patience) -> Result<Self> {
        Self::open_with(args, config, None, patience, Journaling::Configured).await
    }

    async fn open_with(
        args: &StoreArgs,
        config: &Config,
        sacks: Option<SackCount>,
        patience: Patience,
        journaling: Journaling,
    ) -> Result<Self> {
        let (deployment, warnings) = Deployment::of(config, args.data_dir.as_deref())?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!("the store: {deployment}");
        match deployment {
            Deployment::Embedded(dir) => embedded::open(&dir, config, sacks, journaling).await,
            Deployment::Shared(engines) => shared::open(&engines, config, sacks, patience, journaling).await,
        }
    }

    /// To be called by servers: from now on the store has what no import wrote.
    pub async fn take_over(&self) -> Result<()> {
        let index = self.indexer.index();
        if index.imported_from().await?.is_some() {
            index.set_imported_from(None).await?;
        }
        Ok(())
    }

    /// Closes the index in order; nothing can be done with it any more.
    pub async fn close(self) {
        // Whatever it still reads would fail, and be logged.
        self.warming.abort();
        let _ = self.warming.await;
        self.indexer.index().close().await;
    }

    /// Whether other processes may use the same engines.
    pub fn is_shared(&self) -> bool {
        self.local.is_none()
    }
}

/// Whether the options of the engines are such that they could be opened. Opens nothing.
pub fn check(deployment: &Deployment, config: &Config) -> Result<()> {
    match deployment {
        Deployment::Embedded(_) => Ok(()),
        Deployment::Shared(engines) => shared::check(*engines, config),
    }
}

/// The number of sacks of a new incoming store: what the command line says, else the configuration.
pub fn sack_count(config: &Config, sacks: Option<SackCount>) -> SackCount {
    let configured = u16::try_from(config.size("incoming", "sacks")).ok().and_then(std::num::NonZeroU16::new);
    sacks.or(configured.map(SackCount)).unwrap_or(SackCount::DEFAULT)
}

/// `[storage] damaged_metrics`.
fn on_damage(config: &Config) -> OnDamage {
    match config.text("storage", "damaged_metrics") {
        Some("serve") => OnDamage::Serve,
        _ => OnDamage::Refuse,
    }
}

/// The index with its cache, and the task that fills the cache beside the first requests.
fn cached(sql: SqlIndexer, config: &Config) -> (Arc<CachedIndexer<SqlIndexer>>, JoinHandle<()>) {
    let options = CacheOptions {
        metrics_cached_max: config.size("indexer", "metrics_cached_max"),
        resources_cached_max: config.size("indexer", "resources_cached_max"),
    };
    let indexer = Arc::new(CachedIndexer::new(sql, &options));
    let warming = tokio::spawn(warm(indexer.clone()));
    (indexer, warming)
}

async fn warm(indexer: Arc<CachedIndexer<SqlIndexer>>) {
    match indexer.warm().await {
        Ok(metrics) => tracing::debug!(metrics, "the index is in the cache"),
        Err(error) => tracing::warn!(%error, "the index cannot be loaded ahead"),
    }
}
