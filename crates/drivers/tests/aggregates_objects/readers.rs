//! Readers that learn of newer versions while their process writes, and readers that are cut off.

use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{AggregateStore as _, objects::ObjectAggregatesOptions},
    objects::{
        Objects as _,
        memory::{Call, MemoryObjects},
    },
};

use crate::{
    setup::{TestClock, fence, named, open_with, options},
    support::aggregate_items::head,
    world::{World, apply},
};

/// Before a version that begins an era, its table is written as an object of its own, which may take long. A process that has
/// written nothing for a while creates that version behind one that was removed since, as a reader beside it has learned.
#[tokio::test]
async fn a_reader_beside_a_slow_writer_hides_no_removed_version() {
    let options = ObjectAggregatesOptions { merged_runs_min: 1000, runs_max: 1000, ..options() };
    let world = World::with(options.clone()).await;
    // Holds its calls apart.
    let awake = open_with(world.objects.another_process(), &world.clock, options).await;
    let world = World { awake, ..world };
    let (own, others) = (fence(4, 2, 1), fence(4, 0, 2));
    world.sleeper.raise(own).await.unwrap();
    while world.manifests().len() < 32 {
        apply(&world.sleeper, own, 2, "before").await.unwrap();
    }
    world.sleeper.settle().await;
    let hold = world.objects.hold(Call::Put, "shard/0/table/");
    let sleeper = world.sleeper.clone();
    let late = tokio::spawn(async move { apply(&sleeper, own, 2, "late").await });
    hold.arrival().await;
    world.go_on(others).await;
    let begins_era = "shard/0/manifest/0000000000000021";
    assert!(named(&world.objects, begins_era).is_empty(), "that version came and went");
    assert_eq!(head(&*world.sleeper, 4).await.unwrap().as_deref(), Some("round 149"));
    drop(hold);
    late.await.unwrap().unwrap();
    assert!(named(&world.objects, begins_era).is_empty(), "it is there again");
    world.assert_read("late").await;
}

/// The hint is far behind the newest version, and the time of the first read ends shortly before it gets there.
#[tokio::test]
async fn a_search_goes_on_where_one_was_cut_off() {
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let options = ObjectAggregatesOptions { merged_runs_min: 1000, runs_max: 1000, ..options() };
    let store = open_with(objects.clone(), &clock, options.clone()).await;
    for round in 0..150 {
        apply(&store, fence(2, 0, 1), 4, &format!("round {round}")).await.unwrap();
    }
    store.settle().await;
    objects.put("aggregates/shard/0/hint", Bytes::from_static(b"1")).await.unwrap();
    let newest = named(&objects, "shard/0/manifest/").pop().unwrap();
    let of_reader = objects.another_process();
    let reader = open_with(of_reader.clone(), &clock, options).await;
    let hold = of_reader.hold(Call::Get, &newest);
    let search = tokio::spawn({
        let reader = reader.clone();
        async move { head(&*reader, 4).await }
    });
    hold.arrival().await;
    search.abort();
    assert!(search.await.is_err());
    drop(hold);
    let before = objects.calls(Call::Get);
    assert_eq!(head(&*reader, 4).await.unwrap().as_deref(), Some("round 149"));
    let read = objects.calls(Call::Get) - before;
    assert!(read < 75, "{read} objects were read: the search began anew");
}
