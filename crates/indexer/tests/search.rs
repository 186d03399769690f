//! Searches in the SQL index are compared with the model in memory: random resources of changing types, their
//! histories, random filters, orders and pages.
//!
//! `PROPTEST_CASES` is the number of filters tried.

mod engines;
mod world;

use std::sync::Arc;

use engines::{Engine, EngineKind};
use gnudi_indexer::{
    Comparison, Filter, FilterValue, Indexer, IndexerError, ResourceListing, ResourceMarker, ResourcePage,
    ResourceSort, ResourceTypes, Resources, SortDirection,
};
use gnudi_model::{Resource, Text, Timestamp};
use world::{Chance, NUMBERS, OWNERS, SECONDS, TEXTS, TYPES, World, id};

const FILTERS_BY_DEFAULT: u64 = 400;
const FILTERS_ON_SERVERS: u64 = 150;
const FILTERS_PER_WORLD: u64 = 50;
/// The base of relative times in filters.
const NOW: Timestamp = Timestamp::from_secs(110);

const COLUMNS: [&str; 14] = [
    "id",
    "type",
    "creator",
    "user_id",
    "project_id",
    "original_resource_id",
    "started_at",
    "ended_at",
    "revision_start",
    "revision_end",
    "revision",
    "lifespan",
    "created_by_user_id",
    "created_by_project_id",
];
const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn text(text: &str) -> FilterValue {
    FilterValue::Text(text.to_owned())
}

/// The fields of a listing.
#[derive(Clone)]
struct Scope {
    /// Of the type, and some that it lacks.
    attributes: Vec<Text>,
    columns: Vec<&'static str>,
}

impl Scope {
    async fn new(world: &World, resource_type: &str, history: bool) -> Self {
        let found = world.model.resource_type(resource_type).await.unwrap().unwrap();
        let is_there =
            |column: &&str| history || !column.starts_with("revision") || *column == "revision_start";
        Scope {
            attributes: found.attributes.keys().cloned().collect(),
            columns: COLUMNS.into_iter().filter(is_there).collect(),
        }
    }

    fn field(&self, chance: &mut Chance) -> String {
        match chance.below(80) {
            0 => chance.pick(&["none", "text", "number", "revision", "metrics"]).to_owned(),
            1..50 if !self.attributes.is_empty() => chance.pick(&self.attributes).to_string(),
            _ => chance.pick(&self.columns).to_owned(),
        }
    }
}

/// Mostly valid values of the field.
fn value(chance: &mut Chance, field: &str) -> FilterValue {
    let field = if chance.one_in(60) { chance.pick(&COLUMNS) } else { field };
    if chance.one_in(12) && field != "lifespan" {
        return FilterValue::Null;
    }
    match field {
        "id" | "uuid" => FilterValue::Uuid(id(chance.below(if field == "id" { 40 } else { 3 }))),
        "type" => text(chance.pick(&TYPES)),
        "creator" => text(chance.pick(&OWNERS)),
        "created_by_user_id" => text(chance.pick(&["u1", "u2", "u%", "u_", "admin"])),
        "created_by_project_id" => text(chance.pick(&["p1", "p2", "p_1", "p\\_1", "%", ""])),
        "started_at" | "ended_at" | "revision_start" | "revision_end" | "date" => {
            let seconds = SECONDS.start + chance.below(SECONDS.end - SECONDS.start);
            match chance.below(4) {
                0 => text(&format!("1970-01-01T00:01:{:02}.5", seconds % 60)),
                1 => text(&format!("-{} seconds", chance.below(10))),
                2 => FilterValue::Float(seconds as f64 + 0.000_001),
                _ => FilterValue::Int(seconds as i64),
            }
        }
        "original_resource_id" if chance.one_in(2) => text(&part_of_id(chance)),
        "revision" => FilterValue::Int(chance.below(30) as i64 - 2),
        "lifespan" => chance.pick(&[FilterValue::Int(3), text("2 s"), text("0:05"), FilterValue::Float(0.5)]),
        "number" | "mixed" if !chance.one_in(3) => FilterValue::Float(chance.pick(&NUMBERS)),
        "flag" => chance.pick(&[FilterValue::Bool(true), FilterValue::Bool(false), text("yes"), text("f")]),
        _ if chance.one_in(12) => {
            chance.pick(&[FilterValue::Bool(true), FilterValue::Float(1.0), FilterValue::Int(1)])
        }
        _ => text(chance.pick(&TEXTS)),
    }
}

/// An original id, whole, cut, or with a suffix.
fn part_of_id(chance: &mut Chance) -> String {
    let written = id(chance.below(40)).to_string();
    match chance.below(4) {
        0 => written[..chance.below(36) as usize].to_owned(),
        1 => written[..chance.below(36) as usize].to_owned() + chance.pick(&["-", "0", "g", "Z", "ff"]),
        2 => written + chance.pick(&["0", " "]),
        _ => written,
    }
}

fn filter(chance: &mut Chance, scope: &Scope, depth: u32) -> Filter {
    if depth > 0 && chance.one_in(2) {
        let filters = (0..chance.below(4)).map(|_| filter(chance, scope, depth - 1)).collect();
        return match chance.below(3) {
            0 => Filter::And(filters),
            1 => Filter::Or(filters),
            _ => Filter::Not(Box::new(filter(chance, scope, depth - 1))),
        };
    }
    let field = scope.field(chance);
    match chance.below(8) {
        0 if chance.one_in(40) => Filter::Empty,
        0..2 if !field.starts_with("created_by") && field != "lifespan" => {
            let values = (0..chance.below(5)).map(|_| value(chance, &field)).collect();
            Filter::In { field, values }
        }
        2..4 => {
            let pattern = match chance.below(4) {
                0 => value(chance, "text"),
                3 => text(&format!("{}%", part_of_id(chance))),
                1 => text(
                    chance.pick(&["%", "a%", "%b%", "_", "__", "a\\_", "a\\%%", "\\\\", "[a]%", "\u{e9}%"]),
                ),
                _ => text(&format!("{}%", chance.pick(&["", "a", "b\\%", "x[", "A", "u"]))),
            };
            let texts = ["creator", "user_id", "project_id", "type", "original_resource_id"];
            let is_text = |name: &Text| ["text", "other"].contains(&name.as_str());
            let attribute = scope.attributes.iter().find(|name| is_text(name)).filter(|_| chance.one_in(2));
            let of_text = attribute.map_or_else(|| chance.pick(&texts).to_owned(), Text::to_string);
            Filter::Like { field: if chance.one_in(30) { field } else { of_text }, pattern }
        }
        _ => {
            let value = value(chance, &field);
            let is_null = value == FilterValue::Null || field.starts_with("created_by");
            let comparisons = if is_null { &COMPARISONS[..2] } else { &COMPARISONS[..] };
            Filter::Compare { comparison: chance.pick(comparisons), value, field }
        }
    }
}

fn sorts(chance: &mut Chance, scope: &Scope) -> Vec<ResourceSort> {
    let sort = |chance: &mut Chance| ResourceSort {
        field: scope.field(chance),
        direction: chance.pick(&SortDirection::ALL),
    };
    let is_column = |sort: &ResourceSort| !sort.field.starts_with("created_by") && sort.field != "lifespan";
    (0..chance.below(4)).map(|_| sort(chance)).filter(is_column).collect()
}

async fn listing(world: &World, chance: &mut Chance) -> ResourceListing {
    let resource_type = chance.pick(&["generic", "alpha", "alpha", "beta"]);
    let history = chance.one_in(2);
    let scope = Scope::new(world, resource_type, history).await;
    ResourceListing {
        resource_type: resource_type.to_owned(),
        filter: (!chance.one_in(10)).then(|| filter(chance, &scope, 3)),
        history,
        details: chance.one_in(2),
        omits_attributes: chance.one_in(4),
        metric_names: None,
        page: ResourcePage { limit: None, marker: None, sorts: sorts(chance, &scope) },
        now: NOW,
    }
}

type Found = Result<Vec<Arc<Resource>>, IndexerError>;

async fn list(index: &dyn Indexer, listing: &ResourceListing) -> Found {
    index.list_resources(listing).await
}

/// Also with NaN, which equals nothing.
fn assert_same(found: &Found, expected: &Found, listing: &ResourceListing, seed: u64) {
    assert_eq!(format!("{found:#?}"), format!("{expected:#?}"), "seed {seed}: {listing:#?}");
}

/// The listing as a whole and in pages, in both indexes; returns the number found.
async fn compare(
    world: &World,
    mut listing: ResourceListing,
    chance: &mut Chance,
    seed: u64,
) -> Option<usize> {
    let whole = list(&world.model, &listing).await;
    assert_same(&list(&world.index, &listing).await, &whole, &listing, seed);
    let whole = whole.ok()?;
    let limit = 1 + chance.below(9) as usize;
    listing.page.limit = Some(limit);
    let mut pages = Vec::new();
    loop {
        let page = list(&world.model, &listing).await;
        assert_same(&list(&world.index, &listing).await, &page, &listing, seed);
        let page = page.unwrap();
        pages.extend(page.iter().cloned());
        let Some(last) = page.last().filter(|_| page.len() == limit) else { break };
        listing.page.marker = Some(ResourceMarker::Revision { id: last.id, revision: last.revision });
    }
    assert_same(&Ok(pages), &Ok(whole.clone()), &listing, seed);
    // Any item is a valid marker; others are rejected.
    listing.page.marker =
        Some(ResourceMarker::Revision { id: id(chance.below(42)), revision: chance.below(20) as i64 - 1 });
    assert_same(&list(&world.index, &listing).await, &list(&world.model, &listing).await, &listing, seed);
    Some(whole.len())
}

async fn delete(world: &World, chance: &mut Chance, seed: u64) {
    let resource_type = chance.pick(&TYPES);
    let scope = Scope::new(world, resource_type, false).await;
    let filter = filter(chance, &scope, 2);
    let mut expected = world.model.delete_matching_resources(resource_type, &filter, NOW).await;
    let mut deleted = world.index.delete_matching_resources(resource_type, &filter, NOW).await;
    for deleted in [&mut expected, &mut deleted].into_iter().flatten() {
        deleted.ids.sort_unstable();
        deleted.metrics.sort_unstable();
    }
    assert_eq!(deleted, expected, "seed {seed}: {filter:#?}");
    let all = ResourceListing { history: true, details: true, ..ResourceListing::of("generic", NOW) };
    assert_same(&list(&world.index, &all).await, &list(&world.model, &all).await, &all, seed);
}

tests! {
    sqlite_finds_what_the_model_finds: finds_what_the_model_finds(EngineKind::Sqlite, FILTERS_BY_DEFAULT);
    postgres_finds_what_the_model_finds: finds_what_the_model_finds(EngineKind::Postgres, FILTERS_ON_SERVERS);
    mariadb_finds_what_the_model_finds: finds_what_the_model_finds(EngineKind::MariaDb, FILTERS_ON_SERVERS);
}

async fn finds_what_the_model_finds(kind: EngineKind, by_default: u64) {
    let engine = Engine::start(kind);
    let count = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let count: u64 = count.unwrap_or(by_default);
    let (mut some, mut refused) = (0, 0);
    for world_seed in 0..count.div_ceil(FILTERS_PER_WORLD) {
        let world = World::new(&engine, world_seed).await;
        for seed in (world_seed * FILTERS_PER_WORLD..count).take(FILTERS_PER_WORLD as usize) {
            let mut chance = Chance::new(seed << 32);
            let listing = listing(&world, &mut chance).await;
            match compare(&world, listing, &mut chance, seed).await {
                None => refused += 1,
                Some(0) => {}
                Some(_) => some += 1,
            }
        }
        let mut chance = Chance::new(!world_seed);
        for _ in 0..4 {
            delete(&world, &mut chance, world_seed).await;
        }
    }
    println!("{some} found some, {refused} were refused");
    // Otherwise the test would prove little.
    assert!(some * 2 > count && refused * 4 < count, "{some} found some, {refused} were refused");
}
