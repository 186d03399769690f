//! Tables in objects: writing, and reading their indexes and pages.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use uuid::Uuid;

use super::{
    cache::Held,
    chain::Shard,
    damage::Damage,
    manifest::{Manifest, TableObject},
    names,
    requests::Requests,
};
use crate::aggregates::{
    Result, StoreError,
    table::{
        Builder, DamagedIndex, Filter, Index, Pages, Rebuild, Site, Table, Wanted,
        layout::{FOOTER_BYTES, FORMAT_VERSION, Footer, HEADER_BYTES, version_of},
    },
};

/// Tables up to this size are read as a whole, and cached so when they are written.
const WHOLE_BYTES_MAX: u64 = 4 << 20;
/// If the wanted pages are at least 1/`WHOLE_SHARE` of a table, all of it is read and cached.
const WHOLE_SHARE: u64 = 4;
/// Most spans of a table that are read for one call.
const SPANS_MAX: usize = 16;
/// Gaps between wanted pages up to this size are read with them; larger ones if there are too many spans.
const GAP_BYTES: u64 = 16 << 10;

/// How much of a table a merge or a listing reads at once.
pub const STRETCH_BYTES: u64 = 4 << 20;

pub type ObjectTable = Table<ObjectSite>;

/// Where a table is.
pub struct ObjectSite {
    pub object: TableObject,
    damage: Arc<Damage>,
}

impl Site for ObjectSite {
    fn place(&self, offset: u64) -> String {
        format!("{} at {offset}", self.damage.place(&self.object.object()))
    }

    fn report(&self, what: &str, offset: u64, bytes: &[u8]) {
        self.damage.report(what, &self.object.object(), offset, bytes);
    }
}

/// Why a read of a shard was aborted.
pub enum Stop {
    /// A table named by the manifest does not exist.
    Gone,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Failed(error)
    }
}

impl Requests {
    /// A table with its bytes, not written yet. It must have entries. Its name has the floor's time if a machine whose clock
    /// was ahead has raised that above this one's: so the table can be added.
    pub fn build_table(&self, shard: &Shard, mut builder: Builder) -> (TableObject, Bytes) {
        let floor_ms = shard.known().map_or(0, |known| known.floor_ms);
        let name = names::table(shard.id, self.now().wall_ms.max(floor_ms), Uuid::new_v4());
        let entries_end = builder.length();
        let (first, last) = builder.bounds().expect("a table has entries");
        let index = builder.finish();
        let bytes = Bytes::from(builder.buffer);
        let length = bytes.len() as u64;
        let (first, last) = (first.metric(), last.metric());
        let object = TableObject { name, version: None, bytes: length, entries_end, first, last };
        let table = Some(Arc::new(Table::new(self.site(&object), index)));
        let whole = (length <= WHOLE_BYTES_MAX).then(|| bytes.clone());
        self.cache.add(&object.name, Held { table, whole });
        (object, bytes)
    }

    /// Caches the table that a manifest's object begins with.
    pub fn cache_table(&self, manifest: &Manifest, bytes: &[u8]) {
        if let Some(object) = manifest.own_table().filter(|object| object.bytes == bytes.len() as u64) {
            let whole = Some(Bytes::copy_from_slice(bytes));
            self.cache.add(&object.name, Held { table: None, whole });
        }
    }

    /// The table with its index. `last`: a missing object counts as lost.
    pub async fn table(&self, object: &TableObject, last: bool) -> Result<Arc<ObjectTable>, Stop> {
        let held = self.cache.get(&object.name);
        if let Some(table) = held.table {
            return Ok(table);
        }
        let start = if object.bytes <= WHOLE_BYTES_MAX { 0 } else { object.entries_end };
        let header_of = |whole: &Bytes| whole.slice(..HEADER_BYTES.min(whole.len()));
        let (bytes, header) = match held.whole {
            Some(whole) => {
                let tail = whole.slice((start as usize).min(whole.len())..);
                (Some(tail), Some(header_of(&whole)))
            }
            None if start == 0 => {
                let whole = self.get_range(&object.object(), 0, object.bytes).await?;
                let header = whole.as_ref().map(header_of);
                (whole, header)
            }
            None => {
                let name = object.object();
                let tail = self.get_range(&name, start, object.bytes - start);
                try_join(tail, self.get_range(&name, 0, HEADER_BYTES as u64)).await?
            }
        };
        let (Some(bytes), Some(header)) = (bytes, header) else {
            if last {
                self.damage.report("table, which is gone", &object.object(), 0, &[]);
                return Ok(Arc::new(Table::gone(self.site(object), [object.first, object.last])));
            }
            return Err(Stop::Gone);
        };
        self.check_version(object, &header)?;
        let mut whole = (start == 0).then(|| bytes.clone());
        let tail = bytes.get((object.entries_end - start) as usize..).unwrap_or_default();
        let table = match self.parsed(object, tail) {
            Ok(table) => table,
            Err(damaged) => {
                if whole.is_none() {
                    let read = self.get_range(&object.object(), 0, object.bytes).await?;
                    whole = Some(read.ok_or(Stop::Gone)?);
                }
                Table::new(
                    self.site(object),
                    Rebuild::of_bytes(whole.as_deref().unwrap_or_default(), object.entries_end, damaged),
                )
            }
        };
        let table = Arc::new(table);
        let whole = whole.filter(|whole| whole.len() as u64 <= WHOLE_BYTES_MAX);
        self.cache.add(&object.name, Held { table: Some(table.clone()), whole });
        Ok(table)
    }

    /// Fails for a table of a newer program, which would be misread, or look damaged.
    fn check_version(&self, object: &TableObject, header: &[u8]) -> Result<()> {
        match version_of(header) {
            Some(found) if found > FORMAT_VERSION => Err(StoreError::Io(format!(
                "{} has format version {found}, but this program knows versions up to {FORMAT_VERSION} only",
                self.damage.place(&object.object())
            ))),
            Some(_) => Ok(()),
            None => {
                self.damage.report("header of a table", &object.object(), 0, header);
                Ok(())
            }
        }
    }

    fn site(&self, object: &TableObject) -> ObjectSite {
        ObjectSite { object: object.clone(), damage: self.damage.clone() }
    }

    /// From what follows the entries; `Err` if the index is damaged, which is reported.
    fn parsed(&self, object: &TableObject, tail: &[u8]) -> Result<ObjectTable, DamagedIndex> {
        let site = self.site(object);
        let (bytes, footer) =
            tail.split_at_checked(tail.len().saturating_sub(FOOTER_BYTES)).unwrap_or_default();
        let parsed =
            Footer::parse(footer, object.bytes).filter(|footer| footer.entries_end == object.entries_end);
        let Some(footer) = parsed else {
            site.report("end of a table", object.bytes.saturating_sub(FOOTER_BYTES as u64), footer);
            return Err(DamagedIndex { footer: None, filter: Filter::everything() });
        };
        let index = Index::parse(footer, bytes, &mut |what, offset| site.report(what, offset, &[]))?;
        Ok(Table::new(site, index))
    }

    /// The pages that contain what is wanted, sorted by page.
    pub async fn pages(&self, table: &ObjectTable, wanted: &[Wanted]) -> Result<Vec<Pages>, Stop> {
        let (object, index) = (&table.site.object, &table.index);
        let whole = self.cache.get(&object.name).whole;
        let size_of =
            |of_page: &[Wanted]| index.page_end(of_page[0].page) - index.page_start(of_page[0].page);
        let size: u64 = wanted.chunk_by(|one, next| one.page == next.page).map(size_of).sum();
        let whole = match whole {
            None if size > 0 && size * WHOLE_SHARE >= object.entries_end => {
                let whole = self.range(table, 0, object.bytes).await?;
                self.cache.add(&object.name, Held { table: None, whole: Some(whole.clone()) });
                Some(whole)
            }
            whole => whole,
        };
        let mut gap_bytes = GAP_BYTES;
        let mut spans = index.spans(wanted, gap_bytes, u64::MAX);
        while spans.len() > SPANS_MAX {
            gap_bytes *= 2;
            spans = index.spans(wanted, gap_bytes, u64::MAX);
        }
        let bounds = spans.iter().map(|span| (span[0].page, span[span.len() - 1].page));
        try_join_all(bounds.map(|(first, last)| {
            let whole = whole.clone();
            async move { self.read(table, whole, first, last).await }
        }))
        .await
    }

    /// Pages of a table, from its whole bytes if they are given.
    async fn read(
        &self,
        table: &ObjectTable,
        whole: Option<Bytes>,
        first: usize,
        last: usize,
    ) -> Result<Pages, Stop> {
        let (start, end) = (table.index.page_start(first), table.index.page_end(last));
        let bytes = match whole {
            _ if start == end => Bytes::new(),
            Some(whole) => whole.slice((start as usize).min(whole.len())..(end as usize).min(whole.len())),
            None => self.range(table, start, end - start).await?,
        };
        Ok(Pages { first, last, start, bytes })
    }

    /// Consecutive pages of a table.
    pub async fn read_pages(&self, table: &ObjectTable, first: usize, last: usize) -> Result<Pages, Stop> {
        self.read(table, self.cache.get(&table.site.object.name).whole, first, last).await
    }

    async fn range(&self, table: &ObjectTable, start: u64, length: u64) -> Result<Bytes, Stop> {
        let object = &table.site.object;
        let bytes = self.get_range(&object.object(), start, length).await?;
        bytes.ok_or_else(|| {
            // Its index is worth nothing any more.
            self.cache.remove(&object.name);
            Stop::Gone
        })
    }
}
