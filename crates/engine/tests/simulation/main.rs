//! The workers of many processes under schedules drawn from a seed, in virtual time.
//!
//! Each schedule runs the engine's own code, from the scheduler to the processor, over stores in memory.
//! Processes stop between any two awaits for longer than their lease, crash, join and leave; stores lose
//! requests and responses; sacks split while measures arrive. At all times: no write of a former owner
//! succeeds, only what is in a head is acknowledged, and no head goes back. After the last fault each sack
//! has one owner within a lease time and a round, and every metric contains the accepted measures, once and
//! in order.
//!
//! `GNUDI_SIMULATION_SCHEDULES` is the number of schedules, `GNUDI_SIMULATION_SEED` the first seed. A failure
//! prints its seed; to run it alone, with a trace:
//! `GNUDI_SIMULATION_SCHEDULES=1 GNUDI_SIMULATION_SEED=<seed> cargo test -p gnudi-engine --test simulation -- --nocapture`.

mod gate;
mod link;
mod process;
mod random;
mod schedule;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use schedule::Counts;

/// `make random` has `TIMES` as many.
const SCHEDULES: u64 = 40_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn play(seed: u64, verbose: bool) -> Result<Counts, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(schedule::play(seed, verbose))));
    played.unwrap_or_else(|_| Err("it panicked".to_owned()))
}

#[test]
fn schedules() {
    let count = setting("GNUDI_SIMULATION_SCHEDULES", SCHEDULES);
    let first = setting("GNUDI_SIMULATION_SEED", 1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, failure) = (AtomicU64::new(first), Mutex::new(None));
    let counts = Mutex::new(Counts::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Counts::default();
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count || failure.lock().unwrap().is_some() {
                        break;
                    }
                    match play(seed, count == 1) {
                        Ok(played) => own.add(played),
                        Err(why) => *failure.lock().unwrap() = Some((seed, why)),
                    }
                }
                counts.lock().unwrap().add(own);
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("{count} schedules from seed {first}: {counts:?}");
    if let Some((seed, why)) = failure.into_inner().unwrap() {
        panic!("GNUDI_SIMULATION_SCHEDULES=1 GNUDI_SIMULATION_SEED={seed}: {why}");
    }
    if count >= 1000 {
        let busy = counts.passes > count && counts.splits > count / 10 && counts.refused > 0;
        assert!(busy, "schedules without anything in them: {counts:?}");
    }
}
