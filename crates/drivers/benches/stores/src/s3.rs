//! Clients of S3 against radosgw on a Ceph in memory: ours, and that of the crate `object_store`.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use gnudi_drivers::objects::{Objects, s3::S3Objects};
use object_store::aws::AmazonS3Builder;

use crate::{cpu_seconds, over::OverObjectStore, value};

#[path = "../../../tests/engines/ceph.rs"]
mod ceph;
#[path = "../../../tests/engines/radosgw.rs"]
mod radosgw;
#[path = "../../../tests/engines/server.rs"]
mod server;

const CONCURRENT: usize = 16;
/// Lengths of objects, and how many.
const SIZES: [(usize, usize); 2] = [(4 << 10, 4000), (1 << 20, 250)];

/// Both clients, twice each.
pub async fn run() {
    let ceph = ceph::Ceph::start();
    let gateway = radosgw::Radosgw::start(ceph.conf());
    let own = Arc::new(S3Objects::open(&radosgw::s3_at(&gateway.endpoint()), "bench").await.unwrap());
    let other = AmazonS3Builder::new()
        .with_endpoint(gateway.endpoint())
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name("gnocchi-gnudi-bench")
        .with_access_key_id(radosgw::ACCESS_KEY)
        .with_secret_access_key(radosgw::SECRET_KEY);
    let other = Arc::new(OverObjectStore(Arc::new(other.build().unwrap())));
    for round in 0..2 {
        measure("own", own.clone(), round).await;
        measure("object_store", other.clone(), round).await;
    }
}

async fn measure(client: &str, objects: Arc<dyn Objects>, round: usize) {
    for (length, count) in SIZES {
        let bytes = value(length, 1);
        let names: Vec<String> = (0..count).map(|at| format!("{client}/{round}/{length}/{at}")).collect();
        let what = |request: &str| format!("{client}, {} KiB, {request}", length >> 10);
        time(&what("creates"), &names, |name| create(&*objects, name, bytes.clone())).await;
        time(&what("gets"), &names, |name| get(&*objects, name, length)).await;
    }
}

async fn create(objects: &dyn Objects, name: &str, bytes: Bytes) {
    objects.create(name, bytes).await.unwrap();
}

async fn get(objects: &dyn Objects, name: &str, length: usize) {
    assert_eq!(objects.get(name).await.unwrap().unwrap().len(), length);
}

/// Prints requests a second, and the CPU of this process for each.
async fn time<'a, F: Future<Output = ()>>(what: &str, names: &'a [String], request: impl Fn(&'a str) -> F) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let requests = names.iter().map(|name| request(name));
    stream::iter(requests).buffer_unordered(CONCURRENT).collect::<Vec<()>>().await;
    let count = names.len() as f64;
    println!(
        "{what}: {:.0}/s, cpu {:.0} us",
        count / start.elapsed().as_secs_f64(),
        (cpu_seconds() - cpu) * 1e6 / count
    );
}
