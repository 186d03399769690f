//! Statements for resource types. They write no resources.

use std::sync::Arc;

use async_trait::async_trait;
use gnudi_model::{Attribute, AttributeValue, ResourceType, Text, resource_type::GENERIC};

use super::{
    Connection, SqlIndexer, attribute,
    execute::{Refusals, execute_checked},
    failure::Failure,
    types,
    types::{Fill, StoredAttribute, StoredType},
    writer::{Applied, Change, Context},
};
use crate::{
    IndexerError, ResourceTypeChange, ResourceTypes, Result, Touched,
    resource_type::{changed, check_change},
};

#[async_trait]
impl ResourceTypes for SqlIndexer {
    async fn create_resource_type(&self, resource_type: ResourceType) -> Result<()> {
        self.writer.change(CreateType(resource_type)).await
    }

    async fn resource_type(&self, name: &str) -> Result<Option<Arc<ResourceType>>> {
        let types = self.types().await?;
        Ok(types.named(name).ok().map(|stored| stored.resource_type.clone()))
    }

    async fn resource_types(&self) -> Result<Vec<Arc<ResourceType>>> {
        let types = self.types().await?;
        Ok(types.all().map(|stored| stored.resource_type.clone()).collect())
    }

    async fn update_resource_type(
        &self,
        name: &str,
        change: ResourceTypeChange,
    ) -> Result<Arc<ResourceType>> {
        self.writer.change(UpdateType { name: name.to_owned(), change }).await
    }

    async fn delete_resource_type(&self, name: &str) -> Result<()> {
        self.writer.change(DeleteType(name.to_owned())).await
    }
}

/// The version of a change, visible to readers once it is committed.
async fn next_version(connection: &mut Connection) -> Result<i64, Failure> {
    connection
        .execute(connection.statement("UPDATE resource_type_version SET version = version + 1"))
        .await?;
    types::version(connection).await.map_err(Failure::Broken)
}

async fn stored(connection: &mut Connection, name: &str) -> Result<Arc<StoredType>, Failure> {
    let types = types::load(connection).await.map_err(Failure::Broken)?;
    types.named(name).cloned().map_err(Failure::Refused)
}

struct CreateType(ResourceType);

#[async_trait]
impl Change for CreateType {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<()> {
        let CreateType(ResourceType { name, attributes }) = self;
        let taken =
            connection.statement("SELECT number FROM resource_type WHERE name = ?").bind(name.as_str());
        if connection.fetch_optional(taken).await?.is_some() {
            return Err(Failure::Refused(IndexerError::ResourceTypeAlreadyExists(name.to_string())));
        }
        let create = connection.statement("INSERT INTO resource_type (name) VALUES (?)").bind(name.as_str());
        let number = connection.insert_numbered(create, "number").await?;
        next_version(&mut *connection).await?;
        for (name, attribute) in attributes {
            // No resource is older than the attribute.
            insert(&mut *connection, number, name, attribute, None).await?;
        }
        Ok(((), Touched::default()))
    }
}

struct UpdateType {
    name: String,
    change: ResourceTypeChange,
}

#[async_trait]
impl Change for UpdateType {
    type Answer = Arc<ResourceType>;

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<Arc<ResourceType>> {
        let UpdateType { name, change } = self;
        if name == GENERIC {
            return Err(Failure::Refused(IndexerError::ResourceTypeInUse(name.clone())));
        }
        let stored = stored(&mut *connection, name).await?;
        check_change(&stored.resource_type, change).map_err(Failure::Refused)?;
        let ResourceTypeChange { add, update, delete } = change;
        let version = next_version(&mut *connection).await?;
        for name in delete {
            delete_attribute(&mut *connection, stored.attributes[name].number).await?;
        }
        for (name, attribute) in add {
            insert(&mut *connection, stored.number, name, attribute, fill(attribute, version)).await?;
        }
        for (name, attribute) in update {
            let mut fills = stored.attributes[name].fills.clone();
            fills.extend(fill(attribute, version));
            let number = stored.attributes[name].number;
            let updated =
                StoredAttribute { number, kind: attribute.kind, required: attribute.required, fills };
            let update = connection
                .statement("UPDATE resource_attribute SET definition = ? WHERE number = ?")
                .bind(attribute::encode(&updated))
                .bind(number);
            connection.execute(update).await?;
        }
        Ok((Arc::new(changed(&stored.resource_type, change)), Touched::types()))
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
    let insert = connection
        .statement("INSERT INTO resource_attribute (type_number, name, definition) VALUES (?, ?, ?)")
        .bind(type_number)
        .bind(name.as_str())
        .bind(attribute::encode(&stored));
    connection.execute(insert).await?;
    Ok(())
}

/// From now on the number is unknown; its values will be swept.
async fn delete_attribute(connection: &mut Connection, number: i64) -> Result<(), Failure> {
    for statement in [
        "INSERT INTO resource_attribute_deleted (attribute_number) VALUES (?)",
        "DELETE FROM resource_attribute WHERE number = ?",
    ] {
        connection.execute(connection.statement(statement).bind(number)).await?;
    }
    Ok(())
}

struct DeleteType(String);

#[async_trait]
impl Change for DeleteType {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<()> {
        let DeleteType(name) = self;
        if name == GENERIC {
            return Err(Failure::Refused(IndexerError::ResourceTypeInUse(name.clone())));
        }
        // The attributes are deleted with it. No resources are left, hence no values either.
        let delete = connection.statement("DELETE FROM resource_type WHERE name = ?").bind(name);
        let in_use = IndexerError::ResourceTypeInUse(name.clone());
        let refusals = Refusals { foreign_key: Some(in_use), ..Refusals::default() };
        if execute_checked(connection, delete, refusals).await? == 0 {
            return Err(Failure::Refused(IndexerError::NoSuchResourceType(name.clone())));
        }
        next_version(connection).await.map(|_| ((), Touched::types()))
    }
}
