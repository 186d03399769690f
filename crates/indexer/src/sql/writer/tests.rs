//! Groups whose first transaction is lost.

use std::{collections::BTreeMap, mem};

use gnudi_model::{Attribute, AttributeKind, AttributeValue, ResourceType, Timestamp};
use gnudi_sql::DatabaseOptions;

use super::*;
use crate::{NewResource, ResourceTypeChange, ResourceTypes, SqlIndexer, SqliteOptions};

/// Adds the attribute `a` in the first transaction. By the second one another process has changed the type, so that
/// nothing is added any more.
struct AddOnce {
    is_done: bool,
}

#[async_trait]
impl Step for AddOnce {
    async fn apply(&mut self, connection: &mut Connection, _: &Context) -> Result<()> {
        if !mem::replace(&mut self.is_done, true) {
            connection.run("UPDATE resource_type_version SET version = version + 1").await?;
            let add = "INSERT INTO resource_attribute (type_number, name, definition) \
                SELECT type_number, 'a', definition FROM resource_attribute WHERE name = 'host'";
            connection.run(add).await?;
        }
        Ok(())
    }

    fn touched(&self) -> Touched {
        Touched::types()
    }

    fn answer(self: Box<Self>, _: Result<()>) {}
}

#[tokio::test]
async fn a_second_attempt_has_the_types_that_are_there_then() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path().join("index"));
    let indexer = SqlIndexer::open(&options).await.unwrap();
    let kind = AttributeKind::String { min_length: 0, max_length: 255 };
    let attribute = Attribute { kind, required: false, fill: None };
    let attributes = BTreeMap::from([("host".into(), attribute.clone())]);
    indexer.create_resource_type(ResourceType { name: "inst".into(), attributes }).await.unwrap();

    let connector = Connector::new(&DatabaseOptions::from(&options));
    let mut connection = Some(connector.connect(Purpose::Write).await.unwrap());
    let context = Context::new(indexer.texts.clone(), Arc::default(), indexer.readers.clone(), None);
    let id = Uuid::from_u128(1);
    let new = NewResource {
        attributes: BTreeMap::from([("a".into(), AttributeValue::String("x".into()))]),
        ..NewResource::new(id, "inst", "jd", Timestamp(0))
    };
    let mut group = WriteGroup::default();
    group.changes.push(Box::new(AddOnce { is_done: false }));
    group.resources.items.push(Draft::new(new, &indexer.types().await.unwrap(), &indexer.texts));

    let open = connection.as_mut().unwrap();
    let fail = "CREATE TRIGGER fail BEFORE INSERT ON resource BEGIN SELECT RAISE(ABORT, 'lost'); END";
    open.run(fail).await.unwrap();
    assert!(group.run(open, &context).await.is_err());
    abandon(&mut connection, &mut group, &context).await;
    // The version is the one that the lost transaction had given.
    let change = ResourceTypeChange { add: vec![("b".into(), attribute)], ..ResourceTypeChange::default() };
    indexer.update_resource_type("inst", change).await.unwrap();

    let open = connection.as_mut().expect("the transaction was rolled back");
    open.run("DROP TRIGGER fail").await.unwrap();
    let outcomes = group.run(open, &context).await.unwrap();
    let refusal =
        IndexerError::NoSuchAttribute { resource_type: "inst".to_owned(), attribute: "a".to_owned() };
    assert_eq!(outcomes.resources, [Err(refusal)]);
}
