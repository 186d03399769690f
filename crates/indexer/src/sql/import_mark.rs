//! The mark of an imported index. An import deletes what was deleted in Gnocchi, which is safe only if nothing else has
//! written to the index. The mark is set by the first import into an empty index, and removed by the first server.

use async_trait::async_trait;

use super::{
    Connection, SqlIndexer,
    writer::{Applied, Change, Context},
};
use crate::{Result, Touched};

impl SqlIndexer {
    /// The Gnocchi that the index was imported from; `None` if it was not imported, or a server has opened it since.
    pub async fn imported_from(&self) -> Result<Option<String>> {
        let select = self.readers.statement("SELECT imported_from FROM cluster");
        let row = self.readers.fetch_one(select).await?;
        Ok(row.try_get::<Option<&str>>(0)?.map(str::to_owned))
    }

    pub async fn set_imported_from(&self, place: Option<String>) -> Result<()> {
        self.writer.change(SetImportedFrom(place)).await
    }
}

struct SetImportedFrom(Option<String>);

#[async_trait]
impl Change for SetImportedFrom {
    type Answer = ();

    async fn apply(&self, connection: &mut Connection, _: &Context) -> Applied<()> {
        let SetImportedFrom(place) = self;
        let update = connection.statement("UPDATE cluster SET imported_from = ?").bind(place.as_deref());
        connection.execute(update).await?;
        Ok(((), Touched::default()))
    }
}
