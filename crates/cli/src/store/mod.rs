//! Opens the configured engines: the only place that selects drivers.
//!
//! `embedded` opens the data directory; `shared` opens shared engines, with retries (`retry`) while they do not
//! respond; `engines` converts options for the drivers; `gnocchi` opens the source of an import; `journal` keeps
//! incoming measures.

mod embedded;
mod engines;
pub mod gnocchi;
mod journal;
mod retry;
pub mod shared;

pub use journal::Journaling;
pub use retry::RetryPolicy;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Result;
use gnudi_drivers::{
    aggregates::{AggregateStore, local::LocalAggregates},
    data_dir::DataDir,
    incoming::{
        Incoming,
        log::{Durability, LocalIncoming},
    },
    reserve::Reserve,
};
use gnudi_engine::{Engine, OnDamage};
use gnudi_indexer::{
    cache::{CacheOptions, CachedIndexer},
    create_default_archive_policies, has_no_archive_policies,
    sql::SqlIndexer,
};
use gnudi_model::{AggregationMethod, SackCount};
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
    /// Set for the embedded store.
    pub local: Option<Local>,
    /// The task that loads the index into its cache.
    warming: JoinHandle<()>,
}

/// The embedded store's own parts and its directory.
pub struct Local {
    pub incoming: Arc<LocalIncoming>,
    pub aggregates: Arc<LocalAggregates>,
    pub reserve: Reserve,
    pub dir: DataDir,
}

impl Store {
    /// Opens the configured engines, creating what is missing. Retries engines that do not respond, with `retry`.
    pub async fn open(
        args: &StoreArgs,
        config: &Config,
        retry: RetryPolicy,
        journaling: Journaling,
    ) -> Result<Self> {
        let deployment = Deployment::warned_of(config, args.data_dir.as_deref())?;
        tracing::info!("the store: {deployment}");
        match deployment {
            Deployment::Embedded(dir) => embedded::open(&dir, config, journaling).await,
            Deployment::Shared(engines) => shared::open(&engines, config, retry, journaling).await,
        }
    }

    /// Called by servers: from now on the store counts as used, and no longer as an import.
    pub async fn mark_as_used(&self, config: &Config, retry: RetryPolicy) -> Result<()> {
        let index = self.indexer.index();
        let mark = || async {
            match index.imported_from().await? {
                Some(_) => index.set_imported_from(None).await,
                None => Ok(()),
            }
        };
        retry.run(&index_place(config), mark).await
    }

    /// Creates the default archive policies if the index has none.
    pub async fn create_default_policies(
        &self,
        config: &Config,
        methods: &BTreeSet<AggregationMethod>,
        retry: RetryPolicy,
    ) -> Result<()> {
        let (indexer, place) = (&*self.indexer, index_place(config));
        // Checked once, before all attempts: an attempt whose answer was lost may have created some of them.
        if retry.run(&place, || has_no_archive_policies(indexer)).await? {
            retry.run(&place, || create_default_archive_policies(indexer, methods)).await?;
        }
        Ok(())
    }

    /// Closes the index properly; the store cannot be used afterwards.
    pub async fn close(self) {
        // Its remaining reads would fail and be logged.
        self.warming.abort();
        let _ = self.warming.await;
        self.indexer.index().close().await;
    }

    /// Whether other processes may use the same engines.
    pub fn is_shared(&self) -> bool {
        self.local.is_none()
    }

    /// How long the index's cache of another process may lack a change.
    pub fn caches_lag_max(&self, config: &Config) -> Duration {
        if self.is_shared() { engines::follow(config).lag_max() } else { Duration::ZERO }
    }
}

/// Whether the engines' options are valid. Opens nothing.
pub fn check(deployment: &Deployment, config: &Config) -> Result<()> {
    match deployment {
        Deployment::Embedded(_) => Ok(()),
        Deployment::Shared(engines) => shared::check(*engines, config),
    }
}

/// Number of sacks of a new incoming store.
pub fn sack_count(config: &Config) -> SackCount {
    let configured = u16::try_from(config.size("incoming", "sacks")).ok().and_then(std::num::NonZeroU16::new);
    configured.map_or(SackCount::DEFAULT, SackCount)
}

/// `[incoming] durability`, where the store can choose.
fn durability(config: &Config) -> Durability {
    match config.text("incoming", "durability") {
        Some("os") => Durability::Os,
        _ => Durability::Sync,
    }
}

/// Where the option that names the index was set.
fn index_place(config: &Config) -> String {
    config.place("indexer", "url")
}

/// `[storage] damaged_metrics`.
fn on_damage(config: &Config) -> OnDamage {
    match config.text("storage", "damaged_metrics") {
        Some("serve") => OnDamage::Serve,
        _ => OnDamage::Refuse,
    }
}

/// The index with its cache, and the task that fills the cache in the background.
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
        Ok(metrics) => tracing::debug!(metrics, "the index is cached"),
        Err(error) => tracing::warn!(%error, "preloading the index failed"),
    }
}
