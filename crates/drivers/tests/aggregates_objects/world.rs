//! Two processes on one store of objects; one of them can be suspended at the worst moment.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{
        AggregateStore, Fence, StoreError,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
    },
    objects::{ObjectError, Objects, memory::MemoryObjects},
};
use tokio::{
    sync::{Mutex, Notify},
    task::JoinHandle,
};

use crate::{
    setup::{TestClock, named, open_with, options},
    support::aggregate_items::{blocks, head, key, metric, write},
};

/// One process's view of the objects; it can be suspended before it creates or removes a manifest, or after
/// it has created one. Requests to create one go on if their callers are gone.
#[derive(Clone)]
pub struct Sleepy {
    pub objects: MemoryObjects,
    pub creates: Arc<Mutex<()>>,
    pub created: Arc<Mutex<()>>,
    pub deletes: Arc<Mutex<()>>,
    pub asleep: Arc<Notify>,
}

impl Sleepy {
    pub fn new(objects: &MemoryObjects) -> Self {
        Self {
            objects: objects.clone(),
            creates: Arc::default(),
            created: Arc::default(),
            deletes: Arc::default(),
            asleep: Arc::default(),
        }
    }

    async fn pass(&self, gate: &Mutex<()>) {
        if gate.try_lock().is_err() {
            self.asleep.notify_one();
            drop(gate.lock().await);
        }
    }
}

#[async_trait]
impl Objects for Sleepy {
    fn place(&self) -> String {
        self.objects.place()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.objects.put(name, bytes).await
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.pass(&self.creates).await;
        let (objects, name) = (self.objects.clone(), name.to_owned());
        let created = tokio::spawn(async move { objects.create(&name, bytes).await });
        let answer = created.await.unwrap();
        self.pass(&self.created).await;
        answer
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        self.objects.get(name).await
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        self.objects.get_range(name, start, length).await
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        self.pass(&self.deletes).await;
        self.objects.delete(names).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        self.objects.list(prefix).await
    }
}

/// Metrics 2 and 4 lie in shard 0 of 2, and in sacks 2 and 0 of four.
pub struct World {
    pub objects: MemoryObjects,
    pub clock: TestClock,
    pub sleepy: Sleepy,
    pub sleeper: Arc<ObjectAggregates>,
    pub awake: Arc<ObjectAggregates>,
}

impl World {
    pub async fn new() -> Self {
        Self::with(options()).await
    }

    pub async fn with(options: ObjectAggregatesOptions) -> Self {
        Self::with_different(options.clone(), options).await
    }

    pub async fn with_different(own: ObjectAggregatesOptions, others: ObjectAggregatesOptions) -> Self {
        let (objects, clock) = (MemoryObjects::default(), TestClock::default());
        let sleepy = Sleepy::new(&objects);
        let sleeper = open_with(sleepy.clone(), &clock, own).await;
        let awake = open_with(objects.clone(), &clock, others).await;
        Self { objects, clock, sleepy, sleeper, awake }
    }

    /// A write that is asleep before or after it creates its version.
    pub async fn write_asleep(&self, own: Fence) -> JoinHandle<Result<(), StoreError>> {
        let sleeper = self.sleeper.clone();
        let late = tokio::spawn(async move { apply(&sleeper, own, 2, "late").await });
        self.sleepy.asleep.notified().await;
        late
    }

    /// The other process writes until everything that the suspended one knew is removed.
    pub async fn go_on(&self, fence: Fence) {
        for round in 0..150 {
            apply(&self.awake, fence, 4, &format!("round {round}")).await.unwrap();
            self.clock.advance(2000);
            self.awake.settle().await;
        }
    }

    /// What both processes read after [`World::go_on`]: the text as head and block of metric 2, and the other's head.
    pub async fn assert_read(&self, text: &str) {
        for store in [&self.sleeper, &self.awake] {
            assert_eq!(head(&**store, 2).await.unwrap().as_deref(), Some(text));
            assert_eq!(head(&**store, 4).await.unwrap().as_deref(), Some("round 149"));
            assert_eq!(blocks(&**store, 2).await, [text]);
        }
    }

    pub fn manifests(&self) -> Vec<String> {
        named(&self.objects, "shard/0/manifest/")
    }
}

pub async fn apply(store: &ObjectAggregates, fence: Fence, id: usize, text: &str) -> Result<(), StoreError> {
    store.write(fence, vec![write(id, text, &[(key(id, 0), text)])]).await.remove(0)
}

/// Applies a change, and waits until no merge or cleanup is running.
pub async fn apply_and_settle(store: &ObjectAggregates, fence: Fence, id: usize, text: &str) {
    apply(store, fence, id, text).await.unwrap();
    store.settle().await;
}

/// The head that a pass of the fence's holder begins with.
pub async fn own_head(store: &ObjectAggregates, own: Fence, id: usize) -> Option<String> {
    let head = store.read_own_heads(own, &[metric(id)]).await.remove(0).unwrap();
    head.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}
