//! Statements for archive policies.

use std::{collections::BTreeSet, error::Error, sync::Arc};

use async_trait::async_trait;
use gnudi_model::{
    AggregationMethod, ArchivePolicy, ArchivePolicyItem, ArchivePolicyRule, MetricId, Timespan,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Connection, Dialect, Row, SqlIndexer, Statement, archive_policy_rule,
    execute::{Execute, Refusals},
    failure::{Failure, damaged},
    id_at, optional_id_at,
    writer::{Applied, Change, Context},
};
use crate::{
    ArchivePolicies, IndexerError, PolicyChange, PolicyConversion, Result, Touched,
    archive_policy::begins_conversion,
};

const SELECT_ALL: &str = "SELECT name, back_window, definition, aggregation_methods, raw_timespan, recomputes_late \
     FROM archive_policy";
const SELECT_ONE: &str = "SELECT name, back_window, definition, aggregation_methods, raw_timespan, recomputes_late \
     FROM archive_policy WHERE name = ?";

#[async_trait]
impl ArchivePolicies for SqlIndexer {
    async fn create_archive_policy(&self, policy: ArchivePolicy) -> Result<()> {
        self.writer.change(create(self.readers.dialect(), &policy)).await.map(drop)
    }

    async fn create_missing_policies(
        &self,
        policies: Vec<ArchivePolicy>,
        rules: Vec<ArchivePolicyRule>,
    ) -> Result<()> {
        self.writer.change(CreateMissing { policies, rules }).await
    }

    async fn archive_policy(&self, name: &str) -> Result<Option<Arc<ArchivePolicy>>> {
        let row = self.readers.fetch_optional(self.readers.statement(SELECT_ONE).bind(name)).await?;
        row.map(|row| decode(&row).map(Arc::new)).transpose()
    }

    async fn archive_policies(&self) -> Result<Vec<Arc<ArchivePolicy>>> {
        let mut select = Statement::new(self.readers.dialect(), SELECT_ALL);
        // Only names of definitions have this prefix and length.
        select.push(" WHERE name < ").push_bind("definition:").push(" OR name >= ").push_bind("definition;");
        select.push(" OR LENGTH(name) <> 47 ORDER BY name");
        let rows = self.readers.fetch_all(select).await?;
        rows.iter().map(|row| decode(row).map(Arc::new)).collect()
    }

    async fn update_archive_policy(&self, name: &str, change: PolicyChange) -> Result<Arc<ArchivePolicy>> {
        self.writer.change(UpdatePolicy { name: name.to_owned(), change }).await
    }

    async fn delete_archive_policy(&self, name: &str) -> Result<()> {
        let delete = self.readers.statement("DELETE FROM archive_policy WHERE name = ?").bind(name);
        let in_use = IndexerError::ArchivePolicyInUse(name.to_owned());
        let delete = Execute {
            refusals: Refusals { foreign_key: Some(in_use), ..Refusals::default() },
            missing: Some(IndexerError::NoSuchArchivePolicy(name.to_owned())),
            touched: Touched::policies(),
            ..Execute::new(delete)
        };
        self.writer.change(delete).await.map(drop)
    }

    async fn sweep_definitions(&self) -> Result<u64> {
        let delete = self
            .readers
            .statement(
                "DELETE FROM archive_policy WHERE name >= ? AND name < ? AND LENGTH(name) = 47 AND NOT EXISTS \
                 (SELECT 1 FROM metric WHERE metric.archive_policy_name = archive_policy.name) AND NOT EXISTS \
                 (SELECT 1 FROM archive_policy_rule WHERE archive_policy_rule.archive_policy_name = archive_policy.name)",
            )
            .bind("definition:")
            .bind("definition;");
        self.writer.change(Execute { touched: Touched::policies(), ..Execute::new(delete) }).await
    }

    async fn policy_conversions(&self) -> Result<Vec<PolicyConversion>> {
        let select = self.readers.statement(
            "SELECT conversion, name, converted_to FROM archive_policy WHERE conversion IS NOT NULL ORDER BY name",
        );
        let decode = |row: &Row| {
            let converted_to = optional_id_at(row, 2)?.map(MetricId);
            Ok(PolicyConversion { id: id_at(row, 0)?, archive_policy_name: row.try_get(1)?, converted_to })
        };
        self.readers.fetch_all(select).await?.iter().map(decode).collect()
    }

    async fn metrics_of_policy(
        &self,
        name: &str,
        after: Option<MetricId>,
        limit: usize,
    ) -> Result<Vec<MetricId>> {
        let text = "SELECT id FROM metric WHERE status = 0 AND archive_policy_name = ";
        let mut select = Statement::new(self.readers.dialect(), text);
        select.push_bind(name);
        self.ids_behind(select, after, limit).await
    }

    async fn advance_policy_conversion(&self, id: Uuid, to: Option<MetricId>) -> Result<()> {
        let advance = match to {
            Some(to) => self
                .readers
                .statement("UPDATE archive_policy SET converted_to = ? WHERE conversion = ?")
                .bind(to.0),
            None => self.readers.statement(
                "UPDATE archive_policy SET conversion = NULL, converted_to = NULL WHERE conversion = ?",
            ),
        };
        self.writer.change(Execute::new(advance.bind(id))).await.map(drop)
    }
}

fn create(dialect: Dialect, policy: &ArchivePolicy) -> Execute {
    let text = "INSERT INTO archive_policy (name, back_window, definition, aggregation_methods, raw_timespan, \
                recomputes_late) VALUES (?, ?, ?, ?, ?, ?)";
    let insert = Statement::whole(dialect, text)
        .bind(&policy.name)
        .bind(policy.back_window as i64)
        .bind(encode_definition(&policy.definition))
        .bind(encode_methods(&policy.aggregation_methods))
        .bind(policy.raw_timespan.map(|timespan| timespan.0))
        .bind(i64::from(policy.recomputes_late));
    let taken = IndexerError::ArchivePolicyAlreadyExists(policy.name.clone());
    let refusals = Refusals { unique: Some(taken), ..Refusals::default() };
    Execute { refusals, ..Execute::new(insert) }
}

struct CreateMissing {
    policies: Vec<ArchivePolicy>,
    rules: Vec<ArchivePolicyRule>,
}

#[async_trait]
impl Change for CreateMissing {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, context: &Context) -> Applied<()> {
        let dialect = connection.dialect();
        let policies = self.policies.iter().map(|policy| create(dialect, policy));
        let rules = self.rules.iter().map(|rule| archive_policy_rule::create(dialect, rule));
        for create in policies.chain(rules).collect::<Vec<_>>() {
            unless_there(create.apply(connection, context).await)?;
        }
        Ok(((), Touched::policies()))
    }
}

/// What exists is left as it is. Any other refusal fails the transaction.
fn unless_there(created: Applied<u64>) -> Result<(), Failure> {
    match created {
        Ok(_)
        | Err(Failure::Refused(
            IndexerError::ArchivePolicyAlreadyExists(_) | IndexerError::ArchivePolicyRuleAlreadyExists(_),
        )) => Ok(()),
        Err(Failure::Refused(error) | Failure::Broken(error)) => Err(Failure::Broken(error)),
    }
}

struct UpdatePolicy {
    name: String,
    change: PolicyChange,
}

#[async_trait]
impl Change for UpdatePolicy {
    type Answer = Arc<ArchivePolicy>;

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<Arc<ArchivePolicy>> {
        let UpdatePolicy { name, change } = self;
        let row = connection.fetch_optional(connection.statement(SELECT_ONE).bind(name)).await?;
        let Some(row) = row else {
            return Err(Failure::Refused(IndexerError::NoSuchArchivePolicy(name.clone())));
        };
        let mut policy = match decode(&row) {
            Ok(policy) => policy,
            Err(damaged) => change.in_place_of_damaged(name).ok_or(Failure::Refused(damaged))?,
        };
        let before = policy.clone();
        change.apply(&mut policy).map_err(Failure::Refused)?;
        if begins_conversion(&before, &policy) {
            let begin = connection
                .statement("UPDATE archive_policy SET conversion = ?, converted_to = NULL WHERE name = ?")
                .bind(Uuid::new_v4())
                .bind(name);
            connection.execute(begin).await?;
        }
        let update = connection
            .statement(
                "UPDATE archive_policy SET back_window = ?, definition = ?, raw_timespan = ?, recomputes_late = ?, \
                 aggregation_methods = ? WHERE name = ?",
            )
            .bind(policy.back_window as i64)
            .bind(encode_definition(&policy.definition))
            .bind(policy.raw_timespan.map(|timespan| timespan.0))
            .bind(i64::from(policy.recomputes_late))
            .bind(encode_methods(&policy.aggregation_methods))
            .bind(name);
        connection.execute(update).await?;
        Ok((Arc::new(policy), Touched::policies()))
    }
}

/// A stored granularity: ns, points, ns.
#[derive(Serialize, Deserialize)]
struct StoredItem(Timespan, Option<u64>, Option<Timespan>);

fn encode_definition(definition: &[ArchivePolicyItem]) -> String {
    let items: Vec<_> =
        definition.iter().map(|item| StoredItem(item.granularity, item.points, item.timespan)).collect();
    serde_json::to_string(&items).expect("numbers are JSON")
}

fn encode_methods(methods: &BTreeSet<AggregationMethod>) -> String {
    serde_json::to_string(methods).expect("names are JSON")
}

fn decode(row: &Row) -> Result<ArchivePolicy> {
    let name: &str = row.try_get(0)?;
    decode_named(name, row).map_err(|error| damaged(format_args!("archive policy {name}"), &error))
}

fn decode_named(name: &str, row: &Row) -> Result<ArchivePolicy, Box<dyn Error>> {
    let items: Vec<StoredItem> = serde_json::from_str(row.try_get(2)?)?;
    let definition = items
        .into_iter()
        .map(|StoredItem(granularity, points, timespan)| ArchivePolicyItem { granularity, points, timespan })
        .collect();
    Ok(ArchivePolicy {
        name: name.to_owned(),
        back_window: row.try_get::<i64>(1)? as u64,
        definition,
        aggregation_methods: serde_json::from_str(row.try_get(3)?)?,
        raw_timespan: row.try_get::<Option<i64>>(4)?.map(Timespan),
        recomputes_late: row.try_get::<i64>(5)? != 0,
    })
}
