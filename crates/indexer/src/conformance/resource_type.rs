//! The contract of [`ResourceTypes`](crate::ResourceTypes), and the effect of type changes on resources.

use gnudi_model::{
    Attribute, AttributeKind, AttributeValue, ResourceType, Text, Timestamp, resource_type::GENERIC,
};
use uuid::Uuid;

use super::{create_type, instance, new_resource, resource::change, shown, text};
use crate::{Indexer, IndexerError, NewResource, ResourceChange, ResourceListing, ResourceTypeChange};

fn attribute(kind: AttributeKind) -> Attribute {
    Attribute { kind, required: false, fill: None }
}

fn string() -> Attribute {
    attribute(AttributeKind::String { min_length: 0, max_length: 256 })
}

fn filled(attribute: &Attribute, fill: AttributeValue) -> Attribute {
    Attribute { fill: Some(fill), ..attribute.clone() }
}

fn add(name: &str, attribute: Attribute) -> ResourceTypeChange {
    ResourceTypeChange { add: vec![(name.into(), attribute)], ..ResourceTypeChange::default() }
}

fn update(name: &str, attribute: Attribute) -> ResourceTypeChange {
    ResourceTypeChange { update: vec![(name.into(), attribute)], ..ResourceTypeChange::default() }
}

fn delete(name: &str) -> ResourceTypeChange {
    ResourceTypeChange { delete: vec![name.into()], ..ResourceTypeChange::default() }
}

fn no_attribute(name: &str) -> IndexerError {
    IndexerError::NoSuchAttribute { resource_type: "instance".to_owned(), attribute: name.to_owned() }
}

/// The attribute in all revisions of the resource, oldest first.
async fn in_revisions(indexer: &dyn Indexer, number: u128, attribute: &str) -> Vec<AttributeValue> {
    let listing = ResourceListing { history: true, ..ResourceListing::of("instance", Timestamp::EPOCH) };
    let resources = indexer.list_resources(&listing).await.unwrap();
    let mut revisions: Vec<_> =
        resources.into_iter().filter(|resource| resource.id == Uuid::from_u128(number)).collect();
    revisions.sort_by_key(|resource| resource.revision.cast_unsigned());
    revisions.iter().map(|resource| resource.attributes[attribute].clone()).collect()
}

async fn rename(indexer: &dyn Indexer, number: u128, name: &str) {
    let attributes = [("display_name".into(), text(name))].into();
    let change = ResourceChange { attributes, ..change(100) };
    indexer.update_resource("instance", Uuid::from_u128(number), change).await.unwrap();
}

pub(in crate::conformance) async fn is_kept_whole(indexer: &dyn Indexer) {
    let kinds = [
        ("name", AttributeKind::String { min_length: 2, max_length: 255 }),
        ("uuid", AttributeKind::Uuid),
        ("any", AttributeKind::Number { min: None, max: None }),
        ("some", AttributeKind::Number { min: Some(-0.1), max: Some(1.797_693_134_862_315_7e308) }),
        ("flag", AttributeKind::Bool),
        ("time", AttributeKind::Datetime),
    ];
    let attributes = kinds
        .map(|(name, kind)| (Text::from(name), Attribute { kind, required: name.len() == 4, fill: None }));
    let resource_type = ResourceType { name: "my type \u{1F95F}".into(), attributes: attributes.into() };
    indexer.create_resource_type(resource_type.clone()).await.unwrap();
    assert_eq!(**indexer.resource_type(&resource_type.name).await.unwrap().as_ref().unwrap(), resource_type);
    let bare = ResourceType { name: "bare".into(), attributes: [].into() };
    indexer.create_resource_type(bare.clone()).await.unwrap();
    assert_eq!(indexer.resource_type("none").await, Ok(None));
    let all = indexer.resource_types().await.unwrap();
    let generic = ResourceType { name: GENERIC.into(), attributes: [].into() };
    assert_eq!(all.iter().map(|found| (**found).clone()).collect::<Vec<_>>(), [bare, generic, resource_type]);
}

pub(in crate::conformance) async fn name_is_taken_once(indexer: &dyn Indexer) {
    create_type(indexer).await;
    for name in ["instance", GENERIC] {
        let again = ResourceType { name: name.into(), attributes: [].into() };
        let taken = IndexerError::ResourceTypeAlreadyExists(name.to_owned());
        assert_eq!(indexer.create_resource_type(again).await, Err(taken));
    }
    assert_eq!(indexer.resource_type("instance").await.unwrap().unwrap().attributes.len(), 3);
    assert_eq!(indexer.delete_resource_type("instance").await, Ok(()));
    assert_eq!(indexer.resource_type("instance").await, Ok(None));
    let gone = IndexerError::NoSuchResourceType("instance".to_owned());
    assert_eq!(indexer.delete_resource_type("instance").await, Err(gone.clone()));
    let change = indexer.update_resource_type("instance", add("a", string())).await;
    assert_eq!(change, Err(gone.clone()));
    assert_eq!(indexer.create_resources(vec![instance(1)]).await, [Err(gone.clone())]);
    assert_eq!(indexer.resource("instance", Uuid::from_u128(1)).await, Err(gone));
    create_type(indexer).await;
}

pub(in crate::conformance) async fn the_generic_one_stays(indexer: &dyn Indexer) {
    let in_use = IndexerError::ResourceTypeInUse(GENERIC.to_owned());
    assert_eq!(indexer.delete_resource_type(GENERIC).await, Err(in_use.clone()));
    assert_eq!(indexer.update_resource_type(GENERIC, add("a", string())).await, Err(in_use));
    assert_eq!(indexer.resource_type(GENERIC).await.unwrap().unwrap().attributes.len(), 0);
}

pub(in crate::conformance) async fn attributes_come_and_go(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let number = |max| attribute(AttributeKind::Number { min: None, max: Some(max) });
    let change = ResourceTypeChange {
        add: vec![("memory".into(), filled(&number(10.0), AttributeValue::Number(1.0)))],
        update: vec![("vcpus".into(), Attribute { required: true, ..number(64.0) })],
        delete: vec!["host".into()],
    };
    let changed = indexer.update_resource_type("instance", change).await.unwrap();
    let expected = ResourceType {
        name: "instance".into(),
        attributes: [
            ("display_name".into(), string()),
            ("memory".into(), number(10.0)),
            ("vcpus".into(), Attribute { required: true, ..number(64.0) }),
        ]
        .into(),
    };
    assert_eq!(*changed, expected);
    assert_eq!(*indexer.resource_type("instance").await.unwrap().unwrap(), expected);

    let taken = IndexerError::AttributeAlreadyExists {
        resource_type: "instance".to_owned(),
        attribute: "memory".to_owned(),
    };
    for (change, refusal) in [
        (delete("host"), no_attribute("host")),
        (update("host", string()), no_attribute("host")),
        (update("vcpus", string()), no_attribute("vcpus")),
        (add("memory", string()), taken),
        // Rejected as a whole.
        (
            ResourceTypeChange { delete: vec!["vcpus".into(), "host".into()], ..Default::default() },
            no_attribute("host"),
        ),
    ] {
        assert_eq!(indexer.update_resource_type("instance", change).await, Err(refusal));
    }
    assert_eq!(*indexer.resource_type("instance").await.unwrap().unwrap(), expected);
}

pub(in crate::conformance) async fn a_fill_is_for_those_that_are_there(indexer: &dyn Indexer) {
    create_type(indexer).await;
    indexer.create_resources(vec![instance(1), new_resource(9)]).await;
    rename(indexer, 1, "renamed").await;
    let red = filled(&string(), text("red"));
    indexer.update_resource_type("instance", add("colour", red)).await.unwrap();
    indexer.create_resources(vec![instance(2)]).await;
    // Also in the past, and not in the future.
    assert_eq!(in_revisions(indexer, 1, "colour").await, [text("red"), text("red")]);
    assert_eq!(shown(indexer, 2).await.attributes["colour"], AttributeValue::Null);
    rename(indexer, 1, "again").await;
    rename(indexer, 2, "again").await;
    assert_eq!(in_revisions(indexer, 1, "colour").await, vec![text("red"); 3]);
    assert_eq!(in_revisions(indexer, 2, "colour").await, vec![AttributeValue::Null; 2]);

    // A later fill applies only to resources that still have no value.
    let blue = filled(&string(), text("blue"));
    indexer.update_resource_type("instance", update("colour", blue)).await.unwrap();
    indexer.create_resources(vec![instance(3)]).await;
    assert_eq!(in_revisions(indexer, 1, "colour").await, vec![text("red"); 3]);
    assert_eq!(in_revisions(indexer, 2, "colour").await, vec![text("blue"); 2]);
    assert_eq!(in_revisions(indexer, 3, "colour").await, [AttributeValue::Null]);
    // An attribute without a fill is null.
    indexer.update_resource_type("instance", add("empty", string())).await.unwrap();
    assert_eq!(shown(indexer, 1).await.attributes["empty"], AttributeValue::Null);
}

pub(in crate::conformance) async fn an_attribute_begins_afresh(indexer: &dyn Indexer) {
    create_type(indexer).await;
    let with_host = |number| {
        let mut new = instance(number);
        new.attributes.insert("host".into(), text("compute1"));
        new
    };
    indexer.create_resources(vec![with_host(1)]).await;
    rename(indexer, 1, "renamed").await;
    indexer.update_resource_type("instance", delete("host")).await.unwrap();
    assert_eq!(shown(indexer, 1).await.attributes.get("host"), None);
    assert_eq!(indexer.create_resources(vec![with_host(2)]).await, [Err(no_attribute("host"))]);
    let flag = attribute(AttributeKind::Bool);
    indexer.update_resource_type("instance", add("host", flag)).await.unwrap();
    assert_eq!(in_revisions(indexer, 1, "host").await, vec![AttributeValue::Null; 2]);
    // A process that has not seen the change yet has validated values against the former attribute.
    let refused = IndexerError::InvalidAttributeValue {
        resource_type: "instance".to_owned(),
        attribute: "host".to_owned(),
        value: "compute1".to_owned(),
    };
    assert_eq!(indexer.create_resources(vec![with_host(2)]).await, [Err(refused.clone())]);
    let change = ResourceChange { attributes: with_host(1).attributes, ..change(200) };
    assert_eq!(indexer.update_resource("instance", Uuid::from_u128(1), change).await, Err(refused));
    assert_eq!(shown(indexer, 1).await.attributes["display_name"], text("renamed"));
}

pub(in crate::conformance) async fn deletion_is_refused_while_in_use(indexer: &dyn Indexer) {
    create_type(indexer).await;
    indexer.create_resources(vec![instance(1)]).await;
    let in_use = IndexerError::ResourceTypeInUse("instance".to_owned());
    assert_eq!(indexer.delete_resource_type("instance").await, Err(in_use));
    assert!(indexer.delete_resources(&[Uuid::from_u128(1)]).await[0].is_ok());
    assert_eq!(indexer.delete_resource_type("instance").await, Ok(()));
    // A new type of the same name inherits nothing.
    create_type(indexer).await;
    indexer.create_resources(vec![NewResource { attributes: [].into(), ..instance(1) }]).await;
    assert!(shown(indexer, 1).await.attributes.values().all(|value| *value == AttributeValue::Null));
}

pub(in crate::conformance) async fn what_is_left_is_swept(indexer: &dyn Indexer) {
    create_type(indexer).await;
    indexer.create_resources((0..5).map(instance).collect()).await;
    rename(indexer, 1, "renamed").await;
    assert_eq!(indexer.sweep_values(10).await, Ok(0));
    let change = ResourceTypeChange {
        delete: vec!["display_name".into(), "vcpus".into()],
        ..ResourceTypeChange::default()
    };
    indexer.update_resource_type("instance", change).await.unwrap();
    while indexer.sweep_values(2).await.unwrap() == 2 {}
    assert_eq!(indexer.sweep_values(100).await, Ok(0));
    assert_eq!(shown(indexer, 1).await.attributes.len(), 1);
    assert!(indexer.delete_resources(&[Uuid::from_u128(1)]).await[0].is_ok());
}
