//! Looks up user and project names for samples, which carry ids only.
//!
//! Each id is looked up once and cached for a time, unknown ids too. After a failure nothing is looked up for a while:
//! samples go on without names, or with expired ones.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use gnudi_model::python::quote;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use super::cloud::{Cloud, CloudError};
use crate::{messaging::surrogates::parse, sample::Sample};

/// Default number of cached names, of users and of projects each.
pub const REMEMBERED_MAX: usize = 100_000;
/// Default lifetime of cached names.
pub const LIFETIME: Duration = Duration::from_mins(10);
/// A longer lifetime counts as unlimited.
const LIFETIME_MAX: Duration = Duration::from_hours(24 * 365);
/// Pause after a failure; doubled with each further one, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Maximum concurrent look-ups.
const LOOK_UPS_MAX: usize = 4;
/// Timeout of one look-up.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdentityKind {
    User,
    Project,
}

impl IdentityKind {
    fn name(self) -> &'static str {
        match self {
            IdentityKind::User => "user",
            IdentityKind::Project => "project",
        }
    }
}

/// Why a look-up failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Permanent: the id does not exist, or we may not read it.
    Unknown(String),
    /// Transient: no id can be looked up now.
    Unavailable(String),
}

/// A source of names.
#[async_trait]
pub trait Directory: Send + Sync {
    async fn name(&self, kind: IdentityKind, id: &str) -> Result<String, NameError>;
}

#[derive(Clone, Copy, Debug)]
pub struct NamesOptions {
    pub lifetime: Duration,
    /// Cached users, and as many projects; beyond it the least recently used are evicted.
    pub remembered_max: usize,
}

impl Default for NamesOptions {
    fn default() -> Self {
        NamesOptions { lifetime: LIFETIME, remembered_max: REMEMBERED_MAX }
    }
}

/// The cache entry of an id. It is locked during a look-up, so that others wait for the same response.
type Cell = Arc<tokio::sync::Mutex<CachedName>>;

#[derive(Default)]
struct CachedName {
    /// `None` if the id has no name, or before the first look-up.
    name: Option<Arc<str>>,
    /// When the entry expires; `None` before the first look-up.
    until: Option<Instant>,
}

/// Two generations: entries that are used move to the young one. When it is full it becomes the old one, and the former
/// old one is dropped.
#[derive(Default)]
struct Cells {
    young: HashMap<Box<str>, Cell>,
    old: HashMap<Box<str>, Cell>,
}

impl Cells {
    fn get(&mut self, id: &str, remembered_max: usize) -> Cell {
        if let Some(cell) = self.young.get(id) {
            return Arc::clone(cell);
        }
        let cell = self.old.remove(id).unwrap_or_default();
        if self.young.len() >= (remembered_max / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id.into(), Arc::clone(&cell));
        cell
    }
}

/// The cache, which looks up missing and expired names in a directory.
pub struct Names {
    directory: Arc<dyn Directory>,
    options: NamesOptions,
    /// By [`IdentityKind`].
    cells: [Mutex<Cells>; 2],
    look_ups: Semaphore,
    pause: Mutex<Pause>,
}

/// The pause after a failure.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Option<Instant>,
    /// Its length; zero after a success.
    length: Duration,
}

impl Pause {
    /// Begins a pause after a failure; `None` if a concurrent look-up has failed before and begun one.
    fn begin(&mut self, now: Instant) -> Option<Duration> {
        if self.until.is_some_and(|until| now < until) {
            return None;
        }
        self.length = (self.length * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.until = Some(now + self.length);
        Some(self.length)
    }
}

impl Names {
    pub fn new(directory: Arc<dyn Directory>, mut options: NamesOptions) -> Self {
        options.lifetime = options.lifetime.min(LIFETIME_MAX);
        Names {
            directory,
            options,
            cells: [Mutex::default(), Mutex::default()],
            look_ups: Semaphore::new(LOOK_UPS_MAX),
            pause: Mutex::default(),
        }
    }

    /// Sets the user and project names of samples; `None` where unknown.
    pub async fn complete(&self, samples: &mut [Sample<'static>]) {
        let ids = |sample: &Sample<'static>| {
            let (user, project) = (sample.user_id.as_deref(), sample.project_id.as_deref());
            [(IdentityKind::User, user), (IdentityKind::Project, project)]
                .map(|(kind, id)| Some((kind, id.filter(|id| !id.is_empty())?.to_owned())))
        };
        let wanted: HashSet<(IdentityKind, String)> = samples.iter().flat_map(ids).flatten().collect();
        let found: HashMap<(IdentityKind, String), Option<Arc<str>>> = stream::iter(wanted)
            .map(|(kind, id)| async move {
                let name = self.name(kind, &id).await;
                ((kind, id), name)
            })
            .buffer_unordered(LOOK_UPS_MAX)
            .collect()
            .await;
        let name = |owner: Option<(IdentityKind, String)>| {
            let name = found.get(&owner?)?.as_deref()?;
            Some(Cow::Owned(name.to_owned()))
        };
        for sample in samples {
            let [user, project] = ids(sample);
            (sample.user_name, sample.project_name) = (name(user), name(project));
        }
    }

    async fn name(&self, kind: IdentityKind, id: &str) -> Option<Arc<str>> {
        let cell = self.cells[kind as usize].lock().get(id, self.options.remembered_max);
        let mut known = cell.lock().await;
        if known.until.is_none_or(|until| until <= Instant::now()) {
            let _permit = self.look_ups.acquire().await.expect("it is never closed");
            if !self.is_paused() {
                self.look_up(kind, id, &mut known).await;
            }
        }
        known.name.clone()
    }

    async fn look_up(&self, kind: IdentityKind, id: &str, known: &mut CachedName) {
        match self.directory.name(kind, id).await {
            Ok(name) => known.name = Some(name.into()),
            Err(NameError::Unknown(reason)) => {
                // Logged when a name is lost or the id is new, not in each later look-up.
                if known.name.take().is_some() || known.until.is_none() {
                    tracing::warn!(kind = kind.name(), id, reason, "samples go without its name");
                }
            }
            Err(NameError::Unavailable(error)) => {
                if let Some(pause) = self.pause.lock().begin(Instant::now()) {
                    let pause_s = pause.as_secs();
                    tracing::error!(error, pause_s, "no names of users and projects can be looked up");
                }
                return;
            }
        }
        *self.pause.lock() = Pause::default();
        known.until = Some(Instant::now() + self.options.lifetime);
    }

    fn is_paused(&self) -> bool {
        self.pause.lock().until.is_some_and(|until| Instant::now() < until)
    }
}

/// Looks names up in the cloud's Keystone.
pub struct KeystoneDirectory(pub Cloud);

impl KeystoneDirectory {
    async fn look_up(&self, kind: IdentityKind, id: &str) -> Result<Option<String>, CloudError> {
        let base = self.0.versioned("identity", "v3").await?;
        let url = format!("{base}/{}s/{}", kind.name(), quote(id, ""));
        let answer = self.0.get(&url, &[], TIMEOUT).await?;
        let answer: Value =
            parse(&answer.body).map_err(|error| CloudError::Failed(format!("{url}: {error}")))?;
        let name = answer.get(kind.name()).and_then(|found| found.get("name")).and_then(Value::as_str);
        Ok(name.map(str::to_owned))
    }
}

#[async_trait]
impl Directory for KeystoneDirectory {
    async fn name(&self, kind: IdentityKind, id: &str) -> Result<String, NameError> {
        match self.look_up(kind, id).await {
            Ok(Some(name)) => Ok(name),
            Ok(None) => Err(NameError::Unknown("an answer without a name".to_owned())),
            // A later look-up may succeed: 401 concerns our own token, 408 and 429 ask to retry.
            Err(error @ CloudError::Refused { status: 400 | 402..=407 | 409..=428 | 430..=499, .. }) => {
                Err(NameError::Unknown(error.to_string()))
            }
            Err(error) => Err(NameError::Unavailable(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::polling::pollster::Meter;

    /// Names every id `name of ID`, except `nobody`; counts the look-ups. Fails while `is_away`.
    #[derive(Default)]
    struct Counting {
        asked: Mutex<HashMap<(IdentityKind, String), usize>>,
        /// Look-ups in progress, now and at most.
        under_way: Mutex<(usize, usize)>,
        is_away: Mutex<bool>,
    }

    #[async_trait]
    impl Directory for Counting {
        async fn name(&self, kind: IdentityKind, id: &str) -> Result<String, NameError> {
            *self.asked.lock().entry((kind, id.to_owned())).or_default() += 1;
            {
                let mut under_way = self.under_way.lock();
                under_way.0 += 1;
                under_way.1 = under_way.1.max(under_way.0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.under_way.lock().0 -= 1;
            if *self.is_away.lock() {
                return Err(NameError::Unavailable("away".to_owned()));
            }
            if id == "nobody" {
                return Err(NameError::Unknown("404".to_owned()));
            }
            Ok(format!("name of {id}"))
        }
    }

    impl Counting {
        fn look_ups(&self) -> usize {
            self.asked.lock().values().sum()
        }
    }

    fn names(directory: &Arc<Counting>, remembered_max: usize) -> Names {
        let options = NamesOptions { remembered_max, ..NamesOptions::default() };
        Names::new(Arc::clone(directory) as _, options)
    }

    fn sample(user: Option<&'static str>, project: Option<&str>) -> Sample<'static> {
        let mut sample = Meter::gauge("a", "").sample("r".to_owned(), 1.into(), Map::new());
        sample.user_id = user.map(Cow::Borrowed);
        sample.project_id = project.map(|project| Cow::Owned(project.to_owned()));
        sample
    }

    async fn told(names: &Names, samples: &mut [Sample<'static>]) -> Vec<(Option<String>, Option<String>)> {
        names.complete(samples).await;
        let text = |name: &Option<Cow<'_, str>>| name.as_deref().map(str::to_owned);
        samples.iter().map(|sample| (text(&sample.user_name), text(&sample.project_name))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_id_is_looked_up_once_per_lifetime() {
        let directory = Arc::<Counting>::default();
        let names = names(&directory, 100);
        let named = |id: &str| Some(format!("name of {id}"));
        for round in 0..4 {
            let mut samples =
                [sample(Some("u"), Some("p")), sample(Some("p"), Some("nobody")), sample(None, Some(""))];
            // Concurrent pollsters share the look-ups.
            let mut others = samples.clone();
            let (first, second) =
                tokio::join!(told(&names, &mut samples), async { told(&names, &mut others).await });
            let expected = [(named("u"), named("p")), (named("p"), None), (None, None)];
            assert_eq!((first.as_slice(), second.as_slice()), (&expected[..], &expected[..]));
            let expected = if round < 3 { 1 } else { 2 };
            assert!(directory.asked.lock().values().all(|asked| *asked == expected), "round {round}");
            assert_eq!(directory.asked.lock().len(), 4);
            tokio::time::sleep(LIFETIME / 3 + Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_pauses_look_ups() {
        let directory = Arc::<Counting>::default();
        let names = names(&directory, 100);
        assert_eq!(told(&names, &mut [sample(Some("u"), None)]).await[0].0.as_deref(), Some("name of u"));
        tokio::time::sleep(LIFETIME).await;
        *directory.is_away.lock() = true;
        let before = directory.look_ups();
        let ids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let mut samples: Vec<_> = ids.iter().map(|id| sample(Some("u"), Some(id))).collect();
        // An expired name is still used.
        let found = told(&names, &mut samples).await;
        assert!(found.iter().all(|found| found == &(Some("name of u".to_owned()), None)), "{found:?}");
        assert!(directory.look_ups() - before <= LOOK_UPS_MAX, "{}", directory.look_ups());
        // Each pause is twice as long as the one before, up to a minute.
        for (asked, seconds) in [
            (false, 1),
            (true, 1),
            (false, 3),
            (true, 1),
            (false, 7),
            (true, 1),
            (true, 60),
            (true, 60),
            (true, 60),
            (false, 59),
        ] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let before = directory.look_ups();
            told(&names, &mut samples).await;
            assert_eq!(directory.look_ups() > before, asked, "after {seconds} s");
        }
        *directory.is_away.lock() = false;
        tokio::time::sleep(PAUSE_MAX).await;
        let found = told(&names, &mut samples).await;
        assert_eq!(found[49], (Some("name of u".to_owned()), Some("name of 49".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_look_ups_and_cached_names_are_limited() {
        let directory = Arc::<Counting>::default();
        let names = names(&directory, 20);
        let ids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let mut samples: Vec<_> = ids.iter().map(|id| sample(None, Some(id))).collect();
        let mut others = samples.clone();
        tokio::join!(names.complete(&mut samples), names.complete(&mut others));
        assert_eq!(directory.under_way.lock().1, LOOK_UPS_MAX);
        {
            let cells = names.cells[IdentityKind::Project as usize].lock();
            assert!(cells.young.len() + cells.old.len() <= 20);
        }
        // Entries that are used stay in the cache; others are evicted.
        let times = |id: &str| directory.asked.lock()[&(IdentityKind::Project, id.to_owned())];
        for chunk in ids.chunks(9) {
            names.complete(&mut [sample(None, Some("usual"))]).await;
            let mut samples: Vec<_> = chunk.iter().map(|id| sample(None, Some(id))).collect();
            names.complete(&mut samples).await;
        }
        let before = times("0");
        names.complete(&mut [sample(None, Some("0"))]).await;
        assert_eq!((times("usual"), times("0")), (1, before + 1));
    }
}
