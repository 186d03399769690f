//! Random sequences of annotation calls, compared with the index in memory.

mod engines;
mod playing;

use gnudi_indexer::{Annotation, AnnotationListing, Indexer, NewResource};
use gnudi_model::{Timestamp, resource_type::GENERIC};
use proptest::prelude::*;
use uuid::Uuid;

calls! {
    index:
    CreateResource(id: Uuid) => index.create_resources(vec![resource(id)]).await,
    DeleteResources(ids: Vec<Uuid>) => index.delete_resources(&ids).await,
    Create(annotation: Annotation) => index.create_annotation(annotation).await,
    Show(resource_id: Uuid, id: Uuid) => index.annotation(resource_id, id).await,
    List(listing: AnnotationListing) => index.list_annotations(&listing).await,
    Delete(resource_id: Uuid, id: Uuid) => index.delete_annotation(resource_id, id).await,
    ;
    async fn everything(index: &dyn Indexer) -> String {
        let mut lists = Vec::new();
        for number in 0..RESOURCES {
            let all = index.list_annotations(&AnnotationListing::of(Uuid::from_u128(number))).await;
            lists.push(all);
        }
        format!("{lists:?}")
    }
}

const RESOURCES: u128 = 4;

fn resource(id: Uuid) -> NewResource {
    NewResource::new(id, GENERIC, "admin", Timestamp::EPOCH)
}

fn resource_id() -> impl Strategy<Value = Uuid> {
    (0..RESOURCES).prop_map(Uuid::from_u128)
}

fn id() -> impl Strategy<Value = Uuid> {
    (0..12u128).prop_map(|number| Uuid::from_u128(number << 120 | number))
}

fn time() -> impl Strategy<Value = Timestamp> {
    (-3..6i64).prop_map(|microseconds| Timestamp(microseconds * 1_000))
}

fn annotation() -> impl Strategy<Value = Annotation> {
    let text = prop::sample::select(vec!["", "a", "é\n", "\u{10ffff}'"]).prop_map(str::to_owned);
    (id(), resource_id(), time(), text.clone(), text).prop_map(
        |(id, resource_id, timestamp, text, creator)| Annotation {
            id,
            resource_id,
            timestamp,
            text,
            creator,
        },
    )
}

fn listing() -> impl Strategy<Value = AnnotationListing> {
    let time = || prop::option::weighted(0.3, time());
    (resource_id(), time(), time(), prop::option::weighted(0.5, id()), 0..5usize).prop_map(
        |(resource_id, start, stop, marker, limit)| AnnotationListing {
            resource_id,
            start,
            stop,
            marker,
            limit,
        },
    )
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        3 => resource_id().prop_map(Call::CreateResource),
        1 => prop::collection::vec(resource_id(), 0..3).prop_map(Call::DeleteResources),
        12 => annotation().prop_map(Call::Create),
        3 => (resource_id(), id()).prop_map(|(resource, id)| Call::Show(resource, id)),
        8 => listing().prop_map(Call::List),
        3 => (resource_id(), id()).prop_map(|(resource, id)| Call::Delete(resource, id)),
        1 => Just(Call::Reopen),
    ];
    prop::collection::vec(call, 1..80)
}

answers_as_the_model!(calls);
