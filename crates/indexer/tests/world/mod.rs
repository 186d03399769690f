//! Random resources in two indexes: the model in memory, and the one under test.

use std::collections::BTreeMap;

use fastrand::Rng;
use gnudi_indexer::{
    DatabaseOptions, MemoryIndexer, NewResource, NewRevision, ResourceChange, ResourceTypeChange,
    ResourceTypes, Resources, SqlIndexer,
};
use gnudi_model::{Attribute, AttributeKind, AttributeValue, ResourceType, Text, Timestamp};
use uuid::Uuid;

use crate::engines::Engine;

pub const TYPES: [&str; 3] = ["generic", "alpha", "beta"];
/// Attributes by name; some are added and deleted.
pub const ATTRIBUTES: [(&str, AttributeKind); 7] = [
    ("text", AttributeKind::String { min_length: 0, max_length: 256 }),
    ("other", AttributeKind::String { min_length: 0, max_length: 256 }),
    ("uuid", AttributeKind::Uuid),
    ("number", AttributeKind::Number { min: None, max: None }),
    ("flag", AttributeKind::Bool),
    ("date", AttributeKind::Datetime),
    // In one type a number, in the other a text.
    ("mixed", AttributeKind::Number { min: None, max: None }),
];
pub const TEXTS: [&str; 12] = ["", "a", "A", "ab", "abc", "b%", "a_", "\u{e9}", "a*", "x[", "\\", "1.0"];
pub const OWNERS: [&str; 5] = ["u1:p1", "u1:p2", "u2:p1", "admin", "u%:p_1"];
pub const NUMBERS: [f64; 11] = [
    f64::NEG_INFINITY,
    -1.5,
    -0.0,
    0.0,
    // SQLite reads this one and 1.7e203 with an error in the last bit.
    4.202_201_109_338_525_4e-129,
    1.0,
    2.5,
    1.711_488_800_458_074e203,
    1e300,
    f64::INFINITY,
    f64::NAN,
];
/// Seconds; all times of resources are among these, or a fraction later.
pub const SECONDS: std::ops::Range<u64> = 100..112;
const RESOURCES: u64 = 40;
const STEPS: usize = 140;

/// Reproducible random values.
pub struct Chance(Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(Rng::with_seed(seed))
    }

    /// A number from 0 to `end`, without `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn time(&mut self) -> Timestamp {
        let micros = self.pick(&[0, 0, 1, 500_000]);
        Timestamp(
            (SECONDS.start + self.below(SECONDS.end - SECONDS.start)) as i64 * 1_000_000_000 + micros * 1_000,
        )
    }

    fn text(&mut self) -> Option<String> {
        (!self.one_in(4)).then(|| self.pick(&TEXTS).to_owned())
    }

    fn value(&mut self, kind: AttributeKind) -> AttributeValue {
        if self.one_in(5) {
            return AttributeValue::Null;
        }
        match kind {
            AttributeKind::String { .. } => AttributeValue::String(self.pick(&TEXTS).into()),
            AttributeKind::Uuid => AttributeValue::Uuid(id(self.below(3))),
            AttributeKind::Number { .. } => AttributeValue::Number(self.pick(&NUMBERS)),
            AttributeKind::Bool => AttributeValue::Bool(self.one_in(2)),
            AttributeKind::Datetime => AttributeValue::Datetime(self.time()),
        }
    }
}

/// An id for each number, in another order than the numbers.
pub fn id(number: u64) -> Uuid {
    Uuid::from_u128(u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number))
}

fn kind_of(resource_type: &str, index: usize) -> AttributeKind {
    match ATTRIBUTES[index] {
        ("mixed", _) if resource_type == "beta" => ATTRIBUTES[0].1,
        (_, kind) => kind,
    }
}

/// The same random changes, applied to both indexes.
pub struct World {
    pub model: MemoryIndexer,
    pub index: SqlIndexer,
    chance: Chance,
    now: Timestamp,
}

impl World {
    pub async fn new(engine: &Engine, seed: u64) -> Self {
        let mut options = engine.fresh();
        // With 3, most comparisons match more rows, which are tested one by one. With 1000, all use an index.
        let rows_rare_max = [3, 1000][seed as usize % 2];
        match &mut options {
            DatabaseOptions::Sqlite(options) => options.rows_rare_max = rows_rare_max,
            DatabaseOptions::Server(options) => options.rows_rare_max = rows_rare_max,
        }
        let index = SqlIndexer::open(options).await.unwrap();
        let now = Timestamp::from_secs(SECONDS.start as i64);
        let mut world = World { model: MemoryIndexer::default(), index, chance: Chance::new(seed), now };
        for name in &TYPES[1..] {
            world.create_type(name).await;
        }
        for _ in 0..STEPS {
            world.step().await;
        }
        world
    }

    async fn create_type(&mut self, name: &str) {
        let mut attributes = BTreeMap::new();
        for (index, (attribute_name, ..)) in ATTRIBUTES.iter().enumerate() {
            if !self.chance.one_in(3) {
                let attribute = Attribute { kind: kind_of(name, index), required: false, fill: None };
                attributes.insert(Text::from(*attribute_name), attribute);
            }
        }
        let resource_type = ResourceType { name: name.into(), attributes };
        let expected = self.model.create_resource_type(resource_type.clone()).await;
        assert_eq!(self.index.create_resource_type(resource_type).await, expected);
    }

    async fn step(&mut self) {
        if self.chance.one_in(2) {
            self.now.0 += 500_000_000;
        }
        match self.chance.below(20) {
            0..8 => self.create().await,
            8..16 => self.update().await,
            16..18 => self.change_type().await,
            18 => self.delete().await,
            _ => {}
        }
    }

    async fn attributes(&mut self, name: &str) -> BTreeMap<Text, AttributeValue> {
        let resource_type = self.model.resource_type(name).await.unwrap().unwrap();
        let mut values = BTreeMap::new();
        for (name, attribute) in &resource_type.attributes {
            if !self.chance.one_in(3) {
                values.insert(name.clone(), self.chance.value(attribute.kind));
            }
        }
        values
    }

    async fn create(&mut self) {
        let name = self.chance.pick(&TYPES);
        let attributes = self.attributes(name).await;
        let chance = &mut self.chance;
        let started_at = chance.time();
        let id = id(chance.below(RESOURCES));
        let new = NewResource {
            id,
            resource_type: name.to_owned(),
            original_resource_id: if chance.one_in(2) {
                id.to_string()
            } else {
                chance.pick(&TEXTS).to_owned()
            },
            creator: chance.pick(&OWNERS).to_owned(),
            user_id: chance.text(),
            project_id: chance.text(),
            started_at,
            ended_at: chance.one_in(2).then(|| started_at.max(chance.time())),
            attributes,
            metrics: Vec::new(),
            now: self.now,
        };
        let expected = self.model.create_resources(vec![new.clone()]).await;
        let created = self.index.create_resources(vec![new]).await;
        assert_eq!(format!("{created:?}"), format!("{expected:?}"));
    }

    async fn update(&mut self) {
        let id = id(self.chance.below(RESOURCES));
        let Some(resource) = self.model.resource("generic", id).await.unwrap() else { return };
        let attributes = self.attributes(&resource.resource_type).await;
        let chance = &mut self.chance;
        let change = ResourceChange {
            user_id: chance.one_in(3).then(|| chance.text()),
            project_id: chance.one_in(3).then(|| chance.text()),
            started_at: None,
            ended_at: chance
                .one_in(4)
                .then(|| (!chance.one_in(3)).then(|| resource.started_at.max(chance.time()))),
            attributes: attributes.into_iter().filter(|_| chance.one_in(2)).collect(),
            revision: chance.pick(&[NewRevision::IfChanged, NewRevision::Never, NewRevision::Always]),
            now: self.now,
            ..ResourceChange::default()
        };
        let expected = self.model.update_resource(&resource.resource_type, id, change.clone()).await;
        let updated = self.index.update_resource(&resource.resource_type, id, change).await;
        assert_eq!(format!("{updated:?}"), format!("{expected:?}"));
    }

    async fn change_type(&mut self) {
        let name = self.chance.pick(&TYPES[1..]);
        let resource_type = self.model.resource_type(name).await.unwrap().unwrap();
        let index = self.chance.below(ATTRIBUTES.len() as u64) as usize;
        let attribute = Text::from(ATTRIBUTES[index].0);
        let kind = kind_of(name, index);
        let fill = Some(self.chance.value(kind)).filter(|_| !self.chance.one_in(3));
        let changed = vec![(attribute.clone(), Attribute { kind, required: false, fill })];
        let mut change = ResourceTypeChange::default();
        match (resource_type.attributes.contains_key(&attribute), self.chance.one_in(2)) {
            (false, _) => change.add = changed,
            (true, true) => change.update = changed,
            (true, false) => change.delete = vec![attribute],
        }
        let expected = self.model.update_resource_type(name, change.clone()).await;
        assert_eq!(self.index.update_resource_type(name, change).await, expected);
    }

    async fn delete(&mut self) {
        let ids = [id(self.chance.below(RESOURCES))];
        let expected = self.model.delete_resources(&ids).await;
        assert_eq!(self.index.delete_resources(&ids).await, expected);
    }
}
