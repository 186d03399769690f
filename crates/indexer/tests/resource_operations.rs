//! Random sequences of resource calls, compared with the index in memory.

mod engines;
mod playing;

use gnudi_indexer::{
    Indexer, IndexerError, MetricFilter, MetricListing, MetricsChange, NewMetric, NewNamedMetric,
    NewResource, NewRevision, Page, ResourceChange, ResourceListing, ResourceTypeChange,
    create_default_archive_policies,
};
use gnudi_model::{
    ArchivePolicy, Attribute, AttributeKind, AttributeValue, MetricId, ResourceType, Text, Timestamp,
    resource_type::GENERIC,
};
use proptest::prelude::*;
use uuid::Uuid;

calls! {
    index:
    CreateType(resource_type: ResourceType) => index.create_resource_type(resource_type).await,
    UpdateType(name: String, change: ResourceTypeChange) => index.update_resource_type(&name, change).await,
    DeleteType(name: String) => index.delete_resource_type(&name).await,
    ShowTypes(name: String) => (index.resource_type(&name).await, index.resource_types().await),
    Create(resources: Vec<NewResource>) => index.create_resources(resources).await,
    Show(resource_type: String, id: Uuid) => index.resource(&resource_type, id).await,
    Update(resource_type: String, id: Uuid, change: ResourceChange) =>
        index.update_resource(&resource_type, id, change).await,
    End(ids: Vec<Uuid>, now: Timestamp) => index.end_resources(&ids, now).await,
    Ends(ids: Vec<Uuid>) => index.ends(&ids).await,
    Revive(seen: Vec<(Uuid, Timestamp)>, now: Timestamp) => index.revive_resources(&seen, now).await,
    Delete(ids: Vec<Uuid>) => index.delete_resources(&ids).await,
    CreateMetrics(metrics: Vec<NewMetric>) => index.create_metrics(metrics).await,
    DeleteMetrics(ids: Vec<MetricId>) => index.delete_metrics(&ids).await,
    ShowMetrics(ids: Vec<MetricId>) => index.metrics(&ids).await,
    Named(names: Vec<(Uuid, String)>) => {
        let names: Vec<_> = names.iter().map(|(resource, name)| (*resource, name.as_str())).collect();
        index.named_metrics(&names).await
    },
    RemoveRevisions(before: Timestamp, limit: usize) => index.remove_revisions(before, limit).await,
    // Only one of them has something to sweep.
    Sweep(limit: usize) => index.sweep_values(limit).await.is_ok(),
    ;
    async fn prepare(index: &dyn Indexer) {
        create_default_archive_policies(index, &ArchivePolicy::default_methods()).await.unwrap();
    }

    async fn everything(index: &dyn Indexer) -> String {
        let listing = ResourceListing {
            history: true,
            details: true,
            ..ResourceListing::of(GENERIC, Timestamp::EPOCH)
        };
        let resources = index.list_resources(&listing).await;
        let revisions: Result<Vec<_>, IndexerError> = resources.map(|resources| {
            // Revision numbers differ between indexes; their order does not.
            let mut revisions: Vec<_> = resources.iter().map(|resource| (**resource).clone()).collect();
            revisions.sort_by_key(|resource| (resource.id, resource.revision.cast_unsigned()));
            for resource in &mut revisions {
                resource.revision = resource.revision.min(0);
            }
            revisions
        });
        let metrics = MetricListing { filter: MetricFilter::default(), page: Page::first(1000) };
        let metrics = index.list_metrics(&metrics).await;
        format!("{revisions:#?} {metrics:#?} {:?}", index.deleted_metrics(None, 1000).await)
    }
}

// Few of each, so that calls meet.

fn id() -> impl Strategy<Value = Uuid> {
    (0..5u128).prop_map(Uuid::from_u128)
}

fn metric_id() -> impl Strategy<Value = MetricId> {
    (0..8u128).prop_map(|number| MetricId(Uuid::from_u128(number)))
}

fn type_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "a", "a", "b", GENERIC, "none"]).prop_map(str::to_owned)
}

fn attribute_name() -> impl Strategy<Value = Text> {
    prop::sample::select(vec!["text", "number", "flag", "text2"]).prop_map(Text::from)
}

fn text() -> impl Strategy<Value = AttributeValue> {
    prop::sample::select(vec!["", "x", "Y\u{1F95F}\"\\"]).prop_map(|text| AttributeValue::String(text.into()))
}

/// The attribute's name determines its kind, so that a value is valid whenever the attribute exists.
fn value(name: &str) -> BoxedStrategy<AttributeValue> {
    match name {
        "number" => {
            prop::sample::select(vec![0.0, 0.1, -1e300, 5e-324, 3.0]).prop_map(AttributeValue::Number).boxed()
        }
        "flag" => any::<bool>().prop_map(AttributeValue::Bool).boxed(),
        _ => text().boxed(),
    }
}

fn attribute() -> impl Strategy<Value = (Text, Attribute)> {
    attribute_name().prop_flat_map(|name| {
        let fill = prop::option::of(prop_oneof![4 => value(&name), 1 => Just(AttributeValue::Null)]);
        (fill, any::<bool>(), 1..5u32).prop_map(move |(fill, required, max)| {
            let kind = match name.as_str() {
                "number" => AttributeKind::Number { min: None, max: Some(f64::from(max) / 3.0) },
                "flag" => AttributeKind::Bool,
                _ => AttributeKind::String { min_length: 0, max_length: max },
            };
            (name.clone(), Attribute { kind, required, fill })
        })
    })
}

fn type_change() -> impl Strategy<Value = ResourceTypeChange> {
    let attributes = |count| prop::collection::btree_map(attribute_name(), attribute(), count);
    (attributes(0..2usize), attributes(0..2), prop::collection::btree_set(attribute_name(), 0..2)).prop_map(
        |(add, update, delete)| {
            let delete: Vec<Text> = delete.into_iter().collect();
            let update: Vec<_> = update.into_values().filter(|(name, _)| !delete.contains(name)).collect();
            let add = add.into_values().filter(|(name, _)| update.iter().all(|(updated, _)| updated != name));
            ResourceTypeChange { add: add.collect(), update, delete }
        },
    )
}

fn attributes() -> impl Strategy<Value = Vec<(Text, AttributeValue)>> {
    let with_value = attribute_name().prop_flat_map(|name| {
        let value = prop_oneof![6 => value(&name), 1 => Just(AttributeValue::Null)];
        value.prop_map(move |value| (name.clone(), value))
    });
    prop::collection::vec(with_value, 0..3)
}

fn metrics() -> impl Strategy<Value = Vec<(String, MetricsChange)>> {
    let policy = prop_oneof![9 => Just("low"), 1 => Just("none")];
    let created =
        (metric_id(), policy).prop_map(|(id, policy)| MetricsChange::Create(NewNamedMetric::new(id, policy)));
    let change = prop_oneof![created, metric_id().prop_map(MetricsChange::Attach)];
    prop::collection::btree_map(metric_name(), change, 0..3).prop_map(|metrics| metrics.into_iter().collect())
}

fn metric_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["cpu", "disk", "net"]).prop_map(str::to_owned)
}

fn creator() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("admin"), 1 => Just("u:p")].prop_map(str::to_owned)
}

fn time() -> impl Strategy<Value = Timestamp> {
    (1..20i64).prop_map(Timestamp::from_secs)
}

fn label() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::sample::select(vec!["p", "q"]).prop_map(str::to_owned))
}

fn new_resource() -> impl Strategy<Value = NewResource> {
    let texts = (type_name(), creator(), label(), label());
    let times = (time(), prop::option::weighted(0.2, time()), time());
    (id(), texts, times, attributes(), metrics()).prop_map(|(id, texts, times, attributes, metrics)| {
        let (resource_type, creator, user_id, project_id) = texts;
        let (started_at, ended_at, now) = times;
        // An unknown attribute rejects the resource: mostly it is generic then.
        let attributes = if resource_type == GENERIC { [].into() } else { attributes.into_iter().collect() };
        NewResource {
            id,
            resource_type,
            original_resource_id: format!("original {id}"),
            creator,
            user_id,
            project_id,
            started_at,
            ended_at,
            attributes,
            metrics,
            now,
        }
    })
}

fn change() -> impl Strategy<Value = ResourceChange> {
    let times = (prop::option::weighted(0.2, time()), prop::option::weighted(0.3, prop::option::of(time())));
    (
        prop::option::weighted(0.2, label()),
        prop::option::weighted(0.2, label()),
        times,
        attributes(),
        prop::option::weighted(0.4, metrics()),
        any::<(bool, bool)>(),
        time(),
    )
        .prop_map(|(user_id, project_id, (started_at, ended_at), attributes, metrics, flags, now)| {
            ResourceChange {
                user_id,
                project_id,
                started_at,
                ended_at,
                attributes: attributes.into_iter().collect(),
                metrics,
                append_metrics: flags.0,
                revision: if flags.1 { NewRevision::IfChanged } else { NewRevision::Never },
                of_revision: None,
                now,
            }
        })
}

fn new_metric() -> impl Strategy<Value = NewMetric> {
    (metric_id(), creator(), prop::option::of(id()), metric_name()).prop_map(
        |(id, creator, resource_id, name)| NewMetric {
            name: Some(name),
            resource_id,
            ..NewMetric::new(id, &creator, "low", Timestamp::EPOCH)
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    let resource_type =
        (type_name(), prop::collection::vec(attribute(), 0..3)).prop_map(|(name, attributes)| ResourceType {
            name: name.into(),
            attributes: attributes.into_iter().collect(),
        });
    prop_oneof![
        1 => resource_type.prop_map(Call::CreateType),
        4 => (type_name(), type_change()).prop_map(|(name, change)| Call::UpdateType(name, change)),
        1 => type_name().prop_map(Call::DeleteType),
        2 => type_name().prop_map(Call::ShowTypes),
        8 => prop::collection::vec(new_resource(), 1..5).prop_map(Call::Create),
        4 => (type_name(), id()).prop_map(|(name, id)| Call::Show(name, id)),
        8 => (type_name(), id(), change()).prop_map(|(name, id, change)| Call::Update(name, id, change)),
        1 => (prop::collection::vec(id(), 0..4), time()).prop_map(|(ids, now)| Call::End(ids, now)),
        4 => prop::collection::vec(id(), 0..5).prop_map(Call::Ends),
        2 => (prop::collection::vec((id(), time()), 0..4), time()).prop_map(|(seen, now)| Call::Revive(seen, now)),
        2 => prop::collection::vec(id(), 0..3).prop_map(Call::Delete),
        3 => prop::collection::vec(new_metric(), 1..4).prop_map(Call::CreateMetrics),
        2 => prop::collection::vec(metric_id(), 0..3).prop_map(Call::DeleteMetrics),
        2 => prop::collection::vec(metric_id(), 0..5).prop_map(Call::ShowMetrics),
        4 => prop::collection::vec((id(), metric_name()), 0..5).prop_map(Call::Named),
        1 => (0..10usize).prop_map(Call::Sweep),
        4 => (time(), 0..4usize).prop_map(|(before, limit)| Call::RemoveRevisions(before, limit)),
        1 => Just(Call::Reopen),
    ]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let text = AttributeKind::String { min_length: 0, max_length: 9 };
    let attribute = |name: &str, kind| (name.into(), Attribute { kind, required: false, fill: None });
    let number = AttributeKind::Number { min: None, max: None };
    let attributes =
        [attribute("text", text), attribute("number", number), attribute("flag", AttributeKind::Bool)];
    let resource_type = ResourceType { name: "a".into(), attributes: attributes.into() };
    prop::collection::vec(call(), 1..60).prop_map(move |mut calls| {
        calls.insert(0, Call::CreateType(resource_type.clone()));
        calls
    })
}

answers_as_the_model!(calls);
