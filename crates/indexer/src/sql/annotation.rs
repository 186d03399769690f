//! Statements for annotations. `resource/delete.rs` deletes those of a deleted resource.

use async_trait::async_trait;
use gnudi_model::Timestamp;
use uuid::Uuid;

use super::{
    Connection, Dialect, Row, SqlIndexer, Statement,
    execute::{Execute, Refusals, execute_checked},
    failure::{Failure, text_of},
    id_at,
    writer::{Applied, Change, Context},
};
use crate::{
    Annotation, AnnotationListing, Annotations, IndexerError, Result, Touched,
    annotation::{ANNOTATIONS_MAX, marker_of},
};

const SELECT: &str = "SELECT id, resource_id, annotated_at, content, creator FROM resource_annotation";

#[async_trait]
impl Annotations for SqlIndexer {
    async fn create_annotation(&self, annotation: Annotation) -> Result<()> {
        self.writer.change(CreateAnnotation(annotation)).await
    }

    async fn annotation(&self, resource_id: Uuid, id: Uuid) -> Result<Option<Annotation>> {
        let mut select = Statement::new(self.readers.dialect(), SELECT);
        select.push(" WHERE id = ").push_bind(id).push(" AND resource_id = ").push_bind(resource_id);
        let row = self.readers.fetch_optional(select).await?;
        row.map(|row| decode(&row)).transpose()
    }

    async fn list_annotations(&self, listing: &AnnotationListing) -> Result<Vec<Annotation>> {
        let marker = marker_of(self, listing).await?;
        let listed = list(self.readers.dialect(), listing, marker.as_ref()).for_search();
        let rows = self.readers.fetch_all(listed).await?;
        rows.iter().map(decode).collect()
    }

    async fn delete_annotation(&self, resource_id: Uuid, id: Uuid) -> Result<()> {
        let delete = self
            .readers
            .statement("DELETE FROM resource_annotation WHERE id = ? AND resource_id = ?")
            .bind(id)
            .bind(resource_id);
        let missing = Some(IndexerError::NoSuchAnnotation(id));
        self.writer.change(Execute { missing, ..Execute::new(delete) }).await.map(drop)
    }
}

fn list(dialect: Dialect, listing: &AnnotationListing, marker: Option<&Annotation>) -> Statement {
    let mut query = Statement::new(dialect, SELECT);
    query.push(" WHERE resource_id = ").push_bind(listing.resource_id);
    if let Some(start) = listing.start {
        query.push(" AND annotated_at >= ").push_bind(start.0);
    }
    if let Some(stop) = listing.stop {
        query.push(" AND annotated_at < ").push_bind(stop.0);
    }
    if let Some(Annotation { timestamp, id, .. }) = marker {
        query.push(" AND annotated_at >= ").push_bind(timestamp.0);
        query.push(" AND (annotated_at > ").push_bind(timestamp.0);
        query.push(" OR id > ").push_bind(*id).push(")");
    }
    query.push(" ORDER BY annotated_at, id LIMIT ");
    query.push_bind(i64::try_from(listing.limit).unwrap_or(i64::MAX));
    query
}

fn decode(row: &Row) -> Result<Annotation> {
    let id = id_at(row, 0)?;
    let text = |column| text_of(format_args!("annotation {id}"), row, column);
    Ok(Annotation {
        id,
        resource_id: id_at(row, 1)?,
        timestamp: Timestamp(row.try_get(2)?),
        text: text(3)?,
        creator: text(4)?,
    })
}

struct CreateAnnotation(Annotation);

#[async_trait]
impl Change for CreateAnnotation {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<()> {
        let Annotation { id, resource_id, timestamp, text, creator } = &self.0;
        let select = connection.statement("SELECT number FROM resource WHERE id = ?").bind(*resource_id);
        if connection.fetch_optional(select).await?.is_none() {
            return Err(Failure::Refused(IndexerError::NoSuchResource(*resource_id)));
        }
        let count = "SELECT COUNT(*) FROM resource_annotation WHERE resource_id = ?";
        let count: i64 =
            connection.fetch_one(connection.statement(count).bind(*resource_id)).await?.try_get(0)?;
        if usize::try_from(count).is_ok_and(|count| count >= ANNOTATIONS_MAX) {
            let (resource, max) = (*resource_id, ANNOTATIONS_MAX);
            return Err(Failure::Refused(IndexerError::TooManyAnnotations { resource, max }));
        }
        let insert = connection
            .statement(
                "INSERT INTO resource_annotation (id, resource_id, annotated_at, content, creator) \
                 VALUES (?, ?, ?, ?, ?)",
            )
            .bind(*id)
            .bind(*resource_id)
            .bind(timestamp.0)
            .bind(text)
            .bind(creator);
        let taken = IndexerError::AnnotationAlreadyExists(*id);
        execute_checked(connection, insert, Refusals { unique: Some(taken), ..Refusals::default() }).await?;
        Ok(((), Touched::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteOptions;

    #[tokio::test]
    async fn a_page_searches_an_index_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let indexer = SqlIndexer::open(&SqliteOptions::new(folder.path().join("index"))).await.unwrap();
        let marker = Annotation {
            id: Uuid::max(),
            resource_id: Uuid::nil(),
            timestamp: Timestamp::EPOCH,
            text: String::new(),
            creator: String::new(),
        };
        let listing =
            AnnotationListing { stop: Some(Timestamp::EPOCH), ..AnnotationListing::of(Uuid::nil()) };
        let query = list(Dialect::Sqlite, &listing, Some(&marker));
        let plan = crate::sql::plan(&indexer, &query).await;
        let search = "ix_resource_annotation (resource_id=? AND annotated_at>? AND annotated_at<?)";
        assert!(plan.len() == 1 && plan[0].ends_with(search), "{plan:?}");
    }
}
