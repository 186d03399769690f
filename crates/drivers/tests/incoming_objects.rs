//! The log of objects, on objects in memory: the suites, and failures of the store or a process.

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gnudi_drivers::{
    OpenError,
    conformance::{self, IncomingSetup},
    incoming::{
        Append as _, Backlog, Consume as _, IncomingError, Position, Topology as _,
        objects::ObjectIncomingOptions,
    },
    objects::{
        ObjectError, Objects,
        memory::{Call, Fault, MemoryObjects},
    },
};
use gnudi_model::{Numbering, Sack};
use support::{
    log_of_objects::{
        CLUSTER, all, append_each, batch, drowsy, log_names, metric, open, strict, try_open, work_off,
    },
    wait::until,
};
use uuid::Uuid;

fn usual(sacks: u16) -> ObjectIncomingOptions {
    let ObjectIncomingOptions { sack_count, look_delay_idle, .. } = strict(sacks);
    ObjectIncomingOptions { sack_count, look_delay_idle, ..ObjectIncomingOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suites() {
    for options in [strict, usual] {
        let options = |setup: IncomingSetup| ObjectIncomingOptions {
            backlog_bytes_max: setup.backlog_bytes_max,
            ..options(setup.sack_count.get())
        };
        conformance::incoming(async |setup| open(&MemoryObjects::default(), options(setup)).await).await;
        conformance::shared_incoming(async |setup| {
            let objects = MemoryObjects::default();
            [open(&objects, options(setup)).await, open(&objects, options(setup)).await]
        })
        .await;
    }
}

#[tokio::test]
async fn a_failed_answer_is_looked_after() {
    let unavailable = || ObjectError::Unavailable("as planned".to_owned());
    for fault in [Fault::AnswerLost, Fault::Fails(unavailable())] {
        for call in [Call::Create, Call::Get, Call::Put, Call::List] {
            let objects = MemoryObjects::default();
            let log = open(&objects, strict(4)).await;
            for (round, texts) in [["a", "b"], ["c", "d"], ["e", "f"]].iter().enumerate() {
                objects.fail(call, if call == Call::Create { "log/" } else { "" }, round, fault.clone());
                append_each(&log, texts).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            // Trigger the remaining faults.
            while !objects.is_healed() {
                let _ = objects.list("incoming/").await;
                let _ = log.backlog().await;
                let _ = objects.put("incoming/hint", Bytes::new()).await;
                let _ = objects.create("incoming/log/-", Bytes::new()).await;
            }
            let other = open(&objects, strict(4)).await;
            assert_eq!(all(&other).await, ["a", "b", "c", "d", "e", "f"], "{call:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn an_object_whose_creation_a_proxy_repeats_is_written_once() {
    let objects = MemoryObjects::default();
    let log = open(&objects, strict(4)).await;
    for text in ["a", "b"] {
        objects.fail(Call::Create, "log/", 0, Fault::Repeated);
        log.append(batch(&[(1, text)])).await.unwrap();
    }
    assert!(objects.is_healed());
    let other = open(&objects, strict(4)).await;
    assert_eq!(all(&other).await, ["a", "b"]);
}

#[tokio::test]
async fn a_store_that_is_down_is_unavailable_and_comes_back() {
    let objects = MemoryObjects::default();
    let options = || ObjectIncomingOptions { timeout: Duration::from_millis(300), ..strict(4) };
    let log = open(&objects, options()).await;
    log.append(batch(&[(1, "a")])).await.unwrap();
    objects.set_down(true);
    let started = Instant::now();
    let refused = |error: &IncomingError| matches!(error, IncomingError::Unavailable(_));
    assert!(log.append(batch(&[(1, "b")])).await.is_err_and(|error| refused(&error)));
    assert!(log.backlog().await.is_err_and(|error| refused(&error)));
    assert!(log.split().await.is_err_and(|error| refused(&error)));
    let sack = Sack::of(metric(1), log.numbering().count);
    assert!(log.positions(&[sack]).await.is_err_and(|error| refused(&error)));
    log.acknowledge(sack, Position(1 << 16 | 1)).await.unwrap();
    assert!(log.trim(&[]).await.is_err_and(|error| refused(&error)));
    assert!(started.elapsed() < Duration::from_secs(30), "a call hung");
    let closed = try_open(&objects, CLUSTER, options()).await;
    assert!(matches!(closed, Err(OpenError::Engine { .. })));
    objects.set_down(false);
    log.append(batch(&[(1, "c")])).await.unwrap();
    let measures = async || open(&objects, strict(4)).await.backlog().await.unwrap().measures;
    until("the acknowledgement", async || measures().await == 1).await;
    assert_eq!(all(&log).await, ["c"]);
}

/// Ceph reads the names of the whole pool for a listing.
#[tokio::test]
async fn a_long_listing_holds_up_neither_a_start_nor_a_call() {
    let objects = MemoryObjects::default();
    let first = open(&objects, strict(4)).await;
    first.append(batch(&[(1, "a")])).await.unwrap();
    let hold = objects.hold(Call::List, "");
    let other = open(&objects, strict(4)).await;
    assert_eq!(all(&other).await, ["a"]);
    work_off(&other).await;
    assert_eq!(all(&other).await, [] as [&str; 0]);
    drop(hold);
    until("the other's progress", async || first.backlog().await.unwrap().measures == 0).await;
}

/// Batches that nobody waits for any more do not count against the limit, even if nothing is written after
/// them.
#[tokio::test]
async fn what_was_given_up_leaves_the_queue() {
    let measured = open(&MemoryObjects::default(), strict(4)).await;
    measured.append(batch(&[(1, "a")])).await.unwrap();
    let bytes = measured.backlog().await.unwrap().bytes;
    let objects = MemoryObjects::default();
    let options = ObjectIncomingOptions { backlog_bytes_max: 2 * bytes, ..strict(4) };
    let log = open(&objects, options).await;
    let hold = objects.hold(Call::Create, "log/");
    let first = tokio::spawn({
        let log = Arc::clone(&log);
        async move { log.append(batch(&[(1, "a")])).await }
    });
    hold.arrival().await;
    let given_up = tokio::time::timeout(Duration::from_millis(10), log.append(batch(&[(1, "b")]))).await;
    assert!(given_up.is_err());
    let full = log.append(batch(&[(1, "c")])).await;
    assert!(matches!(full, Err(IncomingError::BacklogFull { .. })), "{full:?}");
    drop(hold);
    first.await.unwrap().unwrap();
    until("room for another batch", async || log.append(batch(&[(1, "d")])).await.is_ok()).await;
    assert_eq!(all(&log).await, ["a", "d"]);
}

/// A process was suspended while the log went on, and its next number was used, trimmed and deleted.
#[tokio::test]
async fn what_is_written_below_the_mark_is_written_again() {
    let objects = MemoryObjects::default();
    let asleep = open(&objects, ObjectIncomingOptions { keep: Duration::from_millis(40), ..drowsy(4) }).await;
    let awake = open(&objects, strict(4)).await;
    append_each(&awake, &["a", "b", "c"]).await;
    work_off(&awake).await;
    assert_eq!(log_names(&objects), [] as [&str; 0], "trimmed objects are deleted");
    tokio::time::sleep(Duration::from_millis(20)).await;
    asleep.append(batch(&[(1, "d")])).await.unwrap();
    awake.append(batch(&[(1, "e")])).await.unwrap();
    assert_eq!(all(&awake).await, ["d", "e"]);
    assert_eq!(all(&asleep).await, ["d", "e"]);
    assert_eq!(all(&*open(&objects, strict(4)).await).await, ["d", "e"]);
}

/// The number was free before the request, which took so long that it was used, trimmed and deleted
/// meanwhile.
#[tokio::test]
async fn a_late_create_below_the_mark_is_not_accepted() {
    for options in [strict, drowsy] {
        let objects = MemoryObjects::default();
        let of_slow = objects.another_process();
        let slow = open(&of_slow, options(4)).await;
        let hold = of_slow.hold(Call::Create, "log/");
        let appended = tokio::spawn({
            let slow = Arc::clone(&slow);
            async move { slow.append(batch(&[(1, "late")])).await }
        });
        hold.arrival().await;
        let name = format!("incoming/log/{:020}", 1);
        open(&objects, strict(4)).await.append(batch(&[(1, "a")])).await.unwrap();
        let reader = open(&objects, strict(4)).await;
        assert_eq!(all(&reader).await, ["a"]);
        work_off(&reader).await;
        assert!(!objects.contents().contains_key(&name));
        // As long as the slow process needs to see that its number was taken, if it polls.
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(hold);
        let answer = appended.await.unwrap();
        let fresh = open(&objects, strict(4)).await;
        assert_eq!(all(&fresh).await, if answer.is_ok() { vec!["late"] } else { vec![] }, "{answer:?}");
        work_off(&fresh).await;
        slow.append(batch(&[(1, "b")])).await.unwrap();
        assert_eq!(all(&reader).await, ["b"]);
    }
}

/// A suspended reader does not accept an object that another suspended process wrote at its next number.
#[tokio::test]
async fn what_stands_below_the_mark_is_not_read() {
    let objects = MemoryObjects::default();
    let asleep = open(&objects, drowsy(4)).await;
    let awake = open(&objects, strict(4)).await;
    awake.append(batch(&[(1, "a")])).await.unwrap();
    let first = objects.contents().into_iter().find(|(name, _)| name.contains("log/")).unwrap();
    awake.append(batch(&[(1, "b")])).await.unwrap();
    awake.split().await.unwrap();
    work_off(&awake).await;
    awake.append(batch(&[(1, "c")])).await.unwrap();
    objects.put(&first.0, first.1).await.unwrap();
    assert_eq!(all(&asleep).await, ["c"]);
    assert!(asleep.numbering().draining, "the split lies below the mark");
    assert_eq!(asleep.numbering(), awake.numbering());
}

#[tokio::test]
async fn damage_stays_where_it_is() {
    let objects = MemoryObjects::default();
    let log = open(&objects, drowsy(4)).await;
    for text in ["a", "b", "c"] {
        log.append(batch(&[(1, text), (2, text)])).await.unwrap();
    }
    drop(log);
    let name = format!("incoming/log/{:020}", 2);
    let mut wrong = objects.get(&name).await.unwrap().unwrap().to_vec();
    let at = wrong.iter().rposition(|byte| *byte == b'b').unwrap();
    wrong[at] = b'x';
    objects.put(&name, Bytes::from(wrong.clone())).await.unwrap();
    let log = open(&objects, strict(4)).await;
    assert_eq!(all(&log).await, ["a", "b", "c", "a", "c"]);
    assert_eq!(log.figures().damaged, 1);
    let copy = format!("incoming/quarantine/{:020}", 2);
    let is_copied = async || objects.contents().get(&copy).is_some_and(|copy| *copy == wrong);
    until("a copy of what is damaged", is_copied).await;
    // The whole object, and the next one too.
    objects.put(&name, Bytes::from_static(b"rubbish")).await.unwrap();
    let log = open(&objects, strict(4)).await;
    assert_eq!(all(&log).await, ["a", "c", "a", "c"]);
    work_off(&log).await;
    assert_eq!(log.backlog().await.unwrap(), Backlog::default());
}

/// It waits for a program that knows it.
#[tokio::test]
async fn an_object_of_a_newer_program_is_not_read() {
    let objects = MemoryObjects::default();
    let log = open(&objects, strict(4)).await;
    log.append(batch(&[(1, "a")])).await.unwrap();
    drop(log);
    let is_of_log = |(name, _): &(String, Bytes)| name.starts_with("incoming/log/");
    let (name, known) = objects.contents().into_iter().find(is_of_log).unwrap();
    let mut newer = known.to_vec();
    // The version ends the head; the item has the head's checksum, and the frame's header that of the item's.
    newer[74] = 2;
    let checksum = |bytes: &[u8]| crc_fast::crc32_iscsi(bytes).to_le_bytes();
    let of_head = checksum(&newer[36..76]);
    newer[32..36].copy_from_slice(&of_head);
    newer[24..28].copy_from_slice(&checksum(&of_head));
    let of_header = checksum(&newer[..28]);
    newer[28..32].copy_from_slice(&of_header);
    objects.put(&name, newer.into()).await.unwrap();
    let again = || try_open(&objects, CLUSTER, strict(4));
    let refused = again().await.err().unwrap().to_string();
    assert!(refused.contains("was written by a newer program (format 2)"), "{refused}");
    objects.put(&name, known).await.unwrap();
    assert_eq!(all(&again().await.unwrap()).await, ["a"]);
}

#[tokio::test]
async fn a_missing_object_does_not_hold_the_others_up() {
    let objects = MemoryObjects::default();
    let log = open(&objects, strict(4)).await;
    append_each(&log, &["a", "b", "c"]).await;
    drop(log);
    objects.delete(&[format!("incoming/log/{:020}", 2)]).await.unwrap();
    let log = open(&objects, strict(4)).await;
    let append = async {
        // Nothing is written before the timeout: others may know that the number was taken.
        while let Err(error) = log.append(batch(&[(1, "d")])).await {
            assert!(matches!(error, IncomingError::Unavailable(_)));
        }
    };
    tokio::time::timeout(Duration::from_mins(1), append).await.expect("held up for ever");
    assert_eq!(all(&log).await, ["a", "c", "d"]);
    assert_eq!(log.figures().damaged, 1);
    assert_eq!(all(&*open(&objects, strict(4)).await).await, ["a", "c", "d"]);
}

/// They are waited for once, not one after the other.
#[tokio::test]
async fn missing_objects_in_a_row_are_given_up_together() {
    let objects = MemoryObjects::default();
    let log = open(&objects, strict(4)).await;
    for number in 1..=10 {
        log.append(batch(&[(1, number.to_string().as_str())])).await.unwrap();
    }
    drop(log);
    let missing: Vec<String> = (2..10).map(|number| format!("incoming/log/{number:020}")).collect();
    objects.delete(&missing).await.unwrap();
    let options = ObjectIncomingOptions { missing_wait: Duration::from_secs(1), ..strict(4) };
    let log = open(&objects, options).await;
    let append = async { while log.append(batch(&[(1, "11")])).await.is_err() {} };
    tokio::time::timeout(Duration::from_millis(7500), append).await.expect("one wait of a second, not eight");
    assert_eq!(all(&log).await, ["1", "10", "11"]);
}

/// An object disappears after all have read it. It has the last record of a sack, which no later one follows.
#[tokio::test]
async fn a_loss_at_the_end_is_waited_for_by_nobody() {
    let objects = MemoryObjects::default();
    let (worker, other) = (open(&objects, strict(4)).await, open(&objects, strict(4)).await);
    append_each(&worker, &["a", "b"]).await;
    assert_eq!(other.backlog().await.unwrap().measures, 2);
    objects.delete(&[format!("incoming/log/{:020}", 2)]).await.unwrap();
    let sack = Sack::of(metric(1), worker.numbering().count);
    let records = worker.pending(sack, Position(0), usize::MAX).await.unwrap().records;
    assert_eq!(records.len(), 1);
    worker.acknowledge(sack, records[0].position).await.unwrap();
    let is_done = async || other.backlog().await.unwrap() == Backlog::default();
    until("the acknowledgement", is_done).await;
    assert!(other.positions(&[sack]).await.unwrap()[0].is_idle());
    // The log is trimmed past it.
    worker.append(batch(&[(2, "c")])).await.unwrap();
    work_off(&worker).await;
    assert_eq!(log_names(&objects), [] as [&str; 0]);
}

#[tokio::test]
async fn a_log_belongs_to_one_cluster() {
    let objects = MemoryObjects::default();
    drop(open(&objects, strict(4)).await);
    let again = open(&objects, strict(9)).await;
    assert_eq!(again.numbering(), Numbering::settled(strict(4).sack_count), "a log keeps its count");
    let other = Uuid::from_u128(2);
    let refused = try_open(&objects, other, strict(4)).await;
    match refused.map(|_| ()) {
        Err(OpenError::OtherCluster { found, own, .. }) => assert_eq!((found, own), (CLUSTER, other)),
        answer => panic!("another cluster's log: {answer:?}"),
    }
    objects.put("incoming/cluster", Bytes::from_static(b"somebody's file")).await.unwrap();
    let refused = try_open(&objects, CLUSTER, strict(4)).await;
    assert!(matches!(refused.map(|_| ()), Err(OpenError::Invalid { .. })));
}

/// A pass's number of requests depends neither on the number of metrics nor on that of sacks.
#[tokio::test]
async fn trips_do_not_grow_with_metrics_or_sacks() {
    let mut counted = Vec::new();
    for (metrics, sacks) in [(10, 2), (5000, 2), (5000, 128)] {
        let objects = MemoryObjects::default();
        let never = Duration::from_hours(1);
        let quiet = || ObjectIncomingOptions { pending_age_max: never, keep: never, ..drowsy(sacks) };
        let (api, worker) = (open(&objects, quiet()).await, open(&objects, quiet()).await);
        let sacks: Vec<Sack> = worker.numbering().count.sacks().collect();
        worker.pending(sacks[0], Position(0), 1).await.unwrap();
        let entries: Vec<(u128, &str)> = (0..metrics).map(|id| (id, "points")).collect();
        let before = objects.calls_total();
        for _ in 0..3 {
            api.append(batch(&entries)).await.unwrap();
        }
        let appended = objects.calls_total() - before;
        let positions = worker.positions(&sacks).await.unwrap();
        let mut records = 0;
        for (sack, positions) in sacks.iter().zip(&positions) {
            records += worker.pending(*sack, Position(0), usize::MAX).await.unwrap().records.len();
            worker.acknowledge(*sack, positions.newest).await.unwrap();
        }
        assert_eq!(records, 3 * metrics as usize);
        let passed = objects.calls_total() - before - appended;
        worker
            .trim(&sacks.iter().copied().zip(positions.iter().map(|p| p.newest)).collect::<Vec<_>>())
            .await
            .unwrap();
        let trimmed = objects.calls_total() - before - appended - passed;
        counted.push((appended, passed, trimmed));
    }
    assert!(counted.iter().all(|counts| *counts == counted[0]), "appends, a pass, a trim: {counted:?}");
    // One object each, the mark twice since nothing is cached here, a hint.
    assert!(counted[0].0 <= 10 && counted[0].1 <= 12 && counted[0].2 <= 16, "{counted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_writer_starves() {
    const WRITERS: usize = 4;
    let objects = MemoryObjects::default();
    objects.set_delay(Duration::from_millis(2));
    let mut logs = Vec::new();
    for _ in 0..WRITERS {
        logs.push(open(&objects, usual(4)).await);
    }
    let until = Instant::now() + Duration::from_secs(3);
    // How late the machine is.
    let latest = tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        while Instant::now() < until {
            let started = Instant::now();
            tokio::time::sleep(Duration::from_millis(2)).await;
            longest = longest.max(started.elapsed());
        }
        longest
    });
    let mut writers = Vec::new();
    for (id, log) in logs.into_iter().enumerate() {
        writers.push(tokio::spawn(async move {
            let (mut count, mut longest) = (0, Duration::ZERO);
            while Instant::now() < until {
                let started = Instant::now();
                log.append(batch(&[(id as u128, "x")])).await.unwrap();
                (count, longest) = (count + 1, longest.max(started.elapsed()));
            }
            (count, longest)
        }));
    }
    let latest = latest.await.unwrap();
    let mut counts = Vec::new();
    for writer in writers {
        let (count, longest) = writer.await.unwrap();
        assert!(longest < Duration::from_millis(500) + 2 * latest, "an append took {longest:?} ({latest:?})");
        counts.push(count);
    }
    println!("{counts:?} objects");
    let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(fewest * 3 > *most, "{counts:?}");
}

/// Two objects of the log are written after the read of the first one, and before that of the second.
#[tokio::test]
async fn an_object_that_is_written_while_it_is_looked_for_is_not_missing() {
    let objects = MemoryObjects::default();
    let (writer, of_reader) = (open(&objects, drowsy(4)).await, objects.another_process());
    // A missing object would be waited for until after the test.
    let options = ObjectIncomingOptions { missing_wait: Duration::from_hours(1), ..drowsy(4) };
    let reader = open(&of_reader, options).await;
    writer.append(batch(&[(1, "a")])).await.unwrap();
    // After one object was found, two are read at once.
    let hold = of_reader.hold(Call::Get, &format!("log/{:020}", 3));
    let sacks = [Sack::of(metric(1), reader.numbering().count)];
    let read = reader.positions(&sacks);
    let written = async {
        hold.arrival().await;
        append_each(&writer, &["b", "c"]).await;
        drop(hold);
    };
    let (positions, ()) = tokio::join!(read, written);
    assert_eq!(positions.expect("nothing is missing")[0].newest.0 >> 16, 3, "all three are known");
    assert_eq!(all(&reader).await, ["a", "b", "c"]);
}
