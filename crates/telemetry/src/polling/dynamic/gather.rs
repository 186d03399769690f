//! What sources answer: services, or commands of this host.

use std::{collections::HashMap, process::Command, sync::Arc, time::Duration};

use gnudi_http::Method;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    definition::{Definition, Source},
    document::read,
};
use crate::polling::{
    cloud::{Cloud, same_origin},
    command::{self, Errors},
    pollster::PollError,
};

/// More pages has no list that ends.
const PAGES_MAX: usize = 10_000;
/// Bytes of all answers that are remembered, as they came; beyond them all are forgotten.
const REMEMBERED_BYTES_MAX: usize = 32 << 20;

/// Asks sources, and remembers for a time what was asked for metadata.
pub struct Gatherer {
    /// `None` where nobody says who logs in.
    cloud: Option<Cloud>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    by_place: HashMap<String, (Arc<Value>, Instant)>,
    bytes: usize,
}

impl Answers {
    fn get(&self, place: &str, now: Instant) -> Option<Arc<Value>> {
        self.by_place.get(place).filter(|(_, until)| now < *until).map(|(answer, _)| Arc::clone(answer))
    }

    fn put(&mut self, place: &str, answer: &Arc<Value>, bytes: usize, until: Instant) {
        if self.bytes + bytes > REMEMBERED_BYTES_MAX {
            *self = Answers::default();
        }
        self.bytes += bytes;
        self.by_place.insert(place.to_owned(), (Arc::clone(answer), until));
    }
}

impl Gatherer {
    pub fn new(cloud: Option<Cloud>) -> Self {
        Gatherer { cloud, answers: Mutex::default() }
    }

    /// The address of a service in the catalogue.
    pub async fn endpoint(&self, service: &str) -> Result<Arc<str>, PollError> {
        Ok(self.cloud()?.endpoint(service).await?)
    }

    fn cloud(&self) -> Result<&Cloud, PollError> {
        self.cloud.as_ref().ok_or_else(|| PollError("nobody says who logs in to services".to_owned()))
    }

    /// What a definition's source has. `names`: what its text may refer to. `endpoint`: where the service is; no matter for
    /// commands. Answers are remembered for `lifetime`.
    pub fn pages<'a>(
        &'a self,
        definition: &'a Definition,
        names: &Map<String, Value>,
        endpoint: &'a str,
        lifetime: Duration,
    ) -> Result<Pages<'a>, PollError> {
        let next = match &definition.source {
            Source::Endpoint { path, .. } => joined(endpoint, &path.text(names).map_err(PollError)?),
            Source::Command(command) => command.text(names).map_err(PollError)?,
        };
        Ok(Pages { gatherer: self, definition, endpoint, lifetime, next: Some(next), left: PAGES_MAX })
    }

    async fn document(
        &self,
        definition: &Definition,
        place: &str,
        lifetime: Duration,
    ) -> Result<Arc<Value>, PollError> {
        let now = Instant::now();
        if let Some(answer) = self.answers.lock().get(place, now) {
            return Ok(answer);
        }
        let body = match &definition.source {
            Source::Endpoint { .. } => self.asked(definition, place).await?,
            Source::Command(_) => printed(definition, place).await?,
        };
        let answer =
            read(&body, &definition.handlers).map_err(|error| PollError(format!("{place}: {error}")))?;
        let answer = Arc::new(answer);
        if !lifetime.is_zero() {
            self.answers.lock().put(place, &answer, body.len(), now + lifetime);
        }
        Ok(answer)
    }

    async fn asked(&self, definition: &Definition, url: &str) -> Result<Vec<u8>, PollError> {
        let headers: Vec<(&str, &str)> =
            definition.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = self.cloud()?.ask_within(&Method::GET, url, &headers, definition.timeout).await?;
        Ok(answer.body.to_vec())
    }
}

/// What a command prints, errors among it and whatever it ends with, without the last line's end: as `subprocess.getoutput` has it.
async fn printed(definition: &Definition, text: &str) -> Result<Vec<u8>, PollError> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", text]);
    let ran = command::run(shell, Errors::Within, definition.timeout).await;
    let mut out = ran.map_err(|error| PollError(format!("{text}: {error}")))?.stdout;
    if out.ends_with(b"\n") {
        out.pop();
    }
    Ok(out)
}

/// The pages of a source, one after the other.
pub struct Pages<'a> {
    gatherer: &'a Gatherer,
    definition: &'a Definition,
    endpoint: &'a str,
    lifetime: Duration,
    next: Option<String>,
    /// How many more there may be.
    left: usize,
}

impl Pages<'_> {
    /// The next page's entries; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, PollError> {
        let Some(place) = self.next.take().filter(|_| self.left > 0) else { return Ok(None) };
        self.left -= 1;
        let document = self.gatherer.document(self.definition, &place, self.lifetime).await?;
        self.next = self.following(&place, &document);
        Ok(Some(self.entries(&document)))
    }

    fn following(&self, place: &str, document: &Value) -> Option<String> {
        let next = self.definition.next_url.as_ref()?.look(document).ok()?;
        let next = next.as_str().filter(|next| !next.is_empty())?;
        let next = match &self.definition.source {
            // The token is for the service, wherever its links lead.
            Source::Endpoint { .. } => same_origin(place, &joined(self.endpoint, next))?,
            Source::Command(_) => next.to_owned(),
        };
        (next != place).then_some(next)
    }

    /// Those that lack an id that the file names are logged and left out.
    fn entries(&self, document: &Value) -> Vec<Value> {
        let entries = match (document, &self.definition.response_entries) {
            (Value::Array(_), _) => Some(document.clone()),
            (Value::Object(map), _) if map.is_empty() => None,
            (document, Some(way)) => way.look(document).ok().map(std::borrow::Cow::into_owned),
            (Value::Object(map), None) => map.values().next().cloned(),
            _ => None,
        };
        let entries = match entries {
            Some(Value::Array(entries)) => entries,
            None | Some(Value::Null) => Vec::new(),
            Some(entry) => vec![entry],
        };
        let with_ids = entries.into_iter().filter_map(|entry| match self.with_ids(entry) {
            Ok(entry) => Some(entry),
            Err(error) => {
                tracing::warn!(error, meter = self.definition.name, "no sample of an entry");
                None
            }
        });
        with_ids.collect()
    }

    /// The entry with its ids under the usual names, where Ceilometer puts them before it looks for anything else. The usual
    /// names may lack; a name that the file gives must be there.
    fn with_ids(&self, mut entry: Value) -> Result<Value, String> {
        let Definition { user_id, project_id, resource_id, .. } = self.definition;
        for (way, usual) in [(user_id, "user_id"), (project_id, "project_id"), (resource_id, "id")] {
            let Some(way) = way else { continue };
            let value = way.look(&entry)?.into_owned();
            if let Some(fields) = entry.as_object_mut() {
                fields.insert(usual.to_owned(), value);
            }
        }
        Ok(entry)
    }
}

/// A path at an endpoint, by the rules of URLs: one that begins with `/` is from the host's root.
fn joined(endpoint: &str, path: &str) -> String {
    if path.starts_with("http://") || path.starts_with("https://") {
        return path.to_owned();
    }
    if path.starts_with('/') {
        let host_at = endpoint.find("://").map_or(0, |scheme| scheme + 3);
        let root = endpoint[host_at..].find('/').map_or(endpoint, |slash| &endpoint[..host_at + slash]);
        return format!("{root}{path}");
    }
    format!("{}/{path}", endpoint.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_links() {
        for (endpoint, path, url) in [
            ("http://a:1/v1", "x/y", "http://a:1/v1/x/y"),
            ("http://a:1/v1/", "x?y=z", "http://a:1/v1/x?y=z"),
            ("http://a:1/v1", "/x", "http://a:1/x"),
            ("http://a:1", "/x", "http://a:1/x"),
            ("http://a:1", "http://a:1/p?marker=2", "http://a:1/p?marker=2"),
        ] {
            assert_eq!(joined(endpoint, path), url);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_remembered_for_a_time_and_within_bounds() {
        let mut answers = Answers::default();
        let (now, answer) = (Instant::now(), Arc::new(Value::from(1)));
        answers.put("a", &answer, 10, now + Duration::from_secs(1));
        assert_eq!(answers.get("a", now).as_deref(), Some(&Value::from(1)));
        assert_eq!(answers.get("a", now + Duration::from_secs(1)), None);
        assert_eq!(answers.get("b", now), None);
        answers.put("b", &answer, REMEMBERED_BYTES_MAX, now + Duration::from_secs(1));
        assert_eq!((answers.get("a", now), answers.by_place.len()), (None, 1));
    }
}
