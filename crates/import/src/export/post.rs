//! Posts a file of `gnudi export` to a Gnocchi, line by line in its order.
//!
//! `FILE.posted` beside the file says how far that is: a line for each line that was posted, with its number and where it ends, and
//! where it made a metric, the ids that gnudi and Gnocchi gave it. So posting that was interrupted goes on.
//!
//! Gnocchi makes a metric without a resource as often as it is asked. Before each such request the ids of metrics with the same name are
//! written down: after an interruption a further one is the metric that was asked for.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs::{File, OpenOptions, TryLockError},
    io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use gnudi_client::{Client, ClientError, MetricFilter};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{ExportError, file::Lines, line::Line};

/// What has been posted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines that are done, also by earlier runs, and what they take of the file, whose whole length is `bytes_total`.
    pub lines: u64,
    pub bytes: u64,
    pub bytes_total: u64,
    /// By this run: requests, those that said what Gnocchi had already, and measures.
    pub requests: u64,
    pub known: u64,
    pub measures: u64,
    /// Bytes of the file that were posted by earlier runs.
    pub bytes_before: u64,
}

/// Why posting stopped. The same command goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error(transparent)]
    File(#[from] ExportError),
    #[error("{} line {line}: {error}", path.display())]
    Line { path: PathBuf, line: u64, error: ClientError },
    #[error("{} line {line}: {reason}", path.display())]
    Answer { path: PathBuf, line: u64, reason: String },
}

/// What whoever posts is told.
#[derive(Debug)]
pub enum Told<'a> {
    Progress(&'a Report),
    /// A metric without a resource has another id in Gnocchi.
    Made {
        gnudi: Uuid,
        gnocchi: Uuid,
    },
}

/// What was posted before.
#[derive(Debug, Default)]
pub(super) struct Posted {
    lines: u64,
    end: u64,
    /// By the id that gnudi gave.
    made: HashMap<Uuid, Uuid>,
    by_gnocchi: HashMap<Uuid, Uuid>,
    /// A metric that was asked for and whose answer is not known.
    attempt: Option<Attempt>,
}

/// A request that makes a metric.
#[derive(Debug)]
struct Attempt {
    gnudi: Uuid,
    /// Gnocchi's metrics of the same name before the request.
    before: HashSet<Uuid>,
}

/// The first word of an attempt's line.
const ATTEMPT: &str = "attempt";

impl Posted {
    /// Reads what is said beside a file.
    pub fn read(file: &Path) -> Result<Self, ExportError> {
        let path = state_path(file);
        match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(ExportError::file(&path, error)),
            Ok(file) => Self::parse(&file, &path).map(|(posted, _)| posted),
        }
    }

    /// The id in gnudi of a metric that Gnocchi has made.
    pub fn original(&self, gnocchi: Uuid) -> Option<Uuid> {
        self.by_gnocchi.get(&gnocchi).copied()
    }

    /// The metric that an earlier attempt has made: the one that was not there before it.
    fn made_by_attempt(&self, gnudi: Uuid, alike: &HashSet<Uuid>) -> Option<Uuid> {
        let attempt = self.attempt.as_ref().filter(|attempt| attempt.gnudi == gnudi)?;
        alike.difference(&attempt.before).copied().find(|id| !self.by_gnocchi.contains_key(id))
    }

    /// What it says, and where its last whole line ends.
    fn parse(file: &File, path: &Path) -> Result<(Self, u64), ExportError> {
        let (mut posted, mut end) = (Self::default(), 0);
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        loop {
            line.clear();
            let read = reader.read_line(&mut line).map_err(|error| ExportError::file(path, error))?;
            let Some(text) = line.strip_suffix('\n') else { return Ok((posted, end)) };
            posted.take(text).ok_or_else(|| {
                ExportError::invalid(path, format!("{text} is no line of `gnudi export post`"))
            })?;
            end += read as u64;
        }
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ').peekable();
        if words.next_if_eq(&ATTEMPT).is_some() {
            let gnudi = words.next()?.parse().ok()?;
            let before = words.map(|id| id.parse().ok()).collect::<Option<_>>()?;
            self.attempt = Some(Attempt { gnudi, before });
            return Some(());
        }
        self.lines = words.next()?.parse().ok()?;
        self.end = words.next()?.parse().ok()?;
        if let Some(gnudi) = words.next() {
            self.insert(gnudi.parse().ok()?, words.next()?.parse().ok()?);
        }
        Some(())
    }

    fn insert(&mut self, gnudi: Uuid, gnocchi: Uuid) {
        self.made.insert(gnudi, gnocchi);
        self.by_gnocchi.insert(gnocchi, gnudi);
    }
}

fn state_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".posted");
    name.into()
}

/// Posts what is left of `file`.
pub async fn post(file: &Path, client: &Client, tell: &mut dyn FnMut(Told<'_>)) -> Result<Report, PostError> {
    let input = File::open(file).map_err(|error| ExportError::file(file, error))?;
    let last = last_whole(&input, file)?;
    let mut state = StateFile::open(file)?;
    let Posted { lines, end, .. } = state.posted;
    let mut report =
        Report { lines, bytes: end, bytes_before: end, bytes_total: last.1.max(end), ..Report::default() };
    let mut rest = Lines::new(&input, file);
    rest.skip(lines, end)?;
    while rest.number() < last.0 {
        let Some((line, end)) = rest.next()? else { break };
        let number = rest.number();
        let made = send(client, &line, &mut state, &mut report).await;
        let made = made.map_err(|failure| failure.at(file, number))?;
        state.advance(number, end, made)?;
        if let Some((gnudi, gnocchi)) = made
            && line.path.as_deref() == Some(NEW_METRIC)
        {
            tell(Told::Made { gnudi, gnocchi });
        }
        (report.lines, report.bytes) = (number, end);
        report.measures += line.measures.unwrap_or(0);
        tell(Told::Progress(&report));
    }
    state.sync()?;
    Ok(report)
}

/// The last line up to which the export has written all: its number, and where it ends. What is behind it, a further run of the export
/// cuts off.
fn last_whole(input: &File, path: &Path) -> Result<(u64, u64), ExportError> {
    let mut last = (0, 0);
    let mut lines = Lines::new(input, path);
    while let Some((line, end)) = lines.next()? {
        if line.journal.is_some() {
            last = (lines.number(), end);
        }
    }
    Ok(last)
}

/// `FILE.posted`, by one process at a time.
struct StateFile {
    file: File,
    path: PathBuf,
    posted: Posted,
}

impl StateFile {
    fn open(of: &Path) -> Result<Self, ExportError> {
        let path = state_path(of);
        let failed = |error| ExportError::file(&path, error);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ExportError::invalid(&path, "another process posts the file"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let (posted, end) = Posted::parse(&file, &path)?;
        file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map_err(failed)?;
        Ok(Self { file, path, posted })
    }

    fn advance(&mut self, line: u64, end: u64, made: Option<(Uuid, Uuid)>) -> Result<(), ExportError> {
        let text = match made {
            Some((gnudi, gnocchi)) => format!("{line} {end} {gnudi} {gnocchi}\n"),
            None => format!("{line} {end}\n"),
        };
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| ExportError::file(&self.path, error))?;
        if let Some((gnudi, gnocchi)) = made {
            // Posted again, it would be made again.
            self.sync()?;
            self.posted.insert(gnudi, gnocchi);
        }
        Ok(())
    }

    /// Notes that a metric is about to be made.
    fn attempt(&mut self, gnudi: Uuid, before: HashSet<Uuid>) -> Result<(), ExportError> {
        let mut text = format!("{ATTEMPT} {gnudi}");
        for id in &before {
            let _ = write!(text, " {id}");
        }
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| ExportError::file(&self.path, error))?;
        self.posted.attempt = Some(Attempt { gnudi, before });
        self.sync()
    }

    fn sync(&self) -> Result<(), ExportError> {
        self.file.sync_all().map_err(|error| ExportError::file(&self.path, error))
    }
}

/// Where metrics without a resource are made.
pub(super) const NEW_METRIC: &str = "/v1/metric";

/// How many metrics of one name are looked at.
const ALIKE_MAX: usize = 1000;

enum Failure {
    Call(ClientError),
    Answer(String),
    File(ExportError),
}

impl Failure {
    fn at(self, path: &Path, line: u64) -> PostError {
        let path = path.to_owned();
        match self {
            Failure::Call(error) => PostError::Line { path, line, error },
            Failure::Answer(reason) => PostError::Answer { path, line, reason },
            Failure::File(error) => PostError::File(error),
        }
    }
}

/// Posts a line; answers the ids of the metric that it makes and that Gnocchi names.
async fn send(
    client: &Client,
    line: &Line,
    state: &mut StateFile,
    report: &mut Report,
) -> Result<Option<(Uuid, Uuid)>, Failure> {
    let (Some(method), Some(path)) = (line.method.as_deref(), line.path.as_deref()) else { return Ok(None) };
    let own = line.metric.filter(|_| path == NEW_METRIC);
    if own.is_some_and(|metric| state.posted.made.contains_key(&metric)) {
        return Ok(None);
    }
    let body = body_of(line, &state.posted)?;
    report.requests += 1;
    if let (Some(gnudi), Some(body)) = (own, &body)
        && let Some(alike) = metrics_alike(client, body).await?
    {
        if let Some(gnocchi) = state.posted.made_by_attempt(gnudi, &alike) {
            report.known += 1;
            return Ok(Some((gnudi, gnocchi)));
        }
        state.attempt(gnudi, alike).map_err(Failure::File)?;
    }
    let answer = match client.send_json(method, path.to_owned(), body).await {
        Ok(answer) => answer,
        Err(error) if is_done_already(method, path, &error) => {
            report.known += 1;
            return Ok(None);
        }
        Err(error) => return Err(Failure::Call(error)),
    };
    let Some(gnudi) = own else { return Ok(None) };
    let id = serde_json::from_slice::<Value>(&answer).ok();
    let id = id.as_ref().and_then(|answer| answer.get("id")?.as_str()?.parse().ok());
    let gnocchi = id.ok_or_else(|| Failure::Answer("Gnocchi's answer names no metric".to_owned()))?;
    Ok(Some((gnudi, gnocchi)))
}

/// Gnocchi's metrics with the name that a body has. `None` where they cannot be told from others: without a name, or with too many of
/// it.
async fn metrics_alike(client: &Client, body: &[u8]) -> Result<Option<HashSet<Uuid>>, Failure> {
    let body: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| Failure::Answer(error.to_string()))?;
    let Some(Value::String(name)) = body.get("name") else { return Ok(None) };
    let filter =
        MetricFilter { name: Some(name.clone()), limit: Some(ALIKE_MAX as u64), ..MetricFilter::default() };
    let found = client.list_metrics(&filter).await.map_err(Failure::Call)?;
    let ids: HashSet<Uuid> = found.iter().map(|metric| metric.id.0).collect();
    Ok(Some(ids).filter(|ids| ids.len() < ALIKE_MAX))
}

/// Whether a refusal says that Gnocchi has, or lacks, already what it should, or will.
fn is_done_already(method: &str, path: &str, error: &ClientError) -> bool {
    let Some(refused) = error.refused() else { return false };
    match (method, refused.status) {
        ("POST", 409) | ("DELETE", 404) => true,
        ("PATCH", 400) => {
            path.starts_with("/v1/resource_type/") && refused.message.contains("non-existent object")
        }
        // Its last metrics are deleted, but not yet expunged: nothing processes while this posts. A later export asks once more.
        ("DELETE", 400) => {
            path.starts_with("/v1/archive_policy/") && refused.message.contains("still in use")
        }
        _ => false,
    }
}

/// The body, with Gnocchi's ids of metrics that it has made.
fn body_of(line: &Line, posted: &Posted) -> Result<Option<Bytes>, Failure> {
    let Some(body) = &line.body else { return Ok(None) };
    if line.made.is_empty() {
        return Ok(Some(Bytes::copy_from_slice(body.get().as_bytes())));
    }
    let made: HashSet<Uuid> = line.made.iter().copied().collect();
    let parsed: Map<String, Value> =
        serde_json::from_str(body.get()).map_err(|error| Failure::Answer(error.to_string()))?;
    let mut renamed = Map::with_capacity(parsed.len());
    for (id, measures) in parsed {
        let gnudi = id.parse().ok().filter(|id| made.contains(id));
        let id = match gnudi {
            None => id,
            Some(gnudi) => match posted.made.get(&gnudi) {
                Some(gnocchi) => gnocchi.to_string(),
                None => return Err(Failure::Answer(format!("metric {gnudi} was not made: {NO_STATE}"))),
            },
        };
        renamed.insert(id, measures);
    }
    Ok(Some(Value::Object(renamed).to_string().into()))
}

const NO_STATE: &str = "the file that ends in .posted is not the one that was written when it was";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::line::raw;

    #[test]
    fn what_was_posted_is_read_back_up_to_the_last_whole_line() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        let (gnudi, gnocchi) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut state = StateFile::open(&file).unwrap();
        state.advance(1, 10, None).unwrap();
        state.advance(2, 30, Some((gnudi, gnocchi))).unwrap();
        state.advance(3, 70, None).unwrap();
        assert!(StateFile::open(&file).is_err(), "one at a time");
        drop(state);
        let whole = std::fs::read(state_path(&file)).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(state_path(&file), &whole[..cut]).unwrap();
            let StateFile { posted, .. } = StateFile::open(&file).unwrap();
            let lines = whole[..cut].split(|byte| *byte == b'\n').skip(1).count() as u64;
            assert_eq!((posted.lines, posted.end), (lines, [0, 10, 30, 70][lines as usize]));
            assert_eq!(posted.original(gnocchi), (lines >= 2).then_some(gnudi));
        }
        std::fs::write(state_path(&file), "x\n").unwrap();
        assert!(Posted::read(&file).is_err());
    }

    #[test]
    fn metrics_that_were_made_get_gnocchis_ids() {
        let (gnudi, gnocchi, other) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
        let body = format!("{{\"{gnudi}\":[{{\"timestamp\":\"x\",\"value\":0.1}}],\"{other}\":[]}}");
        let line = Line { made: vec![gnudi], body: Some(raw(body.clone())), ..Line::default() };
        let mut posted = Posted::default();
        assert!(body_of(&line, &posted).is_err());
        posted.insert(gnudi, gnocchi);
        let sent = body_of(&line, &posted).ok().flatten().unwrap();
        assert_eq!(sent, body.replace(&gnudi.to_string(), &gnocchi.to_string()));
    }
}
