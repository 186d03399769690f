//! The statements for resource types. No resource is written by any of them.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Attribute, AttributeValue, ResourceType, Text, resource_type::GENERIC};

use super::{
    Connection, SqlIndexer, attribute,
    failure::{Failure, is_foreign_key_violation, is_unique_violation},
    types,
    types::{Fill, StoredAttribute, StoredType},
    writer::{Change, Context},
};
use crate::{
    IndexerError, ResourceTypeChange, ResourceTypes,
    resource_type::{changed, check_change},
};

#[async_trait]
impl ResourceTypes for SqlIndexer {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<(), IndexerError> {
        self.writer.change(Create(resource_type)).await
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>, IndexerError> {
        let types = self.types().await?;
        Ok(types.named(name).ok().map(|stored| stored.resource_type.clone()))
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>, IndexerError> {
        let types = self.types().await?;
        Ok(types.all().map(|stored| stored.resource_type.clone()).collect())
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>, IndexerError> {
        self.writer.change(Update { name: name.to_owned(), change }).await
    }

    async fn delete_resource_type(&self, name: &str) -> Result<(), IndexerError> {
        self.writer.change(Delete(name.to_owned())).await
    }
}

/// The version that a change brings, and that readers see once it is committed.
async fn next_version(connection: &mut Connection) -> Result<i64, Failure> {
    let next = sqlx::query_scalar("UPDATE resource_type_version SET version = version + 1 RETURNING version");
    Ok(next.fetch_one(connection).await?)
}

async fn stored(connection: &mut Connection, name: &str) -> Result<Arc<StoredType>, Failure> {
    let types = types::load(connection).await.map_err(Failure::Broken)?;
    types.named(name).cloned().map_err(Failure::Refused)
}

struct Create(ResourceType);

#[async_trait]
impl Change for Create {
    type Answer = ();

    async fn apply(self, connection: &mut Connection, _: &Context) -> Result<(), Failure> {
        let Create(ResourceType { name, attributes }) = self;
        let inserted = sqlx::query_scalar("INSERT INTO resource_type (name) VALUES (?) RETURNING number")
            .bind(name.as_str())
            .fetch_one(&mut *connection)
            .await;
        let number: i64 = match inserted {
            Err(error) if is_unique_violation(&error) => {
                return Err(Failure::Refused(IndexerError::ResourceTypeAlreadyExists(name.to_string())));
            }
            inserted => inserted?,
        };
        next_version(&mut *connection).await?;
        for (name, attribute) in &attributes {
            // No resource is older than the attribute.
            insert(&mut *connection, number, name, attribute, None).await?;
        }
        Ok(())
    }
}

struct Update {
    name: String,
    change: ResourceTypeChange,
}

#[async_trait]
impl Change for Update {
    type Answer = Arc<ResourceType>;

    async fn apply(self, connection: &mut Connection, _: &Context) -> Result<Arc<ResourceType>, Failure> {
        let Update { name, change } = self;
        if name == GENERIC {
            return Err(Failure::Refused(IndexerError::ResourceTypeInUse(name)));
        }
        let stored = stored(&mut *connection, &name).await?;
        check_change(&stored.resource_type, &change).map_err(Failure::Refused)?;
        let version = next_version(&mut *connection).await?;
        for name in &change.delete {
            delete(&mut *connection, stored.attributes[name].number).await?;
        }
        for (name, attribute) in &change.add {
            insert(&mut *connection, stored.number, name, attribute, fill(attribute, version)).await?;
        }
        for (name, attribute) in &change.update {
            let mut fills = stored.attributes[name].fills.clone();
            fills.extend(fill(attribute, version));
            let number = stored.attributes[name].number;
            let updated =
                StoredAttribute { number, kind: attribute.kind, required: attribute.required, fills };
            sqlx::query("UPDATE resource_attribute SET definition = ? WHERE number = ?")
                .bind(attribute::encode(&updated))
                .bind(number)
                .execute(&mut *connection)
                .await?;
        }
        Ok(Arc::new(changed(&stored.resource_type, &change)))
    }
}

fn fill(attribute: &Attribute, version: i64) -> Option<Fill> {
    let value = attribute.fill.clone().filter(|value| *value != AttributeValue::Null)?;
    Some(Fill { version, value })
}

async fn insert(
    connection: &mut Connection,
    type_number: i64,
    name: &Text,
    attribute: &Attribute,
    fill: Option<Fill>,
) -> Result<(), Failure> {
    let Attribute { kind, required, .. } = *attribute;
    let stored = StoredAttribute { number: 0, kind, required, fills: fill.into_iter().collect() };
    sqlx::query("INSERT INTO resource_attribute (type_number, name, definition) VALUES (?, ?, ?)")
        .bind(type_number)
        .bind(name.as_str())
        .bind(attribute::encode(&stored))
        .execute(connection)
        .await?;
    Ok(())
}

/// From now on nobody knows the number; values that have it wait to be swept.
async fn delete(connection: &mut Connection, number: i64) -> Result<(), Failure> {
    sqlx::query("INSERT INTO resource_attribute_deleted (attribute_number) VALUES (?)")
        .bind(number)
        .execute(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM resource_attribute WHERE number = ?").bind(number).execute(connection).await?;
    Ok(())
}

struct Delete(String);

#[async_trait]
impl Change for Delete {
    type Answer = ();

    async fn apply(self, connection: &mut Connection, _: &Context) -> Result<(), Failure> {
        let Delete(name) = self;
        if name == GENERIC {
            return Err(Failure::Refused(IndexerError::ResourceTypeInUse(name)));
        }
        // The attributes go with it. No resource is left, hence no value either.
        let deleted = sqlx::query("DELETE FROM resource_type WHERE name = ?")
            .bind(&name)
            .execute(&mut *connection)
            .await;
        match deleted {
            Err(error) if is_foreign_key_violation(&error) => {
                Err(Failure::Refused(IndexerError::ResourceTypeInUse(name)))
            }
            Ok(done) if done.rows_affected() == 0 => {
                Err(Failure::Refused(IndexerError::NoSuchResourceType(name)))
            }
            deleted => {
                deleted?;
                next_version(connection).await.map(|_| ())
            }
        }
    }
}
