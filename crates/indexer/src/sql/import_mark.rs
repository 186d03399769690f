//! The mark of an imported index. An import deletes what was deleted in Gnocchi, which is safe only if nothing else has
//! written to the index. The mark is set by the first import into an empty index, and removed by the first server.

use super::{SqlIndexer, execute::Execute};
use crate::Result;

impl SqlIndexer {
    /// The Gnocchi that the index was imported from; `None` if it was not imported, or a server has opened it since.
    pub async fn imported_from(&self) -> Result<Option<String>> {
        let select = self.readers.statement("SELECT imported_from FROM cluster");
        let row = self.readers.fetch_one(select).await?;
        Ok(row.try_get::<Option<&str>>(0)?.map(str::to_owned))
    }

    pub async fn set_imported_from(&self, place: Option<String>) -> Result<()> {
        let update = self.readers.statement("UPDATE cluster SET imported_from = ?").bind(place.as_deref());
        self.writer.change(Execute::new(update)).await.map(drop)
    }
}
