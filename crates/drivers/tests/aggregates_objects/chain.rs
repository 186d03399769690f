//! Processes that are suspended at the worst moment, while others write on and old manifests are removed.

use std::time::Duration;

use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{AggregateStore, Fence, StoreError, objects::ObjectAggregatesOptions},
    objects::{
        ObjectError, Objects,
        clock::Clock as _,
        memory::{Call, Fault, MemoryObjects},
    },
};

use crate::{
    setup::{TestClock, fence, named, open_at, open_with, options},
    support::aggregate_items::{blocks, head, key, write},
    world::{World, apply, apply_and_settle, own_head},
};

/// Suspends a process in the middle of a write to metric 2, lets the others write on, and resumes it.
async fn overslept(world: &World, own: Fence, others: Fence) -> Result<(), StoreError> {
    apply(&world.sleeper, own, 2, "before").await.unwrap();
    let before = world.manifests();
    let night = world.sleepy.creates.lock().await;
    let late = world.write_asleep(own).await;
    world.awake.raise(others).await.unwrap();
    world.go_on(others).await;
    let now = world.manifests();
    assert!(before.iter().all(|name| !now.contains(name)), "the sleeper's version is long removed");
    drop(night);
    let answer = late.await.unwrap();
    let new: Vec<String> = world.manifests().into_iter().filter(|name| !now.contains(name)).collect();
    assert!(
        new.iter().all(|name| now.iter().all(|known| name > known)),
        "an old version is there again: {new:?}"
    );
    answer
}

#[tokio::test]
async fn a_writer_that_slept_past_its_fence_writes_nothing() {
    let world = World::new().await;
    let (own, others) = (fence(2, 0, 1), fence(2, 0, 2));
    world.sleeper.raise(own).await.unwrap();
    let answer = overslept(&world, own, others).await;
    assert!(matches!(answer, Err(StoreError::Fenced { held: 2, .. })), "{answer:?}");
    world.assert_read("before").await;
}

/// The other process owns another sack of the same shard: the late write is valid.
#[tokio::test]
async fn a_writer_that_slept_loses_nothing() {
    let world = World::new().await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    world.sleeper.raise(own).await.unwrap();
    overslept(&world, own, others).await.unwrap();
    world.assert_read("late").await;
}

/// A late version exists between its creation and its removal; others may find it.
#[tokio::test]
async fn a_version_out_of_time_misleads_nobody() {
    let world = World::new().await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    world.sleeper.raise(own).await.unwrap();
    apply(&world.sleeper, own, 2, "before").await.unwrap();
    // Has cached the same version as the suspended process.
    let reader = open_at(world.objects.clone(), &world.clock).await;
    assert_eq!(head(&*reader, 2).await.unwrap().as_deref(), Some("before"));
    let night = world.sleepy.creates.lock().await;
    let late = world.write_asleep(own).await;
    world.go_on(others).await;
    let before = world.manifests();
    let second_night = world.sleepy.deletes.lock().await;
    drop(night);
    world.sleepy.asleep.notified().await;
    let now = world.manifests();
    assert!(now.len() == before.len() + 1 && now[0] < before[0], "the old version is there");
    assert_eq!(head(&*reader, 4).await.unwrap().as_deref(), Some("round 149"));
    apply(&reader, fence(4, 0, 2), 4, "by the reader").await.unwrap();
    assert_eq!(head(&*world.awake, 4).await.unwrap().as_deref(), Some("by the reader"));
    drop(second_night);
    late.await.unwrap().unwrap();
    assert_eq!(head(&*reader, 2).await.unwrap().as_deref(), Some("late"));
    assert_eq!(head(&*reader, 4).await.unwrap().as_deref(), Some("by the reader"));
}

/// Others have continued from the version, whose object holds the table. Then its creator resumes, and finds
/// that the era before was removed.
#[tokio::test]
async fn a_writer_that_slept_after_its_write_leaves_it() {
    let options = ObjectAggregatesOptions { merged_runs_min: 1000, runs_max: 1000, ..options() };
    let world = World::with(options).await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    for round in 0..40 {
        apply(&world.awake, others, 4, &format!("round {round}")).await.unwrap();
    }
    world.sleeper.raise(own).await.unwrap();
    let night = world.sleepy.created.lock().await;
    let late = world.write_asleep(own).await;
    world.go_on(others).await;
    drop(night);
    late.await.unwrap().unwrap();
    world.assert_read("late").await;
    assert_eq!(world.sleeper.figures().damaged + world.awake.figures().damaged, 0);
}

/// The table was in an object of its own, and was merged and removed before its writer resumes: the run must
/// not come back.
#[tokio::test]
async fn a_writer_that_slept_after_its_write_names_no_removed_table() {
    let of_others = ObjectAggregatesOptions { in_manifest_bytes_max: 0, ..options() };
    // It may itself be configured for a slower store.
    for grace_ms in [of_others.grace_ms, 1_000_000] {
        let of_sleeper = ObjectAggregatesOptions { grace_ms, ..of_others.clone() };
        names_no_removed_table(World::with_different(of_sleeper, of_others.clone()).await).await;
    }
}

async fn names_no_removed_table(world: World) {
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    world.sleeper.raise(own).await.unwrap();
    apply_and_settle(&world.sleeper, own, 2, "before").await;
    let night = world.sleepy.created.lock().await;
    let late = world.write_asleep(own).await;
    world.go_on(others).await;
    drop(night);
    let answer = late.await.unwrap();
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!(own_head(&world.sleeper, own, 2).await.as_deref(), Some("late"));
    apply(&world.sleeper, own, 2, "again").await.unwrap();
    world.assert_read("again").await;
    assert_eq!(world.sleeper.figures().damaged + world.awake.figures().damaged, 0);
}

/// Of the tables of a merge whose process slept after it, those with heads were merged again.
#[tokio::test]
async fn a_merge_that_slept_leaves_the_tables_that_are_valid() {
    let world = World::new().await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    let tables = || named(&world.objects, "shard/0/table/");
    let long = "b".repeat(1000);
    let long_blocks: Vec<_> = (0..10).map(|at| (key(2, at * 60), long.as_str())).collect();
    let big = world.sleeper.write(own, vec![write(2, "big", &long_blocks)]).await.remove(0);
    big.unwrap();
    world.sleeper.settle().await;
    let before = tables();
    let hold = world.objects.hold(Call::Put, "shard/0/table/");
    apply(&world.sleeper, others, 4, "small").await.unwrap();
    hold.arrival().await;
    let night = world.sleepy.created.lock().await;
    drop(hold);
    world.sleepy.asleep.notified().await;
    let mut merged = tables();
    merged.retain(|name| !before.contains(name));
    world.go_on(others).await;
    let now = tables();
    let valid = merged.iter().filter(|name| now.contains(name)).count();
    assert!(0 < valid && valid < merged.len(), "{valid} of {}", merged.len());
    drop(night);
    world.sleeper.settle().await;
    for store in [&world.sleeper, &world.awake] {
        assert_eq!(head(&**store, 2).await.unwrap().as_deref(), Some("big"));
        assert_eq!(blocks(&**store, 2).await.len(), 10);
        assert_eq!(store.figures().damaged, 0);
    }
}

/// The creator of the first version resumes after others have continued from it, without and with a hint.
#[tokio::test]
async fn the_first_version_stays_when_its_creator_slept() {
    for rounds in [1, 20] {
        let world = World::new().await;
        let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
        let night = world.sleepy.created.lock().await;
        let sleeper = world.sleeper.clone();
        let late = tokio::spawn(async move { sleeper.raise(own).await });
        world.sleepy.asleep.notified().await;
        world.awake.raise(others).await.unwrap();
        for round in 0..rounds {
            apply_and_settle(&world.awake, others, 4, &format!("round {round}")).await;
        }
        world.clock.advance(6000);
        drop(night);
        late.await.unwrap().unwrap();
        apply(&world.sleeper, own, 2, "after").await.unwrap();
        world.clock.advance(6000);
        let newcomer = open_at(world.objects.clone(), &world.clock).await;
        for store in [&world.sleeper, &world.awake, &newcomer] {
            assert_eq!(head(&**store, 2).await.unwrap().as_deref(), Some("after"));
            let newest = format!("round {}", rounds - 1);
            assert_eq!(head(&**store, 4).await.unwrap(), Some(newest));
        }
    }
}

/// A suspended process has created version 1 again, and a reader knows the shard as empty.
#[tokio::test]
async fn a_first_version_out_of_time_misleads_nobody() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    let reader = open_at(world.objects.clone(), &world.clock).await;
    assert_eq!(head(&*reader, 4).await.unwrap(), None);
    apply(&world.awake, own, 4, "first").await.unwrap();
    let first = world.manifests().remove(0);
    let bytes = world.objects.get(&first).await.unwrap().unwrap();
    world.go_on(own).await;
    world.objects.create(&first, bytes).await.expect("the first version was removed");
    assert_eq!(head(&*reader, 4).await.unwrap().as_deref(), Some("round 149"));
}

/// A suspended process restored an old hint, to a removed version. Readers were suspended, too.
#[tokio::test]
async fn old_hints_and_old_readers_find_the_newest() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    let reader = open_at(world.objects.clone(), &world.clock).await;
    assert_eq!(head(&*reader, 4).await.unwrap(), None);
    let from_version = open_at(world.objects.clone(), &world.clock).await;
    apply(&world.awake, own, 4, "first").await.unwrap();
    assert_eq!(head(&*from_version, 4).await.unwrap().as_deref(), Some("first"));
    world.go_on(own).await;
    for hint in ["1", "99999", "nonsense", ""] {
        let name = "aggregates/shard/0/hint".to_owned();
        match hint {
            "" => world.objects.delete(&[name]).await.unwrap(),
            hint => world.objects.put(&name, Bytes::from(hint)).await.unwrap(),
        }
        let newcomer = open_at(world.objects.clone(), &world.clock).await;
        let found = head(&*newcomer, 4).await;
        assert_eq!(found.unwrap().as_deref(), Some("round 149"), "hint {hint}");
    }
    for store in [reader, from_version] {
        assert_eq!(head(&*store, 4).await.unwrap().as_deref(), Some("round 149"));
        apply(&store, own, 4, "round 149").await.unwrap();
    }
}

/// A manifest created late by a forgotten request must not become valid after a later read.
#[tokio::test]
async fn a_write_without_an_answer_is_decided_by_the_next_read() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    apply_and_settle(&world.awake, own, 2, "before").await;
    let hold = world.objects.hold(Call::Create, "shard/0/manifest");
    let awake = world.awake.clone();
    let lost = tokio::spawn(async move { apply(&awake, own, 2, "lost").await });
    hold.arrival().await;
    // The request is in flight, but its caller is gone.
    let objects = world.objects.clone();
    let name = format!("aggregates/shard/0/manifest/{:016x}", world.manifests().len() + 1);
    lost.abort();
    assert!(lost.await.is_err());
    drop(hold);
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("before"));
    // Now it arrives, too late.
    assert_eq!(objects.create(&name, Bytes::new()).await, Err(ObjectError::Exists(name)));
}

/// A full cluster, or one without a quorum for writes.
#[tokio::test(start_paused = true)]
async fn reads_go_on_while_a_store_accepts_no_writes() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    apply_and_settle(&world.awake, own, 2, "before").await;
    let hold = world.objects.hold(Call::Create, "shard/0/manifest");
    let answer = apply(&world.awake, own, 2, "lost").await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("before"));
    drop(hold);
    apply(&world.awake, own, 2, "after").await.unwrap();
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("after"));
}

/// The manifest that the writer has cached lacks the write.
#[tokio::test]
async fn a_write_that_took_effect_without_an_answer_is_there_for_the_next_pass() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    world.awake.raise(own).await.unwrap();
    apply_and_settle(&world.awake, own, 2, "before").await;
    world.objects.fail(Call::Create, "manifest", 0, Fault::AnswerLost);
    // All attempts to find out.
    for _ in 0..3 {
        let late = ObjectError::Unavailable("late".to_owned());
        world.objects.fail(Call::Get, "manifest", 0, Fault::Fails(late));
    }
    let answer = apply(&world.awake, own, 2, "after").await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!(world.objects.is_healed());
    assert_eq!(own_head(&world.awake, own, 2).await.as_deref(), Some("after"));
}

/// Metric 4's write decides about the lost one, which arrives meanwhile. With the head before it and its blocks the next
/// pass over metric 2 would count late points twice.
#[tokio::test]
async fn a_pass_waits_for_the_outcome_of_the_one_before() {
    let world = World::new().await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    for (fence, id) in [(own, 2), (others, 4)] {
        world.sleeper.raise(fence).await.unwrap();
        apply(&world.sleeper, fence, id, "before").await.unwrap();
    }
    world.sleeper.settle().await;
    let manifests = world.manifests().len();
    let hold = world.objects.hold(Call::Create, "shard/0/manifest");
    let sleeper = world.sleeper.clone();
    let lost = tokio::spawn(async move { apply(&sleeper, own, 2, "after").await });
    hold.arrival().await;
    lost.abort();
    assert!(lost.await.is_err());
    let later = world.objects.hold(Call::Create, "shard/0/manifest");
    let sleeper = world.sleeper.clone();
    let other = tokio::spawn(async move { apply(&sleeper, others, 4, "after").await });
    later.arrival().await;
    let sleeper = world.sleeper.clone();
    let next = tokio::spawn(async move { own_head(&sleeper, own, 2).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(hold);
    while world.manifests().len() == manifests {
        tokio::task::yield_now().await;
    }
    drop(later);
    assert_eq!(next.await.unwrap().as_deref(), Some("after"));
    other.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_process_without_the_fence_sees_what_others_write() {
    let world = World::new().await;
    let (own, others) = (fence(2, 0, 1), fence(2, 0, 2));
    world.sleeper.raise(own).await.unwrap();
    apply(&world.sleeper, own, 2, "before").await.unwrap();
    world.awake.raise(others).await.unwrap();
    apply(&world.awake, others, 2, "after").await.unwrap();
    // Another lease, of which it has not raised the fence.
    assert_eq!(own_head(&world.sleeper, fence(2, 0, 3), 2).await.as_deref(), Some("after"));
    // With the fence that others have replaced it writes nothing.
    let answer = apply(&world.sleeper, own, 2, "late").await;
    assert!(matches!(answer, Err(StoreError::Fenced { held: 2, .. })), "{answer:?}");
}

/// An attempt without a response is not settled by another attempt that the store refuses.
#[tokio::test]
async fn a_refused_attempt_does_not_settle_an_earlier_one() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    apply_and_settle(&world.awake, own, 2, "before").await;
    let next = format!("aggregates/shard/0/manifest/{:016x}", world.manifests().len() + 1);
    for error in [ObjectError::Unavailable("late".to_owned()), ObjectError::NoSpace("full".to_owned())] {
        world.objects.fail(Call::Create, "manifest", 0, Fault::Fails(error));
    }
    let answer = apply(&world.awake, own, 2, "lost").await;
    assert!(matches!(answer, Err(StoreError::NoSpace(_))), "{answer:?}");
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("before"));
    // The first attempt arrives, too late.
    assert_eq!(world.objects.create(&next, Bytes::new()).await, Err(ObjectError::Exists(next)));
}

/// The table of a suspended writer is removed as an orphan; when the writer resumes, its write is refused.
#[tokio::test]
async fn what_nobody_names_goes_and_is_not_named_later() {
    let world = World::with(ObjectAggregatesOptions { in_manifest_bytes_max: 0, ..options() }).await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    apply(&world.sleeper, own, 2, "before").await.unwrap();
    apply_and_settle(&world.awake, others, 4, "before").await;
    let before = named(&world.objects, "shard/0/table/");
    let night = world.sleepy.creates.lock().await;
    let late = world.write_asleep(own).await;
    let mut of_sleeper = named(&world.objects, "shard/0/table/");
    of_sleeper.retain(|name| !before.contains(name));
    assert_eq!(of_sleeper.len(), 1);
    world.clock.advance(3_700_000);
    apply_and_settle(&world.awake, others, 4, "an hour later").await;
    assert!(!named(&world.objects, "shard/0/table/").contains(&of_sleeper[0]));
    drop(night);
    let answer = late.await.unwrap();
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("before"));
    apply(&world.sleeper, own, 2, "again").await.unwrap();
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("again"));
}

/// The machine that searches for what nobody names has a clock that is a day ahead.
#[tokio::test]
async fn a_clock_that_is_ahead_keeps_nobody_from_writing() {
    let (objects, clock, ahead) = (MemoryObjects::default(), TestClock::default(), TestClock::default());
    let options = ObjectAggregatesOptions { in_manifest_bytes_max: 0, ..options() };
    let store = open_with(objects.clone(), &clock, options.clone()).await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    apply_and_settle(&store, own, 2, "before").await;
    objects.put("aggregates/shard/0/table/000000000001-orphan", Bytes::new()).await.unwrap();
    ahead.advance(86_400_000);
    let of_wrong_clock = open_with(objects.clone(), &ahead, options).await;
    apply_and_settle(&of_wrong_clock, others, 4, "ahead").await;
    assert!(named(&objects, "-orphan").is_empty(), "it was searched for");
    apply(&store, own, 2, "after").await.unwrap();
    for store in [&store, &of_wrong_clock] {
        assert_eq!(head(&**store, 2).await.unwrap().as_deref(), Some("after"));
        assert_eq!(head(&**store, 4).await.unwrap().as_deref(), Some("ahead"));
    }
    // It removes an orphan of its own: the floor is a day ahead of the others' clocks.
    store.settle().await;
    let orphan = format!("aggregates/shard/0/table/{:012x}-orphan", ahead.now().wall_ms);
    objects.put(&orphan, Bytes::new()).await.unwrap();
    ahead.advance(3_700_000);
    apply_and_settle(&of_wrong_clock, others, 4, "still ahead").await;
    assert!(named(&objects, "-orphan").is_empty(), "it was searched for");
    // The first write may be refused: its process has not read the new floor.
    if apply(&store, own, 2, "refused").await.is_err() {
        apply(&store, own, 2, "again").await.expect("the floor is known");
    }
}

/// A writer whose request got no response would add its run once more, without tables.
#[tokio::test]
async fn a_clock_that_is_ahead_removes_no_merged_table_early() {
    let (objects, clock, ahead) = (MemoryObjects::default(), TestClock::default(), TestClock::default());
    let options = ObjectAggregatesOptions { in_manifest_bytes_max: 0, ..options() };
    let store = open_with(objects.clone(), &clock, options.clone()).await;
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    for round in 0..8 {
        apply_and_settle(&store, own, 2, &format!("round {round}")).await;
    }
    let tables = named(&objects, "shard/0/table/");
    let are_left = || {
        let now = named(&objects, "shard/0/table/");
        tables.iter().all(|name| now.contains(name))
    };
    ahead.advance(86_400_000);
    let of_wrong_clock = open_with(objects.clone(), &ahead, options).await;
    for (later_ms, left) in [(0, true), (30_000, true), (61_000, false)] {
        ahead.advance(later_ms);
        apply_and_settle(&of_wrong_clock, others, 4, "ahead").await;
        assert_eq!(are_left(), left, "{later_ms} ms later");
    }
}

/// Each lives for less than the time between two searches, which they share.
#[tokio::test]
async fn what_nobody_names_goes_though_no_process_lives_long() {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let orphan = |number: u64| format!("aggregates/shard/0/table/{number:012x}-orphan");
    let lives = async |number: u64| {
        objects.put(&orphan(number), Bytes::new()).await.unwrap();
        let store = open_at(objects.clone(), &clock).await;
        apply_and_settle(&store, fence(2, 0, 1), 2, "a pass").await;
        clock.advance(1_300_000);
        named(&objects, "-orphan").len()
    };
    let mut left = Vec::new();
    for number in 1..=8 {
        left.push(lives(number).await);
    }
    assert_eq!(left, [1, 2, 3, 0, 1, 2, 0, 1]);
}

/// Ceph reads the names of the whole pool for a listing.
#[tokio::test]
async fn a_listing_may_take_longer_than_other_requests_and_holds_up_none() {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let options = ObjectAggregatesOptions { requests_max: 1, deadline_ms: 300, ..options() };
    let store = open_with(objects.clone(), &clock, options).await;
    let own = fence(2, 0, 1);
    apply_and_settle(&store, own, 2, "before").await;
    let orphan = format!("aggregates/shard/0/table/{:012x}-orphan", 1);
    objects.put(&orphan, Bytes::new()).await.unwrap();
    clock.advance(3_700_000);
    let hold = objects.hold(Call::List, "table/");
    apply(&store, own, 2, "an hour later").await.unwrap();
    hold.arrival().await;
    // Longer than all attempts of another request.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    apply(&store, own, 2, "meanwhile").await.expect("a pass needs no listing");
    drop(hold);
    store.settle().await;
    assert!(!named(&objects, "table/").contains(&orphan), "the orphan was found");
    assert_eq!(head(&*store, 2).await.unwrap().as_deref(), Some("meanwhile"));
}

/// However long that takes.
#[tokio::test]
async fn an_empty_shard_is_listed_once() {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let store = open_with(objects.clone(), &clock, options()).await;
    let hold = objects.hold(Call::List, "shard/0/manifest");
    let first = tokio::spawn({
        let store = store.clone();
        async move { apply(&store, fence(2, 0, 1), 2, "first").await }
    });
    hold.arrival().await;
    clock.advance(20_000);
    drop(hold);
    first.await.unwrap().unwrap();
    assert_eq!(objects.calls(Call::List), 1);
    assert_eq!(head(&*store, 2).await.unwrap().as_deref(), Some("first"));
}

/// Also with its retries.
#[tokio::test(start_paused = true)]
async fn a_listing_that_hangs_ends_after_ten_minutes() {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let store = open_with(objects.clone(), &clock, options()).await;
    let own = fence(2, 0, 1);
    apply_and_settle(&store, own, 2, "before").await;
    clock.advance(3_700_000);
    let _hold = objects.hold(Call::List, "table/");
    let began = tokio::time::Instant::now();
    apply_and_settle(&store, own, 2, "an hour later").await;
    let took = began.elapsed();
    assert!((Duration::from_mins(10)..Duration::from_mins(11)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_store_that_is_down_says_so_and_recovers() {
    let world = World::new().await;
    let own = fence(2, 0, 1);
    apply(&world.awake, own, 2, "before").await.unwrap();
    world.objects.set_down(true);
    assert!(matches!(apply(&world.awake, own, 2, "down").await, Err(StoreError::Unavailable(_))));
    assert!(matches!(head(&*world.awake, 2).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(world.awake.raise(fence(2, 0, 2)).await, Err(StoreError::Unavailable(_))));
    world.objects.set_down(false);
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("before"));
    world.objects.fail(Call::Create, "manifest", 0, Fault::Fails(ObjectError::NoSpace("full".to_owned())));
    assert!(matches!(apply(&world.awake, own, 2, "full").await, Err(StoreError::NoSpace(_))));
    world.objects.fail(Call::Create, "manifest", 0, Fault::AnswerLost);
    apply(&world.awake, own, 2, "after").await.expect("that the answer was lost is found out");
    assert_eq!(head(&*world.awake, 2).await.unwrap().as_deref(), Some("after"));
}

/// A table that no merge replaces, in the manifest of a removed era: as long as it is valid its object stays.
#[tokio::test]
async fn a_manifest_stays_as_long_as_its_table_is_valid() {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let options = ObjectAggregatesOptions { merged_runs_min: 1000, runs_max: 1000, ..options() };
    let store = open_with(objects.clone(), &clock, options.clone()).await;
    let own = fence(2, 0, 1);
    for round in 0..150 {
        apply(&store, own, if round == 1 { 2 } else { 4 }, &format!("round {round}")).await.unwrap();
        clock.advance(2000);
        store.settle().await;
    }
    assert_eq!(named(&objects, "shard/0/manifest/").len(), 150 - 2, "those that begin the removed eras");
    // The sweep spares it, too.
    clock.advance(4_000_000);
    apply_and_settle(&store, own, 4, "an hour later").await;
    let newcomer = open_with(objects.clone(), &clock, options).await;
    assert_eq!(head(&*newcomer, 2).await.unwrap().as_deref(), Some("round 1"));
    assert_eq!(head(&*newcomer, 4).await.unwrap().as_deref(), Some("an hour later"));
    assert_eq!(blocks(&*newcomer, 2).await, ["round 1"]);
    assert_eq!(store.figures().damaged + newcomer.figures().damaged, 0);
    // Once the tables are merged the sweep removes the rest.
    let merging = open_at(objects.clone(), &clock).await;
    for _ in 0..4 {
        apply(&merging, own, 4, "merged").await.unwrap();
        clock.advance(4_000_000);
        merging.settle().await;
    }
    apply_and_settle(&merging, own, 4, "swept").await;
    let left = named(&objects, "shard/0/manifest/").len();
    assert!(left < 100, "{left} manifests");
    assert_eq!(head(&*merging, 2).await.unwrap().as_deref(), Some("round 1"));
}
