//! Exports the measures of the journals in order of arrival, as requests of many metrics each. The journals are
//! streamed once.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    path::{Path, PathBuf},
};

use gnudi_client::measures::write_measures;
use gnudi_drivers::incoming::{
    Record,
    journal::{Found, JournalEntry, JournalPosition, JournalReader},
};
use gnudi_model::{Measure, MetricId};
use gnudi_series::{CodecError, points, removal};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    Export, ExportError, Options,
    earlier::Place,
    line::{Line, Positions, raw},
};

/// Several journals, merged in order of arrival.
pub(super) struct Journals {
    journals: Vec<Journal>,
}

struct Journal {
    dir: PathBuf,
    reader: Option<JournalReader>,
    /// The next batch, and the position after it.
    next: Option<(JournalEntry, JournalPosition)>,
    /// The position after the last batch used.
    done: JournalPosition,
}

impl Journals {
    /// Checks that each directory has a journal of the store.
    pub fn open(options: &Options) -> Result<Self, ExportError> {
        let journal = |dir: &PathBuf| {
            let dir = dir.canonicalize().map_err(|error| ExportError::file(dir, error))?;
            JournalReader::open(&dir, options.store, JournalPosition::default())?;
            Ok(Journal { dir, reader: None, next: None, done: JournalPosition::default() })
        };
        let mut journals: Vec<Journal> =
            options.journals.iter().map(journal).collect::<Result<_, ExportError>>()?;
        journals.sort_by(|one, other| one.dir.cmp(&other.dir));
        journals.dedup_by(|one, other| one.dir == other.dir);
        Ok(Self { journals })
    }

    /// Continues at the positions of an earlier run.
    pub fn resume(&mut self, earlier: &Positions, store: Uuid) -> Result<(), ExportError> {
        for journal in &mut self.journals {
            if let Some(text) = earlier.get(&name(&journal.dir)) {
                let invalid = |reason: String| ExportError::invalid(&journal.dir, reason);
                journal.done = text.parse().map_err(invalid)?;
            }
            journal.reader = Some(JournalReader::open(&journal.dir, store, journal.done)?);
        }
        Ok(())
    }

    /// The positions after the batches used.
    pub fn positions(&self) -> Positions {
        self.journals.iter().map(|journal| (name(&journal.dir), journal.done.to_string())).collect()
    }

    fn bytes_left(&self) -> Result<u64, ExportError> {
        let mut left = 0;
        for reader in self.journals.iter().filter_map(|journal| journal.reader.as_ref()) {
            left += reader.bytes_left()?;
        }
        Ok(left)
    }

    /// The journal with the earliest of the remaining batches. Damage found on the way is appended to `skipped`.
    fn first(&mut self, skipped: &mut Vec<String>) -> Result<Option<&mut Journal>, ExportError> {
        for journal in &mut self.journals {
            journal.read_next(skipped)?;
        }
        let waiting = self.journals.iter_mut().filter(|journal| journal.next.is_some());
        Ok(waiting.min_by_key(|journal| journal.next.as_ref().map(|(entry, _)| entry.at)))
    }
}

impl Journal {
    /// The next batch, which counts as used from now on.
    fn take(&mut self) -> Option<JournalEntry> {
        let (entry, end) = self.next.take()?;
        self.done = end;
        Some(entry)
    }

    fn read_next(&mut self, skipped: &mut Vec<String>) -> Result<(), ExportError> {
        let Some(reader) = self.reader.as_mut().filter(|_| self.next.is_none()) else { return Ok(()) };
        while let Some(found) = reader.next()? {
            match found {
                Found::Entry(entry) => {
                    self.next = Some((entry, reader.position()));
                    return Ok(());
                }
                Found::Damage { file, offset: 0, .. } => {
                    skipped
                        .push(format!("{}: the file is missing, and its measures with it", file.display()));
                }
                Found::Damage { file, offset, bytes } => {
                    skipped.push(format!(
                        "{}: {bytes} bytes at offset {offset} are damaged, and their measures lost",
                        file.display()
                    ));
                }
            }
        }
        Ok(())
    }
}

fn name(dir: &Path) -> String {
    dir.display().to_string()
}

/// Exports the measures of the journals, up to the first of a metric that came too late to be exported.
pub(super) async fn write(export: &mut Export<'_>, journals: &mut Journals) -> Result<(), ExportError> {
    let max = export.options.batch_measures_max;
    let mut batch = Batch::default();
    let mut written = journals.positions();
    export.report.journal_bytes = journals.bytes_left()?;
    while let Some(first) = journals.first(&mut export.report.skipped)? {
        if let Some((entry, _)) = &first.next
            && export.known.lacks_one_of(&entry.records, export.gnudi).await?
        {
            export.report.is_cut = true;
            break;
        }
        let Some(entry) = first.take() else { break };
        for record in &entry.records {
            if removal::is_removal(&record.points) {
                let skipped = "a removal of measures, which Gnocchi does not have, is left out";
                export.report.skipped.push(format!("metric {}: {skipped}", record.metric));
                continue;
            }
            let measures = match readable(record, &first.dir)? {
                Ok(measures) => measures,
                Err(skipped) => {
                    export.report.skipped.push(skipped);
                    continue;
                }
            };
            let mut rest = &measures[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(max - batch.measures));
                batch.push(record.metric, now);
                rest = later;
                // Only part of the entry is written: a later run must repeat all of it.
                if batch.measures == max && !rest.is_empty() {
                    batch.write(export, None).await?;
                }
            }
            if batch.measures == max {
                batch.write(export, None).await?;
            }
        }
        if batch.measures >= max.div_ceil(2) {
            export.report.journal_bytes_left = journals.bytes_left()?;
            written = journals.positions();
            batch.write(export, Some(written.clone())).await?;
        }
    }
    // At the end of a journal there may be space that is allocated ahead.
    export.report.journal_bytes_left = if export.report.is_cut { journals.bytes_left()? } else { 0 };
    let end = journals.positions();
    if written != end {
        batch.write(export, Some(end)).await?;
    }
    Ok(())
}

/// The measures of a record of the journal in `dir`, or why they are left out. Those of a newer program end the export: a
/// later run of such a program goes on before them.
fn readable(record: &Record, dir: &Path) -> Result<Result<Vec<Measure>, String>, ExportError> {
    match measures_of(record) {
        Err(CodecError::Version(found)) => {
            let reason = format!(
                "measures of metric {} have format version {found}, which this program does not know: run the program that wrote them, or a newer one",
                record.metric
            );
            Err(ExportError::invalid(dir, reason))
        }
        read => Ok(read.map_err(|error| undecodable(record, &error))),
    }
}

/// The measures of a record. The marker that ends a series is none: Gnocchi would take it for NaN, and each value of its bucket
/// would be NaN.
fn measures_of(record: &Record) -> Result<Vec<Measure>, CodecError> {
    let mut measures = Vec::new();
    points::decode(&record.points, &mut measures)?;
    measures.retain(|measure| !measure.is_end_marker());
    Ok(measures)
}

fn undecodable(record: &Record, error: &CodecError) -> String {
    format!("metric {}: {} measures cannot be read: {error}", record.metric, record.measures)
}

/// Measures of metrics, in order of arrival.
#[derive(Default)]
struct Batch {
    metrics: Vec<(MetricId, Vec<Measure>)>,
    by_id: HashMap<MetricId, usize>,
    measures: usize,
}

impl Batch {
    fn push(&mut self, metric: MetricId, measures: &[Measure]) {
        let index = *self.by_id.entry(metric).or_insert_with(|| {
            self.metrics.push((metric, Vec::new()));
            self.metrics.len() - 1
        });
        self.metrics[index].1.extend_from_slice(measures);
        self.measures += measures.len();
    }

    /// Writes the batch as one request by ids and one by resources and names, and clears it. With `positions` the last
    /// line records that everything up to there is in the file.
    async fn write(
        &mut self,
        export: &mut Export<'_>,
        positions: Option<Positions>,
    ) -> Result<(), ExportError> {
        let Batch { metrics, .. } = std::mem::take(self);
        let ids: Vec<MetricId> = metrics.iter().map(|(id, _)| *id).collect();
        let known = export.gnudi.metrics(&ids).await?;
        let (mut by_id, mut by_name) = (ById::default(), ByName::default());
        for ((id, measures), known) in metrics.iter().zip(&known) {
            match (known, export.known.made.get(id)) {
                (Some(_), Some(Place::Of(resource, name))) => by_name.push(*resource, name, measures),
                (Some(_), Some(Place::Alone)) => by_id.push(*id, measures, true),
                (Some(_), None) if export.known.metrics.contains(id) => by_id.push(*id, measures, false),
                _ => export.report.measures_left_out += measures.len() as u64,
            }
        }
        let mut lines: Vec<Line> = [by_id.line(), by_name.line()].into_iter().flatten().collect();
        if lines.is_empty() {
            lines.push(Line::default());
        }
        let last = lines.last_mut().expect("one at least");
        last.journal = positions;
        for line in lines.iter().filter(|line| line.method.is_some() || line.journal.is_some()) {
            export.report.batches += u64::from(line.method.is_some());
            export.report.measures += line.measures.unwrap_or(0);
            export.output.write(line)?;
        }
        (export.tell)(&export.report);
        Ok(())
    }
}

/// `POST /v1/batch/metrics/measures`
#[derive(Default)]
struct ById {
    body: Vec<u8>,
    made: Vec<Uuid>,
    measures: u64,
}

impl ById {
    fn push(&mut self, id: MetricId, measures: &[Measure], is_made: bool) {
        self.body.push(if self.body.is_empty() { b'{' } else { b',' });
        write!(self.body, "\"{id}\":").expect("a Vec takes it");
        write_measures(measures, &mut self.body);
        self.made.extend(is_made.then_some(id.0));
        self.measures += measures.len() as u64;
    }

    fn line(mut self) -> Option<Line> {
        if self.body.is_empty() {
            return None;
        }
        self.body.push(b'}');
        let line = Line::request("POST", "/v1/batch/metrics/measures", None);
        Some(Line { made: self.made, measures: Some(self.measures), body: Some(written(self.body)), ..line })
    }
}

/// `POST /v1/batch/resources/metrics/measures`
#[derive(Default)]
struct ByName<'a> {
    /// By resource, then by name.
    metrics: BTreeMap<Uuid, Vec<(&'a str, &'a [Measure])>>,
    measures: u64,
}

impl<'a> ByName<'a> {
    fn push(&mut self, resource: Uuid, name: &'a str, measures: &'a [Measure]) {
        self.metrics.entry(resource).or_default().push((name, measures));
        self.measures += measures.len() as u64;
    }

    fn line(self) -> Option<Line> {
        if self.metrics.is_empty() {
            return None;
        }
        let mut body = Vec::new();
        for (resource, metrics) in self.metrics {
            body.push(if body.is_empty() { b'{' } else { b',' });
            write!(body, "\"{resource}\":").expect("a Vec takes it");
            for (index, (name, measures)) in metrics.into_iter().enumerate() {
                body.push(if index == 0 { b'{' } else { b',' });
                write!(body, "{}:", serde_json::Value::from(name)).expect("a Vec takes it");
                write_measures(measures, &mut body);
            }
            body.push(b'}');
        }
        body.push(b'}');
        let line = Line::request("POST", "/v1/batch/resources/metrics/measures", None);
        Some(Line { measures: Some(self.measures), body: Some(written(body)), ..line })
    }
}

fn written(body: Vec<u8>) -> Box<RawValue> {
    raw(String::from_utf8(body).expect("written as JSON"))
}

#[cfg(test)]
mod tests {
    use gnudi_drivers::incoming::Position;
    use gnudi_model::Timestamp;

    use super::*;

    #[test]
    fn measures_of_a_newer_program_are_not_left_out() {
        let read = |points: &'static [u8]| {
            let metric = MetricId(Uuid::from_u128(1));
            let record = Record { position: Position(1), metric, measures: 1, points: points.into() };
            readable(&record, Path::new("/journal"))
        };
        let refused = read(&[0xf0]).unwrap_err().to_string();
        assert!(refused.contains("/journal") && refused.contains("format version 15"), "{refused}");
        assert!(read(&[0]).unwrap().is_err());
    }

    #[test]
    fn the_end_of_a_series_is_no_measure() {
        let measure = |second, value| Measure { timestamp: Timestamp::from_secs(second), value };
        let end = f64::from_bits(Measure::END_MARKER);
        let mut bytes = Vec::new();
        points::encode(&[measure(1, 2.0), measure(2, end), measure(3, f64::NAN)], &mut bytes);
        let metric = MetricId(Uuid::from_u128(1));
        let record = Record { position: Position(1), metric, measures: 3, points: bytes.into() };
        let left: Vec<i64> =
            measures_of(&record).unwrap().iter().map(|measure| measure.timestamp.secs()).collect();
        assert_eq!(left, [1, 3]);
    }
}
