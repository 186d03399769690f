//! Random passes of two processes that take sacks from each other, with failures, merges, reopening and
//! passing time: the contents always equal the in-memory model's.

use std::sync::Arc;

use gnudi_drivers::{
    aggregates::{
        AggregateStore, Fence, MetricWrite, StoreError, memory::MemoryAggregates, objects::ObjectAggregates,
    },
    objects::{
        ObjectError,
        memory::{Call, Fault, MemoryObjects},
    },
};
use gnudi_model::MetricId;
use proptest::prelude::*;

use crate::{
    setup::{SHARDS, TestClock, fence, named, open_at},
    support::{
        aggregate_items::{everything, key, metric, random_write},
        random::Random,
        wait::block_on,
    },
};

const METRICS: usize = 6;

struct World {
    random: Random,
    objects: MemoryObjects,
    clock: TestClock,
    processes: Vec<Arc<ObjectAggregates>>,
    model: MemoryAggregates,
    /// Per sack: the process that raised the last fence, and each process's last token.
    owner: [usize; SHARDS as usize],
    tokens: [[u64; 2]; SHARDS as usize],
    last_token: u64,
}

impl World {
    async fn new(seed: u64) -> Self {
        let (objects, clock) = (MemoryObjects::default(), TestClock::default());
        let processes = vec![open_at(objects.clone(), &clock).await, open_at(objects.clone(), &clock).await];
        let random = Random::new(seed);
        let model = MemoryAggregates::default();
        Self { random, objects, clock, processes, model, owner: [0; 2], tokens: [[0; 2]; 2], last_token: 0 }
    }

    async fn step(&mut self) {
        let process = self.random.below(2);
        let sack = self.random.below(SHARDS.into());
        if self.random.one_in(4) {
            self.plan_failure();
        }
        match self.random.below(20) {
            0 | 1 => self.take_over(process, sack).await,
            2 => self.processes[process] = self.reopen().await,
            3 => self.clock.advance([100, 4000, 6000, 70_000, 4_000_000][self.random.below(5)]),
            4 | 5 => self.read(process).await,
            _ => self.change(process, sack).await,
        }
    }

    fn plan_failure(&mut self) {
        let calls =
            [Call::Put, Call::Create, Call::Create, Call::Get, Call::GetRange, Call::Delete, Call::List];
        let call = calls[self.random.below(calls.len())];
        let fails = Fault::Fails(ObjectError::Unavailable("planned".to_owned()));
        // A read has no response to lose.
        let fault = if self.random.one_in(2) { fails } else { Fault::AnswerLost };
        let after = self.random.below(3);
        self.objects.fail(call, "shard", after, fault);
    }

    async fn reopen(&self) -> Arc<ObjectAggregates> {
        open_at(self.objects.clone(), &self.clock).await
    }

    async fn take_over(&mut self, process: usize, sack: usize) {
        self.last_token += 1;
        let fence = fence(SHARDS, sack as u16, self.last_token);
        while let Err(error) = self.processes[process].raise(fence).await {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        }
        self.owner[sack] = process;
        self.tokens[sack][process] = self.last_token;
    }

    /// A pass over a sack, by its owner or a former owner.
    async fn change(&mut self, process: usize, sack: usize) {
        let fence = fence(SHARDS, sack as u16, self.tokens[sack][process]);
        let metrics: Vec<usize> = (0..METRICS).filter(|id| id % usize::from(SHARDS) == sack).collect();
        if self.owner[sack] == process {
            self.check_own_heads(process, fence, &metrics).await;
        }
        let some = |random: &mut Random| -> Vec<usize> {
            (0..=random.below(3)).map(|_| metrics[random.below(metrics.len())]).collect()
        };
        let change = if self.random.one_in(8) {
            Pass::Delete(some(&mut self.random).into_iter().map(metric).collect())
        } else {
            let ids = some(&mut self.random);
            Pass::Write(ids.into_iter().map(|id| random_write(&mut self.random, id, 300, 500)).collect())
        };
        let answers = change.apply(&*self.processes[process], fence).await;
        let mut unknown = false;
        for answer in &answers {
            match answer {
                Ok(()) => {
                    assert!(fence.token == self.tokens[sack][self.owner[sack]], "a former owner has written");
                }
                Err(StoreError::Fenced { .. }) => assert_ne!(self.owner[sack], process),
                Err(StoreError::Unavailable(_)) => unknown = true,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(answers.iter().all(|answer| answer.is_ok() == answers[0].is_ok()), "half a pass");
        if answers[0].is_ok() {
            change.apply(&self.model, Fence::EVERYTHING).await;
        } else if unknown {
            // Its outcome is unknown; the first read decides it, for all.
            let ids: Vec<MetricId> = metrics.iter().copied().map(metric).collect();
            let own = self.processes[process].read_own_heads(fence, &ids).await;
            let there = self.insist(process, &metrics).await;
            if self.owner[sack] == process {
                for (own, there) in own.into_iter().zip(&there.0) {
                    assert!(own.is_err() || own.is_ok_and(|own| own == *there), "undecided");
                }
            }
            if there != everything(&self.model, &metrics).await.unwrap() {
                change.apply(&self.model, Fence::EVERYTHING).await;
                assert_eq!(there, everything(&self.model, &metrics).await.unwrap());
            }
        }
    }

    /// What a pass of the owner begins with.
    async fn check_own_heads(&self, process: usize, fence: Fence, ids: &[usize]) {
        let metrics: Vec<MetricId> = ids.iter().copied().map(metric).collect();
        let heads = self.processes[process].read_own_heads(fence, &metrics).await;
        for (head, wanted) in heads.into_iter().zip(self.model.read_heads(&metrics).await) {
            match head {
                Ok(head) => assert_eq!(head, wanted.unwrap()),
                Err(StoreError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads until nothing fails.
    async fn insist(&self, process: usize, ids: &[usize]) -> crate::support::aggregate_items::Everything {
        loop {
            match everything(&*self.processes[process], ids).await {
                Ok(everything) => return everything,
                Err(StoreError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn read(&self, process: usize) {
        let ids: Vec<usize> = (0..METRICS).collect();
        assert_eq!(self.insist(process, &ids).await, everything(&self.model, &ids).await.unwrap());
    }
}

enum Pass {
    Write(Vec<MetricWrite>),
    Delete(Vec<MetricId>),
}

impl Pass {
    async fn apply(&self, store: &dyn AggregateStore, fence: Fence) -> Vec<Result<(), StoreError>> {
        match self {
            Pass::Write(writes) => store.write(fence, writes.clone()).await,
            Pass::Delete(metrics) => store.delete(fence, metrics).await,
        }
    }
}

async fn same_answers(seed: u64) {
    let mut world = World::new(seed).await;
    for _ in 0..world.random.below(150) {
        world.step().await;
    }
    for process in 0..2 {
        world.read(process).await;
        world.processes[process].settle().await;
        assert_eq!(world.processes[process].figures().damaged, 0, "seed {seed}");
    }
    let reopened = world.reopen().await;
    world.processes.push(reopened);
    world.read(2).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn two_processes_answer_as_the_model(seed in any::<u64>()) {
        block_on(same_answers(seed));
    }
}

/// After many passes few superseded objects are left.
#[tokio::test]
async fn what_is_superseded_goes() {
    let mut world = World::new(5).await;
    for _ in 0..600 {
        let (process, sack) = (world.random.below(2), world.random.below(SHARDS.into()));
        world.take_over(process, sack).await;
        world.change(process, sack).await;
        world.clock.advance(3000);
        world.processes[process].settle().await;
    }
    let [segments, manifests] = ["/table/", "/manifest/"].map(|part| named(&world.objects, part).len());
    // A minute, from when a process has learned of it.
    let kept_s = 90;
    assert!(segments < usize::from(SHARDS) * 4 * 4 + 3 * (kept_s / 3), "{segments} segments");
    // Two eras of 32 versions, and those within the retention time, in each shard.
    assert!(manifests < usize::from(SHARDS) * (4 * 32 + 2 * 3 * kept_s / 3), "{manifests} manifests");
    for process in 0..2 {
        world.read(process).await;
    }
}

/// A metric may exceed a segment's size: merges split it, even if it is deleted in between.
#[tokio::test]
async fn a_large_metric_is_divided() {
    let objects = MemoryObjects::default();
    let store = crate::setup::open(&objects, crate::setup::options()).await;
    let text = "x".repeat(500);
    let mut random = Random::new(3);
    let model = MemoryAggregates::default();
    for round in 0..40 {
        let mut large = random_write(&mut random, 2, 300, 500);
        large.blocks = (0..8).map(|at| (key(2, 60 * (round * 3 + at)), text.clone().into())).collect();
        let change = match round {
            25 => Pass::Delete(vec![metric(2)]),
            _ => Pass::Write(vec![large, random_write(&mut random, 4, 300, 500)]),
        };
        for store in [&*store as &dyn AggregateStore, &model] {
            assert!(change.apply(store, Fence::EVERYTHING).await.iter().all(Result::is_ok));
        }
        store.settle().await;
        let wanted = everything(&model, &[2, 4]).await.unwrap();
        assert!(everything(&*store, &[2, 4]).await.unwrap() == wanted, "after round {round}");
    }
    assert!(store.figures().merges > 3);
    let contents = objects.contents();
    let sizes = contents.iter().filter(|(name, _)| name.contains("/table/")).map(|(_, bytes)| bytes.len());
    let largest = sizes.max().unwrap();
    assert!(largest < 3000 + 1500, "{largest} bytes in a segment");
}
