//! The coordination suite on a real etcd, and its outages.

#[path = "engines/etcd.rs"]
mod etcd_server;
#[path = "engines/outage.rs"]
mod outage;
#[path = "engines/server.rs"]
mod server;

use std::{sync::Arc, time::Duration};

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
    outages_end(&mut engine).await;
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
