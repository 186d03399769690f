//! Damaged objects: reported and quarantined, never replaced by older versions, and their neighbours stay.

use std::sync::Arc;

use bytes::Bytes;
use gnudi_drivers::{
    aggregates::{
        AggregateStore, BlockRange, Fence, StoreError,
        objects::{ObjectAggregates, ObjectAggregatesOptions},
    },
    objects::{Objects, memory::MemoryObjects},
};
use gnudi_model::Timestamp;

use crate::{
    setup::{TestClock, named, open_with, options},
    support::aggregate_items::{all_blocks, blocks, damaged_blocks, head, key, write},
};

const IDS: [usize; 3] = [2, 4, 6];
/// A table's byte so far from its end is one of its footer.
const IN_FOOTER: usize = 20;

struct World {
    objects: MemoryObjects,
    clock: TestClock,
    store: Arc<ObjectAggregates>,
    tables: Tables,
}

/// Where the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    InObjects,
    /// But for large ones.
    InManifests,
}

impl World {
    async fn new() -> Self {
        Self::with(Tables::InObjects).await
    }

    /// Each metric has an old and a new head with a block each, in two runs.
    async fn with(tables: Tables) -> Self {
        let (objects, clock) = (MemoryObjects::default(), TestClock::default());
        let store = open(&objects, &clock, tables).await;
        let world = Self { objects, clock, store, tables };
        // So large that it is split into a table per metric.
        world.pass("old", 0, &["x".repeat(6000).as_str()]).await;
        world.pass("new", 60, &[]).await;
        let (table, _) = world.find("new 4");
        assert_eq!(table.contains("/manifest/"), tables == Tables::InManifests);
        world
    }

    async fn pass(&self, text: &str, first: i64, more: &[&str]) {
        let blocks = |id: usize| {
            let more = more.iter().enumerate().map(move |(at, text)| (key(id, 600 * (at as i64 + 1)), *text));
            more.chain([(key(id, first), text)]).collect::<Vec<_>>()
        };
        let writes = IDS.iter().map(|id| write(*id, &format!("{text} {id}"), &blocks(*id))).collect();
        assert!(self.store.write(Fence::EVERYTHING, writes).await.iter().all(Result::is_ok));
        self.store.settle().await;
    }

    async fn reopened(&self) -> Arc<ObjectAggregates> {
        open(&self.objects, &self.clock, self.tables).await
    }

    /// The only object that contains the text, and its offset.
    fn find(&self, text: &str) -> (String, usize) {
        let contents = self.objects.contents();
        let found = contents.into_iter().find_map(|(name, bytes)| {
            let at = bytes.windows(text.len()).position(|window| window == text.as_bytes())?;
            (!name.contains("quarantine")).then_some((name, at))
        });
        found.unwrap_or_else(|| panic!("no {text}"))
    }

    async fn bytes(&self, name: &str) -> Bytes {
        self.objects.get(name).await.unwrap().unwrap()
    }

    /// The table of metric 4 with a pass's head, and the offset of the pass's block in it, which follows.
    async fn find_block(&self, pass: &str) -> (String, usize) {
        let (table, head) = self.find(&format!("{pass} 4"));
        let behind = self.bytes(&table).await.slice(head + 1..);
        let at = behind.windows(pass.len()).position(|window| window == pass.as_bytes()).unwrap();
        (table, head + 1 + at)
    }

    async fn flip(&self, name: &str, at: usize) {
        let mut bytes = self.bytes(name).await.to_vec();
        bytes[at] ^= 16;
        self.objects.put(name, bytes.into()).await.unwrap();
    }

    async fn flip_footer(&self, table: &str) {
        self.flip(table, self.bytes(table).await.len() - IN_FOOTER).await;
    }

    /// Sets the format version in a table's header to 2.
    async fn make_newer(&self, table: &str) {
        let mut bytes = self.bytes(table).await.to_vec();
        bytes[8] = 2;
        let checksum = crc_fast::crc32_iscsi(&bytes[..12]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        self.objects.put(table, bytes.into()).await.unwrap();
    }

    async fn heads(&self, store: &ObjectAggregates) -> Vec<Option<String>> {
        let mut heads = Vec::new();
        for id in IDS {
            heads.push(match head(store, id).await {
                Ok(head) => Some(head.expect("it was written")),
                Err(StoreError::Damaged(_)) => None,
                Err(error) => panic!("{error}"),
            });
        }
        heads
    }

    async fn quarantined(&self) -> usize {
        // Copies are made in the background.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        named(&self.objects, "quarantine").len()
    }
}

/// Number of places from this second on where blocks of metric 4 may be lost.
async fn damaged_from(store: &ObjectAggregates, from_s: i64) -> usize {
    let range = BlockRange { from: Timestamp::from_secs(from_s), ..all_blocks(4) };
    store.read_blocks(&[range]).await.remove(0).unwrap().damaged.len()
}

/// With room for two new runs that are not merged.
async fn open(objects: &MemoryObjects, clock: &TestClock, tables: Tables) -> Arc<ObjectAggregates> {
    let in_manifest_bytes_max = if tables == Tables::InManifests { 2000 } else { 0 };
    let options = ObjectAggregatesOptions { merged_runs_min: 3, in_manifest_bytes_max, ..options() };
    open_with(objects.clone(), clock, options).await
}

fn texts(texts: [&str; 3]) -> Vec<Option<String>> {
    texts.map(|text| (!text.is_empty()).then(|| text.to_owned())).to_vec()
}

#[tokio::test]
async fn a_damaged_head_is_not_replaced_by_an_older_one() {
    damaged_head(World::new().await).await;
    damaged_head(World::with(Tables::InManifests).await).await;
}

async fn damaged_head(world: World) {
    let (table, at) = world.find("new 4");
    world.flip(&table, at).await;
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["new 2", "", "new 6"]));
    assert_eq!(world.heads(&store).await, texts(["new 2", "", "new 6"]));
    assert_eq!((store.figures().damaged, world.quarantined().await), (1, 1));
    assert_eq!(blocks(&*store, 4).await.len(), 3);
    // Nor after a merge.
    for round in 0..6 {
        let writes = vec![write(8, &format!("{round}"), &[(key(8, 60 * round), "x".repeat(3000).as_str())])];
        assert!(store.write(Fence::EVERYTHING, writes).await[0].is_ok());
        store.settle().await;
    }
    assert!(store.figures().merges > 0);
    assert!(world.objects.get(&table).await.unwrap().is_some(), "it stays for those who read it");
    assert_eq!(world.heads(&*world.reopened().await).await, texts(["new 2", "", "new 6"]));
    // A new head repairs the metric.
    assert!(store.write(Fence::EVERYTHING, vec![write(4, "healed", &[])]).await[0].is_ok());
    assert_eq!(world.heads(&store).await, texts(["new 2", "healed", "new 6"]));
}

#[tokio::test]
async fn a_damaged_block_is_told() {
    damaged_block(World::new().await).await;
    damaged_block(World::with(Tables::InManifests).await).await;
}

async fn damaged_block(world: World) {
    let (table, at) = world.find_block("old").await;
    world.flip(&table, at).await;
    let store = world.reopened().await;
    let left: Vec<usize> = [blocks(&*store, 2).await, blocks(&*store, 4).await, blocks(&*store, 6).await]
        .map(|blocks| blocks.len())
        .to_vec();
    assert_eq!(left, [3, 2, 3]);
    assert_eq!(damaged_blocks(&*store, 4).await, 1);
    assert_eq!(damaged_blocks(&*store, 2).await + damaged_blocks(&*store, 6).await, 0);
    assert_eq!(world.heads(&store).await, texts(["new 2", "new 4", "new 6"]));
    assert_eq!((store.figures().damaged, world.quarantined().await), (1, 1));
}

/// Any byte of a table: at most one item is lost, and none is replaced by an older one.
#[tokio::test]
async fn any_flipped_byte_costs_one_item_at_most() {
    flipped_bytes(World::new().await).await;
    flipped_bytes(World::with(Tables::InManifests).await).await;
}

async fn flipped_bytes(world: World) {
    let (table, _) = world.find("new 4");
    let length = world.bytes(&table).await.len();
    let (mut unhurt, mut hurt) = (0, 0);
    for at in (0..length).step_by(7) {
        world.flip(&table, at).await;
        let store = world.reopened().await;
        let heads = world.heads(&store).await;
        let known = heads.iter().flatten().filter(|text| text.starts_with("new")).count();
        assert_eq!(known, heads.iter().flatten().count(), "byte {at}: an old head is served");
        let (mut missing, mut told) = (0, 0);
        for id in IDS {
            let (left, damaged) = (blocks(&*store, id).await.len(), damaged_blocks(&*store, id).await);
            assert!(damaged >= 3 - left, "byte {at}");
            missing += 3 - left;
            told += damaged;
        }
        assert!(3 - known + missing <= 1, "byte {at}");
        // An entry without a key may have been a block of either neighbour.
        assert!(told <= missing + 2, "byte {at}");
        if 3 - known + missing == 0 {
            unhurt += 1;
        } else {
            hurt += 1;
        }
        world.flip(&table, at).await;
    }
    assert!(unhurt > 0 && hurt > 0, "the index hurts nothing, entries do");
}

/// Index and head damaged: not even the head's key is known, but no older head is returned.
#[tokio::test]
async fn what_is_not_known_is_not_served() {
    let world = World::new().await;
    let (table, at) = world.find("new 4");
    world.flip_footer(&table).await;
    // The entry's header.
    world.flip(&table, at - 20).await;
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["new 2", "", "new 6"]));
    // A later block of 2 may have been there.
    assert_eq!((blocks(&*store, 2).await.len(), damaged_blocks(&*store, 2).await), (3, 1));
    world.objects.delete(&[table]).await.unwrap();
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["", "", ""]));
    assert_eq!(blocks(&*store, 2).await.len(), 2, "what the old one has");
    assert_eq!(damaged_blocks(&*store, 2).await, 1, "what the new one had is not known");
}

/// The same for a block: its neighbours' keys bound its place.
#[tokio::test]
async fn a_block_that_is_not_known_is_told() {
    let world = World::new().await;
    let (table, at) = world.find_block("new").await;
    world.flip_footer(&table).await;
    world.flip(&table, at - 20).await;
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["new 2", "new 4", "new 6"]));
    for (id, left, damaged) in [(2, 3, 0), (4, 2, 1), (6, 3, 0)] {
        assert_eq!(damaged_blocks(&*store, id).await, damaged, "metric {id}");
        assert_eq!(blocks(&*store, id).await.len(), left, "metric {id}");
    }
    assert_eq!(damaged_from(&store, 600).await, 1, "it may have been later");
    // A later block bounds the gap.
    assert!(
        store.write(Fence::EVERYTHING, vec![write(4, "more", &[(key(4, 900), "more")])]).await[0].is_ok()
    );
    assert_eq!((damaged_from(&store, 900).await, damaged_from(&store, 899).await), (0, 1));
}

/// A lost table blocks neither merges nor writers.
#[tokio::test]
async fn merges_go_on_without_a_lost_table() {
    let world = World::new().await;
    let (table, _) = world.find("new 4");
    world.objects.delete(&[table]).await.unwrap();
    let store = world.reopened().await;
    for round in 0..30 {
        let writes = vec![write(8, &format!("{round}"), &[(key(8, 60 * round), "x".repeat(500).as_str())])];
        let written = store.write(Fence::EVERYTHING, writes).await.remove(0);
        assert!(written.is_ok(), "round {round}: {written:?}");
        store.settle().await;
    }
    assert!(store.figures().merges > 0, "{:?}", store.figures());
    assert_eq!(world.heads(&store).await, texts(["", "", ""]));
    assert_eq!(
        (head(&*store, 8).await.unwrap(), blocks(&*store, 8).await.len()),
        (Some("29".to_owned()), 30)
    );
}

#[tokio::test]
async fn a_damaged_manifest_has_a_second_copy() {
    damaged_manifest(World::new().await).await;
    damaged_manifest(World::with(Tables::InManifests).await).await;
}

async fn damaged_manifest(world: World) {
    let newest = named(&world.objects, "shard/0/manifest").pop().unwrap();
    let bytes = world.bytes(&newest).await;
    let copies: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"{\"version\"")).collect();
    assert_eq!((copies.len(), copies[0] > 0), (2, world.tables == Tables::InManifests));
    world.flip(&newest, copies[0] + 3).await;
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["new 2", "new 4", "new 6"]));
    assert_eq!((store.figures().damaged, world.quarantined().await), (1, 1));
    // Both copies: the valid tables are unknown, so nothing is read or written.
    world.flip(&newest, copies[1] + 3).await;
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["", "", ""]));
    let refused = store.write(Fence::EVERYTHING, vec![write(2, "more", &[])]).await.remove(0);
    assert!(matches!(refused, Err(StoreError::Damaged(_))), "{refused:?}");
    // Other shards are not affected.
    assert!(store.write(Fence::EVERYTHING, vec![write(3, "odd", &[])]).await[0].is_ok());
    // As the error message says.
    world.objects.delete(&[newest]).await.unwrap();
    let store = world.reopened().await;
    assert_eq!(world.heads(&store).await, texts(["old 2", "old 4", "old 6"]));
    assert!(store.write(Fence::EVERYTHING, vec![write(2, "more", &[])]).await[0].is_ok());
    assert_eq!(blocks(&*store, 2).await.len(), 2);
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    use gnudi_drivers::OpenError;

    let world = World::new().await;
    let newer = Bytes::from_static(b"{\"version\": 7}");
    world.objects.put("aggregates/format", newer).await.unwrap();
    let objects = Arc::new(world.objects.clone());
    let refused = ObjectAggregates::open(objects, crate::setup::CLUSTER, crate::setup::options()).await;
    assert!(matches!(refused.err().unwrap(), OpenError::TooNew { found: 7, known: 6, .. }));
    for rubbish in ["", "7", "{}", "\u{7}", r#"{"version": "7"}"#, r#"{"version": 4294967301}"#] {
        world.objects.put("aggregates/format", Bytes::from(rubbish)).await.unwrap();
        let objects = Arc::new(world.objects.clone());
        let refused = ObjectAggregates::open(objects, crate::setup::CLUSTER, crate::setup::options()).await;
        let error = refused.err().unwrap();
        assert!(matches!(error, OpenError::Invalid { .. }), "{rubbish}: {error}");
        assert!(!error.to_string().contains("development"), "{rubbish}: {error}");
    }
}

/// Format versions 3 and 4 have no tables in manifests.
#[tokio::test]
async fn a_store_of_an_older_version_is_read_and_is_one_of_this_version_from_then_on() {
    let world = World::new().await;
    let format = || async { world.objects.get("aggregates/format").await.unwrap().unwrap() };
    let now = String::from_utf8(format().await.to_vec()).unwrap();
    let older = now.replace("\"version\":5", "\"version\":3");
    assert_ne!(older, now);
    world.objects.put("aggregates/format", older.into()).await.unwrap();
    assert_eq!(world.heads(&*world.reopened().await).await, texts(["new 2", "new 4", "new 6"]));
    assert_eq!(format().await, now);
}

/// What follows the header of a table of a newer program may have another form.
#[tokio::test]
async fn a_table_of_a_newer_format_is_refused_and_not_damaged() {
    let world = World::new().await;
    let (table, _) = world.find("new 4");
    world.flip_footer(&table).await;
    world.make_newer(&table).await;
    assert_is_newer(&*world.reopened().await).await;

    // Of large tables only the index is read at first.
    let (objects, clock) = (MemoryObjects::default(), TestClock::default());
    let options = ObjectAggregatesOptions { table_bytes_max: 32 << 20, ..options() };
    let store = open_with(objects.clone(), &clock, options).await;
    let text = "x".repeat(1 << 20);
    let blocks: Vec<_> = (0..5).map(|at| (key(4, 60 * at), text.as_str())).collect();
    assert!(store.write(Fence::EVERYTHING, vec![write(4, "new 4", &blocks)]).await[0].is_ok());
    let world = World { objects, clock, store, tables: Tables::InObjects };
    let (table, _) = world.find("new 4");
    assert!(world.bytes(&table).await.len() > 4 << 20);
    world.make_newer(&table).await;
    assert_is_newer(&*world.reopened().await).await;
}

async fn assert_is_newer(store: &ObjectAggregates) {
    let refused = head(store, 4).await.unwrap_err();
    assert!(refused.to_string().contains("format version 2"), "{refused}");
    assert_eq!(store.figures().damaged, 0);
}
