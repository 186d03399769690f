//! Searches among resources: filters, histories, orders, pages.

use gnudi_model::{Attribute, AttributeKind, AttributeValue, Resource, Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use super::{
    create_generic, create_type, instance, new_resource,
    resource::{at, change},
    text,
};
use crate::{
    Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual},
    Filter, FilterValue, Indexer, IndexerError, NewResource, ResourceChange, ResourceListing, ResourceMarker,
    ResourcePage, ResourceSort, ResourceTypeChange, SortDirection,
    filter::{FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, FILTER_VALUES_MAX},
};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

fn word(text: &str) -> FilterValue {
    FilterValue::Text(text.to_owned())
}

fn equal(field: &str, value: &str) -> Filter {
    Filter::equal(field, word(value))
}

fn one_of(field: &str, values: &[FilterValue]) -> Filter {
    Filter::In { field: field.to_owned(), values: values.to_vec() }
}

fn like(field: &str, pattern: &str) -> Filter {
    Filter::Like { field: field.to_owned(), pattern: word(pattern) }
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn listing(resource_type: &str, filter: Option<Filter>) -> ResourceListing {
    ResourceListing { filter, ..ResourceListing::of(resource_type, NOW) }
}

fn numbers<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Vec<u128> {
    resources.into_iter().map(|resource| resource.id.as_u128()).collect()
}

async fn list(indexer: &dyn Indexer, listing: &ResourceListing) -> Vec<u128> {
    let found = indexer.list_resources(listing).await;
    numbers(found.unwrap_or_else(|error| panic!("{error}: {listing:?}")).iter().map(|found| &**found))
}

async fn find(indexer: &dyn Indexer, filter: Filter) -> Vec<u128> {
    list(indexer, &listing("instance", Some(filter))).await
}

async fn refusal(indexer: &dyn Indexer, listing: &ResourceListing) -> String {
    indexer.list_resources(listing).await.unwrap_err().to_string()
}

/// Four instances and a generic resource: 4 lacks optional attributes.
async fn populate(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let change = ResourceTypeChange {
        add: [("on", AttributeKind::Bool), ("born", AttributeKind::Datetime), ("image", AttributeKind::Uuid)]
            .map(|(name, kind)| (name.into(), Attribute { kind, required: false, fill: None }))
            .to_vec(),
        ..ResourceTypeChange::default()
    };
    indexer.update_resource_type("instance", change).await.unwrap();
    let attributes = |number: u128| {
        [
            ("display_name", text(["web", "Web", "w_b%"][number as usize - 1])),
            ("vcpus", AttributeValue::Number([1.0, 2.5, -3.0][number as usize - 1])),
            ("on", AttributeValue::Bool(number == 2)),
            ("born", AttributeValue::Datetime(Timestamp(1_600_000_000_000_000_000 + number as i64 * 1_000))),
            ("image", AttributeValue::Uuid(Uuid::from_u128(100 + number))),
        ]
        .map(|(name, value)| (name.into(), value))
        .into()
    };
    let mut resources: Vec<_> =
        (1..4).map(|number| NewResource { attributes: attributes(number), ..instance(number) }).collect();
    resources[0].creator.replace_range(.., "alice:red");
    resources[1].creator.replace_range(.., "alice:blue");
    resources[1].ended_at = Some(Timestamp(NOW.0 + 90_000_000_000));
    resources[2].user_id = Some("1.0".to_owned());
    let bare = NewResource { resource_type: "instance".to_owned(), ..new_resource(4) };
    resources.push(NewResource { creator: String::new(), ..bare });
    resources.push(NewResource { project_id: Some("project".to_owned()), ..new_resource(5) });
    let created = indexer.create_resources(resources).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
}

pub(super) async fn comparisons(indexer: &dyn Indexer) {
    populate(indexer).await;
    let (int, float) = (FilterValue::Int, FilterValue::Float);
    let id = |number| FilterValue::Uuid(Uuid::from_u128(number));
    for (field, comparison, value, expected) in [
        ("id", Equal, id(2), &[2][..]),
        ("id", Less, id(2), &[1]),
        ("id", NotEqual, id(2), &[1, 3, 4]),
        ("type", Equal, word("instance"), &[1, 2, 3, 4]),
        ("type", Equal, word("generic"), &[]),
        ("creator", Equal, word("alice:red"), &[1]),
        ("original_resource_id", Equal, word(&Uuid::from_u128(3).to_string()), &[3]),
        ("started_at", LessOrEqual, word("2023-11-14T22:13:20"), &[1, 2, 3, 4]),
        ("started_at", Less, int(1_700_000_000), &[]),
        ("started_at", Greater, word("-1 second"), &[1, 2, 3, 4]),
        ("ended_at", Greater, word("1 minute"), &[2]),
        ("ended_at", NotEqual, word("90 seconds"), &[1, 3, 4]),
        ("lifespan", Equal, int(90), &[2]),
        ("lifespan", Less, word("1:31"), &[2]),
        ("lifespan", NotEqual, word("1.5 min"), &[1, 3, 4]),
        ("revision_start", Equal, int(1_700_000_000), &[1, 2, 3, 4]),
        ("user_id", Equal, float(1.0), &[3]),
        ("user_id", NotEqual, word("user"), &[3, 4]),
        ("project_id", GreaterOrEqual, word("p"), &[1, 2, 3]),
        ("display_name", Equal, word("web"), &[1]),
        ("display_name", Less, word("a"), &[2]),
        ("display_name", NotEqual, word("web"), &[2, 3, 4]),
        ("vcpus", Equal, float(2.5), &[2]),
        ("vcpus", Equal, FilterValue::Bool(true), &[1]),
        ("vcpus", LessOrEqual, word("1"), &[1, 3]),
        ("vcpus", NotEqual, int(1), &[2, 3, 4]),
        ("on", Equal, FilterValue::Bool(true), &[2]),
        ("on", NotEqual, word("yes"), &[1, 3, 4]),
        ("born", Equal, word("2020-09-13T12:26:40.000002Z"), &[2]),
        ("born", Less, float(1_600_000_000.000_002), &[1]),
        ("image", Equal, word("00000000000000000000000000000067"), &[3]),
        ("image", Greater, id(101), &[2, 3]),
        ("created_by_user_id", Equal, word("alice"), &[1, 2]),
        ("created_by_user_id", NotEqual, word("al%"), &[3, 4]),
        ("created_by_project_id", Equal, word("_ed"), &[1]),
        ("created_by_project_id", NotEqual, word("red"), &[2, 3, 4]),
    ] {
        let filter = Filter::compare(field, comparison, value);
        assert_eq!(find(indexer, filter.clone()).await, expected, "{filter:?}");
    }
}

pub(super) async fn patterns_and_lists(indexer: &dyn Indexer) {
    populate(indexer).await;
    for (filter, expected) in [
        (like("display_name", "w%"), &[1, 3][..]),
        (like("display_name", "%b"), &[1, 2]),
        (like("display_name", "_eb"), &[1, 2]),
        (like("display_name", r"w\_%"), &[3]),
        (like("display_name", r"%\%"), &[3]),
        (like("display_name", "WEB"), &[]),
        (not(like("display_name", "w%")), &[2]),
        (like("display_name", &"_".repeat(4096)), &[]),
        (like("display_name", &"_%".repeat(2048)), &[]),
        (not(like("display_name", &"_".repeat(4096))), &[1, 2, 3]),
        (like("creator", "%:blue"), &[2]),
        (like("user_id", "use_"), &[1, 2]),
        (like("type", "inst%"), &[1, 2, 3, 4]),
        (like("created_by_user_id", "a%"), &[1, 2]),
        (one_of("display_name", &[word("web"), word("w_b%"), word("x")]), &[1, 3]),
        (one_of("vcpus", &[FilterValue::Int(1), FilterValue::Null]), &[1]),
        (not(one_of("vcpus", &[FilterValue::Int(1)])), &[2, 3]),
        (not(one_of("vcpus", &[FilterValue::Int(1), FilterValue::Null])), &[]),
        (one_of("image", &[FilterValue::Null]), &[]),
        (
            one_of("id", &[FilterValue::Uuid(Uuid::from_u128(4)), FilterValue::Uuid(Uuid::from_u128(1))]),
            &[1, 4],
        ),
        (one_of("user_id", &[FilterValue::Float(1.0)]), &[3]),
        (one_of("vcpus", &vec![FilterValue::Int(1); FILTER_VALUES_MAX]), &[1]),
    ] {
        assert_eq!(find(indexer, filter.clone()).await, expected);
    }
}

pub(super) async fn what_is_absent_is_unknown(indexer: &dyn Indexer) {
    populate(indexer).await;
    let vcpus = |comparison| Filter::compare("vcpus", comparison, FilterValue::Int(1));
    let null = |field: &str, comparison| Filter::compare(field, comparison, FilterValue::Null);
    let unknown = || vcpus(Greater);
    for (filter, expected) in [
        (null("vcpus", Equal), &[4][..]),
        (null("vcpus", NotEqual), &[1, 2, 3]),
        (null("ended_at", Equal), &[1, 3, 4]),
        (null("id", NotEqual), &[1, 2, 3, 4]),
        (not(null("user_id", Equal)), &[1, 2, 3]),
        (not(vcpus(Equal)), &[2, 3]),
        (not(vcpus(NotEqual)), &[1]),
        (not(vcpus(Greater)), &[1, 3]),
        (not(not(vcpus(LessOrEqual))), &[1, 3]),
        (Filter::And(vec![]), &[1, 2, 3, 4]),
        (Filter::Or(vec![]), &[1, 2, 3, 4]),
        (not(Filter::And(vec![])), &[]),
        (not(Filter::And(vec![unknown(), equal("user_id", "1.0")])), &[1, 2, 3]),
        (not(Filter::And(vec![unknown(), not(equal("creator", ""))])), &[1, 3, 4]),
        (not(Filter::Or(vec![unknown(), equal("creator", "alice:red")])), &[3]),
        (Filter::Or(vec![unknown(), equal("creator", "")]), &[2, 4]),
        (not(equal("display_name", "none")), &[1, 2, 3]),
        (not(Filter::compare("lifespan", Less, FilterValue::Int(1))), &[2]),
    ] {
        assert_eq!(find(indexer, filter.clone()).await, expected, "{filter:?}");
    }
}

pub(super) async fn refusals(indexer: &dyn Indexer) {
    populate(indexer).await;
    let field =
        |resource_type: &str, name: &str| format!("Resource type {resource_type} has no {name} attribute");
    let value = |value: &str, field: &str| format!("Invalid value: `{value}' for field `{field}'");
    let words = [word("it's"), FilterValue::Null];
    for (resource_type, filter, expected) in [
        ("none", equal("id", "x"), "Resource type none does not exist".to_owned()),
        (GENERIC, equal("vcpus", "1"), field("generic", "vcpus")),
        ("instance", equal("color", "red"), field("instance", "color")),
        ("instance", equal("revision", "1"), field("instance", "revision")),
        (
            "instance",
            Filter::compare("revision_end", Equal, FilterValue::Null),
            field("instance", "revision_end"),
        ),
        ("instance", equal("metrics", "x"), field("instance", "metrics")),
        ("instance", equal("started_at", "never"), value("never", "started_at")),
        ("instance", Filter::compare("started_at", Less, FilterValue::Null), value("None", "started_at")),
        ("instance", equal("vcpus", "many"), value("many", "vcpus")),
        ("instance", equal("image", "none"), value("none", "image")),
        ("instance", Filter::compare("on", Equal, FilterValue::Int(1)), value("1", "on")),
        ("instance", equal("lifespan", "-5 s"), value("-5 s", "lifespan")),
        ("instance", one_of("born", &words), value(r#"["it's", None]"#, "born")),
        ("instance", one_of("lifespan", &words), value(r#"["it's", None]"#, "lifespan")),
        ("instance", one_of("created_by_user_id", &words), value(r#"["it's", None]"#, "created_by_user_id")),
        (
            "instance",
            Filter::compare("created_by_project_id", Less, word("a")),
            value("a", "created_by_project_id"),
        ),
        ("instance", like("vcpus", "1%"), value("1%", "vcpus")),
        ("instance", like("display_name", r"a\"), value(r"a\", "display_name")),
        ("instance", Filter::Empty, "Unable to parse this query".to_owned()),
        ("instance", not(Filter::And(vec![Filter::Empty])), "Unable to parse this query".to_owned()),
        ("instance", Filter::Or(vec![equal("id", "x"), equal("none", "x")]), value("x", "id")),
    ] {
        let listing = listing(resource_type, Some(filter));
        assert_eq!(refusal(indexer, &listing).await, expected);
        let deleted =
            indexer.delete_matching_resources(resource_type, listing.filter.as_ref().unwrap(), NOW).await;
        assert_eq!(deleted.unwrap_err().to_string(), expected);
    }
    assert_eq!(list(indexer, &listing(GENERIC, None)).await, [1, 2, 3, 4, 5]);
}

pub(super) async fn limits_of_filters(indexer: &dyn Indexer) {
    populate(indexer).await;
    let leaf = || Filter::Or(vec![like("display_name", "w%b"), equal("vcpus", "2.5")]);
    // Conditions nested to the limit, in all ways.
    let mut deep = leaf();
    for level in 0..FILTER_DEPTH_MAX - 2 {
        deep = match level % 3 {
            0 => not(deep),
            1 => Filter::And(vec![deep, equal("type", "instance")]),
            _ => Filter::Or(vec![equal("type", "none"), deep]),
        };
    }
    let expected = if (0..FILTER_DEPTH_MAX - 2).filter(|level| level % 3 == 0).count() % 2 == 0 {
        &[1, 2][..]
    } else {
        &[3]
    };
    let mut history = listing("instance", Some(deep.clone()));
    assert_eq!(list(indexer, &history).await, expected);
    history.history = true;
    assert_eq!(list(indexer, &history).await, expected);
    let too_deep = listing("instance", Some(not(deep)));
    assert_eq!(
        refusal(indexer, &too_deep).await,
        format!("Unable to parse this query: more than {FILTER_DEPTH_MAX} levels")
    );
    let mut wide = vec![like("display_name", "W%b%"); FILTER_CONDITIONS_MAX - 1];
    history.filter = Some(Filter::Or(wide.clone()));
    assert_eq!(list(indexer, &history).await, [2]);
    wide.push(equal("creator", ""));
    history.filter = Some(Filter::Or(wide));
    assert_eq!(
        refusal(indexer, &history).await,
        format!("Unable to parse this query: more than {FILTER_CONDITIONS_MAX} conditions")
    );
    // Both an id and a text each, and for both kinds of revisions.
    let ids = (1..=FILTER_VALUES_MAX as u128).map(|number| word(&Uuid::from_u128(number).to_string()));
    history.filter = Some(one_of("original_resource_id", &ids.collect::<Vec<_>>()));
    assert_eq!(list(indexer, &history).await, [1, 2, 3, 4]);
    // Many lists, each a little longer than a power of two.
    let lists = (0..19).map(|list: u128| {
        let ids = (1..=513).map(|number| word(&Uuid::from_u128(list * 513 + number).to_string()));
        one_of("original_resource_id", &ids.collect::<Vec<_>>())
    });
    history.filter = Some(Filter::Or(lists.collect()));
    assert_eq!(list(indexer, &history).await, [1, 2, 3, 4]);
    history.filter = Some(one_of("vcpus", &vec![FilterValue::Int(1); FILTER_VALUES_MAX + 1]));
    let refused = indexer.list_resources(&history).await.unwrap_err();
    assert!(matches!(refused, IndexerError::FilterTooLarge { max: FILTER_VALUES_MAX, .. }), "{refused}");
}

/// Resource 1 was a small one, then a large one, and ended; 2 is unchanged.
async fn populate_history(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let created = indexer.create_resources(vec![instance(1), instance(2)]).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    create_generic(indexer, &[3]).await;
    let grow =
        ResourceChange { attributes: [("vcpus".into(), AttributeValue::Number(8.0))].into(), ..change(10) };
    let end = ResourceChange { ended_at: Some(Some(at(20))), ..change(20) };
    for change in [grow, end] {
        indexer.update_resource("instance", Uuid::from_u128(1), change).await.unwrap();
    }
    let move_3 = ResourceChange { project_id: Some(Some("project".to_owned())), ..change(30) };
    indexer.update_resource(GENERIC, Uuid::from_u128(3), move_3).await.unwrap();
}

pub(super) async fn histories(indexer: &dyn Indexer) {
    populate_history(indexer).await;
    let past =
        |resource_type: &str, filter| ResourceListing { history: true, ..listing(resource_type, filter) };
    // By id, then by revision: the current one first.
    let found = indexer.list_resources(&past("instance", None)).await.unwrap();
    assert_eq!(numbers(found.iter().map(|found| &**found)), [1, 1, 1, 2]);
    let second = |time: Option<Timestamp>| time.map(|time| time.secs() - 1_700_000_000);
    let times: Vec<_> = found
        .iter()
        .map(|found| (second(Some(found.revision_start)).unwrap(), second(found.revision_end)))
        .collect();
    assert_eq!(times, [(20, None), (0, Some(10)), (10, Some(20)), (0, None)]);
    let vcpus: Vec<_> = found.iter().map(|found| found.attributes["vcpus"].clone()).collect();
    assert_eq!(vcpus, [8.0, 1.0, 8.0, 2.0].map(AttributeValue::Number));
    let revisions: Vec<_> = found.iter().map(|found| found.revision).collect();
    assert!(revisions[0] == Resource::CURRENT && revisions[3] == Resource::CURRENT);
    assert!(0 < revisions[1] && revisions[1] < revisions[2], "{revisions:?}");
    assert_eq!(list(indexer, &past(GENERIC, None)).await, [1, 1, 1, 2, 3, 3]);
    // Each revision is matched as it was.
    for (resource_type, filter, expected) in [
        ("instance", Filter::compare("vcpus", Equal, FilterValue::Int(8)), &[1, 1][..]),
        ("instance", Filter::compare("vcpus", NotEqual, FilterValue::Int(8)), &[1, 2]),
        ("instance", Filter::compare("vcpus", Less, FilterValue::Int(8)), &[1, 2]),
        ("instance", Filter::compare("ended_at", NotEqual, FilterValue::Null), &[1]),
        ("instance", Filter::compare("revision_end", Equal, FilterValue::Null), &[1, 2]),
        ("instance", Filter::compare("revision_end", LessOrEqual, FilterValue::Int(1_700_000_010)), &[1]),
        ("instance", Filter::compare("revision_end", NotEqual, FilterValue::Int(1_700_000_010)), &[1, 1, 2]),
        ("instance", Filter::compare("revision_start", Greater, FilterValue::Int(1_700_000_000)), &[1, 1]),
        ("instance", Filter::compare("revision", Equal, FilterValue::Int(-1)), &[1, 2]),
        ("instance", Filter::compare("revision", Greater, word("0")), &[1, 1]),
        // Conditions on columns and on attributes both apply.
        (
            "instance",
            Filter::Or(vec![
                Filter::compare("vcpus", Equal, FilterValue::Int(8)),
                equal("user_id", "nobody"),
            ]),
            &[1, 1],
        ),
        ("instance", one_of("vcpus", &[FilterValue::Int(1), FilterValue::Int(2)]), &[1, 2]),
        (GENERIC, equal("project_id", "project"), &[1, 1, 1, 2, 3]),
        (GENERIC, Filter::compare("id", Equal, FilterValue::Uuid(Uuid::from_u128(3))), &[3, 3]),
    ] {
        let listing = past(resource_type, Some(filter));
        assert_eq!(list(indexer, &listing).await, expected, "{listing:?}");
    }
    indexer.delete_resources(&[Uuid::from_u128(1)]).await.pop().unwrap().unwrap();
    assert_eq!(list(indexer, &past(GENERIC, None)).await, [2, 3, 3]);
}

pub(super) async fn pages_follow_each_other(indexer: &dyn Indexer) {
    populate_history(indexer).await;
    create_generic(indexer, &[7, 9]).await;
    let fields =
        ["id", "type", "user_id", "ended_at", "revision_start", "vcpus", "host", "revision", "revision_end"];
    for (history, resource_type, total) in
        [(false, "instance", 2), (true, "instance", 4), (false, GENERIC, 5), (true, GENERIC, 8)]
    {
        for (field, direction) in
            fields.iter().flat_map(|field| SortDirection::ALL.map(|direction| (*field, direction)))
        {
            let sorts = vec![ResourceSort { field: field.to_owned(), direction }];
            let page = ResourcePage { limit: None, marker: None, sorts };
            let mut asked = ResourceListing { history, page, ..listing(resource_type, None) };
            let is_attribute = matches!(field, "vcpus" | "host");
            let is_revision = matches!(field, "revision" | "revision_end");
            if is_attribute && resource_type == GENERIC || is_revision && !history {
                let expected = format!("Invalid pagination: `Sort key supplied is invalid: {field}'");
                assert_eq!(refusal(indexer, &asked).await, expected);
                continue;
            }
            let whole = indexer.list_resources(&asked).await.unwrap();
            assert_eq!(whole.len(), total);
            asked.page.limit = Some(1);
            for expected in &whole {
                let page = indexer.list_resources(&asked).await.unwrap();
                assert_eq!(&page[..], std::slice::from_ref(expected), "{asked:?}");
                asked.page.marker =
                    Some(ResourceMarker::Revision { id: expected.id, revision: expected.revision });
            }
            assert_eq!(indexer.list_resources(&asked).await.unwrap(), []);
        }
    }
}

pub(super) async fn refuses_strange_markers(indexer: &dyn Indexer) {
    populate_history(indexer).await;
    let refused = async |history, resource_type: &str, number, revision| {
        let marker = Some(ResourceMarker::Revision { id: Uuid::from_u128(number), revision });
        let page = ResourcePage { marker, ..ResourcePage::default() };
        indexer.list_resources(&ResourceListing { history, page, ..listing(resource_type, None) }).await.err()
    };
    let invalid = |text: String| Some(IndexerError::InvalidPagination(format!("Invalid marker: `{text}'")));
    let id = Uuid::from_u128;
    assert_eq!(refused(false, GENERIC, 3, -1).await, None);
    assert_eq!(refused(false, "instance", 3, -1).await, invalid(id(3).to_string()));
    assert_eq!(refused(false, GENERIC, 4, -1).await, invalid(id(4).to_string()));
    assert_eq!(refused(true, GENERIC, 3, -1).await, None);
    assert_eq!(refused(true, GENERIC, 3, 1000).await, invalid(format!("{}@1000", id(3))));
    assert_eq!(refused(true, GENERIC, 3, -2).await, invalid(format!("{}@-2", id(3))));
    assert_eq!(refused(true, "instance", 3, -1).await, invalid(format!("{}@-1", id(3))));
    // A marker that does not match the filter is still a position.
    let marker = Some(ResourceMarker::Revision { id: id(1), revision: Resource::CURRENT });
    let filter = Filter::compare("id", NotEqual, FilterValue::Uuid(id(1)));
    let page = ResourcePage { marker, ..ResourcePage::default() };
    assert_eq!(list(indexer, &ResourceListing { page, ..listing("instance", Some(filter)) }).await, [2]);
}

/// As when the last resource of a page is deleted before the next page is listed.
pub(super) async fn continues_behind_a_deleted_resource(indexer: &dyn Indexer) {
    populate_history(indexer).await;
    let paged = |page| ResourceListing { page, ..listing(GENERIC, None) };
    let whole = indexer.list_resources(&paged(ResourcePage::default())).await.unwrap();
    let first = ResourcePage { limit: Some(1), ..ResourcePage::default() };
    let last = indexer.list_resources(&paged(first)).await.unwrap().remove(0);
    assert!(indexer.delete_resources(&[last.id]).await[0].is_ok());
    let next = ResourcePage { marker: Some(ResourceMarker::Listed(last)), ..ResourcePage::default() };
    assert_eq!(indexer.list_resources(&paged(next)).await.unwrap(), whole[1..]);
}

pub(super) async fn details_show_attributes(indexer: &dyn Indexer) {
    populate_history(indexer).await;
    for (resource_type, details, history, attributes) in [
        (GENERIC, false, false, &[0, 0, 0][..]),
        (GENERIC, true, false, &[3, 3, 0]),
        (GENERIC, true, true, &[3, 3, 3, 3, 0, 0]),
        ("instance", false, false, &[3, 3]),
        ("instance", true, true, &[3, 3, 3, 3]),
    ] {
        let listing = ResourceListing { history, details, ..listing(resource_type, None) };
        let found = indexer.list_resources(&listing).await.unwrap();
        let counts: Vec<_> = found.iter().map(|found| found.attributes.len()).collect();
        assert_eq!(counts, attributes, "{listing:?}");
        let bare =
            indexer.list_resources(&ResourceListing { omits_attributes: true, ..listing }).await.unwrap();
        let mut without = found.iter().map(|found| (**found).clone()).collect::<Vec<_>>();
        for resource in &mut without {
            resource.attributes.clear();
        }
        assert!(bare.iter().map(|found| &**found).eq(&without));
    }
}

pub(super) async fn deletion_by_filter(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let resources =
        (1..=300).map(|number| if number % 30 > 0 { instance(number) } else { new_resource(number) });
    assert!(indexer.create_resources(resources.collect()).await.iter().all(Result::is_ok));
    // More than are deleted at once.
    let filter = Filter::compare("vcpus", Greater, FilterValue::Int(30));
    let deleted = indexer.delete_matching_resources("instance", &filter, NOW).await.unwrap();
    assert_eq!((deleted.ids.len(), deleted.metrics.len()), (261, 0));
    let left = list(indexer, &listing(GENERIC, None)).await;
    assert_eq!(left.len(), 39);
    assert!(left.iter().all(|number| number % 30 == 0 || *number <= 30));
    let filter = equal("creator", "admin");
    let deleted = indexer.delete_matching_resources(GENERIC, &filter, NOW).await.unwrap();
    assert_eq!(deleted.ids.len(), 39);
    let deleted = indexer.delete_matching_resources(GENERIC, &filter, NOW).await.unwrap();
    assert_eq!(deleted.ids.len(), 0);
    assert_eq!(list(indexer, &listing(GENERIC, None)).await, []);
}
