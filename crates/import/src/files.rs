//! Gnocchi's driver `file`: one directory for each metric, with a file for each split, one for the points of the back window, and a
//! directory of measures that wait. Reads only.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use gnudi_model::{AggregationMethod, Measure, MetricId, Timespan, Timestamp, python};
use gnudi_series::{head::ImportedGrain, head::Layout};

use crate::carbonara;

/// How long the parts of an id are that make directories, where nothing else is written down.
const SUBDIR_CHARACTERS_DEFAULT: usize = 2;
/// A storage's settings, in its folder `tmp`.
const SETTINGS: &str = "gnocchi-storage-config";
const VERSION: &str = "_v3";
/// How often a metric is read again that Gnocchi works on meanwhile.
const READS_MAX: usize = 100;

/// A storage of the driver `file`.
#[derive(Clone, Debug)]
pub struct FileStorage {
    base: PathBuf,
    subdir_characters: usize,
}

/// What a storage has of one metric.
#[derive(Clone, Debug, Default)]
pub struct StoredSeries {
    /// Of the back window, oldest first.
    pub points: Vec<Measure>,
    pub grains: Vec<ImportedGrain>,
    /// Files that are damaged or cannot be read, and why.
    pub skipped: Vec<String>,
}

/// The buckets of a split of some method, oldest first.
struct Split {
    granularity: Timespan,
    buckets: Vec<(Timestamp, f64)>,
}

impl StoredSeries {
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
            && self.grains.iter().all(|grain| grain.starts.is_empty())
            && self.skipped.is_empty()
    }
}

impl FileStorage {
    /// # Errors
    /// A folder that is no storage, or cannot be read; settings that are none.
    pub fn open(base: &Path) -> io::Result<Self> {
        fs::read_dir(base)?;
        let subdir_characters = match fs::read(base.join("tmp").join(SETTINGS)) {
            Ok(settings) => {
                let settings: serde_json::Value = serde_json::from_slice(&settings)?;
                let length = settings.get("subdir_len").and_then(serde_json::Value::as_u64);
                length.and_then(|length| usize::try_from(length).ok()).unwrap_or(SUBDIR_CHARACTERS_DEFAULT)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => SUBDIR_CHARACTERS_DEFAULT,
            Err(error) => return Err(error),
        };
        Ok(FileStorage { base: base.to_owned(), subdir_characters })
    }

    fn metric_dir(&self, metric: MetricId) -> PathBuf {
        let mut path = self.base.clone();
        if self.subdir_characters > 0 {
            let id = metric.0.simple().to_string();
            path.extend(
                id.as_bytes()
                    .chunks(self.subdir_characters)
                    .map(|part| str::from_utf8(part).expect("hexadecimal digits")),
            );
        }
        path.push(metric.0.to_string());
        path
    }

    /// All that is stored of a metric; nothing where it has no directory, as before its first measures.
    pub fn read(&self, metric: MetricId, layout: &Layout) -> io::Result<StoredSeries> {
        let dir = self.metric_dir(metric);
        let path = dir.join(format!("none{VERSION}"));
        let mut points = read_if_there(&path)?;
        for _ in 0..READS_MAX {
            let mut stored = read_splits(&dir, layout)?;
            // A worker of Gnocchi writes the points after the splits: both are of one pass if these are the same before and after.
            let after = read_if_there(&path)?;
            if points != after {
                points = after;
                continue;
            }
            match points.as_deref().map(carbonara::points) {
                Some(Ok(points)) => stored.points = points,
                Some(Err(damaged)) => stored.skipped.push(format!("{}: {damaged}", path.display())),
                None => {}
            }
            return Ok(stored);
        }
        Err(io::Error::other(format!("{}: it kept changing while it was read", dir.display())))
    }
}

/// The splits of a metric.
fn read_splits(dir: &Path, layout: &Layout) -> io::Result<StoredSeries> {
    let mut stored = StoredSeries::default();
    let mut columns: Vec<Vec<Split>> = Vec::new();
    for method in layout.methods() {
        columns.push(read_method(dir, *method, layout, &mut stored.skipped)?);
    }
    for granularity in layout.granularities() {
        let of_grain = |column: &Vec<Split>| {
            let splits = column.iter().filter(|split| split.granularity == granularity);
            splits.flat_map(|split| split.buckets.iter().copied()).collect::<Vec<_>>()
        };
        stored.grains.push(joined(granularity, &columns.iter().map(of_grain).collect::<Vec<_>>()));
    }
    Ok(stored)
}

/// `None` where there is no such file.
fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some).map_err(|error| at(path, &error)),
    }
}

/// The splits of a method by granularity, oldest first.
fn read_method(
    dir: &Path,
    method: AggregationMethod,
    layout: &Layout,
    skipped: &mut Vec<String>,
) -> io::Result<Vec<Split>> {
    let dir = dir.join(format!("agg_{method}"));
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| at(&dir, &error))?,
    };
    let mut splits = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| at(&dir, &error))?.file_name();
        let Some((start, granularity)) = name.to_str().and_then(split_name) else { continue };
        if layout.granularities().any(|known| known == granularity) {
            splits.push((granularity, start, dir.join(name)));
        }
    }
    splits.sort();
    let mut read = Vec::with_capacity(splits.len());
    for (granularity, start, path) in splits {
        // Gnocchi deletes what has expired.
        let Some(bytes) = read_if_there(&path)? else { continue };
        match carbonara::split(&bytes, start, granularity) {
            Ok(buckets) => read.push(Split { granularity, buckets }),
            Err(damaged) => skipped.push(format!("{}: {damaged}", path.display())),
        }
    }
    Ok(read)
}

/// The start and the granularity of a split: `1412020800.0_60.0_v3`.
fn split_name(name: &str) -> Option<(Timestamp, Timespan)> {
    let (start, granularity) = name.strip_suffix(VERSION)?.split_once('_')?;
    let nanoseconds = |text| python::nanoseconds_of_seconds(python::float_of_text(text)?).ok();
    Some((Timestamp(nanoseconds(start)?), Timespan(nanoseconds(granularity)?)))
}

/// The columns of all methods as rows of one granularity; each column is oldest first.
fn joined(granularity: Timespan, columns: &[Vec<(Timestamp, f64)>]) -> ImportedGrain {
    let mut starts: Vec<Timestamp> = columns.iter().flatten().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    let filled = |column: &Vec<(Timestamp, f64)>| {
        let mut values = column.iter().peekable();
        starts.iter().map(|start| Some(values.next_if(|(of, _)| of == start)?.1)).collect()
    };
    let columns = columns.iter().map(filled).collect();
    ImportedGrain { granularity, starts, columns }
}

/// An incoming storage of the driver `file`: for each metric whose measures wait, the directory that has them.
#[derive(Clone, Debug)]
pub struct FileIncoming(HashMap<MetricId, PathBuf>);

impl FileIncoming {
    pub fn open(base: &Path) -> io::Result<Self> {
        let mut dirs = HashMap::new();
        for sack in names(base)?.into_iter().filter(|name| is_sack(name)) {
            let sack = base.join(sack);
            for metric in names(&sack)? {
                dirs.extend(python::parse_uuid(&metric).map(|id| (MetricId(id), sack.join(metric))));
            }
        }
        Ok(FileIncoming(dirs))
    }

    /// The measures of a metric, in the order of their requests. `skipped` gets the files that are damaged.
    pub fn read(&self, metric: MetricId, skipped: &mut Vec<String>) -> io::Result<Vec<Measure>> {
        let Some(dir) = self.0.get(&metric) else { return Ok(Vec::new()) };
        let mut names = names(dir)?;
        // A random id, then the time of the request: `<uuid>_20261125_13:20:01`.
        names.sort_by(|a, b| {
            a.split_once('_').map(|(_, time)| time).cmp(&b.split_once('_').map(|(_, time)| time))
        });
        let mut measures = Vec::new();
        for name in names {
            let path = dir.join(name);
            // A worker of Gnocchi may have taken it.
            let Some(bytes) = read_if_there(&path)? else { continue };
            match carbonara::waiting(&bytes) {
                Ok(more) => measures.extend(more),
                Err(damaged) => skipped.push(format!("{}: {damaged}", path.display())),
            }
        }
        Ok(measures)
    }
}

/// `incoming128-7`
fn is_sack(name: &str) -> bool {
    let numbers = name.strip_prefix("incoming").and_then(|numbers| numbers.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(count, number)| is_number(count) && is_number(number))
}

/// The names in a directory, sorted; none where it is gone.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| at(dir, &error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(|error| at(dir, &error))?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
