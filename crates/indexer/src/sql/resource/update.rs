//! Statements that change a resource and keep its former revision.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use gnudi_model::{MetricId, Resource, Timestamp, resource_type::GENERIC};
use uuid::Uuid;

use super::{
    create::{encode, insert_values},
    row,
    row::Attributes,
    set_metrics,
    value::{check_lengths, sortable},
};
use crate::{
    IndexerError, ResourceChange, Touched, UpdatedResource,
    resource::{attached, changed, check_attributes, check_revision, check_times, created, next_start},
    sql::{
        Connection, Statement,
        failure::Failure,
        types::StoredType,
        writer::{Applied, Change, Context},
    },
};

pub(super) struct UpdateResource {
    resource_type: String,
    id: Uuid,
    change: ResourceChange,
}

/// The current row of a resource.
struct Current {
    resource: Resource,
    number: i64,
    stored: Arc<StoredType>,
    /// The row's JSON.
    attributes: String,
    types_version: i64,
}

impl UpdateResource {
    pub(super) fn new(resource_type: &str, id: Uuid, change: ResourceChange) -> Self {
        UpdateResource { resource_type: resource_type.to_owned(), id, change }
    }

    async fn current(&self, connection: &mut Connection, context: &Context) -> Result<Current, Failure> {
        let row = connection.fetch_optional(row::select_one(connection.dialect(), self.id)).await?;
        let types = match &row {
            Some(row) => context.types_at(connection, row.try_get(row::VERSION)?).await,
            None => context.types(connection).await,
        };
        let types = types.map_err(Failure::Broken)?;
        let asked_for = types.named(&self.resource_type).map_err(Failure::Refused)?;
        let missing = || Failure::Refused(IndexerError::NoSuchResource(self.id));
        let row = row.ok_or_else(missing)?;
        let type_number: i64 = row.try_get(1)?;
        if asked_for.number != type_number && self.resource_type != GENERIC {
            return Err(missing());
        }
        check_attributes(&asked_for.resource_type, &self.change.attributes).map_err(Failure::Refused)?;
        check_lengths(connection.dialect(), &self.resource_type, &self.change.attributes)
            .map_err(Failure::Refused)?;
        let resource =
            row::decode(&row, &types, Attributes::All, &context.texts).map_err(Failure::Refused)?;
        Ok(Current {
            resource: resource.expect("a type that a resource refers to is there"),
            number: row.try_get(row::NUMBER)?,
            stored: types.numbered(type_number).expect("the resource was decoded with it").clone(),
            attributes: row.try_get(9)?,
            types_version: types.version,
        })
    }

    async fn write(
        &self,
        connection: &mut Connection,
        current: &Current,
        resource: &Resource,
        is_new_revision: bool,
    ) -> Result<(), Failure> {
        let before = current.stored.values_in(&current.attributes);
        let before = before.map_err(|error| Failure::Refused(row::damaged(self.id, &error)))?;
        let before: BTreeSet<(i64, Vec<u8>)> =
            before.iter().filter_map(|(number, value)| Some((*number, sortable(value)?))).collect();
        if is_new_revision {
            keep_revision(connection, current, resource, &before).await?;
        }
        let (attributes, values) = encode(&current.stored, &resource.attributes);
        let update = connection
            .statement(
                "UPDATE resource SET user_id = ?, project_id = ?, started_at = ?, ended_at = ?, revision_start = ?, \
                 attributes = ?, type_version = ? WHERE number = ?",
            )
            .bind(resource.user_id.as_deref())
            .bind(resource.project_id.as_deref())
            .bind(resource.started_at.0)
            .bind(resource.ended_at.map(|time| time.0))
            .bind(resource.revision_start.0)
            .bind(attributes)
            .bind(current.types_version)
            .bind(current.number);
        connection.execute(update).await?;
        let after: BTreeSet<(i64, Vec<u8>)> = values.into_iter().collect();
        for (attribute, value) in before.difference(&after) {
            let delete = connection
                .statement(
                    "DELETE FROM resource_value WHERE attribute_number = ? AND value = ? AND resource_number = ?",
                )
                .bind(*attribute)
                .bind(value.clone())
                .bind(current.number);
            connection.execute(delete).await?;
        }
        let mut added: Vec<(i64, &[u8], i64)> = after
            .difference(&before)
            .map(|(attribute, value)| (*attribute, &**value, current.number))
            .collect();
        insert_values(connection, "resource_value", "resource_number", &mut added).await?;
        Ok(())
    }

    /// Everything except the metrics.
    async fn change(&self, connection: &mut Connection, current: &Current) -> Result<Resource, Failure> {
        check_revision(self.id, current.resource.revision_start, self.change.of_revision)
            .map_err(Failure::Refused)?;
        let mut resource = changed(&current.resource, &self.change);
        check_times(&self.resource_type, &resource).map_err(Failure::Refused)?;
        let has_changed = resource != current.resource;
        let creates_revision = self.change.revision.is_created(has_changed);
        if creates_revision {
            resource.revision_start = next_start(current.resource.revision_start, &self.change);
        }
        if has_changed || creates_revision {
            self.write(connection, current, &resource, creates_revision).await?;
        }
        Ok(resource)
    }

    /// Returns the metrics that were detached.
    async fn update_metrics(
        &self,
        connection: &mut Connection,
        context: &Context,
        resource: &mut Resource,
    ) -> Result<Vec<MetricId>, Failure> {
        let before = set_metrics(connection, context, resource, &[], self.change.now).await?;
        let Some(metrics) = &self.change.metrics else {
            resource.metrics = before;
            return Ok(Vec::new());
        };
        if !self.change.append_metrics {
            let detach = connection
                .statement("UPDATE metric SET resource_id = NULL WHERE resource_id = ? AND status = 0")
                .bind(self.id);
            connection.execute(detach).await?;
        }
        resource.metrics = set_metrics(connection, context, resource, metrics, self.change.now).await?;
        let kept: HashSet<MetricId> = resource.metrics.iter().map(|metric| metric.id).collect();
        Ok(before.iter().map(|metric| metric.id).filter(|id| !kept.contains(id)).collect())
    }

    async fn apply_whole(&self, connection: &mut Connection, context: &Context) -> Applied<UpdatedResource> {
        let current = self.current(connection, context).await?;
        let mut resource = self.change(connection, &current).await?;
        let detached = self.update_metrics(connection, context, &mut resource).await?;
        if self.resource_type == GENERIC {
            resource.attributes.clear();
        }
        let attached = attached(self.change.metrics.iter().flatten());
        let touched = Touched::default()
            .with_attributes(&[self.id])
            .with_created(created(self.change.metrics.iter().flatten()).map(|metric| metric.id))
            .with_metrics(detached.iter().copied())
            .with_metrics_of_any_resource(attached);
        Ok((UpdatedResource { resource: Arc::new(resource), detached }, touched))
    }
}

#[async_trait]
impl Change for UpdateResource {
    type Answer = UpdatedResource;

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<UpdatedResource> {
        // Only changes of metrics can be rejected after something was written.
        if self.change.metrics.is_none() {
            return self.apply_whole(connection, context).await;
        }
        connection.run("SAVEPOINT updated").await?;
        let outcome = self.apply_whole(connection, context).await;
        if let Err(Failure::Refused(_)) = outcome {
            connection.run("ROLLBACK TO SAVEPOINT updated").await?;
        }
        if !matches!(outcome, Err(Failure::Broken(_))) {
            connection.run("RELEASE SAVEPOINT updated").await?;
        }
        outcome
    }
}

/// Sets or removes the ends of the resources that satisfy a condition, each at its time; returns their number.
pub(super) struct SetEnds {
    pub(super) resources: Vec<(Uuid, Timestamp)>,
    pub(super) must_be: fn(&Resource, Timestamp) -> bool,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) now: Timestamp,
}

#[async_trait]
impl Change for SetEnds {
    type Answer = u64;

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<u64> {
        let mut set = 0;
        for (id, time) in self.resources.iter().copied() {
            let update = UpdateResource::new(GENERIC, id, ResourceChange::of_end(self.ended_at, self.now));
            let current = match update.current(connection, context).await {
                Err(Failure::Refused(IndexerError::NoSuchResource(_))) => continue,
                // A damaged row is skipped: a refusal would leave the changes before it in the transaction, but not
                // in the feed.
                Err(Failure::Refused(error)) => {
                    tracing::warn!(%error, resource = %id, "a resource cannot be ended, or its end be removed");
                    continue;
                }
                current => current?,
            };
            if (self.must_be)(&current.resource, time) {
                update.change(connection, &current).await?;
                set += 1;
            }
        }
        Ok((set, Touched::default().with_resources(self.resources.iter().map(|(id, _)| *id))))
    }
}

/// Copies the row and its values into the history.
async fn keep_revision(
    connection: &mut Connection,
    current: &Current,
    next: &Resource,
    values: &BTreeSet<(i64, Vec<u8>)>,
) -> Result<(), Failure> {
    let mut copy = Statement::new(connection.dialect(), "INSERT INTO resource_history (");
    copy.push(row::KEPT).push(", revision_end) SELECT ").push(row::KEPT).push(", ");
    copy.push_bind(next.revision_start.0).push(" FROM resource WHERE number = ").push_bind(current.number);
    let revision = connection.insert_numbered(copy, "revision").await?;
    let mut values: Vec<_> = values.iter().map(|(number, value)| (*number, &**value, revision)).collect();
    insert_values(connection, "resource_history_value", "revision", &mut values).await?;
    Ok(())
}
