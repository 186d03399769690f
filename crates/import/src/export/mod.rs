//! The way back: what came into gnudi since a Gnocchi was imported, as requests to that Gnocchi's API.
//!
//! [`export`] writes a file of lines, each a request: first what differs between both indexes (`definitions`, `resources`, `metrics`), in
//! an order in which Gnocchi takes it, then the measures of gnudi's journals (`measures`). `file` goes on where an earlier run has
//! ended. [`post`](mod@post) sends the lines. Gnocchi's database is only read.
//!
//! What is written twice changes nothing: Gnocchi refuses what is there already, and a measure that comes again replaces its like.

mod definitions;
mod file;
mod line;
mod measures;
mod merge;
mod metrics;
pub mod post;
mod resources;

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use gnudi_drivers::OpenError;
use gnudi_indexer::{Indexer, IndexerError};
use gnudi_model::{MetricId, Timestamp};
use uuid::Uuid;

use crate::index::{Index, IndexError};

use self::{
    file::{Earlier, Output},
    line::Line,
    measures::Journals,
};

/// What is exported, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directories of the journals.
    pub journals: Vec<PathBuf>,
    /// The id that the index gave the store.
    pub store: Uuid,
    pub output: PathBuf,
    /// Measures in one request, at most.
    pub batch_measures_max: usize,
    /// Who will post the file, as Gnocchi names creators.
    pub creator: String,
}

/// What an export has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that change Gnocchi's index.
    pub changes: u64,
    /// Of these, new metrics.
    pub metrics_new: u64,
    /// Requests of measures, and the measures in them.
    pub batches: u64,
    pub measures: u64,
    /// Measures whose metric was deleted since.
    pub measures_left_out: u64,
    /// Bytes of the journals that are not read yet, and that were not when the export began.
    pub journal_bytes_left: u64,
    pub journal_bytes: u64,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// Why an export stopped. The same export goes on from there.
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
    #[error("the store of gnudi has none of this Gnocchi's metrics: it was not imported from it")]
    NotImported,
}

impl ExportError {
    fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }

    fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), reason: reason.into() }
    }
}

/// Told what was done so far, now and then.
pub type Tell<'a> = &'a mut (dyn FnMut(&Report) + Send);

/// What all parts of an export share.
struct Export<'a> {
    gnocchi: &'a mut Index,
    gnudi: &'a dyn Indexer,
    output: Output,
    earlier: Earlier,
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

/// Writes the file, or goes on with it.
pub async fn export(
    gnocchi: &mut Index,
    gnudi: &dyn Indexer,
    options: &Options,
    tell: Tell<'_>,
) -> Result<Report, ExportError> {
    check_imported(gnocchi, gnudi).await?;
    // Before the file: what is missing leaves none.
    let mut journals = Journals::open(options)?;
    let (output, earlier) = Output::open(&options.output, options.store)?;
    journals.go_on(&earlier.positions, options.store)?;
    let mut export = Export { gnocchi, gnudi, output, earlier, options, report: Report::default(), tell };
    let made = index(&mut export).await?;
    let journal = Some(journals.positions());
    export.output.write(&Line { journal, ..Line::default() })?;
    measures::write(&mut export, &mut journals, &made).await?;
    let Export { output, report, .. } = export;
    output.finish()?;
    Ok(report)
}

/// The differences of the indexes; answers the metrics of gnudi that Gnocchi lacks.
async fn index(export: &mut Export<'_>) -> Result<HashSet<MetricId>, ExportError> {
    let types = definitions::write_new(export).await?;
    metrics::write_deleted(export).await?;
    resources::write_deleted(export, &types).await?;
    resources::write_changed(export, &types).await?;
    let made = metrics::write_new(export).await?;
    definitions::write_deleted(export).await?;
    Ok(made)
}

/// Refuses a store that has nothing in common with this Gnocchi: all that Gnocchi has would be taken for deleted.
async fn check_imported(gnocchi: &mut Index, gnudi: &dyn Indexer) -> Result<(), ExportError> {
    let some = gnocchi.metrics_behind(None, Timestamp::EPOCH).await?;
    let ids: Vec<MetricId> = some.iter().map(|metric| metric.id).collect();
    let known = gnudi.metrics(&ids).await?;
    if !ids.is_empty() && known.iter().all(Option::is_none) {
        return Err(ExportError::NotImported);
    }
    Ok(())
}
