//! Objects in S3, on real servers: radosgw on a Ceph, and minio if installed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use gnudi_drivers::{
    OpenError, conformance,
    objects::{
        HttpOptions, ObjectError, Objects, Secret,
        s3::{S3Objects, S3Options},
    },
};
use parking_lot::Mutex;

#[path = "engines/ceph.rs"]
mod ceph;
#[path = "engines/minio.rs"]
mod minio;
#[path = "engines/radosgw.rs"]
mod radosgw;
#[path = "engines/server.rs"]
mod server;
mod support;
use radosgw::s3_at as options;
use server::fresh_name;
use support::{
    proxy::{Mood, Proxy, create_names, impatient, troubled},
    random::Random,
};

async fn conforms(options: &S3Options) {
    conformance::objects(async || {
        let purpose = fresh_name();
        let one = Arc::new(S3Objects::open(options, &purpose).await.unwrap());
        [one, Arc::new(S3Objects::open(options, &purpose).await.unwrap())]
    })
    .await;
}

/// Both open a bucket that does not exist yet.
async fn two_open_a_new_bucket(options: &S3Options) {
    let (one, other) = tokio::join!(S3Objects::open(options, "both"), S3Objects::open(options, "both"));
    let (one, other) = (one.unwrap(), other.unwrap());
    one.put("a", Bytes::from_static(b"a")).await.unwrap();
    assert_eq!(other.list("").await.unwrap(), ["a"]);
    let place = one.place();
    assert!(place.starts_with("s3 bucket gnocchi-gnudi-both at http://127.0.0.1:"), "{place}");
}

/// Errors about wrong keys are clear, and contain no key.
async fn wrong_keys_are_refused(right: &S3Options) {
    let secret = "not-the-secret-at-all";
    let wrong_secret = S3Options { secret_access_key: Some(Secret::new(secret)), ..right.clone() };
    let wrong_key = S3Options { access_key_id: Some("nobody".to_owned()), ..right.clone() };
    for (wrong, words) in [(wrong_secret, "SignatureDoesNotMatch"), (wrong_key, "InvalidAccessKeyId")] {
        let error = S3Objects::open(&wrong, "both").await.err().expect("wrong keys");
        assert!(matches!(error, OpenError::Engine { .. }));
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("s3 bucket gnocchi-gnudi-both at"), "{text}");
        for text in [text, format!("{error:?} {wrong:?}")] {
            assert!(!text.contains(secret) && !text.contains(radosgw::SECRET_KEY), "{text}");
        }
    }
    let keyless = S3Options { secret_access_key: None, ..right.clone() };
    let text = S3Objects::open(&keyless, "both").await.err().unwrap().to_string();
    assert!(text.contains("s3_secret_access_key"), "{text}");
}

/// Two drivers create the same names concurrently over a network with all kinds of failures: each name has
/// one creator, which knows it, and whose bytes are stored.
async fn nothing_is_lost_or_claimed_twice(engine: &str) {
    const NAMES: usize = 60;
    let random = Mutex::new(Random::new(7));
    let struck = Arc::new(AtomicUsize::new(0));
    let seen = struck.clone();
    let proxy = Proxy::start(engine, move |_, _| {
        let mood = troubled(&mut random.lock());
        seen.fetch_add(usize::from(mood != Mood::Pass), Ordering::Relaxed);
        mood
    })
    .await;
    let impatient = S3Options { http: impatient(), ..options(&proxy.endpoint()) };
    let drivers = [(); 2].map(|()| async { Arc::new(S3Objects::open(&impatient, "proxy").await.unwrap()) });
    let drivers = join_all(drivers).await;
    let direct = S3Objects::open(&options(engine), "proxy").await.unwrap();
    // Equal bytes: only the creator's id distinguishes them.
    let bytes = |number: usize, creator: usize| {
        let of = if number.is_multiple_of(2) { "anyone".to_owned() } else { creator.to_string() };
        Bytes::from(format!("{number} of {of}"))
    };
    create_names(&drivers, &direct, NAMES, bytes).await;
    assert_eq!(drivers[0].list("name/").await.unwrap().len(), NAMES);
    let puts = (0..NAMES).map(async |number| {
        let name = format!("put/{number}");
        drivers[number % 2].put(&name, Bytes::from(name.clone())).await.unwrap();
        assert_eq!(direct.get_range(&name, 0, 3).await.unwrap().unwrap(), "put");
    });
    join_all(puts).await;
    let names = direct.list("").await.unwrap();
    assert_eq!(names.len(), 2 * NAMES, "the probe is not listed");
    drivers[1].delete(&names).await.unwrap();
    assert!(direct.list("").await.unwrap().is_empty());
    let struck = struck.load(Ordering::Relaxed);
    assert!(struck > NAMES / 2, "the proxy did harm only {struck} times");
}

/// Calls without a response time out as unavailable.
async fn deadlines_hold(engine: &str) {
    let http = HttpOptions {
        deadline: Duration::from_secs(1),
        attempt_timeout: Duration::from_millis(500),
        ..HttpOptions::default()
    };
    let mute = Arc::new(Mutex::new(Mood::Pass));
    let mood = mute.clone();
    let proxy = Proxy::start(engine, move |_, _| *mood.lock()).await;
    let store = S3Objects::open(&S3Options { http, ..options(&proxy.endpoint()) }, "proxy").await.unwrap();
    for bad in [Mood::SlowDown, Mood::Drop, Mood::Late(Duration::from_mins(1))] {
        *mute.lock() = bad;
        let start = Instant::now();
        let answer = store.get("any").await;
        assert!(
            matches!(&answer, Err(ObjectError::Unavailable(text)) if text.contains("s3 bucket")),
            "{answer:?}"
        );
        let answer = store.create(&format!("late/{}", bad == Mood::Drop), Bytes::new()).await;
        assert!(matches!(answer, Err(ObjectError::Unavailable(_))), "{answer:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "{bad:?}: {:?}", start.elapsed());
    }
    *mute.lock() = Mood::Pass;
    assert_eq!(store.get("any").await, Ok(None));
}

/// A server that ignores preconditions is detected.
async fn a_server_without_conditions_is_refused(engine: &str) {
    let proxy = Proxy::start(engine, |_, _| Mood::Agree).await;
    let text = S3Objects::open(&options(&proxy.endpoint()), "both").await.err().unwrap().to_string();
    assert!(text.contains("ignores If-None-Match"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn radosgw_s3() {
    let ceph = ceph::Ceph::start();
    let mut gateway = radosgw::Radosgw::start(ceph.conf());
    let endpoint = gateway.endpoint();
    conforms(&options(&endpoint)).await;
    // As commonly configured for radosgw.
    let in_region = S3Options { region_name: Some("default".to_owned()), ..options(&endpoint) };
    two_open_a_new_bucket(&in_region).await;
    wrong_keys_are_refused(&options(&endpoint)).await;
    nothing_is_lost_or_claimed_twice(&endpoint).await;
    deadlines_hold(&endpoint).await;
    a_server_without_conditions_is_refused(&endpoint).await;
    let store = S3Objects::open(&options(&endpoint), "both").await.unwrap();
    gateway.process.stop();
    let http = HttpOptions { deadline: Duration::from_secs(1), ..HttpOptions::default() };
    let brief = S3Options { http, ..options(&endpoint) };
    let text = S3Objects::open(&brief, "both").await.err().expect("it is down").to_string();
    assert!(text.contains("refused") && text.contains("127.0.0.1"), "{text}");
    gateway.process.start_again();
    assert_eq!(store.get("a").await.unwrap().unwrap(), "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minio_s3() {
    let Some(minio) = minio::Minio::start() else { return };
    let endpoint = minio.endpoint();
    conforms(&options(&endpoint)).await;
    two_open_a_new_bucket(&options(&endpoint)).await;
    wrong_keys_are_refused(&options(&endpoint)).await;
    nothing_is_lost_or_claimed_twice(&endpoint).await;
}

/// Its certificate is accepted only if trusted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_over_tls() {
    let Some(minio) = minio::Minio::start_secure() else { return };
    let endpoint = minio.endpoint();
    let http = |ca_file, insecure| HttpOptions {
        deadline: Duration::from_secs(1),
        ca_file,
        insecure,
        ..HttpOptions::default()
    };
    let open = async |http| S3Objects::open(&S3Options { http, ..options(&endpoint) }, "tls").await;
    let store = open(http(Some(minio.certificate()), false)).await.unwrap();
    store.create("a", Bytes::from_static(b"a")).await.unwrap();
    assert_eq!(open(http(None, true)).await.unwrap().get("a").await.unwrap().unwrap(), "a");
    let text = open(http(None, false)).await.err().expect("nobody vouches for it").to_string();
    assert!(text.contains("certificate"), "{text}");
    let text = open(http(Some("/nowhere/ca.pem".into()), false)).await.err().expect("no file").to_string();
    assert!(text.contains("/nowhere/ca.pem"), "{text}");
}
