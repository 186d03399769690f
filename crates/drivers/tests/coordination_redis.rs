//! The coordination suite on a real Redis, and its outages and failovers.

#[path = "engines/outage.rs"]
mod outage;
#[path = "engines/redis.rs"]
mod redis_server;
#[path = "engines/server.rs"]
mod server;
mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gnudi_drivers::{
    OpenError,
    clients::redis::RedisOptions,
    conformance::{CoordinationSetup, coordination},
    coordination::{CoordinationError, Coordinator, Session, redis::RedisCoordinator},
};
use gnudi_model::SackCount;
use outage::{Held, clock_goes_back, outage};
use redis_server::{RedisSentinels, RedisServer};
use support::wait::until;
use uuid::Uuid;

const TIMEOUT: Duration = Duration::from_secs(2);

async fn open(url: &str, cluster: Uuid) -> Result<Arc<RedisCoordinator>, OpenError> {
    let options = RedisOptions { timeout: TIMEOUT, ..RedisOptions::new(url.parse().unwrap()) };
    RedisCoordinator::open(options, cluster).await.map(Arc::new)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinates_on_redis() {
    let mut engine = RedisServer::start(&[]);
    // Clusters on one server are isolated: each starts empty.
    coordination(async || {
        let cluster = Uuid::new_v4();
        let two = [open(&engine.url(), cluster).await.unwrap(), open(&engine.url(), cluster).await.unwrap()];
        CoordinationSetup::on_engine(two, Duration::from_secs(1), Duration::from_millis(50))
    })
    .await;
    a_clock_may_go_back(&engine).await;
    outages_end(&mut engine).await;
}

async fn a_clock_may_go_back(engine: &RedisServer) {
    let cluster = Uuid::new_v4();
    let one = open(&engine.url(), cluster).await.unwrap();
    let set_ahead = |session: Session| {
        let keys: Vec<String> = engine.ask(&["KEYS", &format!("*{cluster}*:until")]);
        let [until] = &keys[..] else { panic!("{keys:?}") };
        let _: String = engine.ask(&["ZINCRBY", until, "1800000000", &session.0.to_string()]);
    };
    clock_goes_back(&*one, &*one, set_ahead).await;
}

/// The server has lost everything afterwards.
async fn outages_end(engine: &mut RedisServer) {
    let (cluster, url) = (Uuid::new_v4(), engine.url());
    let one = open(&url, cluster).await.unwrap();
    let again = async || open(&url, cluster).await;
    let Held { session, sacks, tokens } = outage(&*one, &mut engine.process, TIMEOUT * 5, again).await;
    let is_found = async || one.renew(session, "{}").await == Err(CoordinationError::Expired);
    until("the server", is_found).await;
    joins_again(&one, &sacks, &tokens).await;
}

/// All data is gone: the session has ended, and new tokens are higher than the lost ones.
async fn joins_again(one: &RedisCoordinator, sacks: &[gnudi_model::Sack], before: &[Option<u64>]) {
    let a = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let after = one.acquire(a, sacks).await.unwrap();
    assert!(after.iter().min() > before.iter().max(), "{after:?} after {before:?}");
}

/// It ends no connection, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_replaced_is_left() {
    let (engine, cluster) = (RedisSentinels::start(&[]), Uuid::new_v4());
    let one = open(&engine.url(), cluster).await.unwrap();
    let a = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    engine.replace_master();
    let life = format!("{{gnudi:{cluster}:coordination}}:life:{}", a.0);
    let about = || engine.servers[1].ask::<Option<String>>(&["HGET", &life, "about"]);
    let is_left = async || {
        // The new one may lack the session.
        let renewed = one.renew(a, "renewed").await;
        renewed == Err(CoordinationError::Expired) || about().as_deref() == Some("renewed")
    };
    until("an answer of the new master", is_left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_costs_sessions_at_most() {
    let mut engine = RedisSentinels::start(&[]);
    let sacks: Vec<_> = SackCount::DEFAULT.sacks().collect();
    let one = open(&engine.url(), Uuid::new_v4()).await.unwrap();
    let a = one.join("a", "{}", Duration::from_mins(10)).await.unwrap();
    let before = one.acquire(a, &sacks).await.unwrap();
    let port = engine.master_port();
    engine.servers.iter_mut().find(|server| server.port == port).unwrap().process.stop();
    let asked = Instant::now();
    loop {
        match one.renew(a, "{}").await {
            // The replica had the session already.
            Ok(()) => break assert_eq!(one.acquire(a, &sacks).await.unwrap(), before),
            Err(CoordinationError::Expired) => break joins_again(&one, &sacks, &before).await,
            Err(CoordinationError::Unavailable(_)) => {
                assert!(asked.elapsed() < Duration::from_mins(1), "no failover");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    let b = one.join("b", "{}", Duration::from_mins(10)).await.unwrap();
    let other =
        [gnudi_model::Sack { count: SackCount::DEFAULT.doubled().unwrap(), id: gnudi_model::SackId(200) }];
    assert!(one.acquire(b, &other).await.unwrap().iter().min() > before.iter().max());
}
