//! Registered logs of objects: a store is emptied, or replaced by an older copy or another store, while
//! everything is stopped and while processes run. New records always lie above all positions that heads may
//! have applied.

mod support;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use gnudi_drivers::{
    incoming::{
        Append as _, Consume as _, Incoming, IncomingError, Position, Topology as _,
        objects::{ObjectIncoming, ObjectIncomingOptions},
        registry::{LogRegistry, MemoryLogRegistry},
    },
    objects::{Objects, memory::MemoryObjects},
};
use gnudi_model::{Fault, Sack};
use support::{
    log_of_objects::{CLUSTER, all, append_each, batch, drowsy, log_names, metric, strict, work_off},
    registry::Panicking,
    wait::{found, until},
};
use uuid::Uuid;

type Contents = std::collections::BTreeMap<String, Bytes>;

/// Checks the log's identity all the time.
fn watchful(sacks: u16) -> ObjectIncomingOptions {
    ObjectIncomingOptions { identity_delay: Duration::ZERO, ..strict(sacks) }
}

async fn open_with(
    objects: &MemoryObjects,
    registry: &Arc<MemoryLogRegistry>,
    options: ObjectIncomingOptions,
) -> Arc<ObjectIncoming> {
    let objects: Arc<dyn Objects> = Arc::new(objects.clone());
    let registry: Arc<dyn LogRegistry> = registry.clone();
    ObjectIncoming::open(objects, Some(registry), CLUSTER, Uuid::new_v4(), options).await.unwrap()
}

async fn open(objects: &MemoryObjects, registry: &Arc<MemoryLogRegistry>) -> Arc<ObjectIncoming> {
    open_with(objects, registry, watchful(4)).await
}

/// Appends a record of metric 1; returns its position.
async fn append(log: &ObjectIncoming, text: &str) -> Position {
    log.append(batch(&[(1, text)])).await.unwrap();
    newest(log).await
}

async fn newest(log: &ObjectIncoming) -> Position {
    let sack = Sack::of(metric(1), log.numbering().count);
    log.positions(&[sack]).await.unwrap()[0].newest
}

/// Replaces the store's contents.
async fn replace(objects: &MemoryObjects, contents: Contents) {
    let names: Vec<String> = objects.contents().into_keys().collect();
    objects.delete(&names).await.unwrap();
    for (name, bytes) in contents {
        objects.put(&name, bytes).await.unwrap();
    }
}

/// Waits until the registry has the log's progress, which is updated from time to time.
async fn reached(registry: &MemoryLogRegistry, position: Position) {
    let knows = async || registry.logs().last().is_some_and(|log| log.reached >= position);
    until("the position in the registry", knows).await;
}

#[tokio::test]
async fn positions_go_on_above_those_of_a_log_that_is_lost() {
    // Each way to lose a log, and the generation that follows.
    for (way, generation) in
        [("nothing", 1), ("emptied", 2), ("an older copy", 2), ("another store", 2), ("no name", 2)]
    {
        let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
        let log = open(&objects, &registry).await;
        append(&log, "a").await;
        work_off(&log).await;
        append(&log, "b").await;
        let older = objects.contents();
        append(&log, "c").await;
        log.split().await.unwrap();
        let position = append(&log, "d").await;
        reached(&registry, position).await;
        drop(log);
        let first = registry.logs()[0].clone();
        assert!(first.floor >= position, "positions are reserved before they are used");
        let other = MemoryObjects::default();
        let found = if way == "another store" { &other } else { &objects };
        match way {
            "emptied" => replace(&objects, Contents::new()).await,
            "an older copy" => replace(&objects, older).await,
            "no name" => {
                let is_name = |name: &String| name.contains("/generation/");
                objects
                    .delete(&objects.contents().into_keys().filter(is_name).collect::<Vec<_>>())
                    .await
                    .unwrap();
            }
            _ => {}
        }
        let log = open(found, &registry).await;
        let expected: &[&str] = match way {
            "nothing" | "no name" => &["b", "c", "d"],
            "an older copy" => &["b"],
            _ => &[],
        };
        assert_eq!(all(&log).await, expected, "{way}");
        let count = if way == "an older copy" { 4 } else { 8 };
        assert_eq!(log.numbering().count.get(), count, "{way}");
        let next = append(&log, "e").await;
        assert!(next > position && (generation == 1 || next > first.floor), "{way}: {next:?}, {position:?}");
        let now = registry.logs().last().unwrap().clone();
        assert_eq!((now.generation, now.identity == first.identity), (generation, generation == 1), "{way}");
        // Trimming skips the hole; so do later processes that know it from the store alone.
        let mut expected = expected.to_vec();
        expected.push("e");
        assert_eq!(all(&*open(found, &registry).await).await, expected, "{way}");
        work_off(&log).await;
        append(&log, "f").await;
        drop(log);
        let log = open(found, &registry).await;
        assert_eq!(all(&log).await, ["f"], "{way}");
        assert_eq!(log.figures().damaged, 0, "{way}: nothing is missing");
        assert_eq!(registry.logs().len() as u64, generation, "{way}: it is told once");
        assert_eq!(log_names(found).len(), 1, "{way}: what is trimmed is deleted");
    }
}

/// Its end is known only once the missing object is given up.
#[tokio::test]
async fn positions_go_on_above_those_that_an_older_copy_with_a_gap_lacks() {
    let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
    let log = open(&objects, &registry).await;
    append_each(&log, &["a", "b", "c"]).await;
    let mut older = objects.contents();
    let missing = older.keys().filter(|name| name.contains("/log/")).nth(1).unwrap().clone();
    older.remove(&missing);
    let position = append(&log, "d").await;
    reached(&registry, position).await;
    drop(log);
    replace(&objects, older).await;
    let log = open(&objects, &registry).await;
    let accepted = async {
        while let Err(error) = log.append(batch(&[(1, "e")])).await {
            assert!(matches!(error, IncomingError::Unavailable(_)), "{error:?}");
        }
    };
    tokio::time::timeout(Duration::from_mins(1), accepted).await.expect("held up for ever");
    assert!(newest(&log).await > position);
    assert_eq!(all(&log).await, ["a", "c", "e"]);
    assert_eq!((log.fault(), registry.logs().len()), (None, 2));
}

/// Heads may have measures of a lost log, and those that a running process writes until it notices.
#[tokio::test]
async fn a_process_that_runs_notices_that_its_log_was_replaced() {
    for way in ["emptied", "an older copy", "followed by another"] {
        let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
        let log = open(&objects, &registry).await;
        append(&log, "a").await;
        let older = objects.contents();
        let position = append(&log, "b").await;
        reached(&registry, position).await;
        assert_eq!(log.fault(), None);
        match way {
            "an older copy" => replace(&objects, older).await,
            _ => replace(&objects, Contents::new()).await,
        }
        if way == "followed by another" {
            open_with(&objects, &registry, drowsy(4)).await;
        }
        let fault = found("a fault", async || log.fault()).await;
        assert!(matches!(fault, Fault::Ended(_)), "{way}: {fault:?}");
        let refused = log.append(batch(&[(1, "c")])).await;
        assert!(matches!(refused, Err(IncomingError::Poisoned(_))), "{way}: {refused:?}");
        let started_anew = open(&objects, &registry).await;
        let next = append(&started_anew, "d").await;
        assert!(next > position, "{way}");
        assert_eq!(started_anew.fault(), None, "{way}");
        assert_eq!(registry.logs().len(), 2, "{way}");
    }
}

#[tokio::test]
async fn processes_that_start_at_once_agree_on_the_next_log() {
    let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
    let position = append(&*open(&objects, &registry).await, "a").await;
    reached(&registry, position).await;
    replace(&objects, Contents::new()).await;
    let logs = futures_util::future::join_all((0..5).map(|_| open(&objects, &registry))).await;
    for (number, log) in logs.iter().enumerate() {
        assert!(append(log, &number.to_string()).await > position);
    }
    for log in &logs {
        assert_eq!(all(log).await, ["0", "1", "2", "3", "4"]);
        assert_eq!(log.fault(), None);
    }
    assert_eq!(registry.logs().iter().filter(|log| log.generation > 1).count(), 1);
}

/// An index restored from an older backup lacks the newest log, which is in the store.
#[tokio::test]
async fn a_registry_that_is_older_than_the_store_learns_from_it() {
    let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
    let position = append(&*open(&objects, &registry).await, "a").await;
    reached(&registry, position).await;
    let backup = registry.logs();
    replace(&objects, Contents::new()).await;
    let position = append(&*open(&objects, &registry).await, "b").await;
    let known = registry.logs()[1].clone();
    registry.restore(backup);
    let log = open(&objects, &registry).await;
    assert_eq!(all(&log).await, ["b"]);
    let learned = registry.logs()[1].clone();
    assert_eq!((learned.identity, learned.first), (known.identity, known.first));
    assert!(append(&log, "c").await > position);
    assert_eq!(all(&log).await, ["b", "c"]);
}

/// A log older than the registry is adopted; if nothing is left of it, positions begin above the clock.
#[tokio::test]
async fn a_log_that_was_never_registered_is_adopted() {
    let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
    let unregistered = support::log_of_objects::open(&objects, strict(4)).await;
    let position = append(&unregistered, "a").await;
    assert_eq!(position, Position(1 << 16 | 1));
    drop(unregistered);
    let log = open(&objects, &registry).await;
    assert_eq!(append(&log, "b").await, Position(2 << 16 | 1));
    assert_eq!(all(&log).await, ["a", "b"]);
    let log = open(&MemoryObjects::default(), &Arc::default()).await;
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let position = append(&log, "a").await;
    assert!(u128::from(position.0) > since_epoch.as_micros(), "{position:?}");
}

/// Even without identity checks: the registry rejects writes.
#[tokio::test]
async fn a_process_that_writes_learns_that_another_log_is_registered() {
    let (objects, registry) = (MemoryObjects::default(), Arc::<MemoryLogRegistry>::default());
    let log = open_with(&objects, &registry, drowsy(4)).await;
    let next = registry.logs()[0].successor(Uuid::new_v4(), "elsewhere".to_owned());
    registry.register_log(&next).await.unwrap();
    assert!(append(&log, "a").await < next.first, "what it writes until then lies below");
    found("a fault", async || log.fault()).await;
    let refused = log.append(batch(&[(1, "b")])).await;
    assert!(matches!(refused, Err(IncomingError::Poisoned(_))), "{refused:?}");
}

/// Otherwise no progress is recorded any more, and a start would take an older copy of the store for whole.
#[tokio::test]
async fn a_panic_of_the_task_that_records_the_progress_is_a_fault() {
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::default());
    let registry: Arc<dyn LogRegistry> = Arc::<Panicking>::default();
    let (id, options) = (Uuid::new_v4(), watchful(4));
    let log = ObjectIncoming::open(objects, Some(registry), CLUSTER, id, options).await.unwrap();
    assert_eq!(log.fault(), None);
    append(&log, "a").await;
    let fault = found("a fault", async || log.fault()).await;
    assert_eq!(fault, Fault::Ended("a task of the log of objects"));
}
