//! `GET /debug/flamegraph` over HTTP: limits, mutual exclusion, disconnected clients. In one test, since a
//! process has only one sampler.

mod support;

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gnudi_app::ApiOptions;
use support::{Request, Server};
use tokio::time::{sleep, timeout};

/// Limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The function that the samples must show.
#[inline(never)]
fn burn_for_the_profile(stop: &AtomicBool) -> u64 {
    let mut number = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    number
}

async fn status(server: &Server, path: &str) -> u16 {
    timeout(TIMEOUT, server.ask(Request::new("GET", path))).await.expect("it answers").status
}

#[tokio::test]
async fn a_profile_shows_what_runs_and_there_is_one_at_a_time() {
    let server = Arc::new(Server::start(ApiOptions::default()).await);
    for path in ["?seconds=0", "?seconds=61", "?seconds=1&seconds=2", "?frequency=1001", "?second=1"] {
        assert_eq!(status(&server, &format!("/debug/flamegraph{path}")).await, 400, "{path}");
    }
    let head = server.ask(Request::new("HEAD", "/debug/flamegraph")).await;
    assert_eq!((head.status, head.header("allow")), (405, Some("GET")));

    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let burner = thread::Builder::new().name("burner <&>".to_owned());
    let burner = burner.spawn(move || burn_for_the_profile(&stopped)).expect("a thread");

    // Two concurrent requests: one is refused, the other succeeds.
    let path = "/debug/flamegraph?seconds=2&frequency=500";
    let (first, second) = timeout(TIMEOUT, async {
        tokio::join!(server.ask(Request::new("GET", path)), server.ask(Request::new("GET", path)))
    })
    .await
    .expect("both answer");
    let (profile, refused) = if first.status == 200 { (first, second) } else { (second, first) };
    assert_eq!((profile.status, refused.status), (200, 409), "{}", refused.body);
    assert!(refused.body.contains("A profile is being taken already"), "{}", refused.body);
    assert_eq!(profile.header("content-type"), Some("image/svg+xml"));
    assert!(profile.body.contains("burner &lt;&amp;&gt;"), "the thread");
    assert!(profile.body.contains("burn_for_the_profile"), "the function");
    assert!(!profile.body.contains("perf_signal_handler"), "not the sampler itself");

    // A disconnected client stops its profile. If another profile was first, its own is refused.
    let begun = async {
        loop {
            let mut connection = server.connect().await;
            connection.send(&Request::new("GET", "/debug/flamegraph?seconds=60").to_bytes()).await;
            sleep(Duration::from_millis(500)).await;
            if status(&server, "/debug/flamegraph?seconds=1").await == 409 {
                return connection;
            }
        }
    };
    drop(timeout(TIMEOUT, begun).await.expect("a profile begins"));
    let free = async {
        while status(&server, "/debug/flamegraph?seconds=1").await != 200 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, free).await.expect("the next profile can be taken");

    stop.store(true, Ordering::Relaxed);
    burner.join().expect("it ends");
}
