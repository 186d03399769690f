//! Gnocchi's driver `file`: a directory per metric, with a file per split and one for the points of the back window,
//! and a directory of incoming measures.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use bytes::Bytes;
use gnudi_drivers::disk::if_there;
use gnudi_model::{MetricId, python};

use super::{
    Incoming, POINTS, SETTINGS, Sacks, SourceError, SplitKey, Storage, StoredMeasures, StoredSplit, VERSION,
    Wanted, request_time,
};

/// Default length of the id parts that name directories.
const SUBDIR_CHARACTERS_DEFAULT: usize = 2;
/// The storage's settings, in its folder `tmp`.
const STORAGE_SETTINGS: &str = "gnocchi-storage-config";

/// The storage in a folder.
#[derive(Clone, Debug)]
pub struct FileStorage {
    base: PathBuf,
    subdir_characters: usize,
}

impl FileStorage {
    /// # Errors
    /// If the folder is not a storage or cannot be read, or its settings are invalid.
    pub fn open(base: &Path) -> io::Result<Self> {
        fs::read_dir(base)?;
        // Gnocchi writes no file of a metric without it. Of a wrong folder all metrics would be imported empty.
        if !base.join("tmp").is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no storage of Gnocchi: there is no folder tmp in it",
            ));
        }
        let subdir_characters = match if_there(fs::read(base.join("tmp").join(STORAGE_SETTINGS)))? {
            Some(settings) => {
                let settings: serde_json::Value = serde_json::from_slice(&settings)?;
                let length = settings.get("subdir_len").and_then(serde_json::Value::as_u64);
                length.and_then(|length| usize::try_from(length).ok()).unwrap_or(SUBDIR_CHARACTERS_DEFAULT)
            }
            None => SUBDIR_CHARACTERS_DEFAULT,
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
}

#[async_trait]
impl Storage for FileStorage {
    fn points_place(&self, metric: MetricId) -> String {
        self.metric_dir(metric).join(POINTS).display().to_string()
    }

    async fn points(&self, metric: MetricId) -> Result<Option<Bytes>, SourceError> {
        Ok(read_if_there(&self.metric_dir(metric).join(POINTS))?)
    }

    async fn splits(&self, metric: MetricId, wanted: Wanted<'_>) -> Result<Vec<StoredSplit>, SourceError> {
        const DIRECTORY: &str = "agg_";
        let dir = self.metric_dir(metric);
        let mut splits = Vec::new();
        for name in names(&dir)? {
            let Some(method) = name.strip_prefix(DIRECTORY) else { continue };
            let of_method = dir.join(&name);
            for name in names(&of_method)? {
                let Some(key) = split_key(method, &name).filter(wanted) else { continue };
                let path = of_method.join(&name);
                // Gnocchi deletes expired splits.
                let Some(bytes) = read_if_there(&path)? else { continue };
                splits.push(StoredSplit { key, place: path.display().to_string(), bytes });
            }
        }
        Ok(splits)
    }
}

/// From a file name in a method's directory: `1412020800.0_60.0_v3`.
fn split_key(method: &str, name: &str) -> Option<SplitKey> {
    let (start, granularity) = name.strip_suffix(VERSION)?.split_once('_')?;
    SplitKey::from_parts(start, method, granularity)
}

/// `None` if the file does not exist.
fn read_if_there(path: &Path) -> io::Result<Option<Bytes>> {
    let bytes = if_there(fs::read(path)).map_err(|error| at(path, &error))?;
    Ok(bytes.map(Bytes::from))
}

/// Incoming measures: a directory per sack, with a directory for each metric that has some.
#[derive(Debug)]
pub struct FileIncoming {
    base: PathBuf,
    sacks: Sacks,
}

impl FileIncoming {
    /// # Errors
    /// If the folder is not an incoming storage of Gnocchi.
    pub fn open(base: PathBuf) -> Result<Self, SourceError> {
        let settings = read_if_there(&base.join("tmp").join(SETTINGS))?;
        let sacks = Sacks::of_settings(&base.display().to_string(), settings.as_deref())?;
        Ok(FileIncoming { base, sacks })
    }
}

#[async_trait]
impl Incoming for FileIncoming {
    async fn backlog(&self) -> Result<HashSet<MetricId>, SourceError> {
        let mut found = HashSet::new();
        for sack in self.sacks.names() {
            found.extend(
                names(&self.base.join(sack))?
                    .iter()
                    .filter_map(|name| python::parse_uuid(name))
                    .map(MetricId),
            );
        }
        Ok(found)
    }

    async fn backlog_of(&self, metric: MetricId) -> Result<Vec<StoredMeasures>, SourceError> {
        let dir = self.base.join(self.sacks.of(metric)).join(metric.0.to_string());
        let mut names = names(&dir)?;
        names.sort_by(|a, b| request_time(a).cmp(request_time(b)));
        let mut waiting = Vec::new();
        for name in names {
            let path = dir.join(name);
            // Gnocchi may have processed it meanwhile.
            let Some(bytes) = read_if_there(&path)? else { continue };
            waiting.push(StoredMeasures { place: path.display().to_string(), bytes });
        }
        Ok(waiting)
    }
}

/// The sorted names in a directory; none if it does not exist.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = if_there(fs::read_dir(dir)).map_err(|error| at(dir, &error))?;
    let mut names = Vec::new();
    for entry in entries.into_iter().flatten() {
        names.extend(entry.map_err(|error| at(dir, &error))?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_something_else_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let refused = FileStorage::open(root.path()).unwrap_err().to_string();
        assert!(refused.starts_with("no storage of Gnocchi"), "{refused}");
        fs::create_dir(root.path().join("tmp")).unwrap();
        let of_metric = |storage: &FileStorage| storage.metric_dir(MetricId(uuid::Uuid::from_u128(5)));
        let storage = FileStorage::open(root.path()).unwrap();
        assert!(of_metric(&storage).starts_with(root.path().join("00/00")));
        fs::write(root.path().join("tmp").join(STORAGE_SETTINGS), "{\"subdir_len\": 0}").unwrap();
        let storage = FileStorage::open(root.path()).unwrap();
        assert_eq!(of_metric(&storage).parent(), Some(root.path()));
    }
}
