//! Readers of a process that learn of newer versions while it writes.

use gnudi_drivers::{
    aggregates::{AggregateStore as _, objects::ObjectAggregatesOptions},
    objects::memory::Call,
};

use crate::{
    setup::{fence, named, open_with, options},
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
