//! The embedded store: index, log and aggregates in one directory, which one process has.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use gnudi_drivers::{
    aggregates::local::{LocalAggregates, LocalAggregatesOptions},
    data_dir::DataDir,
    incoming::log::{Durability, LocalIncoming, LocalIncomingOptions},
};
use gnudi_engine::Engine;
use gnudi_indexer::sql::{SqlIndexer, SqliteOptions};
use gnudi_model::SackCount;

use super::{Local, Store, cached, sack_count};
use crate::config::Config;

pub async fn open(path: &Path, config: &Config, sacks: Option<SackCount>) -> Result<Store> {
    let dir = DataDir::open(path)?;
    let incoming = LocalIncoming::open(
        &dir.incoming(),
        &LocalIncomingOptions {
            sack_count: sack_count(config, sacks),
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
    let indexer = cached(SqlIndexer::open(&SqliteOptions::new(dir.indexer())).await?, config);
    let engine = Arc::new(Engine::new(indexer.clone(), incoming.clone(), aggregates.clone()));
    Ok(Store {
        engine,
        indexer,
        incoming: incoming.clone(),
        local: Some(Local { incoming, aggregates, _dir: dir }),
    })
}
