//! The coordination suite on a real etcd, and its outages.

#[path = "engines/etcd.rs"]
mod etcd_server;
#[path = "engines/outage.rs"]
mod outage;
#[path = "engines/server.rs"]
mod server;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use etcd_server::Etcd;
use gnudi_drivers::{
    OpenError,
    conformance::{CoordinationSetup, arbiter, coordination},
    coordination::{
        Coordinator,
        etcd::{EtcdCoordinator, EtcdOptions},
    },
};
use outage::{Held, outage};
use uuid::Uuid;

const DEADLINE: Duration = Duration::from_secs(2);

/// Nobody listens at the first endpoint.
async fn open(address: &str, cluster: Uuid) -> Result<Arc<EtcdCoordinator>, OpenError> {
    let url = format!("etcd3+http://127.0.0.1:1,{address}");
    let options = EtcdOptions::parse(&url).unwrap().with_deadline(DEADLINE);
    EtcdCoordinator::open(options, cluster).await.map(Arc::new)
}

/// Two processes of a new cluster.
async fn two(address: &str) -> [Arc<EtcdCoordinator>; 2] {
    let cluster = Uuid::new_v4();
    [open(address, cluster).await.unwrap(), open(address, cluster).await.unwrap()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinates_on_etcd() {
    let mut engine = Etcd::start();
    let address = engine.address();
    // The shortest TTL that etcd grants.
    let ttl = Duration::from_secs(2);
    coordination(async || CoordinationSetup::on_engine(two(&address).await, ttl, ttl)).await;
    arbiter(async || two(&address).await).await;
    old_history_is_discarded(&engine).await;
    outages_end(&mut engine).await;
}

/// By itself etcd keeps it for ever, and refuses writes once it is too large.
async fn old_history_is_discarded(engine: &Etcd) {
    let options = EtcdOptions::parse(&format!("etcd3+http://{}", engine.address())).unwrap();
    let options = EtcdOptions { history_kept: Duration::ZERO, ..options };
    let one = EtcdCoordinator::open(options, Uuid::new_v4()).await.unwrap();
    let session = one.join("a", "0", Duration::from_mins(10)).await.unwrap();
    let (began, mut changes) = (Instant::now(), 0);
    let is_kept = || {
        let first = engine.post("/v3/kv/range", r#"{"key":"YQ==","revision":"2"}"#);
        !first.contains("has been compacted")
    };
    while is_kept() {
        assert!(began.elapsed() < Duration::from_mins(1), "{changes} changes, and the first is still kept");
        changes += 1;
        one.renew(session, &changes.to_string()).await.unwrap();
    }
    assert_eq!(one.members().await.unwrap()[0].about, changes.to_string());
}

async fn outages_end(engine: &mut Etcd) {
    let (cluster, address) = (Uuid::new_v4(), engine.address());
    let one = open(&address, cluster).await.unwrap();
    let again = async || open(&address, cluster).await;
    let Held { session, sacks, tokens } = outage(&*one, &mut engine.process, DEADLINE * 5, again).await;
    one.renew(session, r#"{"again":true}"#).await.unwrap();
    assert_eq!(one.acquire(session, &sacks).await.unwrap(), tokens);
    assert_eq!(one.members().await.unwrap()[0].about, r#"{"again":true}"#);
}
