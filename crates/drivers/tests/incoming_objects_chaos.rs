//! Several processes on one log of objects, randomised from a seed: appends, processing, failures of the
//! store, crashes, restarts, splits and trims. Every acknowledged append is applied exactly once, and in
//! order.
//!
//! `CHAOS_SEED=4711` runs a single seed.

mod support;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use gnudi_drivers::{
    incoming::{
        Append as _, Consume as _, IncomingError, Position, Record, Topology as _,
        objects::{ObjectIncoming, ObjectIncomingOptions},
    },
    objects::{
        ObjectError, Objects,
        memory::{Call, Fault, MemoryObjects},
    },
};
use gnudi_model::{MetricId, Sack, SackId};
use parking_lot::Mutex;
use support::{
    log_of_objects::{CLUSTER, batch, log_names, metric, open, strict, text},
    random::Random,
};
use tokio::task::JoinHandle;
use uuid::Uuid;

const METRICS: u128 = 12;
const PROCESSES: usize = 3;
const WRITERS: usize = 5;
const STEPS: usize = 120;

/// The aggregates: for each metric the applied records, and the last position. Ignores records already
/// applied, so that several workers may read the same sack.
#[derive(Default)]
struct Applied(Mutex<HashMap<MetricId, (Position, Vec<String>)>>);

impl Applied {
    fn apply(&self, records: &[Record]) {
        let mut metrics = self.0.lock();
        for of_batch in records.chunk_by(|left, right| left.position == right.position) {
            let mut touched: BTreeMap<MetricId, bool> = BTreeMap::new();
            for record in of_batch {
                let (applied, texts) = metrics.entry(record.metric).or_default();
                let is_new = *touched.entry(record.metric).or_insert(record.position > *applied);
                if is_new {
                    *applied = record.position;
                    texts.push(text(record).to_owned());
                }
            }
        }
    }
}

/// An append: its metrics, and its outcome, unknown after a crash.
#[derive(Debug)]
struct Appended {
    metrics: Vec<u128>,
    is_taken: bool,
}

/// A client that sends one request after the other, to any process.
#[derive(Default)]
struct Client {
    sent: Vec<Arc<Mutex<Appended>>>,
    task: Option<JoinHandle<()>>,
}

struct World {
    seed: u64,
    random: Random,
    /// Of all processes.
    options: ObjectIncomingOptions,
    objects: MemoryObjects,
    processes: Vec<Arc<ObjectIncoming>>,
    clients: Vec<Client>,
    applied: Arc<Applied>,
}

fn options(random: &mut Random) -> ObjectIncomingOptions {
    let mut options = ObjectIncomingOptions { object_bytes_max: 200, bodies_bytes_max: 1000, ..strict(2) };
    options.look_delay_min = Duration::from_millis(1);
    options.look_delay_max = Duration::from_millis(10);
    if random.one_in(2) {
        options.keep = Duration::from_millis(20);
        options.pending_age_max = Duration::from_millis(5);
    }
    options
}

impl World {
    async fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let objects = MemoryObjects::default();
        let mut processes = Vec::new();
        let options = options(&mut random);
        for _ in 0..PROCESSES {
            processes.push(open(&objects, options.clone()).await);
        }
        let clients = (0..WRITERS).map(|_| Client::default()).collect();
        Self { seed, random, options, objects, processes, clients, applied: Arc::default() }
    }

    fn process(&mut self) -> Arc<ObjectIncoming> {
        Arc::clone(&self.processes[self.random.below(PROCESSES)])
    }

    /// A client sends its next request, if its last one is answered.
    fn append(&mut self) {
        let process = self.process();
        let id = self.random.below(WRITERS);
        let metrics: Vec<u128> =
            (0..=self.random.below(3)).map(|_| self.random.below(METRICS as usize) as u128).collect();
        if self.clients[id].task.as_ref().is_none_or(JoinHandle::is_finished) {
            self.send(id, process, metrics);
        }
    }

    fn send(&mut self, id: usize, process: Arc<ObjectIncoming>, metrics: Vec<u128>) {
        let client = &mut self.clients[id];
        let text = format!("{id}.{}", client.sent.len());
        let appended = Arc::new(Mutex::new(Appended { metrics: metrics.clone(), is_taken: false }));
        client.sent.push(Arc::clone(&appended));
        client.task = Some(tokio::spawn(async move {
            let entries: Vec<(u128, &str)> = metrics.iter().map(|metric| (*metric, text.as_str())).collect();
            match process.append(batch(&entries)).await {
                Ok(()) => appended.lock().is_taken = true,
                Err(IncomingError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }));
    }

    /// Waits until all requests are answered.
    async fn answers(&mut self) {
        for client in &mut self.clients {
            if let Some(task) = client.task.take() {
                task.await.unwrap();
            }
        }
    }

    async fn work(&mut self) {
        let process = self.process();
        let (unit, bytes) = (self.random.below(64) as u16, self.random.below(300));
        let _ = work_off(&process, unit, bytes, &self.applied).await;
    }

    async fn trim(&mut self) {
        let process = self.process();
        let _ = trim(&process).await;
    }

    /// A process is killed in the middle of its work, and a new one starts.
    async fn crash(&mut self) {
        let at = self.random.below(PROCESSES);
        self.processes.remove(at);
        for client in &mut self.clients {
            if self.random.one_in(2)
                && let Some(task) = client.task.take()
            {
                task.abort();
                let _ = task.await;
            }
        }
        let process = loop {
            let objects = Arc::new(self.objects.clone());
            let life = Uuid::from_u128(u128::from(self.random.next()));
            let opened = ObjectIncoming::open(objects, None, CLUSTER, life, self.options.clone()).await;
            if let Ok(process) = opened {
                break process;
            }
        };
        self.processes.push(process);
    }

    fn fail(&mut self) {
        let calls = [Call::Create, Call::Create, Call::Get, Call::Put, Call::Delete, Call::List];
        let call = calls[self.random.below(calls.len())];
        let unavailable = ObjectError::Unavailable("by chance".to_owned());
        let fault = if self.random.one_in(2) { Fault::AnswerLost } else { Fault::Fails(unavailable) };
        self.objects.fail(call, "", self.random.below(5), fault);
    }

    async fn step(&mut self) {
        match self.random.below(40) {
            0..16 => self.append(),
            16..26 => self.work().await,
            26..29 => self.trim().await,
            29..32 => self.fail(),
            32 => self.crash().await,
            33 => {
                if self.processes[0].numbering().count.get() < 64 {
                    let _ = self.process().split().await;
                }
            }
            34..36 => {
                let _ = self.process().settle().await;
            }
            36 => self.objects.set_delay(Duration::from_micros(self.random.below(3) as u64 * 500)),
            37 => {
                self.objects.set_down(true);
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.objects.set_down(false);
            }
            _ => tokio::time::sleep(Duration::from_millis(self.random.below(4) as u64)).await,
        }
    }

    /// Repairs the store, processes everything, and compares applied with sent records.
    async fn finish(mut self) {
        self.objects.set_delay(Duration::ZERO);
        while !self.objects.is_healed() {
            let (objects, name) = (&self.objects, "incoming/log/cluster-of-marks");
            let _ = objects.put(name, Bytes::new()).await;
            let _ = objects.get(name).await;
            let _ = objects.create(name, Bytes::new()).await;
            let _ = objects.list(name).await;
            let _ = objects.delete(&[name.to_owned()]).await;
        }
        self.answers().await;
        // Cancelled requests may still be queued in a process: flush them with a later one.
        for (id, process) in self.processes.clone().into_iter().enumerate() {
            self.send(id, process, vec![0]);
        }
        self.answers().await;
        let last = open(&self.objects, self.options.clone()).await;
        for round in 0.. {
            assert!(round < 100, "seed {}: {:?} stays", self.seed, last.backlog().await);
            for unit in last.numbering().units().iter() {
                work_off(&last, unit.0, usize::MAX, &self.applied).await.unwrap();
            }
            last.settle().await.unwrap();
            if last.backlog().await.unwrap().measures == 0 && !last.numbering().draining {
                break;
            }
        }
        self.compare();
        trim(&last).await.unwrap();
        for process in &self.processes {
            assert_eq!(process.backlog().await.unwrap().measures, 0, "seed {}", self.seed);
            assert_eq!(process.numbering(), last.numbering(), "seed {}", self.seed);
        }
        // Recently read objects are kept for a moment.
        let left = || log_names(&self.objects);
        for round in 0.. {
            assert!(round < 400, "seed {}: {:?} stay", self.seed, left());
            tokio::time::sleep(Duration::from_millis(25)).await;
            trim(&last).await.unwrap();
            // Objects created late below the mark are removed when a process starts, otherwise once an hour.
            if round % 50 == 49 {
                let new = open(&self.objects, self.options.clone()).await;
                trim(&new).await.unwrap();
            }
            if left().len() <= 1 {
                break;
            }
        }
    }

    fn compare(&self) {
        let applied = self.applied.0.lock();
        for id in 0..METRICS {
            let texts = applied.get(&metric(id)).map(|(_, texts)| texts.as_slice()).unwrap_or_default();
            for (client, Client { sent, .. }) in self.clients.iter().enumerate() {
                let own = texts.iter().filter_map(|text| {
                    let (owner, number) = text.split_once('.').unwrap();
                    (owner.parse() == Ok(client)).then(|| number.parse::<usize>().unwrap())
                });
                let (mut wanted, mut found): (Vec<usize>, Vec<usize>) = (Vec::new(), own.collect());
                for (number, appended) in sent.iter().enumerate() {
                    let appended = appended.lock();
                    let times = appended.metrics.iter().filter(|metric| **metric == id).count();
                    if appended.is_taken {
                        wanted.extend(std::iter::repeat_n(number, times));
                        continue;
                    }
                    // A request without an answer may or may not exist, and its client sent the next one at
                    // once.
                    let there = found.iter().filter(|found| **found == number).count();
                    assert!(there == 0 || there == times, "seed {}: {there} instead of {times}", self.seed);
                    found.retain(|found| *found != number);
                }
                assert_eq!(
                    found, wanted,
                    "seed {}: metric {id}, client {client}: lost, twice, or out of order",
                    self.seed
                );
            }
        }
    }
}

/// Processes a unit, its old sack before the new ones.
async fn work_off(
    process: &ObjectIncoming,
    unit: u16,
    bytes: usize,
    applied: &Applied,
) -> Result<(), IncomingError> {
    let numbering = process.numbering();
    for sack in numbering.sacks_of_unit(SackId(unit % numbering.units().get())) {
        let mut after = Position(0);
        loop {
            let pending = process.pending(sack, after, bytes).await?;
            let Some(last) = pending.records.last() else { break };
            assert!(pending.records.iter().all(|record| sack.contains(record.metric)));
            assert!(pending.records.is_sorted_by_key(|record| record.position));
            applied.apply(&pending.records);
            after = last.position;
            process.acknowledge(sack, after).await?;
        }
    }
    Ok(())
}

async fn trim(process: &ObjectIncoming) -> Result<(), IncomingError> {
    let numbering = process.numbering();
    let sacks: Vec<Sack> = numbering.units().iter().flat_map(|unit| numbering.sacks_of_unit(unit)).collect();
    let positions = process.positions(&sacks).await?;
    let known = sacks.into_iter().zip(positions.iter().map(|positions| positions.acknowledged));
    process.trim(&known.collect::<Vec<_>>()).await
}

#[test]
fn nothing_is_lost_or_doubled_whatever_happens() {
    let one = std::env::var("CHAOS_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = one.map_or(1..61, |seed: u64| seed..seed + 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let running: Vec<_> = seeds
            .map(|seed| {
                tokio::spawn(async move {
                    let mut world = World::new(seed).await;
                    for _ in 0..STEPS {
                        world.step().await;
                    }
                    let finish = tokio::time::timeout(Duration::from_mins(1), world.finish());
                    finish.await.unwrap_or_else(|_| panic!("seed {seed} does not come to its end"));
                })
            })
            .collect();
        for world in running {
            world.await.unwrap();
        }
    });
}
