//! Statements for resources and their history.
//!
//! Creation, change, deletion and search have their own files. This file looks up single resources, and sets their
//! metrics.

pub(super) mod create;
pub(super) mod delete;
mod delete_matching;
mod listing;
mod name;
mod revision;
mod row;
mod update;
mod value;

pub(super) use name::push_name;
pub(super) use value::sortable;

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{Metric, MetricId, Resource, Timestamp, resource_type::GENERIC};
use gnudi_sql::is_unique_violation;
use uuid::Uuid;

use super::{
    Connection, IDS_NAMED_MAX, SqlIndexer, among,
    failure::Failure,
    id_at, metric,
    writer::{Context, Work},
};
use crate::{
    DeletedResources, Filter, IndexerError, MetricsChange, NewResource, ResourceChange, ResourceListing,
    Resources, Result, UpdatedResource,
    metric::{named_metric_already_exists, sort_by_name},
    resource::{goes_on, is_over},
};
use create::Draft;
use row::Attributes;

/// Resources deleted per transaction: other writes run in between.
const DELETED_AT_ONCE_MAX: usize = 256;
/// The same for revisions.
const REVISIONS_REMOVED_AT_ONCE_MAX: usize = 256;
/// The same for ends.
const ENDED_AT_ONCE_MAX: usize = 64;

#[async_trait]
impl Resources for SqlIndexer {
    async fn create_resources(&self, resources: Vec<NewResource>) -> Vec<Result<Arc<Resource>>> {
        // The writer checks whether they are current.
        let types = match self.types.latest() {
            Some(types) => types,
            None => match self.types().await {
                Ok(types) => types,
                Err(error) => return vec![Err(error); resources.len()],
            },
        };
        let drafts = resources.into_iter().map(|new| Draft::new(new, &types, &self.texts)).collect();
        self.writer.bulk(drafts, Work::CreateResources).await
    }

    async fn resource(&self, resource_type: &str, id: Uuid) -> Result<Option<Arc<Resource>>> {
        let select = row::select_one(self.readers.dialect(), id);
        let row = self.readers.fetch_optional(select).await?;
        let Some(row) = row else {
            self.types().await?.named(resource_type)?;
            return Ok(None);
        };
        let types = self.types_at(row.try_get(row::VERSION)?).await?;
        let number = types.named(resource_type)?.number;
        if resource_type != GENERIC && number != row.try_get::<i64>(1)? {
            return Ok(None);
        }
        let attributes = if resource_type == GENERIC { Attributes::None } else { Attributes::All };
        // The type may have been deleted meanwhile, with all its resources.
        let Some(resource) = row::decode(&row, &types, attributes, &self.texts)? else { return Ok(None) };
        Ok(self.with_metrics(vec![Arc::new(resource)], None).await?.pop())
    }

    async fn update_resource(
        &self,
        resource_type: &str,
        id: Uuid,
        change: ResourceChange,
    ) -> Result<UpdatedResource> {
        self.writer.change(update::UpdateResource::new(resource_type, id, change)).await
    }

    async fn end_resources(&self, ids: &[Uuid], now: Timestamp) -> Result<u64> {
        let resources: Vec<_> = ids.iter().map(|id| (*id, now)).collect();
        self.set_ends(&resources, goes_on, Some(now), now).await
    }

    async fn ends(&self, ids: &[Uuid]) -> Result<Vec<Option<Option<Timestamp>>>> {
        let mut found = HashMap::with_capacity(ids.len());
        for ids in ids.chunks(IDS_NAMED_MAX) {
            let select = "SELECT id, ended_at FROM resource WHERE id";
            let query = among(self.readers.dialect(), select, ids.iter().copied());
            for row in &self.readers.fetch_all(query).await? {
                let ended_at: Option<i64> = row.try_get(1)?;
                found.insert(id_at(row, 0)?, ended_at.map(Timestamp));
            }
        }
        Ok(ids.iter().map(|id| found.get(id).copied()).collect())
    }

    async fn revive_resources(&self, seen: &[(Uuid, Timestamp)], now: Timestamp) -> Result<u64> {
        self.set_ends(seen, is_over, None, now).await
    }

    async fn delete_resources(&self, ids: &[Uuid]) -> Vec<Result<Vec<MetricId>>> {
        let mut outcomes = Vec::with_capacity(ids.len());
        for ids in ids.chunks(DELETED_AT_ONCE_MAX) {
            outcomes.append(&mut self.writer.bulk(ids.to_vec(), Work::DeleteResources).await);
        }
        outcomes
    }

    async fn delete_resource_of_revision(&self, id: Uuid, start: Timestamp) -> Result<Vec<MetricId>> {
        self.writer.change(delete::DeleteOfRevision { id, start }).await
    }

    async fn delete_matching_resources(
        &self,
        resource_type: &str,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<DeletedResources> {
        delete_matching::delete_matching(self, resource_type, filter, now).await
    }

    async fn sweep_values(&self, limit: usize) -> Result<usize> {
        self.writer.change(delete::SweepValues { limit }).await
    }

    async fn remove_revisions(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let mut removed = 0;
        while removed < limit {
            let limit = REVISIONS_REMOVED_AT_ONCE_MAX.min(limit - removed);
            let found = self.writer.change(revision::RemoveRevisions { before, limit }).await?;
            removed += found;
            if found < limit {
                break;
            }
        }
        Ok(removed)
    }

    async fn list_resources(&self, listing: &ResourceListing) -> Result<Vec<Arc<Resource>>> {
        listing::list(self, listing).await
    }
}

impl SqlIndexer {
    async fn set_ends(
        &self,
        resources: &[(Uuid, Timestamp)],
        must_be: fn(&Resource, Timestamp) -> bool,
        ended_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<u64> {
        let mut set = 0;
        for resources in resources.chunks(ENDED_AT_ONCE_MAX) {
            let resources = resources.to_vec();
            set += self.writer.change(update::SetEnds { resources, must_be, ended_at, now }).await?;
        }
        Ok(set)
    }
}

/// Attaches and creates metrics one by one; returns all metrics of the resource, by name. On a rejection the caller
/// must roll back to a savepoint.
async fn set_metrics(
    connection: &mut Connection,
    context: &Context,
    resource: &Resource,
    metrics: &[(String, MetricsChange)],
    now: Timestamp,
) -> Result<Arc<[Arc<Metric>]>, Failure> {
    for (name, change) in metrics {
        match change {
            MetricsChange::Attach(id) => attach(connection, resource, name, *id).await?,
            MetricsChange::Create(new) => {
                let metric = metric::of_resource(resource, name, new, now, &context.texts);
                if let Err(error) = metric::insert_active(connection, &[Arc::new(metric.clone())]).await {
                    return Err(metric::refusal(error, &metric).map_or_else(Failure::from, Failure::Refused));
                }
                let whole_name = new.whole_name.as_deref().map(|whole_name| (new.id, whole_name));
                metric::insert_whole_names(connection, whole_name.as_slice()).await?;
            }
        }
    }
    let rows =
        connection.fetch_all(row::metrics_of_statement(connection.dialect(), &[resource.id], None)).await?;
    let mut metrics =
        metric::decode_listed(&rows, &context.texts, &context.damage).map_err(Failure::Broken)?;
    sort_by_name(&mut metrics);
    Ok(metrics.into())
}

async fn attach(
    connection: &mut Connection,
    resource: &Resource,
    name: &str,
    id: MetricId,
) -> Result<(), Failure> {
    let attach = connection
        .statement("UPDATE metric SET resource_id = ?, name = ? WHERE id = ? AND status = 0 AND creator = ?")
        .bind(resource.id)
        .bind(name)
        .bind(id.0)
        .bind(resource.creator.as_str());
    match connection.execute(attach).await {
        Err(error) if is_unique_violation(&error) => {
            Err(Failure::Refused(named_metric_already_exists(Some(name))))
        }
        Ok(0) => Err(Failure::Refused(IndexerError::NoSuchMetric(id))),
        attached => {
            attached?;
            // A renamed metric loses its full name.
            let delete = connection.statement("DELETE FROM metric_whole_name WHERE metric_id = ?").bind(id.0);
            connection.execute(delete).await?;
            Ok(())
        }
    }
}
