//! Opens the stores named by Gnocchi's configuration file, read only, for an import.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use gnudi_drivers::{
    clients::redis::RedisClient,
    objects::{ceph::CephReader, s3::S3Reader, swift::SwiftReader},
};
use gnudi_import::{
    Source,
    index::Index,
    source::{
        CephIncoming, CephStorage, FileIncoming, FileStorage, Incoming, RedisIncoming, RedisStorage,
        S3Incoming, S3Storage, Storage, SwiftIncoming, SwiftStorage, settings_container,
    },
};

use gnudi_sql::ServerOptions;

use super::engines;
use crate::config::{
    Config,
    deployment::{INCOMING, STORAGE},
    parse_bool,
};

/// Gnocchi's default of `[storage] file_basepath`.
const BASEPATH_DEFAULT: &str = "/var/lib/gnocchi";

/// Timeout of one page of rows.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(10);

pub async fn open(config: &Config) -> Result<Source> {
    // Refuse a database that is not Gnocchi's before anything is written.
    open_index(config).await?;
    let storage = storage(config).await?;
    let incoming = incoming(config).await?;
    Ok(Source { index: index_server(config)?, storage, incoming })
}

/// Only the index.
pub async fn open_index(config: &Config) -> Result<Index> {
    Index::open(&index_server(config)?).await.with_context(|| config.place("indexer", "url"))
}

fn index_server(config: &Config) -> Result<ServerOptions> {
    let mut server = engines::index(config)?;
    server.timeout = STATEMENT_TIMEOUT;
    Ok(server)
}

/// The option `driver`; unset it is Gnocchi's default `file`, not gnudi's `local`.
fn driver<'a>(config: &'a Config, section: &str) -> &'a str {
    config.text(section, "driver").unwrap_or("local")
}

async fn storage(config: &Config) -> Result<Arc<dyn Storage>> {
    let place = || config.place(STORAGE, "driver");
    Ok(match driver(config, STORAGE) {
        "redis" => Arc::new(RedisStorage(redis(config, STORAGE).await?)),
        "ceph" => Arc::new(CephStorage(ceph(config, STORAGE).await?)),
        "s3" => Arc::new(S3Storage(bucket(config, STORAGE, "aggregates").await?)),
        "swift" => {
            // Missing containers are detected at the first metric.
            let account = SwiftReader::new(&engines::swift(config, STORAGE)).with_context(place)?;
            let container_prefix = container_prefix(config, STORAGE);
            Arc::new(SwiftStorage { account: Arc::new(account), container_prefix })
        }
        _ => {
            let base = base_path(config, STORAGE);
            let place = || format!("{}: {}", config.place(STORAGE, "file_basepath"), base.display());
            Arc::new(FileStorage::open(&base).with_context(place)?)
        }
    })
}

async fn incoming(config: &Config) -> Result<Arc<dyn Incoming>> {
    let place = || config.place(INCOMING, "driver");
    Ok(match driver(config, INCOMING) {
        "redis" => Arc::new(RedisIncoming::open(redis(config, INCOMING).await?).await.with_context(place)?),
        "ceph" => Arc::new(CephIncoming::open(ceph(config, INCOMING).await?).await.with_context(place)?),
        "s3" => {
            let bucket = bucket(config, INCOMING, "measure").await?;
            Arc::new(S3Incoming::open(bucket).await.with_context(place)?)
        }
        "swift" => {
            let is_prefixed = config.text(INCOMING, "swift_container_prefix_all").and_then(parse_bool);
            let prefix = match is_prefixed {
                Some(true) => container_prefix(config, INCOMING) + ".",
                _ => String::new(),
            };
            let options = engines::swift(config, INCOMING);
            let account =
                SwiftReader::open(&options, &settings_container(&prefix)).await.with_context(place)?;
            Arc::new(SwiftIncoming::open(Arc::new(account), prefix).await.with_context(place)?)
        }
        _ => {
            let place = || config.place(INCOMING, "file_basepath");
            Arc::new(FileIncoming::open(base_path(config, INCOMING)).with_context(place)?)
        }
    })
}

fn base_path(config: &Config, section: &str) -> PathBuf {
    config.text(section, "file_basepath").unwrap_or(BASEPATH_DEFAULT).into()
}

fn container_prefix(config: &Config, section: &str) -> String {
    engines::swift(config, section).container_prefix
}

async fn redis(config: &Config, section: &str) -> Result<Arc<RedisClient>> {
    const CONNECTIONS: usize = 1;
    let options = engines::redis(config, section, "redis_url", engines::timeout(config, section))?;
    let client = RedisClient::connect(options, Vec::new(), CONNECTIONS).await;
    Ok(Arc::new(client.with_context(|| config.place(section, "redis_url"))?))
}

async fn ceph(config: &Config, section: &str) -> Result<Arc<CephReader>> {
    let reader = CephReader::open(&engines::ceph(config, section)).await;
    Ok(Arc::new(reader.with_context(|| config.place(section, "driver"))?))
}

/// The bucket `PREFIX-PURPOSE`.
async fn bucket(config: &Config, section: &str, purpose: &str) -> Result<S3Reader> {
    let options = engines::s3(config, section)?;
    let bucket = format!("{}-{purpose}", options.bucket_prefix);
    S3Reader::open(&options, bucket).await.with_context(|| config.place(section, "driver"))
}
