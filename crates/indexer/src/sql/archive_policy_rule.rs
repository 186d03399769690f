//! Statements for archive policy rules.

use async_trait::async_trait;
use gnudi_model::{ArchivePolicyRule, python::fnmatch::fnmatch};

use super::{
    Connection, Dialect, Row, SqlIndexer, Statement,
    execute::{Execute, Refusals, execute_checked},
    failure::{Failure, text_of},
    writer::{Applied, Change, Context},
};
use crate::{ArchivePolicyRules, IndexerError, Result, Touched};

const SELECT_ALL: &str = "SELECT name, metric_pattern, archive_policy_name FROM archive_policy_rule \
    ORDER BY metric_pattern DESC, name ASC";
const SELECT_ONE: &str =
    "SELECT name, metric_pattern, archive_policy_name FROM archive_policy_rule WHERE name = ?";

#[async_trait]
impl ArchivePolicyRules for SqlIndexer {
    async fn create_archive_policy_rule(&self, rule: ArchivePolicyRule) -> Result<()> {
        self.writer.change(create(self.readers.dialect(), &rule)).await.map(drop)
    }

    async fn archive_policy_rule(&self, name: &str) -> Result<Option<ArchivePolicyRule>> {
        let row = self.readers.fetch_optional(self.readers.statement(SELECT_ONE).bind(name)).await?;
        row.map(|row| decode(&row)).transpose()
    }

    async fn archive_policy_rules(&self) -> Result<Vec<ArchivePolicyRule>> {
        let rows = self.readers.fetch_all(self.readers.statement(SELECT_ALL)).await?;
        rows.iter().map(decode).collect()
    }

    async fn rename_archive_policy_rule(&self, name: &str, new_name: &str) -> Result<ArchivePolicyRule> {
        self.writer.change(RenameRule { name: name.to_owned(), new_name: new_name.to_owned() }).await
    }

    async fn delete_archive_policy_rule(&self, name: &str) -> Result<()> {
        let delete = self.readers.statement("DELETE FROM archive_policy_rule WHERE name = ?").bind(name);
        let missing = Some(IndexerError::NoSuchArchivePolicyRule(name.to_owned()));
        let delete = Execute { missing, touched: Touched::policies(), ..Execute::new(delete) };
        self.writer.change(delete).await.map(drop)
    }

    async fn archive_policy_name_for_metric(&self, metric_name: &str) -> Result<String> {
        let rows = self.readers.fetch_all(self.readers.statement(SELECT_ALL)).await?;
        let may_match =
            |row: &&Row| row.try_get::<&str>(1).ok().is_none_or(|pattern| fnmatch(metric_name, pattern));
        match rows.iter().find(may_match) {
            Some(row) => Ok(decode(row)?.archive_policy_name),
            None => Err(IndexerError::NoArchivePolicyRuleMatch(metric_name.to_owned())),
        }
    }
}

pub(super) fn create(dialect: Dialect, rule: &ArchivePolicyRule) -> Execute {
    let text = "INSERT INTO archive_policy_rule (name, metric_pattern, archive_policy_name) VALUES (?, ?, ?)";
    let insert = Statement::whole(dialect, text)
        .bind(&rule.name)
        .bind(&rule.metric_pattern)
        .bind(&rule.archive_policy_name);
    let refusals = Refusals {
        unique: Some(IndexerError::ArchivePolicyRuleAlreadyExists(rule.name.clone())),
        foreign_key: Some(IndexerError::NoSuchArchivePolicy(rule.archive_policy_name.clone())),
    };
    Execute { refusals, touched: Touched::policies(), ..Execute::new(insert) }
}

struct RenameRule {
    name: String,
    new_name: String,
}

#[async_trait]
impl Change for RenameRule {
    type Answer = ArchivePolicyRule;

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<ArchivePolicyRule> {
        let RenameRule { name, new_name } = self;
        let row = connection.fetch_optional(connection.statement(SELECT_ONE).bind(name)).await?;
        let Some(row) = row else {
            return Err(Failure::Refused(IndexerError::NoSuchArchivePolicyRule(name.clone())));
        };
        let rule = decode(&row).map_err(Failure::Refused)?;
        let rename = connection
            .statement("UPDATE archive_policy_rule SET name = ? WHERE name = ?")
            .bind(new_name)
            .bind(name);
        let message = format!("Archive policy rule {new_name} already exists.");
        let taken = IndexerError::UnsupportedArchivePolicyRuleChange { name: name.clone(), message };
        execute_checked(connection, rename, Refusals { unique: Some(taken), ..Refusals::default() }).await?;
        Ok((ArchivePolicyRule { name: new_name.clone(), ..rule }, Touched::policies()))
    }
}

fn decode(row: &Row) -> Result<ArchivePolicyRule> {
    let name: &str = row.try_get(0)?;
    let text = |column| text_of(format_args!("archive policy rule {name}"), row, column);
    Ok(ArchivePolicyRule { name: name.to_owned(), metric_pattern: text(1)?, archive_policy_name: text(2)? })
}
