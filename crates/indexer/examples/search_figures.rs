//! Benchmark of searches among resources: by columns and by attributes, common and rare, in every order.
//!
//! `cargo run --release -p gnudi-indexer --example search_figures -- [resources in thousands]`

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use gnudi_indexer::{
    Comparison, Filter, FilterValue, NewResource, NewRevision, ResourceChange, ResourceListing, ResourcePage,
    ResourceSort, ResourceTypes, Resources, SortDirection, SqlIndexer, SqliteOptions,
};
use gnudi_model::{Attribute, AttributeKind, AttributeValue, ResourceType, Timestamp};
use uuid::Uuid;

const CREATED_AT_ONCE: u64 = 1000;
const LIMIT: usize = 1000;

fn id(number: u64) -> Uuid {
    Uuid::from_u128(u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number))
}

fn now(number: u64) -> Timestamp {
    Timestamp(1_700_000_000_000_000_000 + number as i64 * 1_000_000)
}

/// Servers as in a cloud: rare hosts, few flavours, two names in three unique.
fn server(number: u64) -> NewResource {
    let text = |text: String| AttributeValue::String(text.as_str().into());
    let creator = format!("{:032x}:{:032x}", number % 5, number % 500);
    NewResource {
        user_id: Some(format!("{:032x}", number % 2000)),
        project_id: Some(format!("{:032x}", number % 500)),
        ended_at: number.is_multiple_of(10).then(|| now(number + 1000)),
        attributes: BTreeMap::from([
            ("display_name".into(), text(format!("server-{number}"))),
            ("host".into(), text(format!("compute-{}.example.org", number % 5000))),
            ("flavor_name".into(), text(format!("m1.{}", number % 8))),
            ("vcpus".into(), AttributeValue::Number((number % 64) as f64)),
            ("image_ref".into(), AttributeValue::Uuid(id(number % 100))),
        ]),
        ..NewResource::new(id(number), "instance", &creator, now(number))
    }
}

#[tokio::main]
async fn main() {
    let thousands: u64 = std::env::args().nth(1).map_or(100, |text| text.parse().expect("a number"));
    let count = thousands * 1000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.sqlite");
    let index = SqlIndexer::open(&SqliteOptions::new(&path)).await.expect("an index");
    populate(&index, count).await;
    index.close().await;
    // Opened again, the planner has statistics.
    let index = SqlIndexer::open(&SqliteOptions::new(&path)).await.expect("an index");
    println!("file: {} MB", std::fs::metadata(&path).map_or(0, |file| file.len()) / 1_000_000);
    time(&index, "first page of the type", &listing(None)).await;
    for (name, filter) in [columns(count), attributes(count), logic(count)].concat() {
        time(&index, name, &listing(Some(filter))).await;
    }
    orders(&index).await;
    history(&index, count).await;
}

async fn populate(index: &SqlIndexer, count: u64) {
    let string = AttributeKind::String { min_length: 0, max_length: 255 };
    let number = AttributeKind::Number { min: None, max: None };
    let attribute = |kind| Attribute { kind, required: false, fill: None };
    let attributes = BTreeMap::from([
        ("display_name".into(), attribute(string)),
        ("host".into(), attribute(string)),
        ("flavor_name".into(), attribute(string)),
        ("vcpus".into(), attribute(number)),
        ("image_ref".into(), attribute(AttributeKind::Uuid)),
    ]);
    let instance = ResourceType { name: "instance".into(), attributes };
    index.create_resource_type(instance).await.expect("a type");
    let start = Instant::now();
    for first in (0..count).step_by(CREATED_AT_ONCE as usize) {
        let resources = (first..first + CREATED_AT_ONCE).map(server).collect();
        assert!(index.create_resources(resources).await.iter().all(Result::is_ok));
    }
    println!("created {count}: {:.0}/s", count as f64 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    let changed = count / 5;
    for first in (0..changed).step_by(100) {
        let changes = (first..first + 100).map(|number| {
            let change = ResourceChange {
                project_id: Some(Some(format!("{:032x}", number % 400))),
                revision: NewRevision::IfChanged,
                now: now(count + number),
                ..ResourceChange::default()
            };
            index.update_resource("instance", id(number), change)
        });
        for outcome in futures_util::future::join_all(changes).await {
            outcome.expect("a change");
        }
    }
    println!("changed {changed}: {:.0}/s", changed as f64 / start.elapsed().as_secs_f64());
}

fn text(text: impl Into<String>) -> FilterValue {
    FilterValue::Text(text.into())
}

fn like(field: &str, pattern: &str) -> Filter {
    Filter::Like { field: field.to_owned(), pattern: text(pattern) }
}

fn sort(field: &str, direction: SortDirection) -> ResourceSort {
    ResourceSort { field: field.to_owned(), direction }
}

fn listing(filter: Option<Filter>) -> ResourceListing {
    let sorts = ["revision_start", "started_at"].map(|field| sort(field, SortDirection::Ascending));
    let page = ResourcePage { limit: Some(LIMIT), marker: None, sorts: sorts.to_vec() };
    ResourceListing { filter, page, ..ResourceListing::of("instance", now(0)) }
}

async fn time(index: &SqlIndexer, name: &str, listing: &ResourceListing) {
    let mut times: Vec<Duration> = Vec::new();
    let mut found = 0;
    let begun = Instant::now();
    while times.len() < 3 || times.len() < 100 && begun.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        found = index.list_resources(listing).await.expect("a listing").len();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!("{:>9.3} ms  {found:>4} found  {name}", times[times.len() / 2].as_secs_f64() * 1e3);
}

/// Searches by name.
type Searches = Vec<(&'static str, Filter)>;

fn columns(count: u64) -> Searches {
    let equal_text = |field: &str, value: String| Filter::equal(field, text(value));
    let user_or_project = format!("{:032x}", 450);
    vec![
        ("id =", Filter::equal("id", FilterValue::Uuid(id(count / 2)))),
        ("original_resource_id =", equal_text("original_resource_id", id(count / 2).to_string())),
        ("project_id = (1 in 500)", equal_text("project_id", user_or_project.clone())),
        ("user_id = (1 in 2000)", equal_text("user_id", user_or_project.clone())),
        ("creator = (1 in 500)", equal_text("creator", format!("{:032x}:{:032x}", 1, 451))),
        ("created_by_project_id = (1 in 500)", equal_text("created_by_project_id", user_or_project)),
        (
            "started_at > (none)",
            Filter::compare("started_at", Comparison::Greater, FilterValue::Int(1_800_000_000)),
        ),
        ("ended_at = null", Filter::equal("ended_at", FilterValue::Null)),
        ("lifespan > (1 in 10)", Filter::compare("lifespan", Comparison::Greater, text("0.5"))),
    ]
}

fn attributes(count: u64) -> Searches {
    let vcpus_from = |least| Filter::compare("vcpus", Comparison::GreaterOrEqual, FilterValue::Int(least));
    let hosts = (0..20).map(|number| text(format!("compute-{number}.example.org"))).collect();
    vec![
        ("display_name = (1)", Filter::equal("display_name", text(format!("server-{}", count / 2)))),
        ("host = (20 in 100 k)", Filter::equal("host", text("compute-77.example.org"))),
        ("image_ref = (1 in 100)", Filter::equal("image_ref", FilterValue::Uuid(id(7)))),
        ("flavor_name = (1 in 8)", Filter::equal("flavor_name", text("m1.3"))),
        ("vcpus >= (1 in 64)", vcpus_from(63)),
        ("vcpus >= (1 in 2)", vcpus_from(32)),
        ("display_name like prefix (11)", like("display_name", "server-77_7%")),
        ("display_name like %middle% (few)", like("display_name", "%er-7777%")),
        ("host in 20", Filter::In { field: "host".to_owned(), values: hosts }),
    ]
}

fn logic(count: u64) -> Searches {
    let host = || Filter::equal("host", text("compute-77.example.org"));
    let flavor = || Filter::equal("flavor_name", text("m1.5"));
    let project = || Filter::equal("project_id", text(format!("{:032x}", 450)));
    let name = Filter::equal("display_name", text(format!("server-{}", count / 3)));
    let policy = Filter::Or(vec![project(), like("creator", &format!("%:{:032x}", 450))]);
    vec![
        ("host = and flavor_name =", Filter::And(vec![host(), flavor()])),
        ("host = or display_name =", Filter::Or(vec![host(), name])),
        ("project_id = and flavor_name =", Filter::And(vec![project(), flavor()])),
        ("project_id = or host =", Filter::Or(vec![project(), host()])),
        ("not flavor_name =", Filter::Not(Box::new(flavor()))),
        ("flavor_name !=", Filter::compare("flavor_name", Comparison::NotEqual, text("m1.5"))),
        ("the project's and host =", Filter::And(vec![policy, host()])),
    ]
}

async fn orders(index: &SqlIndexer) {
    for (field, direction) in [
        ("id", SortDirection::Ascending),
        ("revision_start", SortDirection::Descending),
        ("started_at", SortDirection::Ascending),
        ("display_name", SortDirection::Ascending),
        ("vcpus", SortDirection::DescendingNullsLast),
    ] {
        let mut listing = listing(None);
        listing.page.sorts = vec![sort(field, direction)];
        time(index, &format!("sort={field}"), &listing).await;
        listing.page.marker = index
            .list_resources(&listing)
            .await
            .expect("a page")
            .last()
            .map(|last| gnudi_indexer::ResourceMarker::Revision { id: last.id, revision: last.revision });
        time(index, &format!("sort={field}, second page"), &listing).await;
    }
    let generic = ResourceListing { resource_type: "generic".to_owned(), ..listing(None) };
    time(index, "first page of all", &generic).await;
}

async fn history(index: &SqlIndexer, count: u64) {
    let past = |filter, resource_type: &str| ResourceListing {
        history: true,
        resource_type: resource_type.to_owned(),
        ..listing(filter)
    };
    let one = || Some(Filter::equal("id", FilterValue::Uuid(id(count / 10))));
    time(index, "history of one", &past(one(), "instance")).await;
    time(index, "history of one, generic", &past(one(), "generic")).await;
    time(index, "history of the type", &past(None, "instance")).await;
    time(index, "history of all", &past(None, "generic")).await;
    let project = Some(Filter::equal("project_id", text(format!("{:032x}", 450))));
    time(index, "history of a project", &past(project, "instance")).await;
    let host = Some(Filter::equal("host", text("compute-77.example.org")));
    time(index, "history by host =", &past(host, "instance")).await;
    let since = Filter::compare(
        "revision_start",
        Comparison::GreaterOrEqual,
        FilterValue::Float(1_700_000_000.0 + count as f64 * 0.00115),
    );
    time(index, "history since a time", &past(Some(since), "instance")).await;
    let until = Filter::compare(
        "revision_end",
        Comparison::LessOrEqual,
        FilterValue::Float(1_700_000_000.0 + count as f64 * 0.00101),
    );
    time(index, "history until a time", &past(Some(until), "instance")).await;
}
