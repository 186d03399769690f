//! Exports to Gnocchi everything that changed in gnudi since the import, as requests to Gnocchi's API.
//!
//! [`export`] writes a file of lines, each a request: first the differences of both indexes (`definitions`,
//! `resources`, `metrics`), in an order that Gnocchi accepts, then the measures of gnudi's journals (`measures`).
//! `file` continues an earlier run; `earlier` and `expected` have the effects of its lines; `known` has the items that this run
//! can refer to.
//! [`post`](mod@post) sends the lines.
//! Gnocchi's database is only read.
//!
//! Repetitions are harmless: Gnocchi rejects what exists, and a repeated measure replaces itself.

mod definitions;
mod earlier;
mod expected;
mod file;
mod known;
mod line;
mod measures;
mod metrics;
pub mod post;
mod resources;

use std::{
    io,
    path::{Path, PathBuf},
};

use gnudi_drivers::OpenError;
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{MetricId, Timestamp};
use uuid::Uuid;

use crate::index::{IDS_AT_ONCE, Index, IndexError};

use self::{
    earlier::Earlier, expected::Expected, file::Output, known::Known, line::Line, measures::Journals,
    post::Posted,
};

/// Options of an export.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories of the journals.
    pub journals: Vec<PathBuf>,
    /// The store's id in its index.
    pub store: Uuid,
    pub output: PathBuf,
    /// Maximum measures per request.
    pub batch_measures_max: usize,
    /// The creator that will post the file, in Gnocchi's form.
    pub creator: String,
}

/// Counters of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that change Gnocchi's index.
    pub changes: u64,
    /// Of these, new metrics.
    pub metrics_new: u64,
    /// Requests with measures, and their measures.
    pub batches: u64,
    pub measures: u64,
    /// Measures of metrics that were deleted since, or are left out.
    pub measures_left_out: u64,
    /// Unread bytes of the journals, now and at the start.
    pub journal_bytes_left: u64,
    pub journal_bytes: u64,
    /// Whether the rest of the journals is left to the next export: it has measures of a metric that was created
    /// meanwhile.
    pub is_cut: bool,
    /// What was skipped, and why.
    pub skipped: Vec<String>,
}

/// Why an export stopped. A repeated run continues there.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("reading gnudi's index: {0}")]
    Indexer(#[from] IndexerError),
    #[error("the journal: {0}")]
    Journal(#[from] OpenError),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{}: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
    #[error(
        "the store of gnudi has none of this Gnocchi's metrics and resources: it was not imported from it"
    )]
    NotImported,
    /// What cannot be read is not listed: it would be deleted in Gnocchi.
    #[error(
        "resources or metrics are damaged in gnudi's index, the log names them: repair or delete them first"
    )]
    Damaged,
}

impl ExportError {
    fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }

    fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), reason: reason.into() }
    }
}

/// Must be called after each page of gnudi's listings.
fn refuse_damage(gnudi: &dyn Indexer) -> Result<(), ExportError> {
    if gnudi.damaged() == 0 { Ok(()) } else { Err(ExportError::Damaged) }
}

/// Called with the counters from time to time.
pub type Tell<'a> = &'a mut (dyn FnMut(&Report) + Send);

/// State shared by all parts of an export.
struct Export<'a> {
    gnocchi: &'a mut Index,
    gnudi: &'a dyn Indexer,
    output: Output,
    earlier: Earlier,
    posted: Posted,
    expected: Expected,
    known: Known,
    options: &'a Options,
    report: Report,
    tell: Tell<'a>,
}

impl Export<'_> {
    fn change(&mut self, line: &Line) -> Result<(), ExportError> {
        self.report.changes += 1;
        self.output.write(line)?;
        (self.tell)(&self.report);
        Ok(())
    }
}

/// Writes the file, or continues it.
pub async fn export(
    gnocchi: &mut Index,
    gnudi: &dyn Indexer,
    options: &Options,
    tell: Tell<'_>,
) -> Result<Report, ExportError> {
    check_imported(gnocchi, gnudi).await?;
    // Before the file is created: a missing journal must not leave one behind.
    let mut journals = Journals::open(options)?;
    let posted = Posted::read(&options.output)?;
    let (output, earlier) = Output::open(&options.output, options.store)?;
    journals.resume(&earlier.positions, options.store)?;
    let expected = Expected::read(gnocchi, &earlier, posted.lines(), &options.output).await?;
    let report = Report::default();
    let known = Known::default();
    let mut export =
        Export { gnocchi, gnudi, output, earlier, posted, expected, known, options, report, tell };
    index(&mut export).await?;
    let journal = Some(journals.positions());
    export.output.write(&Line { journal, ..Line::default() })?;
    measures::write(&mut export, &mut journals).await?;
    let Export { output, report, .. } = export;
    output.finish()?;
    Ok(report)
}

/// Exports the differences of the indexes.
async fn index(export: &mut Export<'_>) -> Result<(), ExportError> {
    let types = definitions::write_new(export).await?;
    resources::write_deleted(export, &types).await?;
    metrics::write_deleted(export).await?;
    resources::write_changed(export, &types).await?;
    metrics::write_new(export).await?;
    definitions::write_deleted(export).await
}

/// Refuses a store that has nothing in common with this Gnocchi: everything in Gnocchi would count as deleted.
async fn check_imported(gnocchi: &mut Index, gnudi: &dyn Indexer) -> Result<(), ExportError> {
    let mut behind = None;
    loop {
        let some = gnocchi.metrics_behind(behind, Timestamp::EPOCH).await?;
        let ids: Vec<MetricId> = some.iter().map(|metric| metric.id).collect();
        let Some(last) = ids.last() else { break };
        if gnudi.metrics(&ids).await?.iter().any(Option::is_some) {
            return Ok(());
        }
        behind = Some(*last);
    }
    let resources: Vec<Uuid> = gnocchi.resource_states().await?.iter().map(|state| state.id).collect();
    for some in resources.chunks(IDS_AT_ONCE) {
        if gnudi.ends(some).await?.iter().any(Option::is_some) {
            return Ok(());
        }
    }
    if behind.is_none() && resources.is_empty() { Ok(()) } else { Err(ExportError::NotImported) }
}
