//! The backlog in front of stores that refuse.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use gnudi_client::ClientOptions;
use gnudi_model::Timestamp;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};

use super::*;
use crate::test_server::serve;

fn item(metric: &str, count: usize) -> MetricMeasures {
    MetricMeasures {
        resource: "r".to_owned(),
        attributes: BTreeMap::new(),
        metric: metric.to_owned(),
        measures: vec![Measure { timestamp: Timestamp(0), value: 1.0 }; count],
    }
}

/// An empty backlog in front of the store at this URL.
fn backlog(endpoint: &str) -> MeasureBacklog {
    let client = Client::new(endpoint, &ClientOptions::default()).unwrap();
    MeasureBacklog::new(client, DeliveryOptions { resource_type: None, archive_policy_name: None })
}

/// An empty backlog in front of a store, and the number of requests that this has accepted. The store forbids what mentions
/// `theirs`, or in its first three requests `late`, refuses `wrong`, and fails on `damaged` and, after its first three
/// requests, on `brief`; it is behind a proxy that knows no `nowhere`, and has a static page for `static`.
async fn backlog_before_store() -> (MeasureBacklog, Arc<AtomicUsize>) {
    let accepted = Arc::<AtomicUsize>::default();
    let (counted, mut requests) = (accepted.clone(), 0);
    let endpoint = serve(move |_, body| {
        requests += 1;
        let has = |word: &str| body.contains(word);
        let status = if has("theirs") || has("late") && requests <= 3 {
            "403 Forbidden"
        } else if has("wrong") {
            "400 Bad Request"
        } else if has("damaged") || has("brief") && requests > 3 {
            "500 Internal Server Error"
        } else if has("nowhere") {
            "404 Not Found"
        } else if has("static") {
            "405 Not Allowed"
        } else {
            counted.fetch_add(1, Ordering::Relaxed);
            "202 Accepted"
        };
        (status, "")
    });
    (backlog(&endpoint.await), accepted)
}

#[test]
fn a_batch_of_one_metric_is_known_by_its_name() {
    let metrics = |names: &[&str]| -> BTreeMap<String, NamedMeasures> {
        let named = NamedMeasures { archive_policy_name: None, measures: Vec::new() };
        names.iter().map(|name| ((*name).to_owned(), named.clone())).collect()
    };
    let mut batch = ResourcesBatch::from([("r".to_owned(), metrics(&["m"]))]);
    assert_eq!(only_metric(&batch), Some(("r", "m")));
    batch.insert("s".to_owned(), metrics(&["m"]));
    assert_eq!(only_metric(&batch), None);
    assert_eq!(only_metric(&ResourcesBatch::from([("r".to_owned(), metrics(&["m", "n"]))])), None);
}

#[tokio::test]
async fn what_is_dropped_is_not_told_as_stored() {
    // Nobody listens there.
    let deliverer = Deliverer::start(backlog("http://127.0.0.1:1"));
    let first = deliverer.send_with_receipt(vec![item("m", 1)]);
    deliverer.send(vec![item("m", BACKLOG_MEASURES_MAX)]);
    let told = tokio::time::timeout(Duration::from_secs(30), first).await;
    assert!(told.expect("its receipt fails").is_err());
}

#[tokio::test]
async fn empty_rounds_leave_room_for_measures() {
    let deliverer = Deliverer::start(backlog("http://127.0.0.1:1"));
    // Nothing is awaited in between, so the task takes none.
    for _ in 0..2 * ROUNDS_MAX {
        deliverer.send(Vec::new());
    }
    assert_eq!(deliverer.rounds.capacity(), ROUNDS_MAX - 1);
}

#[tokio::test]
async fn a_metric_with_more_measures_than_a_request_holds_is_posted_in_parts() {
    let stored = Arc::<AtomicUsize>::default();
    let counted = stored.clone();
    let endpoint = serve(move |_, body| {
        let measures = body.matches("timestamp").count();
        if measures > REQUEST_MEASURES {
            return ("413 Payload Too Large", "");
        }
        counted.fetch_add(measures, Ordering::Relaxed);
        ("202 Accepted", "")
    });
    let mut backlog = backlog(&endpoint.await);
    assert_eq!(backlog.push(item("m", 2 * REQUEST_MEASURES + 1)), 0);
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.waiting_measures), (0, 0));
    assert_eq!(stored.load(Ordering::Relaxed), 2 * REQUEST_MEASURES + 1);
}

#[tokio::test]
async fn a_store_that_is_away_is_noticed_without_measures() {
    // Until it listens, nobody else gets the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let mut backlog = backlog(&format!("http://{address}"));
    backlog.probe().await;
    assert!(backlog.failing);
    backlog.post().await;
    assert!(backlog.failing, "nobody listens yet");
    let listener = socket.listen(1).unwrap();
    let answer = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        assert!(connection.read(&mut [0; 1024]).await.unwrap() > 0);
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        connection.write_all(answer).await.unwrap();
    };
    tokio::join!(answer, backlog.post());
    assert!(!backlog.failing, "whatever it answers, it responds");
}

#[tokio::test]
async fn what_is_forbidden_costs_no_other_metric() {
    let (mut backlog, _) = backlog_before_store().await;
    for name in ["nowhere", "static"] {
        backlog.push(item(name, 1));
        backlog.post().await;
        assert_eq!(backlog.backlog.len(), 1, "it may come back");
        backlog.backlog.clear();
        backlog.waiting_measures = 0;
    }
    // Nothing else shows that the store accepts anything.
    backlog.push(item("theirs", 1));
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.failing), (1, true));
    backlog.push(item("wrong", 2));
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.waiting_measures), (1, 1), "refused once");
    backlog.push(item("ours", 1));
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.failing), (0, false));
}

#[tokio::test]
async fn a_damaged_metric_costs_no_other() {
    // Whether the other metric is accepted as long as the damaged one is tried.
    for (other, left) in [("ours", 0), ("brief", 2)] {
        let (mut backlog, _) = backlog_before_store().await;
        backlog.push(item(other, 1));
        backlog.push(item("damaged", 1));
        backlog.post().await;
        assert_eq!((backlog.backlog.len(), backlog.failing), (left, left > 0), "{other}");
    }
}

#[tokio::test]
async fn a_damaged_metric_does_not_have_the_others_posted_one_by_one() {
    let (mut backlog, accepted) = backlog_before_store().await;
    backlog.push(item("damaged", 1));
    for number in 0..64 {
        backlog.push(item(&format!("ours-{number}"), 1));
    }
    backlog.post().await;
    // The resource, and a part for each cut.
    assert_eq!((backlog.backlog.len(), accepted.load(Ordering::Relaxed)), (0, 7));
}

#[tokio::test]
async fn a_store_that_forbids_everything_is_not_asked_for_each_metric() {
    let (mut backlog, _) = backlog_before_store().await;
    let theirs = (0..=2 * SUSPECTS_MAX).map(|number| format!("theirs-{number}"));
    for metric in theirs.chain(["z-ours".to_owned()]) {
        backlog.push(item(&metric, 1));
    }
    let all = backlog.backlog.len();
    for left in [all, all, 0] {
        backlog.post().await;
        assert_eq!(backlog.backlog.len(), left, "each round tries others");
    }
}

#[tokio::test]
async fn a_damaged_metric_that_fills_requests_holds_up_no_other() {
    let (mut backlog, _) = backlog_before_store().await;
    backlog.push(item("damaged", 2 * REQUEST_MEASURES));
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.failing), (2, true), "nothing is stored");
    backlog.push(item("wrong", REQUEST_MEASURES));
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.failing), (2, true), "nothing is stored yet");
    backlog.push(item("theirs", REQUEST_MEASURES));
    backlog.push(item("ours", 1));
    backlog.post().await;
    let MeasureBacklog { backlog, waiting_measures, failing, .. } = backlog;
    assert_eq!((backlog.len(), waiting_measures, failing), (0, 0, false));
}

#[tokio::test]
async fn measures_behind_many_forbidden_requests_are_stored_in_a_later_round() {
    let (mut backlog, _) = backlog_before_store().await;
    for number in 0..=BATCHES_HELD_MAX {
        backlog.push(item(&format!("theirs-{number}"), REQUEST_MEASURES));
    }
    backlog.push(item("ours", 1));
    let all = backlog.backlog.len();
    for left in [all, 0] {
        backlog.post().await;
        assert_eq!(backlog.backlog.len(), left);
    }
}

#[tokio::test]
async fn what_was_forbidden_before_anything_was_stored_is_tried_again() {
    let (mut backlog, accepted) = backlog_before_store().await;
    for metric in ["a-late", "b-ours"] {
        backlog.push(item(metric, 1));
    }
    backlog.post().await;
    // The resource and both metrics.
    assert_eq!((backlog.backlog.len(), accepted.load(Ordering::Relaxed)), (0, 3));
}

#[tokio::test]
async fn resources_are_known_in_bounds() {
    let (mut backlog, _) = backlog_before_store().await;
    backlog.known.extend((0..KNOWN_MAX).map(|number| number.to_string()));
    backlog.push(item("ours", 1));
    backlog.post().await;
    assert_eq!((backlog.backlog.len(), backlog.known.len()), (0, 1));
}

#[tokio::test]
#[should_panic(expected = "the task that posts measures has ended")]
async fn whoever_hands_over_measures_notices_that_nothing_is_posted() {
    let (rounds, received) = mpsc::channel(1);
    drop(received);
    Deliverer { rounds, task: tokio::spawn(std::future::ready(())) }.send(Vec::new());
}
