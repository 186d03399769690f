//! The coordination suite on a real etcd, and its outages.

#[path = "engines/etcd.rs"]
mod etcd_server;
#[path = "engines/server.rs"]
mod server;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use etcd_server::Etcd;
use futures_util::future::join_all;
use gnudi_drivers::{
    OpenError,
    conformance::{ArbiterSetup, CoordinationSetup, arbiter, coordination},
    coordination::{
        Arbiter, CoordinationError, Coordinator,
        etcd::{EtcdCoordinator, EtcdOptions},
    },
};
use gnudi_model::SackCount;
use uuid::Uuid;

const DEADLINE: Duration = Duration::from_secs(2);

/// Nobody listens at the first endpoint.
async fn open(engine: &Etcd, cluster: Uuid) -> Result<Arc<EtcdCoordinator>, OpenError> {
    let url = format!("etcd3+http://127.0.0.1:1,{}", engine.address());
    let options = EtcdOptions::parse(&url).unwrap().with_deadline(DEADLINE);
    EtcdCoordinator::open(options, cluster).await.map(Arc::new)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinates_on_etcd() {
    let mut engine = Etcd::start();
    coordination(async || {
        let cluster = Uuid::new_v4();
        let (one, two) = (open(&engine, cluster).await.unwrap(), open(&engine, cluster).await.unwrap());
        CoordinationSetup {
            processes: vec![one, two],
            // The shortest TTL that etcd grants.
            ttl: Duration::from_secs(2),
            pass: Box::new(|time| Box::pin(tokio::time::sleep(time))),
            ends_late_by: Duration::from_secs(2),
        }
    })
    .await;
    arbiter(async || {
        let cluster = Uuid::new_v4();
        let (one, two) = (open(&engine, cluster).await.unwrap(), open(&engine, cluster).await.unwrap());
        ArbiterSetup { processes: vec![one as Arc<dyn Arbiter>, two as Arc<dyn Arbiter>] }
    })
    .await;
    outages_end(&mut engine).await;
}

fn is_unavailable<T: std::fmt::Debug>(answer: &Result<T, CoordinationError>) {
    assert!(matches!(answer, Err(CoordinationError::Unavailable(why)) if !why.is_empty()), "{answer:?}");
}

/// Calls to a dead or hanging etcd fail in time, and succeed again afterwards.
async fn outages_end(engine: &mut Etcd) {
    let (cluster, ttl) = (Uuid::new_v4(), Duration::from_mins(10));
    let sacks: Vec<_> = SackCount::DEFAULT.sacks().collect();
    let one = open(engine, cluster).await.unwrap();
    let a = one.join("a", "{}", ttl).await.unwrap();
    let before = one.acquire(a, &sacks).await.unwrap();
    engine.process.pause();
    let asked = Instant::now();
    join_all((0..10).map(|_| one.renew(a, "{}"))).await.iter().for_each(is_unavailable);
    assert!(asked.elapsed() < DEADLINE * 2, "{:?}", asked.elapsed());
    engine.process.resume();
    one.renew(a, "{}").await.unwrap();
    engine.process.stop();
    is_unavailable(&one.acquire(a, &sacks).await);
    assert!(matches!(open(engine, cluster).await, Err(OpenError::Engine { .. })));
    engine.process.start_again();
    one.renew(a, r#"{"again":true}"#).await.unwrap();
    assert_eq!(one.acquire(a, &sacks).await.unwrap(), before);
    assert_eq!(one.members().await.unwrap()[0].about, r#"{"again":true}"#);
}
