//! The contract of [`Annotations`](crate::Annotations).

use gnudi_model::{Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use super::{
    create_generic,
    resource::{at, uuid},
};
use crate::{
    Annotation, AnnotationListing, Filter, FilterValue, Indexer, IndexerError, annotation::ANNOTATIONS_MAX,
};

fn annotation(resource: u128, number: u128, second: i64) -> Annotation {
    Annotation {
        id: Uuid::from_u128(number),
        resource_id: uuid(resource),
        timestamp: at(second),
        text: format!("number {number}"),
        creator: "u:p".to_owned(),
    }
}

async fn annotate(indexer: &dyn Indexer, annotations: &[(u128, u128, i64)]) {
    for &(resource, number, second) in annotations {
        indexer.create_annotation(annotation(resource, number, second)).await.unwrap();
    }
}

async fn listed(indexer: &dyn Indexer, listing: &AnnotationListing) -> Vec<u128> {
    let found = indexer.list_annotations(listing).await.unwrap();
    found.iter().map(|annotation| annotation.id.as_u128()).collect()
}

pub(super) async fn is_kept_whole(indexer: &dyn Indexer) {
    create_generic(indexer, &[1, 2]).await;
    let written = Annotation {
        timestamp: Timestamp(-1_500_000),
        text: "é \u{1f525} 'quoted' \"twice\" \\ %_\n ".repeat(100),
        creator: String::new(),
        ..annotation(1, u128::MAX, 0)
    };
    indexer.create_annotation(written.clone()).await.unwrap();
    assert_eq!(indexer.annotation(uuid(1), written.id).await, Ok(Some(written.clone())));
    assert_eq!(indexer.list_annotations(&AnnotationListing::of(uuid(1))).await, Ok(vec![written.clone()]));
    assert_eq!(indexer.annotation(uuid(2), written.id).await, Ok(None));
    assert_eq!(indexer.annotation(uuid(1), uuid(3)).await, Ok(None));
    assert_eq!(indexer.list_annotations(&AnnotationListing::of(uuid(2))).await, Ok(vec![]));
    indexer.delete_annotation(uuid(1), written.id).await.unwrap();
    assert_eq!(indexer.list_annotations(&AnnotationListing::of(uuid(1))).await, Ok(vec![]));
}

pub(super) async fn pages_and_times(indexer: &dyn Indexer) {
    create_generic(indexer, &[1, 2]).await;
    annotate(indexer, &[(1, 5, 10), (1, 3, 10), (1, 9, 5), (2, 4, 10), (1, 1, 20), (1, 2, 10)]).await;
    let all = AnnotationListing::of(uuid(1));
    assert_eq!(listed(indexer, &all).await, [9, 2, 3, 5, 1]);
    let between =
        |start, stop| AnnotationListing { start: Some(at(start)), stop: Some(at(stop)), ..all.clone() };
    assert_eq!(listed(indexer, &between(5, 20)).await, [9, 2, 3, 5]);
    assert_eq!(listed(indexer, &between(6, 21)).await, [2, 3, 5, 1]);
    assert_eq!(listed(indexer, &between(20, 5)).await, [0; 0]);
    let mut pages = Vec::new();
    let mut marker = None;
    loop {
        let page = listed(indexer, &AnnotationListing { marker, limit: 2, ..between(0, 20) }).await;
        marker = page.last().map(|last| Uuid::from_u128(*last));
        pages.push(page);
        if marker.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![9, 2], vec![3, 5], vec![]]);
    assert_eq!(listed(indexer, &AnnotationListing { limit: 0, ..all.clone() }).await, [0; 0]);
    for strange in [4, 77] {
        let refused = IndexerError::InvalidPagination(format!("Invalid marker: `{}'", uuid(strange)));
        let listing = AnnotationListing { marker: Some(uuid(strange)), ..all.clone() };
        assert_eq!(indexer.list_annotations(&listing).await, Err(refused));
    }
}

pub(super) async fn refusals(indexer: &dyn Indexer) {
    create_generic(indexer, &[1, 2]).await;
    let outcome = indexer.create_annotation(annotation(7, 1, 0)).await;
    assert_eq!(outcome, Err(IndexerError::NoSuchResource(uuid(7))));
    annotate(indexer, &[(1, 1, 0)]).await;
    for resource in [1, 2] {
        let outcome = indexer.create_annotation(annotation(resource, 1, 9)).await;
        assert_eq!(outcome, Err(IndexerError::AnnotationAlreadyExists(uuid(1))));
    }
    for (resource, number) in [(2, 1), (1, 2), (7, 1)] {
        let outcome = indexer.delete_annotation(uuid(resource), uuid(number)).await;
        assert_eq!(outcome, Err(IndexerError::NoSuchAnnotation(uuid(number))));
    }
    assert_eq!(indexer.annotation(uuid(1), uuid(1)).await, Ok(Some(annotation(1, 1, 0))));
    for number in 2..=ANNOTATIONS_MAX as u128 {
        annotate(indexer, &[(1, number, number as i64)]).await;
    }
    let refused = IndexerError::TooManyAnnotations { resource: uuid(1), max: ANNOTATIONS_MAX };
    assert_eq!(indexer.create_annotation(annotation(1, 1_000_000, 0)).await, Err(refused));
    annotate(indexer, &[(2, 1_000_000, 0)]).await;
    assert_eq!(listed(indexer, &AnnotationListing::of(uuid(1))).await.len(), ANNOTATIONS_MAX);
    indexer.delete_annotation(uuid(1), uuid(5)).await.unwrap();
    annotate(indexer, &[(1, 1_000_001, 0)]).await;
}

pub(super) async fn goes_with_its_resource(indexer: &dyn Indexer) {
    create_generic(indexer, &[1, 2, 3]).await;
    annotate(indexer, &[(1, 1, 0), (2, 2, 0), (2, 3, 0), (3, 4, 0)]).await;
    assert!(indexer.delete_resources(&[uuid(1)]).await[0].is_ok());
    let filter = Filter::In { field: "id".to_owned(), values: vec![FilterValue::Uuid(uuid(2))] };
    indexer.delete_matching_resources(GENERIC, &filter, at(0)).await.unwrap();
    let left = async |resource| listed(indexer, &AnnotationListing::of(uuid(resource))).await.len();
    assert_eq!([left(1).await, left(2).await, left(3).await], [0, 0, 1]);
    // New resources with the same ids have no annotations.
    create_generic(indexer, &[1, 2]).await;
    assert_eq!([left(1).await, left(2).await], [0, 0]);
    annotate(indexer, &[(1, 1, 0)]).await;
}
