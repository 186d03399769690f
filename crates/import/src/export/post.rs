//! Posts a file of `gnudi export` to a Gnocchi, line by line.
//!
//! `FILE.posted` records the progress: a line for each posted line, with its number and end, and, if it created a
//! metric, the ids in gnudi and Gnocchi. So an interrupted run can be continued.
//!
//! Gnocchi may still process the last request of an interrupted run, and it changes a resource in two steps: a repeated
//! request between them adds a second revision. So each run records its start and its end, and a run that finds no end
//! waits first.
//!
//! Creating a metric without a resource is not idempotent. Before each such request the ids of metrics with the same
//! name are recorded: after an interruption an additional one is the metric created by the request.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs::File,
    io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use gnudi_client::{Client, ClientError, MetricFilter};
use gnudi_drivers::disk::if_there;
use gnudi_model::MetricId;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    ExportError,
    file::{Lines, open_locked},
    line::Line,
};

/// Counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines done, also by earlier runs, and their bytes of the file, whose whole length is `bytes_total`.
    pub lines: u64,
    pub bytes: u64,
    pub bytes_total: u64,
    /// Of this run: requests, those whose effect Gnocchi already had, and measures.
    pub requests: u64,
    pub known: u64,
    pub measures: u64,
    /// Bytes of the file posted by earlier runs.
    pub bytes_before: u64,
}

/// Why posting stopped. A repeated run continues there.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error(transparent)]
    File(#[from] ExportError),
    #[error("{} line {line}: {error}", path.display())]
    Line { path: PathBuf, line: u64, error: ClientError },
    #[error("{} line {line}: {reason}", path.display())]
    Answer { path: PathBuf, line: u64, reason: String },
}

/// Events reported to the caller.
#[derive(Debug)]
pub enum PostEvent<'a> {
    Progress(&'a Report),
    /// Gnocchi may still process a request of an earlier run: this one begins after that time.
    Waits(Duration),
    /// A metric without a resource has another id in Gnocchi.
    Made {
        gnudi: Uuid,
        gnocchi: Uuid,
    },
}

/// The contents of `FILE.posted`.
#[derive(Debug, Default)]
pub(super) struct Posted {
    lines: u64,
    end: u64,
    /// By the id in gnudi.
    made: HashMap<Uuid, Uuid>,
    by_gnocchi: HashMap<Uuid, Uuid>,
    /// A creation whose result is unknown.
    attempt: Option<Attempt>,
    /// A run has started and not ended: Gnocchi may still process its last request.
    in_progress: bool,
}

/// A request that creates a metric.
#[derive(Debug)]
struct Attempt {
    gnudi: Uuid,
    /// Gnocchi's metrics with the same name before the request.
    before: HashSet<Uuid>,
}

/// The first word of an attempt's line.
const ATTEMPT: &str = "attempt";
/// The lines at the start and the end of a run.
const STARTED: &str = "started";
const ENDED: &str = "ended";

/// Time for Gnocchi to process the last request of an interrupted run.
const LAST_REQUEST_MAX: Duration = Duration::from_secs(5);

impl Posted {
    /// Reads `FILE.posted`. Refuses one whose file is gone: a new file has other lines.
    pub fn read(file: &Path) -> Result<Self, ExportError> {
        let path = state_path(file);
        let state = if_there(File::open(&path)).map_err(|error| ExportError::file(&path, error))?;
        let Some(state) = state else { return Ok(Self::default()) };
        let (posted, _) = Self::parse(&state, &path)?;
        let is_there = file.try_exists().map_err(|error| ExportError::file(file, error))?;
        if posted.lines == 0 || is_there { Ok(posted) } else { Err(ExportError::invalid(&path, OTHER_FILE)) }
    }

    /// The lines that were posted.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The id in gnudi of a metric that Gnocchi has created.
    pub fn original(&self, gnocchi: Uuid) -> Option<Uuid> {
        self.by_gnocchi.get(&gnocchi).copied()
    }

    /// The metric that an earlier attempt has created: the one that did not exist before it.
    fn made_by_attempt(&self, gnudi: Uuid, alike: &HashSet<Uuid>) -> Option<Uuid> {
        let attempt = self.attempt.as_ref().filter(|attempt| attempt.gnudi == gnudi)?;
        alike.difference(&attempt.before).copied().find(|id| !self.by_gnocchi.contains_key(id))
    }

    /// Parses the contents, and the end of its last complete line.
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
        if [STARTED, ENDED].contains(&line) {
            self.in_progress = line == STARTED;
            return Some(());
        }
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
        // A later line may create it once more.
        if self.attempt.as_ref().is_some_and(|attempt| attempt.gnudi == gnudi) {
            self.attempt = None;
        }
        self.made.insert(gnudi, gnocchi);
        self.by_gnocchi.insert(gnocchi, gnudi);
    }
}

fn state_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".posted");
    name.into()
}

/// Posts the rest of `file`.
pub async fn post(
    file: &Path,
    client: &Client,
    tell: &mut dyn FnMut(PostEvent<'_>),
) -> Result<Report, PostError> {
    let input = File::open(file).map_err(|error| ExportError::file(file, error))?;
    let last = last_whole(&input, file, &Posted::read(file)?)?;
    let mut state = StateFile::open(file)?;
    let Posted { lines, end, in_progress, .. } = state.posted;
    if in_progress {
        tell(PostEvent::Waits(LAST_REQUEST_MAX));
        tokio::time::sleep(LAST_REQUEST_MAX).await;
    }
    state.record(STARTED)?;
    let mut report =
        Report { lines, bytes: end, bytes_before: end, bytes_total: last.1.max(end), ..Report::default() };
    let mut rest = Lines::new(&input, file);
    rest.skip(lines, end)?;
    while rest.number() < last.0 {
        let Some((line, end)) = rest.next()? else { break };
        let number = rest.number();
        let made = send(client, &line, &mut state, &mut report).await;
        if made.as_ref().is_err_and(Failure::is_final) {
            state.record(ENDED)?;
        }
        let made = made.map_err(|failure| failure.at(file, number))?;
        state.advance(number, end, made)?;
        if let Some((gnudi, gnocchi)) = made
            && line.path.as_deref() == Some(NEW_METRIC)
        {
            tell(PostEvent::Made { gnudi, gnocchi });
        }
        (report.lines, report.bytes) = (number, end);
        report.measures += line.measures.unwrap_or(0);
        tell(PostEvent::Progress(&report));
    }
    state.record(ENDED)?;
    state.sync()?;
    Ok(report)
}

/// The number and end of the last line that the export has completed. Later lines will be truncated by the next run of
/// the export. Refuses a file that does not have the last line that was posted.
fn last_whole(input: &File, path: &Path, posted: &Posted) -> Result<(u64, u64), ExportError> {
    let (mut last, mut has_posted) = ((0, 0), posted.lines == 0);
    let mut lines = Lines::new(input, path);
    while let Some((line, end)) = lines.next()? {
        has_posted |= (lines.number(), end) == (posted.lines, posted.end);
        if line.journal.is_some() {
            last = (lines.number(), end);
        }
    }
    if has_posted { Ok(last) } else { Err(ExportError::invalid(&state_path(path), OTHER_FILE)) }
}

/// `FILE.posted`, open in one process at a time.
struct StateFile {
    file: File,
    path: PathBuf,
    posted: Posted,
}

impl StateFile {
    fn open(of: &Path) -> Result<Self, ExportError> {
        let path = state_path(of);
        let failed = |error| ExportError::file(&path, error);
        let mut file = open_locked(&path, "another process posts the file")?;
        let (posted, end) = Posted::parse(&file, &path)?;
        file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map_err(failed)?;
        Ok(Self { file, path, posted })
    }

    fn advance(&mut self, line: u64, end: u64, made: Option<(Uuid, Uuid)>) -> Result<(), ExportError> {
        match made {
            Some((gnudi, gnocchi)) => self.record(&format!("{line} {end} {gnudi} {gnocchi}"))?,
            None => self.record(&format!("{line} {end}"))?,
        }
        if let Some((gnudi, gnocchi)) = made {
            // If lost, the metric would be created twice.
            self.sync()?;
            self.posted.insert(gnudi, gnocchi);
        }
        Ok(())
    }

    /// Records that a metric is about to be created.
    fn attempt(&mut self, gnudi: Uuid, before: HashSet<Uuid>) -> Result<(), ExportError> {
        let mut text = format!("{ATTEMPT} {gnudi}");
        for id in &before {
            let _ = write!(text, " {id}");
        }
        self.record(&text)?;
        self.posted.attempt = Some(Attempt { gnudi, before });
        self.sync()
    }

    /// Appends a line, without a sync.
    fn record(&mut self, line: &str) -> Result<(), ExportError> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| ExportError::file(&self.path, error))
    }

    fn sync(&self) -> Result<(), ExportError> {
        self.file.sync_all().map_err(|error| ExportError::file(&self.path, error))
    }
}

/// Where metrics without a resource are created.
pub(super) const NEW_METRIC: &str = "/v1/metric";

/// Maximum metrics of one name that are compared.
const ALIKE_MAX: usize = 1000;

enum Failure {
    Call(ClientError),
    Answer(String),
    File(ExportError),
}

impl Failure {
    /// Whether the run can record its end: Gnocchi has certainly finished the request. Without a response, or with a proxy's
    /// (408, 429, 5xx), it may still be processing it. After a failure of `FILE.posted` nothing may follow in it: its last
    /// line may be cut short, and would be joined with the next one.
    fn is_final(&self) -> bool {
        match self {
            Failure::Call(error) => {
                error.status().is_some_and(|status| status < 500 && !matches!(status, 408 | 429))
            }
            Failure::Answer(_) => true,
            Failure::File(_) => false,
        }
    }

    fn at(self, path: &Path, line: u64) -> PostError {
        let path = path.to_owned();
        match self {
            Failure::Call(error) => PostError::Line { path, line, error },
            Failure::Answer(reason) => PostError::Answer { path, line, reason },
            Failure::File(error) => PostError::File(error),
        }
    }
}

/// Posts a line; returns the id in gnudi and in Gnocchi of the metric that it creates.
async fn send(
    client: &Client,
    line: &Line,
    state: &mut StateFile,
    report: &mut Report,
) -> Result<Option<(Uuid, Uuid)>, Failure> {
    let (Some(method), Some(path)) = (line.method.as_deref(), line.path.as_deref()) else { return Ok(None) };
    let own = line.metric.filter(|_| path == NEW_METRIC);
    if let Some(gnocchi) = own.and_then(|metric| state.posted.made.get(&metric))
        && is_there(client, *gnocchi).await?
    {
        return Ok(None);
    }
    let body = body_of(line, &state.posted)?;
    let target = target_of(path, line, &state.posted)?;
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
    let answer = match client.send_json(method, target, body).await {
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

/// Whether a metric that Gnocchi created still exists: a later line may have deleted it.
async fn is_there(client: &Client, metric: Uuid) -> Result<bool, Failure> {
    match client.get_metric(MetricId(metric)).await {
        Ok(_) => Ok(true),
        Err(error) if error.status() == Some(404) => Ok(false),
        Err(error) => Err(Failure::Call(error)),
    }
}

/// Gnocchi's metrics with the name in a body. `None` if a new metric could not be told from them: the body has no name, or
/// too many metrics have it.
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

/// Whether an error means that Gnocchi is already in the desired state.
fn is_done_already(method: &str, path: &str, error: &ClientError) -> bool {
    let Some(refused) = error.refused() else { return false };
    match (method, refused.status) {
        ("POST", 409) => true,
        // A proxy without a Gnocchi behind it answers 404, too.
        ("DELETE", 404) => refused.message.contains("does not exist"),
        ("PATCH", 400) => {
            path.starts_with("/v1/resource_type/") && refused.message.contains("non-existent object")
        }
        // Its last metrics are deleted, but not yet expunged, since no metricd runs while this posts. A later export deletes
        // the policy again.
        ("DELETE", 400) => {
            path.starts_with("/v1/archive_policy/") && refused.message.contains("still in use")
        }
        _ => false,
    }
}

/// The body of a line, with Gnocchi's ids in place of gnudi's for the metrics that Gnocchi has created.
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
            Some(gnudi) => in_gnocchi(gnudi, posted)?.to_string(),
        };
        renamed.insert(id, measures);
    }
    Ok(Some(Value::Object(renamed).to_string().into()))
}

/// The path of a line. In a request without a body Gnocchi's id replaces gnudi's, if Gnocchi has created the metric.
fn target_of(path: &str, line: &Line, posted: &Posted) -> Result<String, Failure> {
    match (&line.body, line.made.as_slice()) {
        (None, [made]) => Ok(format!("{NEW_METRIC}/{}", in_gnocchi(*made, posted)?)),
        _ => Ok(path.to_owned()),
    }
}

fn in_gnocchi(made: Uuid, posted: &Posted) -> Result<Uuid, Failure> {
    let gnocchi = posted.made.get(&made).copied();
    gnocchi.ok_or_else(|| Failure::Answer(format!("metric {made} was not created: {NO_STATE}")))
}

const OTHER_FILE: &str =
    "it has the progress of another file, which was removed or replaced: remove it, too, to post everything";

const NO_STATE: &str = "the file that ends in .posted is not the one that was written when it was";

#[cfg(test)]
mod tests {
    use gnudi_client::Refused;

    use super::*;
    use crate::export::{
        file::Output,
        line::{Positions, raw},
    };

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
    fn the_progress_of_another_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let export = |lines: u32| {
            let (mut output, _) = Output::open(&path, Uuid::nil()).unwrap();
            for _ in 0..lines {
                output.write(&Line { journal: Some(Positions::new()), ..Line::default() }).unwrap();
            }
            output.finish().unwrap();
        };
        let last = || last_whole(&File::open(&path).unwrap(), &path, &Posted::read(&path).unwrap());
        export(3);
        let (number, end) = last().unwrap();
        assert_eq!(number, 4);
        StateFile::open(&path).unwrap().advance(number, end, None).unwrap();
        assert_eq!(last().unwrap(), (number, end));
        export(2);
        assert_eq!(last().unwrap().0, 6);
        // Removed, and exported again, when there was less.
        std::fs::remove_file(&path).unwrap();
        assert!(Posted::read(&path).unwrap_err().to_string().contains("another file"));
        export(1);
        assert!(last().unwrap_err().to_string().contains("another file"));
    }

    #[test]
    fn a_run_without_an_end_is_in_progress() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        let in_progress = || StateFile::open(&file).unwrap().posted.in_progress;
        assert!(!in_progress());
        let mut state = StateFile::open(&file).unwrap();
        state.record(STARTED).unwrap();
        state.advance(1, 10, None).unwrap();
        drop(state);
        assert!(in_progress());
        StateFile::open(&file).unwrap().record(ENDED).unwrap();
        assert!(!in_progress());
    }

    #[test]
    fn a_request_that_a_proxy_has_answered_may_still_be_processed() {
        let is_final = |status: u16| {
            let refused = Refused { status, message: String::new(), retry_after: None };
            Failure::Call(ClientError::Refused { method: "POST", path: "/v1/metric".to_owned(), refused })
                .is_final()
        };
        assert!([400, 403, 404, 409].into_iter().all(is_final));
        assert!(![408, 429, 500, 502, 503, 504].into_iter().any(is_final));
    }

    #[test]
    fn a_proxy_that_finds_no_gnocchi_has_deleted_nothing() {
        let is_done = |message: &str| {
            let refused = Refused { status: 404, message: message.to_owned(), retry_after: None };
            let (method, path) = ("DELETE", "/v1/metric/x");
            is_done_already(method, path, &ClientError::Refused { method, path: path.to_owned(), refused })
        };
        assert!(is_done("Metric x does not exist") && is_done("Archive policy rule r does not exist"));
        assert!(!is_done("default backend - 404") && !is_done(""));
    }

    #[test]
    fn nothing_follows_a_line_that_a_full_disk_may_have_cut() {
        let full = std::io::ErrorKind::StorageFull.into();
        assert!(!Failure::File(ExportError::file(Path::new("file.posted"), full)).is_final());
    }

    #[test]
    fn an_attempt_is_over_once_its_metric_is_known() {
        let (gnudi, gnocchi, other) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
        let mut posted = Posted::default();
        posted.take(&format!("{ATTEMPT} {gnudi}")).unwrap();
        assert_eq!(posted.made_by_attempt(gnudi, &HashSet::from([gnocchi])), Some(gnocchi));
        posted.take(&format!("1 10 {gnudi} {gnocchi}")).unwrap();
        assert_eq!(posted.made_by_attempt(gnudi, &HashSet::from([gnocchi, other])), None);
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
        // A request for the metric itself.
        let path = format!("/v1/metric/{gnudi}");
        let line = Line { made: vec![gnudi], ..Line::request("DELETE", path.clone(), None) };
        assert!(target_of(&path, &line, &Posted::default()).is_err());
        assert_eq!(target_of(&path, &line, &posted).ok(), Some(format!("/v1/metric/{gnocchi}")));
        let line = Line::request("DELETE", path.clone(), None);
        assert_eq!(target_of(&path, &line, &posted).ok(), Some(path));
    }
}
