//! Which Gnocchi the index is an import of. An import deletes here what is deleted there, which it may do only where nothing else was
//! written; so the mark is set by the first import into an empty index, and removed by the first server.

use async_trait::async_trait;

use super::{
    Connection, SqlIndexer,
    failure::{Failure, indexer_error},
    writer::{Change, Context},
};
use crate::{IndexerError, Touched};

impl SqlIndexer {
    /// The place of the Gnocchi that the index is an import of; `None` where it is none, or a server has opened it since.
    pub async fn imported_from(&self) -> Result<Option<String>, IndexerError> {
        let select = self.readers.statement("SELECT imported_from FROM cluster");
        let row = self.readers.fetch_one(select).await;
        let place = row.and_then(|row| Ok(row.try_get::<Option<&str>>(0)?.map(str::to_owned)));
        place.map_err(|error| indexer_error(&error))
    }

    pub async fn set_imported_from(&self, place: Option<String>) -> Result<(), IndexerError> {
        self.writer.change(SetImportedFrom(place)).await
    }
}

struct SetImportedFrom(Option<String>);

#[async_trait]
impl Change for SetImportedFrom {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Result<(), Failure> {
        let SetImportedFrom(place) = self;
        let update = connection.statement("UPDATE cluster SET imported_from = ?").bind(place.as_deref());
        Ok(connection.execute(update).await.map(|_| ())?)
    }

    fn touched(&self, _answer: &Self::Answer) -> Touched {
        Touched::default()
    }
}
