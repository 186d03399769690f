//! Calls that fail, hang or come late, and increases of counters.

use std::sync::mpsc::{Sender, channel};

use super::*;

fn unconnected(timeout: Duration) -> LibvirtInspector {
    LibvirtInspector::new(LibvirtOptions {
        uri: String::new(),
        library: PathBuf::new(),
        timeout,
        report_stopped: false,
    })
}

/// A call that hangs until the sender is dropped.
fn hanging() -> (Sender<()>, impl FnOnce() -> Result<(), Failure> + Send + 'static) {
    let (release, held) = channel();
    let hang = move || {
        let _ = held.recv();
        Ok(())
    };
    (release, hang)
}

#[test]
fn a_domain_that_fails_hides_no_other() {
    let failed = || Err(InspectError::Failed("no".to_owned()));
    let told = |domains: Vec<Result<&str, InspectError>>| {
        let description = |uuid: &str| DomainDescription {
            uuid: uuid.to_owned(),
            name: String::new(),
            state: 1,
            xml: String::new(),
            metadata_xml: None,
        };
        let each = domains.into_iter().map(|domain| ("any".to_owned(), domain.map(description)));
        let (found, is_complete) = without_failed(each.collect()).ok()?;
        let uuids: Vec<String> = found.into_iter().map(|domain| domain.uuid).collect();
        Some((uuids.join(" "), is_complete))
    };
    let found = |uuids: &str, is_complete| Some((uuids.to_owned(), is_complete));
    let gone = || Err(InspectError::NotFound);
    assert_eq!(told(vec![Ok("a"), gone(), Ok("b")]), found("a b", true));
    assert_eq!(told(vec![failed(), gone(), Ok("b")]), found("b", false));
    assert_eq!(told(vec![Ok("a"), Err(InspectError::Hanging)]), found("a", false));
    assert_eq!(told(vec![]), found("", true));
    assert_eq!(told(vec![gone()]), found("", true));
    assert_eq!(told(vec![failed(), gone()]), None);
}

#[test]
fn an_instance_that_ends_amid_a_call_is_not_there() {
    let failed =
        |code| Error::Failed { operation: "read".to_owned(), code, domain: 10, message: "no".to_owned() };
    // VIR_ERR_NO_DOMAIN
    assert_eq!(InspectError::from(Failure::from(failed(42))), InspectError::NotFound);
    assert_eq!(InspectError::from(Failure::from(failed(55))), InspectError::Failed("read: no".to_owned()));
    assert!(concerns_instance(&failed(42)) && !concerns_instance(&failed(55)));
}

/// A call that does not hang. It is repeated, since a machine that stands still makes it late.
async fn well(inspector: &LibvirtInspector) -> Result<i32, InspectError> {
    let mut answer = inspector.limited(Some("well"), || Ok(7)).await;
    for _ in 0..10 {
        if answer.is_err() {
            answer = inspector.limited(Some("well"), || Ok(7)).await;
        }
    }
    answer
}

#[tokio::test]
async fn calls_that_hang_hold_up_no_others() {
    let inspector = unconnected(Duration::from_millis(400));
    let mut releases = Vec::new();
    for number in 0..HANGING_MAX {
        assert_eq!(well(&inspector).await, Ok(7), "{number} calls hang");
        let (release, hang) = hanging();
        releases.push(release);
        let late = inspector.limited(Some(&number.to_string()), hang).await.unwrap_err();
        assert!(late.to_string().contains("does not answer"), "{late}");
        assert_eq!(inspector.limited(Some(&number.to_string()), || Ok(7)).await, Err(InspectError::Hanging));
    }
    let refused = inspector.limited(Some("well"), || Ok(7)).await.unwrap_err();
    assert_eq!(refused.to_string(), "8 calls of libvirt hang");
    drop(releases);
    while inspector.limited(Some("0"), || Ok(7)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_hung_instance_holds_one_call() {
    let inspector = unconnected(Duration::from_millis(400));
    let mut releases = Vec::new();
    for number in 0..HANGING_MAX / CALLS_MAX {
        // As pollsters that run concurrently do.
        let calls = (0..CALLS_MAX).map(|_| {
            let (release, hang) = hanging();
            releases.push(release);
            let (inspector, subject) = (inspector.clone(), number.to_string());
            async move { inspector.limited(Some(&subject), hang).await }
        });
        let answers = futures_util::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
    }
    assert_eq!(inspector.0.hanging.lock().len(), HANGING_MAX / CALLS_MAX);
    assert_eq!(well(&inspector).await, Ok(7));
}

#[test]
fn each_meter_has_its_own_increases() {
    let inspector = unconnected(Duration::ZERO);
    let increase = |meter: &'static str, name: &str, time: f64, value: i64| {
        inspector.increase(meter, "uuid", name, TimedCounter { time, value })
    };
    assert_eq!(increase("in", "a", 1.0, 100), 0);
    assert_eq!(increase("out", "a", 1.0, 10), 0);
    // `in` is polled more often than `out`.
    assert_eq!(increase("in", "a", 2.0, 130), 30);
    assert_eq!(increase("in", "a", 3.0, 150), 20);
    assert_eq!(increase("out", "a", 3.0, 70), 60);
    assert_eq!(increase("in", "b", 3.0, 7), 0);
    // A slower round, whose inspection was earlier, adds nothing.
    assert_eq!(increase("in", "a", 2.5, 140), 0);
    assert_eq!(increase("in", "a", 4.0, 160), 10);
    // A reset.
    assert_eq!(increase("in", "a", 5.0, 4), 4);
    assert_eq!(increase("in", "a", 6.0, 4), 0);
    inspector.forget_others(|uuid| uuid == "uuid");
    assert_eq!(inspector.0.before.lock().len(), 3);
    inspector.forget_others(|uuid| uuid != "uuid");
    assert!(inspector.0.before.lock().is_empty());
}

#[test]
fn a_call_that_hangs_does_not_hold_up_the_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (release, hang) = hanging();
    let call = on_own_thread(hang);
    let answer = runtime.block_on(async { tokio::time::timeout(Duration::from_millis(10), call).await });
    assert!(answer.is_err(), "it hangs");
    drop(runtime);
    drop(release);
}
