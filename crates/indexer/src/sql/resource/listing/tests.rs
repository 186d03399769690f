//! Which indexes serve the listings.

use std::collections::BTreeMap;

use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType, Timestamp,
};

use super::*;
use crate::{
    Comparison, Filter, FilterValue, MetricsChange, NewNamedMetric, NewResource, NewRevision, ResourceChange,
    ResourcePage, ResourceSort, ResourceTypes, Resources, SortDirection, SqliteOptions,
    create_default_archive_policies,
};

const COUNT: u128 = 4000;

fn at(number: u128) -> Timestamp {
    Timestamp(1_700_000_000_000_000_000 + number as i64 * 1_000_000)
}

fn resource(number: u128) -> NewResource {
    let id = Uuid::from_u128(number << 100 | number);
    let creator = format!("user{}:project{}", number % 10, number % 100);
    NewResource {
        original_resource_id: if number.is_multiple_of(7) { number.to_string() } else { id.to_string() },
        user_id: Some(format!("user{}", number % 200)),
        project_id: Some(format!("project{}", number % 100)),
        ended_at: number.is_multiple_of(50).then(|| at(number + 1)),
        attributes: BTreeMap::from([
            ("host".into(), AttributeValue::String(format!("host{}", number % 400).as_str().into())),
            ("flavor".into(), AttributeValue::String(format!("flavor{}", number % 4).as_str().into())),
        ]),
        ..NewResource::new(id, "instance", &creator, at(number))
    }
}

/// Several types; half of the resources have former revisions.
async fn populated() -> (tempfile::TempDir, SqlIndexer) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = SqliteOptions::new(folder.path().join("index"));
    options.rows_rare_max = 100;
    let indexer = SqlIndexer::open(&options).await.unwrap();
    let kind = AttributeKind::String { min_length: 0, max_length: 255 };
    let attribute = |name: &str| (name.into(), Attribute { kind, required: false, fill: None });
    let attributes = BTreeMap::from([attribute("host"), attribute("flavor")]);
    indexer.create_resource_type(ResourceType { name: "instance".into(), attributes }).await.unwrap();
    let created = indexer.create_resources((0..COUNT).map(resource).collect()).await;
    assert!(created.iter().all(Result::is_ok));
    let others = (COUNT..COUNT * 2).map(|number| NewResource {
        resource_type: GENERIC.to_owned(),
        attributes: BTreeMap::new(),
        ..resource(number)
    });
    assert!(indexer.create_resources(others.collect()).await.iter().all(Result::is_ok));
    let changes = (0..COUNT).step_by(2).map(|number| {
        let change = ResourceChange {
            user_id: Some(None),
            revision: NewRevision::IfChanged,
            now: at(number + COUNT),
            ..ResourceChange::default()
        };
        indexer.update_resource("instance", resource(number).id, change)
    });
    assert!(futures_util::future::join_all(changes).await.iter().all(Result::is_ok));
    indexer.close().await;
    // Opened again, the planner has statistics.
    (folder, SqlIndexer::open(&options).await.unwrap())
}

/// The query plans of a listing: of the pieces after a marker, and of the first page.
async fn plans(indexer: &SqlIndexer, listing: &ResourceListing) -> Vec<String> {
    let types = indexer.types().await.unwrap();
    let plan = Plan::read(&types, listing).unwrap();
    let (common, _) = plan.common(indexer).await.unwrap();
    let search = Search { indexer, types: &types, plan: &plan, common: &common };
    let marker = search.marker(resource(77).id, Resource::CURRENT).await.unwrap();
    let mut pieces = pieces_behind(&marker, &plan.order);
    pieces.push(Piece::default());
    let mut plans = Vec::new();
    for piece in &pieces {
        let query = search.statement(piece, 100);
        let steps = crate::sql::plan(indexer, &query).await;
        plans.push(format!("{}\n{}", query.sql(), steps.join("\n")));
    }
    plans
}

fn text(text: &str) -> FilterValue {
    FilterValue::Text(text.to_owned())
}

fn equal(field: &str, value: &str) -> Filter {
    Filter::equal(field, text(value))
}

fn like(field: &str, pattern: &str) -> Filter {
    Filter::Like { field: field.to_owned(), pattern: text(pattern) }
}

fn listing(resource_type: &str, history: bool, filter: Option<Filter>, sorts: &[&str]) -> ResourceListing {
    let sorts = sorts
        .iter()
        .map(|field| ResourceSort { field: (*field).to_owned(), direction: SortDirection::Ascending });
    let page = ResourcePage { limit: Some(100), marker: None, sorts: sorts.collect() };
    ResourceListing { filter, history, page, ..ResourceListing::of(resource_type, at(0)) }
}

const USUAL: &[&str] = &["revision_start", "started_at"];

/// No piece of a common listing scans all resources, and those in the usual order are not sorted.
#[tokio::test]
async fn an_index_serves_every_piece() {
    let (_folder, indexer) = populated().await;
    let id = || Filter::compare("id", Comparison::Equal, FilterValue::Uuid(resource(5).id));
    let host = || equal("host", "host7");
    let either = || Filter::Or(vec![equal("project_id", "project7"), like("creator", "%:project7")]);
    for (resource_type, filter, sorts, indexes) in [
        ("instance", None, USUAL, &["r USING INDEX ix_resource_type"][..]),
        (GENERIC, None, USUAL, &["r USING INDEX ix_resource_revision"]),
        ("instance", Some(equal("flavor", "flavor3")), USUAL, &["r USING INDEX ix_resource_type"]),
        ("instance", Some(Filter::Not(Box::new(host()))), USUAL, &["r USING INDEX ix_resource_type"]),
        (GENERIC, Some(id()), USUAL, &["r USING INDEX sqlite_autoindex_resource_1"]),
        ("instance", Some(id()), USUAL, &["r USING INDEX sqlite_autoindex_resource_1"]),
        (GENERIC, Some(equal("original_resource_id", "7")), USUAL, &["ix_resource_original"]),
        (
            GENERIC,
            Some(equal("original_resource_id", &resource(5).id.to_string())),
            USUAL,
            &["r USING INDEX ix_resource_original", "r USING INDEX sqlite_autoindex_resource_1"],
        ),
        (
            "instance",
            Some(like("original_resource_id", "0000a%")),
            USUAL,
            &["r USING INDEX ix_resource_original", "r USING INDEX sqlite_autoindex_resource_1"],
        ),
        (GENERIC, Some(equal("project_id", "project7")), USUAL, &["ix_resource_project"]),
        ("instance", Some(equal("user_id", "user7")), USUAL, &["ix_resource_user"]),
        (GENERIC, Some(equal("creator", "user7:project7")), USUAL, &["ix_resource_creator"]),
        (
            GENERIC,
            Some(either()),
            USUAL,
            &["ix_resource_project", "resource USING COVERING INDEX ix_resource_creator"],
        ),
        (
            "instance",
            Some(host()),
            USUAL,
            &["r USING INTEGER PRIMARY KEY", "resource_value USING PRIMARY KEY"],
        ),
        (
            "instance",
            Some(Filter::And(vec![equal("flavor", "flavor3"), host()])),
            USUAL,
            &["r USING INTEGER PRIMARY KEY", "resource_value USING PRIMARY KEY"],
        ),
        ("instance", Some(like("host", "host77%")), USUAL, &["resource_value USING PRIMARY KEY"]),
    ] {
        let is_walked = filter.is_none() || indexes[0].starts_with("r USING INDEX ix_resource_type");
        let plans = plans(&indexer, &listing(resource_type, false, filter, sorts)).await;
        assert_all(&plans, indexes);
        assert!(plans.iter().all(|plan| !is_walked || !plan.contains("TEMP B-TREE")), "{plans:#?}");
    }
}

/// The first page uses the indexes, and no piece scans a table.
fn assert_all(plans: &[String], indexes: &[&str]) {
    let first = plans.last().unwrap();
    for index in indexes {
        assert!(first.contains(index), "no {index}: {first}");
    }
    for plan in plans {
        assert!(plan.lines().all(|step| step != "SCAN r"), "{plan}");
    }
}

/// Regression test: the same for listings of the history.
#[tokio::test]
async fn an_index_serves_every_history() {
    let (_folder, indexer) = populated().await;
    let id = || Filter::compare("id", Comparison::Equal, FilterValue::Uuid(resource(4).id));
    let time = || FilterValue::Float(1_700_000_000.001);
    for (resource_type, filter, indexes) in [
        (
            "instance",
            Some(id()),
            &["r USING INDEX ix_resource_history_id", "sqlite_autoindex_resource_1"][..],
        ),
        (GENERIC, Some(id()), &["r USING INDEX ix_resource_history_id", "sqlite_autoindex_resource_1"]),
        ("instance", None, &["r USING INDEX ix_resource_history_type", "ix_resource_type"]),
        (GENERIC, None, &["r USING INDEX ix_resource_history_revision", "ix_resource_revision"]),
        (
            GENERIC,
            Some(equal("project_id", "project7")),
            &["ix_resource_history_project", "ix_resource_project"],
        ),
        (
            "instance",
            Some(Filter::compare("revision_start", Comparison::Less, time())),
            &["ix_resource_history_type", "ix_resource_type"],
        ),
        (
            "instance",
            Some(equal("host", "host8")),
            &["resource_history_value USING PRIMARY KEY", "resource_value USING PRIMARY KEY"],
        ),
    ] {
        assert_all(&plans(&indexer, &listing(resource_type, true, filter, USUAL)).await, indexes);
    }
}

/// `SQLite` reads such numbers in JSON with an error in the last bit, upwards or downwards.
#[tokio::test]
async fn very_large_and_very_small_numbers_are_found_and_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = SqliteOptions::new(folder.path().join("index"));
    // Comparisons are tested row by row.
    options.rows_rare_max = 0;
    let indexer = SqlIndexer::open(&options).await.unwrap();
    let kind = AttributeKind::Number { min: None, max: None };
    let attributes = BTreeMap::from([("size".into(), Attribute { kind, required: false, fill: None })]);
    indexer.create_resource_type(ResourceType { name: "instance".into(), attributes }).await.unwrap();
    let sizes =
        ["-1.711488800458074e203", "-4.366508223114724e-137", "4.2022011093385254e-129", "1.5", "1e300"];
    let sizes = sizes.map(|size| size.parse::<f64>().unwrap());
    // Two resources of each size, in the order of the listing.
    let ids: Vec<Uuid> = (1..=2 * sizes.len() as u128).map(Uuid::from_u128).collect();
    let resource = |(id, size): (&Uuid, &f64)| NewResource {
        attributes: BTreeMap::from([("size".into(), AttributeValue::Number(*size))]),
        ..NewResource::new(*id, "instance", "me", at(0))
    };
    let twice = sizes.iter().flat_map(|size| [size, size]);
    let created = indexer.create_resources(ids.iter().zip(twice).map(resource).collect()).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");

    let mut pages = listing("instance", false, None, &["size"]);
    pages.page.limit = Some(1);
    let mut listed = Vec::new();
    while let Some(last) = indexer.list_resources(&pages).await.unwrap().pop()
        && listed.len() <= ids.len()
    {
        listed.push(last.id);
        pages.page.marker = Some(ResourceMarker::Revision { id: last.id, revision: Resource::CURRENT });
    }
    assert_eq!(listed, ids);
    for (size, ids) in sizes.iter().zip(ids.chunks(2)) {
        let filter = Filter::equal("size", FilterValue::Float(*size));
        let found =
            indexer.list_resources(&listing("instance", false, Some(filter), &["size"])).await.unwrap();
        assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), ids, "{size}");
    }
}

/// Each with a copy of the list, a page of a resource with many metrics would not fit in memory.
#[tokio::test]
async fn the_revisions_of_a_page_share_their_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let indexer = SqlIndexer::open(&SqliteOptions::new(folder.path().join("index"))).await.unwrap();
    create_default_archive_policies(&indexer, &ArchivePolicy::default_methods()).await.unwrap();
    let metric = NewNamedMetric::new(MetricId(Uuid::from_u128(1)), "low");
    let new = NewResource {
        metrics: vec![("cpu".to_owned(), MetricsChange::Create(metric))],
        ..NewResource::new(Uuid::from_u128(2), GENERIC, "me", at(0))
    };
    assert!(indexer.create_resources(vec![new]).await[0].is_ok());
    let change = ResourceChange { revision: NewRevision::Always, now: at(1), ..ResourceChange::default() };
    indexer.update_resource(GENERIC, Uuid::from_u128(2), change).await.unwrap();
    let listing = ResourceListing { history: true, ..ResourceListing::of(GENERIC, at(2)) };
    let listed = indexer.list_resources(&listing).await.unwrap();
    let [before, after] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(before.metrics.len(), 1);
    assert!(Arc::ptr_eq(&before.metrics, &after.metrics));
}
