//! The publisher beside a store that accepts everything.

use gnudi_http::Trust;
use gnudi_keystone::Session;
use gnudi_model::Secret;

use super::*;
use crate::{
    event::{Trait, TraitValue},
    polling::cloud::Cloud,
    publishers::tests::sample,
    test_server::{keystone, serve},
};

type Requests = Arc<Mutex<Vec<String>>>;

/// A store that accepts everything with this answer, except `/bad` and measures of `poison` and `denied`, and records it.
/// At `/away`, `/gone`, `/moved` and `/static` there are proxies without it. As a Keystone it hands out a token.
async fn store(answer: &'static str) -> (String, Requests) {
    let requests = Requests::default();
    let seen = requests.clone();
    let endpoint = serve(move |request, body| {
        let status = if request.contains("/away") {
            "503 Service Unavailable"
        } else if request.contains("/gone") {
            "404 Not Found"
        } else if request.contains("/moved") {
            "301 Moved Permanently"
        } else if request.contains("/static") {
            "405 Not Allowed"
        } else if request.contains("/bad") || body.contains(r#"{"poison":"#) {
            "500 Internal Server Error"
        } else if body.contains(r#""denied"#) {
            "403 Forbidden"
        } else {
            "200 OK"
        };
        seen.lock().push(format!("{request} {body}"));
        (status, answer)
    });
    (endpoint.await, requests)
}

/// A Keystone that nobody reaches, so that the filtered project stays unknown.
fn nobody() -> Cloud {
    Cloud::new(keystone("http://127.0.0.1:1"), 1).unwrap()
}

/// A store with a login.
pub fn options(endpoint: String) -> GnocchiOptions {
    GnocchiOptions {
        access: StoreAccess::Basic { user: "admin".to_owned(), password: Secret::default() },
        endpoint: Some(endpoint),
        trust: Trust::Anyone,
        identity: None,
        cloud: Some(nobody()),
        config_dirs: Vec::new(),
        create_resource_types: false,
        limits: GnocchiLimits::default(),
    }
}

fn start(options: &GnocchiOptions, tasks: &PublisherTasks) -> GnocchiPublisher {
    let url = PublisherUrl::parse("gnocchi://").unwrap();
    GnocchiPublisher::start(&url, options, GnocchiFigures::default(), tasks).unwrap()
}

fn publisher(endpoint: String) -> GnocchiPublisher {
    start(&options(endpoint), &PublisherTasks::watched().0)
}

fn event<const N: usize>(event_type: &str, traits: [(&str, &str); N]) -> Event {
    let text = |(name, value): (&str, &str)| {
        let value = TraitValue::Text(value.to_owned());
        Trait { name: name.to_owned(), value }
    };
    Event {
        message_id: "m".to_owned(),
        event_type: event_type.to_owned(),
        generated: 0,
        traits: traits.map(text).into(),
        raw: Value::Null,
    }
}

/// Ends the instance `r`.
fn end() -> Event {
    event("compute.instance.delete.start", [("instance_id", "r")])
}

/// The volume goes back to its first project, and the event between has gone to another agent.
#[tokio::test]
async fn an_update_is_sent_though_its_attributes_were_sent_before() {
    let (endpoint, requests) = store("[]").await;
    let publisher = publisher(endpoint);
    publisher.shared.open_gate(None);
    let transfer = || event("volume.transfer.accept.end", [("resource_id", "v"), ("project_id", "p")]);
    for patches in 1..3 {
        publisher.events(&[transfer()]).await.unwrap();
        let requests = requests.lock();
        let patched = requests.iter().filter(|request| request.starts_with("PATCH /v1/resource/volume/v "));
        assert_eq!(patched.count(), patches, "{requests:?}");
    }
}

#[tokio::test]
async fn an_end_waits_for_samples_from_before_the_filtered_project_was_known() {
    let (endpoint, requests) = store("[]").await;
    let publisher = publisher(endpoint);
    let samples = publisher.samples(&[sample("cpu", 1.0)]);
    let events = publisher.events(&[end()]);
    // Time in which the event could go first.
    tokio::time::sleep(Duration::from_millis(100)).await;
    publisher.shared.open_gate(None);
    samples.await.unwrap();
    events.await.unwrap();
    let requests = requests.lock();
    let place = |part: &str| requests.iter().position(|request| request.contains(part)).expect("a request");
    assert!(place("POST /v1/batch/") < place("ended_at"), "{requests:?}");
}

#[tokio::test]
async fn what_a_panic_drops_fails_while_the_publisher_runs() {
    let publisher = publisher("http://127.0.0.1:1".to_owned());
    let dropped = || receipt(publisher.shared.clone(), vec![oneshot::channel().1]);
    assert!(dropped().await.is_err());
    publisher.shared.is_closed.store(true, Ordering::Relaxed);
    assert!(dropped().now_or_never().is_none());
}

#[tokio::test]
async fn the_panic_of_a_task_is_reported() {
    let (endpoint, _) = store("[]").await;
    let mut options = options(endpoint);
    // More than a semaphore has.
    options.limits.requests_max = usize::MAX;
    let (tasks, mut panics) = PublisherTasks::watched();
    let _publisher = start(&options, &tasks);
    assert_eq!(panics.recv().await, "what publishes samples to gnocchi://");
}

#[tokio::test]
async fn a_search_whose_answer_cannot_be_read_fails_the_event() {
    for (answer, is_read) in [
        ("[]", true),
        (r#"[{"type": "instance_disk", "id": "d", "name": "vda"}]"#, true),
        (r#"[{"type": "instance_disk"}]"#, false),
        ("{}", false),
        ("<html>sign in</html>", false),
        ("", false),
    ] {
        let (endpoint, requests) = store(answer).await;
        let publisher = publisher(endpoint);
        publisher.shared.open_gate(None);
        let outcome = publisher.events(&[end()]).await;
        assert_eq!(outcome.is_ok(), is_read, "{answer}: {outcome:?}");
        let ended = |id: &str| requests.lock().iter().any(|request| request.contains(&format!("/{id} HTTP")));
        assert!(ended("r"), "whatever is found, the instance ends");
        assert_eq!(ended("d"), answer.contains(r#""id": "d""#));
    }
}

#[tokio::test]
async fn a_request_that_fails_between_others_is_given_up() {
    let (endpoint, _) = store("[]").await;
    let store = Store::new(&options(endpoint), Duration::from_secs(5), GnocchiFigures::default()).unwrap();
    // Their answers hardly ever overlap with one to the bad request.
    let others = async {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(70)).await;
            store.get("/good").await;
        }
    };
    tokio::select! {
        answer = store.get("/bad") => assert_eq!(answer.status.as_u16(), 500),
        () = others => panic!("it is sent again and again"),
    }
}

#[tokio::test]
async fn a_measure_that_the_store_fails_on_holds_up_no_other() {
    let (endpoint, _) = store("[]").await;
    let mut options = options(endpoint);
    // Nothing else is posted meanwhile.
    options.limits.requests_max = 1;
    let publisher = start(&options, &PublisherTasks::watched().0);
    publisher.shared.open_gate(None);
    let poison = Sample { resource_id: "poison".into(), ..sample("cpu", 1.0) };
    let publish = async || {
        let receipts =
            [&poison, &sample("cpu", 1.0)].map(|sample| publisher.samples(std::slice::from_ref(sample)));
        let outcomes =
            tokio::time::timeout(Duration::from_secs(30), futures_util::future::join_all(receipts)).await;
        outcomes.expect("they do not end").iter().map(Result::is_ok).collect::<Vec<bool>>()
    };
    assert_eq!(publish().await, [false, true]);
    // The next time it is known, and tried once.
    let retries = publisher.shared.store.figures().retries.get();
    assert_eq!(publish().await, [false, true]);
    assert_eq!(publisher.shared.store.figures().retries.get(), retries);
}

#[tokio::test]
async fn batches_of_bad_measures_alone_let_others_pass() {
    let (endpoint, requests) = store("[]").await;
    let mut options = options(endpoint);
    options.limits.requests_max = 1;
    let publisher = start(&options, &PublisherTasks::watched().0);
    publisher.shared.open_gate(None);
    let bad = publisher.samples(&[Sample { resource_id: "poison".into(), ..sample("cpu", 1.0) }]);
    while !requests.lock().iter().any(|request| request.contains("poison")) {
        tokio::time::sleep(LOOK).await;
    }
    // It is in a batch of its own, since the first is under way.
    let good = publisher.samples(&[sample("cpu", 1.0)]);
    let both = async { tokio::join!(bad, good) };
    let (bad, good) = tokio::time::timeout(Duration::from_secs(30), both).await.expect("they do not end");
    assert!(bad.is_err() && good.is_ok());
}

#[tokio::test]
async fn a_store_that_forbids_some_measures_of_a_batch_is_not_waited_for() {
    let (endpoint, _) = store("[]").await;
    let publisher = publisher(endpoint);
    publisher.shared.open_gate(None);
    let of = |resource: &'static str| Sample { resource_id: resource.into(), ..sample("cpu", 1.0) };
    let receipts = ["denied-1", "r", "denied-2"].map(|resource| publisher.samples(&[of(resource)]));
    let outcomes = futures_util::future::join_all(receipts).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(publisher.shared.store.figures().retries.get(), 0);
}

/// A store that has moved since the login, in whose catalogue it is at this path.
async fn moved_from(path: &str) -> Store {
    let (endpoint, _) = store("[]").await;
    let catalog = |url: &str| {
        format!(r#"[{{"type": "metric", "endpoints": [{{"interface": "public", "url": "{url}"}}]}}]"#)
    };
    let (before, now) = (catalog(&format!("{endpoint}{path}")), catalog(&endpoint));
    let times = r#""issued_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z""#;
    let answer = format!(r#"{{"token": {{{times}, "catalog": {before}}}, "catalog": {now}}}"#);
    let (identity, _) = store(answer.leak()).await;
    let access = StoreAccess::Keystone(Session::new(keystone(&identity)).unwrap());
    let options = GnocchiOptions { access, endpoint: None, ..options(String::new()) };
    Store::new(&options, Duration::from_secs(5), GnocchiFigures::default()).unwrap()
}

#[tokio::test]
async fn a_store_that_has_moved_is_found_though_a_proxy_answers_for_it() {
    let (away, gone, moved) =
        (moved_from("/away").await, moved_from("/gone").await, moved_from("/moved").await);
    let (other, page) = (moved_from("/gone").await, moved_from("/static").await);
    let posted = async {
        while gone.post_batch("{}".into(), 1).await.status.as_u16() == 404 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let changed = other.patch("/v1/resource/instance/r", "application/json", &Value::Null);
    let (stored, stored_too) = (moved.post_batch("{}".into(), 1), page.post_batch("{}".into(), 1));
    let all = async { tokio::join!(away.get("/v1/archive_policy"), changed, stored, stored_too, posted) };
    // The catalogue is read again after five seconds at the earliest.
    let (listed, changed, stored, stored_too, ()) =
        tokio::time::timeout(Duration::from_secs(30), Box::pin(all)).await.expect("one is not found");
    let answers = [listed, changed, stored, stored_too];
    assert_eq!(answers.map(|answer| answer.status.as_u16()), [200; 4]);
}
