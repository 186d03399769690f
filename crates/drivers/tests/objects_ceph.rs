//! Objects in a real Ceph.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use gnudi_drivers::{
    conformance,
    objects::{
        ObjectError, Objects,
        ceph::{CephObjects, CephOptions},
    },
};

#[path = "engines/ceph.rs"]
mod ceph;
#[path = "engines/server.rs"]
mod server;
mod support;
use ceph::Ceph;
use server::fresh_name;
use support::wait::{found, until};

async fn conforms(ceph: &Ceph) {
    conformance::objects(async || {
        let purpose = fresh_name();
        let one = Arc::new(CephObjects::open(&ceph.options(), &purpose).await.unwrap());
        [one, Arc::new(CephObjects::open(&ceph.options(), &purpose).await.unwrap())]
    })
    .await;
}

/// Namespaces are isolated.
async fn namespaces_are_apart(ceph: &Ceph) {
    let one = CephObjects::open(&ceph.options(), "one").await.unwrap();
    let other = CephObjects::open(&ceph.options(), "other").await.unwrap();
    one.create("a", Bytes::from_static(b"one")).await.unwrap();
    other.create("a", Bytes::from_static(b"other")).await.unwrap();
    assert_eq!(one.get("a").await.unwrap().unwrap(), "one");
    other.delete(&["a".to_owned()]).await.unwrap();
    assert_eq!(one.list("").await.unwrap(), ["a"]);
    assert_eq!(one.place(), "ceph pool gnocchi, namespace gnudi-one");
}

/// Errors on opening tell the operator what to do.
async fn what_is_missing_is_named(ceph: &Ceph) {
    let right = ceph.options();
    let failed = async |options: &CephOptions| {
        CephObjects::open(options, "one").await.err().expect("something is missing").to_string()
    };
    let text = failed(&CephOptions { pool: "nowhere".to_owned(), ..right.clone() }).await;
    assert!(text.contains("ceph osd pool create nowhere"), "{text}");
    let text = failed(&CephOptions { librados: PathBuf::from("librados-none.so"), ..right.clone() }).await;
    assert!(text.contains("librados2"), "{text}");
    let text = failed(&CephOptions { conffile: PathBuf::from("/nowhere/ceph.conf"), ..right.clone() }).await;
    assert!(text.contains("/nowhere/ceph.conf"), "{text}");
    // Nobody listens there.
    let folder = tempfile::tempdir().unwrap();
    let conffile = folder.path().join("ceph.conf");
    let text = "[global]\nmon host = v2:127.0.0.1:1\nauth client required = none\n";
    fs::write(&conffile, text).unwrap();
    let start = Instant::now();
    let connect_timeout = Duration::from_secs(1);
    let text = failed(&CephOptions { conffile, connect_timeout, ..right }).await;
    assert!(text.contains("connect to the cluster") && text.contains("timed out"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// Calls time out while the cluster does not respond; afterwards all works, and created objects are found by
/// reading.
async fn stalls_end_with_the_deadline(ceph: &Ceph) {
    let deadline = Duration::from_secs(1);
    let store = CephObjects::open(&CephOptions { deadline, ..ceph.options() }, "stall").await.unwrap();
    store.put("before", Bytes::from_static(b"x")).await.unwrap();
    ceph.pause_osd(0);
    ceph.pause_osd(1);
    let start = Instant::now();
    let names: Vec<String> = (0..40).map(|number| format!("late/{number}")).collect();
    let creates = join_all(names.iter().map(|name| store.create(name, Bytes::from_static(b"late")))).await;
    for answer in creates {
        assert!(
            matches!(&answer, Err(ObjectError::Unavailable(text)) if text.contains("pool")),
            "{answer:?}"
        );
    }
    assert!(matches!(store.get("before").await, Err(ObjectError::Unavailable(_))));
    // At once: one after the other they take 40 times as long.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    ceph.resume_osd(0);
    ceph.resume_osd(1);
    let patient = CephObjects::open(&ceph.options(), "stall").await.unwrap();
    assert_eq!(patient.get("before").await.unwrap().unwrap(), "x");
    for name in &names {
        // The timed-out request may still take effect at any moment: then the second one fails.
        match patient.create(name, Bytes::from_static(b"again")).await {
            Ok(()) => assert_eq!(patient.get(name).await.unwrap().unwrap(), "again"),
            Err(error) => {
                assert_eq!(error, ObjectError::Exists(name.clone()));
                assert_eq!(patient.get(name).await.unwrap().unwrap(), "late");
            }
        }
    }
    // The driver that was open all the time has recovered, too.
    assert_eq!(store.get("before").await.unwrap().unwrap(), "x");
}

/// A client that the cluster has blocklisted is replaced by a new one.
async fn a_blocklisted_client_is_replaced(ceph: &Ceph) {
    let store = CephObjects::open(&ceph.options(), "listed").await.unwrap();
    store.create("before", Bytes::from_static(b"x")).await.unwrap();
    let refused = store.client_addresses().unwrap();
    ceph.blocklist(&refused);
    // Wait until the OSDs have received the new blocklist.
    let error = found("a refusal", async || store.get("before").await.err()).await;
    assert!(matches!(&error, ObjectError::Unavailable(text) if text.contains("blocklisted")), "{error:?}");
    until("another client", async || store.get("before").await.is_ok()).await;
    assert_ne!(store.client_addresses().unwrap(), refused);
    assert_eq!(store.get("before").await.unwrap().unwrap(), "x");
    store.create("after", Bytes::from_static(b"y")).await.unwrap();
    assert_eq!(store.list("").await.unwrap(), ["after", "before"]);
}

/// An OSD is lost with its data: the other one has copies of everything, and accepts writes.
async fn an_osd_is_lost(ceph: &mut Ceph) {
    let deadline = Duration::from_secs(30);
    let store = CephObjects::open(&CephOptions { deadline, ..ceph.options() }, "loss").await.unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("kept/{number}")).collect();
    let content = |name: &String| Bytes::from(name.repeat(100));
    for name in &names {
        store.create(name, content(name)).await.unwrap();
    }
    // With the default timeout, and idle when the OSD dies, so that it is not notified.
    let idle = CephObjects::open(&ceph.options(), "loss").await.unwrap();
    assert_eq!(idle.list("").await.unwrap().len(), names.len());
    ceph.lose_osd(1);
    while ceph.osds_up() > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let read = join_all(names.iter().map(|name| idle.get(name))).await;
    for (name, found) in names.iter().zip(read) {
        assert_eq!(found.unwrap().unwrap(), content(name));
    }
    let start = Instant::now();
    for name in &names {
        assert_eq!(store.get(name).await.unwrap().unwrap(), content(name));
    }
    store.create("after", Bytes::from_static(b"after")).await.unwrap();
    assert_eq!(ceph.osds_up(), 1);
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert_eq!(store.list("").await.unwrap().len(), names.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_ceph() {
    let mut ceph = Ceph::start();
    ceph.create_pool("gnocchi");
    conforms(&ceph).await;
    namespaces_are_apart(&ceph).await;
    what_is_missing_is_named(&ceph).await;
    stalls_end_with_the_deadline(&ceph).await;
    a_blocklisted_client_is_replaced(&ceph).await;
    an_osd_is_lost(&mut ceph).await;
}
