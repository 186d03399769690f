//! Names of users and projects for samples, which have but ids.
//!
//! Each id is asked for once and remembered for a time, one that nobody has too. Whoever cannot be asked is left alone for a
//! while: samples go on without names, or with those that were known before.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use gnudi_http::Method;
use gnudi_model::python::quote;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use super::cloud::{Cloud, CloudError};
use crate::sample::Sample;

/// Names that are remembered, of users and of projects, unless told otherwise.
pub const REMEMBERED_MAX: usize = 100_000;
/// How long names are remembered, unless told otherwise.
pub const LIFETIME: Duration = Duration::from_mins(10);
/// A longer life is for ever.
const LIFETIME_MAX: Duration = Duration::from_hours(24 * 365);
/// After a failure nobody is asked for so long; twice as long after each one that follows, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Questions under way at the same time.
const QUESTIONS_MAX: usize = 4;
/// Of one question.
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

/// Why there is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It will not be told however often one asks: there is nobody of that id, or it is not for us to know.
    Unknown(String),
    /// Nothing can be said of any id now.
    Unavailable(String),
}

/// Who knows names.
#[async_trait]
pub trait Directory: Send + Sync {
    async fn name(&self, kind: IdentityKind, id: &str) -> Result<String, NameError>;
}

#[derive(Clone, Copy, Debug)]
pub struct NamesOptions {
    pub lifetime: Duration,
    /// Of users, and as many of projects: beyond that, those that were not met for longest are forgotten.
    pub remembered_max: usize,
}

impl Default for NamesOptions {
    fn default() -> Self {
        NamesOptions { lifetime: LIFETIME, remembered_max: REMEMBERED_MAX }
    }
}

/// What is known of an id. Locked while somebody asks, so that others wait for the same answer.
type Cell = Arc<tokio::sync::Mutex<CachedName>>;

#[derive(Default)]
struct CachedName {
    name: Option<Arc<str>>,
    /// Nobody was asked yet where it is `None`.
    until: Option<Instant>,
}

/// Two generations: what is met moves to the young one, and when that is full it becomes the old one, whose rest is forgotten.
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

pub struct Names {
    directory: Arc<dyn Directory>,
    options: NamesOptions,
    users: Mutex<Cells>,
    projects: Mutex<Cells>,
    places: Semaphore,
    pause: Mutex<Pause>,
}

/// How long nobody is asked.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Option<Instant>,
    /// Its length; zero after an answer.
    length: Duration,
}

impl Pause {
    /// Begins a pause after a failure; `None` where one has begun since the question was asked.
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
            users: Mutex::default(),
            projects: Mutex::default(),
            places: Semaphore::new(QUESTIONS_MAX),
            pause: Mutex::default(),
        }
    }

    /// Gives samples the names of their users and projects, as far as there are any.
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
            .buffer_unordered(QUESTIONS_MAX)
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
        let cells = match kind {
            IdentityKind::User => &self.users,
            IdentityKind::Project => &self.projects,
        };
        let cell = cells.lock().get(id, self.options.remembered_max);
        let mut known = cell.lock().await;
        let is_due = |known: &CachedName| known.until.is_none_or(|until| until <= Instant::now());
        if is_due(&known) {
            let _place = self.places.acquire().await.expect("it is never closed");
            if !self.is_paused() {
                self.ask(kind, id, &mut known).await;
            }
        }
        known.name.clone()
    }

    async fn ask(&self, kind: IdentityKind, id: &str, known: &mut CachedName) {
        match self.directory.name(kind, id).await {
            Ok(name) => known.name = Some(name.into()),
            Err(NameError::Unknown(reason)) => {
                // That it has none still is no news.
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

/// Keystone, as the catalogue names it.
pub struct KeystoneDirectory(pub Cloud);

impl KeystoneDirectory {
    async fn ask(&self, kind: IdentityKind, id: &str) -> Result<Option<String>, CloudError> {
        let base = self.0.versioned("identity", "v3").await?;
        let url = format!("{base}/{}s/{}", kind.name(), quote(id, ""));
        let answer = self.0.ask_within(&Method::GET, &url, &[], TIMEOUT).await?;
        let answer: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| CloudError::Failed(format!("{url}: {error}")))?;
        let name = answer.get(kind.name()).and_then(|found| found.get("name")).and_then(Value::as_str);
        Ok(name.map(str::to_owned))
    }
}

#[async_trait]
impl Directory for KeystoneDirectory {
    async fn name(&self, kind: IdentityKind, id: &str) -> Result<String, NameError> {
        match self.ask(kind, id).await {
            Ok(Some(name)) => Ok(name),
            Ok(None) => Err(NameError::Unknown("an answer without a name".to_owned())),
            // 401 is about our own token, the others ask for patience.
            Err(error @ CloudError::Refused { status: 400..=499, .. }) if !is_of_the_moment(&error) => {
                Err(NameError::Unknown(error.to_string()))
            }
            Err(error) => Err(NameError::Unavailable(error.to_string())),
        }
    }
}

fn is_of_the_moment(error: &CloudError) -> bool {
    matches!(error, CloudError::Refused { status: 401 | 408 | 429, .. })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::polling::pollster::Meter;

    /// Names everybody `name of ID`, but who is called `nobody`; counts the questions. Away while `is_away`.
    #[derive(Default)]
    struct Counting {
        asked: Mutex<HashMap<(IdentityKind, String), usize>>,
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
        fn questions(&self) -> usize {
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
    async fn each_id_is_asked_for_once_in_its_time() {
        let directory = Arc::<Counting>::default();
        let names = names(&directory, 100);
        let named = |id: &str| Some(format!("name of {id}"));
        for round in 0..4 {
            let mut samples =
                [sample(Some("u"), Some("p")), sample(Some("p"), Some("nobody")), sample(None, Some(""))];
            // Pollsters that work at the same time share the answers.
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
    async fn who_is_away_is_left_alone_for_a_while() {
        let directory = Arc::<Counting>::default();
        let names = names(&directory, 100);
        assert_eq!(told(&names, &mut [sample(Some("u"), None)]).await[0].0.as_deref(), Some("name of u"));
        tokio::time::sleep(LIFETIME).await;
        *directory.is_away.lock() = true;
        let before = directory.questions();
        let ids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let mut samples: Vec<_> = ids.iter().map(|id| sample(Some("u"), Some(id))).collect();
        // What was known before is the best guess.
        let found = told(&names, &mut samples).await;
        assert!(found.iter().all(|found| found == &(Some("name of u".to_owned()), None)), "{found:?}");
        assert!(directory.questions() - before <= QUESTIONS_MAX, "{}", directory.questions());
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
            let before = directory.questions();
            told(&names, &mut samples).await;
            assert_eq!(directory.questions() > before, asked, "after {seconds} s");
        }
        *directory.is_away.lock() = false;
        tokio::time::sleep(PAUSE_MAX).await;
        let found = told(&names, &mut samples).await;
        assert_eq!(found[49], (Some("name of u".to_owned()), Some("name of 49".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn few_questions_are_under_way_and_few_names_are_kept() {
        let directory = Arc::<Counting>::default();
        let names = names(&directory, 20);
        let ids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        let mut samples: Vec<_> = ids.iter().map(|id| sample(None, Some(id))).collect();
        let mut others = samples.clone();
        tokio::join!(names.complete(&mut samples), names.complete(&mut others));
        assert_eq!(directory.under_way.lock().1, QUESTIONS_MAX);
        {
            let cells = names.projects.lock();
            assert!(cells.young.len() + cells.old.len() <= 20);
        }
        // What is met again and again stays, and what is not goes.
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
