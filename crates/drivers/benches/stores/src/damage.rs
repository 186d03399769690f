//! Flips one byte in a store's files: does it open, what is lost, and is that reported?

use std::{
    fs,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
};

use gnudi_drivers::aggregates::{BlockRange, Fence, MetricWrite};
use gnudi_model::{MetricId, Timespan, Timestamp};

const METRICS: usize = 2000;
/// Enough for all stores to move most data out of their logs.
const BLOCKS: usize = 60;
const TRIALS: usize = 100;

#[derive(Default)]
struct Tally {
    refused: usize,
    panicked: usize,
    unhurt: usize,
    /// Values lost in each of the other trials, with and without an error.
    reported: Vec<usize>,
    silent: Vec<usize>,
    wrong: usize,
}

pub async fn run(name: &str, dir: &Path) {
    let original = dir.join("original");
    let store = crate::open(name, &original).await.unwrap();
    for round in 0..BLOCKS {
        let writes: Vec<MetricWrite> = (0..METRICS)
            .map(|id| MetricWrite {
                metric: crate::metric(id),
                blocks: vec![(crate::block_key(id, round), crate::value(1000, (id * 1000 + round) as u64))],
                expired: Vec::new(),
                head: crate::value(1500, (id * 1000 + round + 500) as u64),
            })
            .collect();
        for writes in writes.chunks(crate::BATCH) {
            store.write(Fence::EVERYTHING, writes.to_vec()).await;
        }
        store.sync().await.unwrap();
    }
    drop(store);
    std::panic::set_hook(Box::new(|_| {}));
    let mut tally = Tally::default();
    let mut state = 88_172_645_463_325_252u64;
    for trial in 0..TRIALS {
        let copy = dir.join(format!("trial{trial}"));
        copy_dir(&original, &copy);
        flip(&copy, &mut state);
        let name = name.to_owned();
        let target = copy.clone();
        let runtime = tokio::runtime::Handle::current();
        let outcome = tokio::task::spawn_blocking(move || {
            std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(count(&name, &target))))
        });
        match outcome.await {
            Ok(Ok(Some((reported, silent, wrong)))) => {
                tally.wrong += usize::from(wrong > 0);
                match (reported, silent) {
                    (0, 0) => tally.unhurt += 1,
                    (_, 0) => tally.reported.push(reported),
                    _ => tally.silent.push(reported + silent),
                }
            }
            Ok(Ok(None)) => tally.refused += 1,
            _ => tally.panicked += 1,
        }
        // A store that did not open may still write there.
        let _ = fs::remove_dir_all(&copy);
    }
    let worst = |lost: &[usize]| lost.iter().max().copied().unwrap_or(0);
    println!(
        "{name} damage, {TRIALS} trials, {} values: unhurt {}, open refused {}, panic {}, values lost and said so {} (worst {}), lost without a word {} (worst {}), wrong values {}",
        METRICS * (BLOCKS + 1),
        tally.unhurt,
        tally.refused,
        tally.panicked,
        tally.reported.len(),
        worst(&tally.reported),
        tally.silent.len(),
        worst(&tally.silent),
        tally.wrong,
    );
}

/// Values lost with an error, values lost without, and wrong values; `None` if the store does not open.
///
/// An omitted block counts as reported: the interface omits damaged blocks. A damaged head must be an error.
async fn count(name: &str, dir: &Path) -> Option<(usize, usize, usize)> {
    let store = crate::open(name, dir).await.ok()?;
    let metrics: Vec<MetricId> = (0..METRICS).map(crate::metric).collect();
    let (mut reported, mut silent, mut wrong) = (0, 0, 0);
    for (id, head) in store.read_heads(&metrics).await.into_iter().enumerate() {
        match head {
            Ok(Some(head)) if head == crate::value(1500, (id * 1000 + BLOCKS - 1 + 500) as u64) => {}
            Ok(Some(_)) => wrong += 1,
            Ok(None) => silent += 1,
            Err(_) => reported += 1,
        }
    }
    for id in 0..METRICS {
        let range = BlockRange {
            metric: crate::metric(id),
            granularity: Timespan::from_secs(60),
            from: Timestamp(0),
            to: Timestamp::MAX,
        };
        match store.read_blocks(&[range]).await.remove(0) {
            Ok(blocks) => reported += BLOCKS - blocks.whole.len(),
            Err(_) => reported += BLOCKS,
        }
    }
    Some((reported, silent + wrong, wrong))
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Flips a bit of a byte in use; files are weighted by their length.
fn flip(dir: &Path, state: &mut u64) {
    let mut files = Vec::new();
    list(dir, &mut files);
    let total: u64 = files.iter().map(|(_, length)| length).sum();
    loop {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let mut at = *state % total;
        for (path, length) in &files {
            if at < *length {
                let mut bytes = fs::read(path).unwrap();
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                if at as usize >= used {
                    break;
                }
                bytes[at as usize] ^= 1 << (*state >> 60 & 7);
                fs::write(path, bytes).unwrap();
                return;
            }
            at -= length;
        }
    }
}

fn list(dir: &Path, files: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), files);
        } else {
            files.push((entry.path(), entry.metadata().unwrap().len()));
        }
    }
}
