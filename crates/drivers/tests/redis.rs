//! Redis as incoming and as aggregate store: the suites, on real servers.

#[path = "engines/redis.rs"]
mod engine;
#[path = "engines/server.rs"]
mod server;

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use engine::{RedisCluster, RedisSentinels, RedisServer};
use gnudi_drivers::{
    aggregates::redis::{RedisAggregates, RedisAggregatesOptions},
    clients::redis::RedisOptions,
    conformance::{self, IncomingSetup},
    incoming::redis::{RedisIncoming, RedisIncomingOptions},
};
use uuid::Uuid;

const CLUSTER: Uuid = Uuid::from_u128(0xc1);

/// Each call names a place that nothing is at.
fn prefix() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn incoming_options(url: &str, setup: IncomingSetup, prefix: &str) -> RedisIncomingOptions {
    RedisIncomingOptions {
        prefix: prefix.to_owned(),
        sack_count: setup.sack_count,
        backlog_bytes_max: setup.backlog_bytes_max,
        backlog_age_max: Duration::ZERO,
        numbering_interval: Duration::from_millis(50),
        ..RedisIncomingOptions::new(RedisOptions::new(url.parse().unwrap()))
    }
}

async fn incoming(url: &str, setup: IncomingSetup, prefix: &str) -> Arc<RedisIncoming> {
    RedisIncoming::open(incoming_options(url, setup, prefix), CLUSTER).await.unwrap()
}

async fn incoming_suites(url: &str) {
    conformance::incoming(async |setup| incoming(url, setup, &prefix()).await).await;
    conformance::shared_incoming(async |setup| {
        let prefix = prefix();
        [incoming(url, setup, &prefix).await, incoming(url, setup, &prefix).await]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incoming_on_one_server() {
    let server = RedisServer::start(&[]);
    incoming_suites(&server.url()).await;
}

async fn aggregates(url: &str, prefix: &str, shards: u16) -> Arc<RedisAggregates> {
    let options = RedisAggregatesOptions {
        prefix: prefix.to_owned(),
        shards: NonZeroU16::new(shards).unwrap(),
        ..RedisAggregatesOptions::new(RedisOptions::new(url.parse().unwrap()))
    };
    RedisAggregates::open(options, CLUSTER).await.unwrap()
}

async fn aggregates_suite(url: &str) {
    // As many as sacks, one, and a count that has no divisor in common with them.
    for shards in [128, 1, 7] {
        conformance::aggregates(async || aggregates(url, &prefix(), shards).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_on_one_server() {
    let server = RedisServer::start(&[]);
    aggregates_suite(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_sentinels_name() {
    let sentinels = RedisSentinels::start(&[]);
    incoming_suites(&sentinels.url()).await;
    aggregates_suite(&sentinels.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster() {
    let cluster = RedisCluster::start(&[]);
    incoming_suites(&cluster.url()).await;
    aggregates_suite(&cluster.url()).await;
}
