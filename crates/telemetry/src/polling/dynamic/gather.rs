//! Fetches responses of services and output of commands.

use std::{
    collections::{HashMap, HashSet},
    process::Command,
    sync::Arc,
    time::Duration,
};

use gnudi_model::python::request_url;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    definition::{DynamicDefinition, ResponseFormat, ResponseSource},
    document::read,
    extra::set,
};
use crate::polling::{
    cloud::{Cloud, same_origin},
    command::{self, Errors},
    pollster::PollError,
};

/// Maximum number of pages, against endless lists.
const PAGES_MAX: usize = 10_000;
/// Maximum bytes of all cached responses; beyond it the cache is cleared.
const REMEMBERED_BYTES_MAX: usize = 32 << 20;
/// The approximate size of a cached response without its place and body.
const ENTRY_BYTES: usize = 256;

/// Sends the requests, and caches responses for additional metadata.
pub struct Gatherer {
    /// `None` without service credentials.
    cloud: Option<Cloud>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    by_place: HashMap<String, CachedAnswer>,
    bytes: usize,
}

struct CachedAnswer {
    answer: Arc<Value>,
    since: Instant,
    bytes: usize,
}

impl Answers {
    /// `lifetime`: that of the definition that asks, whichever has cached the response.
    fn get(&self, place: &str, now: Instant, lifetime: Duration) -> Option<Arc<Value>> {
        let cached = self.by_place.get(place).filter(|cached| now - cached.since < lifetime);
        cached.map(|cached| Arc::clone(&cached.answer))
    }

    /// `bytes`: of the response's body.
    fn put(&mut self, place: &str, answer: &Arc<Value>, bytes: usize, now: Instant) {
        let bytes = bytes + place.len() + ENTRY_BYTES;
        self.bytes -= self.by_place.remove(place).map_or(0, |expired| expired.bytes);
        if self.bytes + bytes > REMEMBERED_BYTES_MAX {
            *self = Answers::default();
        }
        self.bytes += bytes;
        self.by_place
            .insert(place.to_owned(), CachedAnswer { answer: Arc::clone(answer), since: now, bytes });
    }
}

impl Gatherer {
    pub fn new(cloud: Option<Cloud>) -> Self {
        Gatherer { cloud, answers: Mutex::default() }
    }

    /// The URLs of a service in the catalogue, at least one.
    pub async fn endpoints(&self, service: &str) -> Result<Vec<Arc<str>>, PollError> {
        Ok(self.cloud()?.endpoints(Some(service), None).await?)
    }

    fn cloud(&self) -> Result<&Cloud, PollError> {
        self.cloud.as_ref().ok_or_else(|| PollError("[service_credentials] auth_url is not set".to_owned()))
    }

    /// The pages of a definition's source. `names`: variables of its text. `endpoint`: the service's URL, unused for
    /// commands. Responses are cached for `lifetime`; if it is zero, all are fresh.
    pub fn pages<'a>(
        &'a self,
        definition: &'a DynamicDefinition,
        names: &Map<String, Value>,
        endpoint: &'a str,
        lifetime: Duration,
    ) -> Result<Pages<'a>, PollError> {
        let next = match &definition.source {
            ResponseSource::Endpoint { path, .. } => joined(endpoint, &path.text(names).map_err(PollError)?),
            ResponseSource::Command(command) => command.text(names).map_err(PollError)?,
        };
        let asked = HashSet::new();
        Ok(Pages { gatherer: self, definition, endpoint, lifetime, next: Some(next), asked, left: PAGES_MAX })
    }

    async fn document(
        &self,
        definition: &DynamicDefinition,
        place: &str,
        lifetime: Duration,
    ) -> Result<Arc<Value>, PollError> {
        let now = Instant::now();
        // A service may answer other headers differently, and other handlers read the same answer differently.
        let key = format!("{place} {:?} {:?}", definition.headers, definition.handlers);
        let cached = self.answers.lock().get(&key, now, lifetime);
        if let Some(answer) = cached {
            return Ok(answer);
        }
        let body = match &definition.source {
            ResponseSource::Endpoint { .. } => self.asked(definition, place).await?,
            ResponseSource::Command(_) => printed(definition, place).await?,
        };
        let answer =
            read(&body, &definition.handlers).map_err(|error| PollError(format!("{place}: {error}")))?;
        let answer = Arc::new(answer);
        if !lifetime.is_zero() {
            self.answers.lock().put(&key, &answer, body.len(), now);
        }
        Ok(answer)
    }

    async fn asked(&self, definition: &DynamicDefinition, url: &str) -> Result<Vec<u8>, PollError> {
        let mut headers: Vec<(&str, &str)> =
            definition.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if definition.handlers.iter().any(|handler| *handler != ResponseFormat::Json) {
            // An `accept` of the file takes precedence.
            headers.push(("accept", "*/*"));
        }
        let answer = self.cloud()?.get(url, &headers, definition.timeout).await?;
        Ok(answer.body.to_vec())
    }
}

/// A command's output, stderr included and whatever its exit status, without the last newline: Python's
/// `subprocess.getoutput`.
async fn printed(definition: &DynamicDefinition, text: &str) -> Result<Vec<u8>, PollError> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", text]);
    let ran = command::run(shell, Errors::Within, definition.timeout).await;
    let mut out = ran.map_err(|error| PollError(format!("{text}: {error}")))?.stdout;
    if out.ends_with(b"\n") {
        out.pop();
    }
    Ok(out)
}

/// Iterates over the pages of a source.
pub struct Pages<'a> {
    gatherer: &'a Gatherer,
    definition: &'a DynamicDefinition,
    endpoint: &'a str,
    lifetime: Duration,
    next: Option<String>,
    /// The pages so far: links may lead back to one of them.
    asked: HashSet<String>,
    /// Remaining number of pages.
    left: usize,
}

impl Pages<'_> {
    /// The next page's entries; `None` after the last. An error if too many came before it.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, PollError> {
        let Some(place) = self.next.take() else { return Ok(None) };
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            PollError(format!("{place}: neither it nor what follows is read after {PAGES_MAX} pages"))
        })?;
        let document = self.gatherer.document(self.definition, &place, self.lifetime).await?;
        let next = self.following(&place, &document);
        self.asked.insert(place);
        self.next = next.filter(|next| !self.asked.contains(next));
        Ok(Some(self.entries(&document)))
    }

    fn following(&self, place: &str, document: &Value) -> Option<String> {
        let next = self.definition.next_url.as_ref()?.look(document).ok()?;
        let next = next.as_str().filter(|next| !next.is_empty())?;
        match &self.definition.source {
            // The token must go to the service only, wherever its links point.
            ResponseSource::Endpoint { .. } => same_origin(place, &joined(self.endpoint, next)),
            ResponseSource::Command(_) => Some(next.to_owned()),
        }
    }

    /// Entries without an id that the file names are logged and skipped.
    fn entries(&self, document: &Value) -> Vec<Value> {
        let found = match (document, &self.definition.response_entries) {
            (Value::Array(_), _) => Ok(Some(document.clone())),
            (Value::Object(map), _) if map.is_empty() => Ok(None),
            (document, Some(path)) => path.look(document).map(|found| Some(found.into_owned())),
            (Value::Object(map), None) => Ok(map.values().next().cloned()),
            _ => Err("it is neither a list nor a map".to_owned()),
        };
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(error, meter = self.definition.name, "no entries in a response");
            None
        });
        let entries = match found {
            Some(Value::Array(entries)) => entries,
            None | Some(Value::Null) => Vec::new(),
            Some(entry) => vec![entry],
        };
        let left_out = |error: &String| {
            tracing::warn!(error, meter = self.definition.name, "no sample of an entry");
        };
        entries.into_iter().filter_map(|entry| self.with_ids(entry).inspect_err(left_out).ok()).collect()
    }

    /// Copies an entry's ids to their usual names, where Ceilometer puts them first. A usual name may be missing; one
    /// that the file sets must exist.
    fn with_ids(&self, mut entry: Value) -> Result<Value, String> {
        let DynamicDefinition { user_id, project_id, resource_id, .. } = self.definition;
        for (path, usual) in [(user_id, "user_id"), (project_id, "project_id"), (resource_id, "id")] {
            let Some(path) = path else { continue };
            let value = path.look(&entry)?.into_owned();
            set(&mut entry, usual, value);
        }
        Ok(entry)
    }
}

/// Joins a path to an endpoint by the rules of URLs: a leading `/` means the host's root. Names in paths may have any
/// characters.
fn joined(endpoint: &str, path: &str) -> String {
    let path = path.trim();
    if path.starts_with("http://") || path.starts_with("https://") {
        return request_url(path);
    }
    if path.starts_with('/') {
        let host_at = endpoint.find("://").map_or(0, |scheme| scheme + 3);
        let root = endpoint[host_at..].find('/').map_or(endpoint, |slash| &endpoint[..host_at + slash]);
        return request_url(&format!("{root}{path}"));
    }
    request_url(&format!("{}/{path}", endpoint.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{super::file::parse, *};

    /// Reads `id` of what a command prints; `more`: further lines of the file.
    fn definition(command: &str, more: &str) -> DynamicDefinition {
        let text = format!(
            "- name: x\n  sample_type: gauge\n  unit: x\n  value_attribute: id\n  host_command: {command}\n{more}"
        );
        parse(Path::new("p.yaml"), &text).unwrap().remove(0).unwrap()
    }

    #[tokio::test]
    async fn links_that_lead_back_end_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let command = |name: &str| format!("cat {}", folder.path().join(name).display());
        for (name, next) in [("a", "b"), ("b", "c"), ("c", "b")] {
            let page = json!({ "things": [{ "id": name }], "next": command(next) });
            std::fs::write(folder.path().join(name), page.to_string()).unwrap();
        }
        let more = "  response_entries_key: things\n  next_sample_url_attribute: next\n";
        let definition = definition(&command("a"), more);
        let gatherer = Gatherer::new(None);
        let mut pages = gatherer.pages(&definition, &Map::new(), "", Duration::ZERO).unwrap();
        let mut found = Vec::new();
        while let Some(entries) = pages.next().await.unwrap() {
            found.extend(entries);
            assert!(found.len() <= 3, "{found:?}");
        }
        assert_eq!(found, ["a", "b", "c"].map(|id| json!({ "id": id })));
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_an_error_after_some_pages() {
        let folder = tempfile::tempdir().unwrap();
        let command = format!("cat {}", folder.path().join("a").display());
        let page = json!({ "things": [{ "id": "a" }], "next": "echo" });
        std::fs::write(folder.path().join("a"), page.to_string()).unwrap();
        let more = "  response_entries_key: things\n  next_sample_url_attribute: next\n";
        let definition = definition(&command, more);
        let gatherer = Gatherer::new(None);
        let mut pages = gatherer.pages(&definition, &Map::new(), "", Duration::ZERO).unwrap();
        pages.left = 1;
        assert_eq!(pages.next().await.unwrap().unwrap(), [json!({ "id": "a" })]);
        let error = pages.next().await.unwrap_err().0;
        assert!(error.starts_with("echo: neither it nor what follows is read"), "{error}");
        assert_eq!(pages.next().await, Ok(None));
    }

    #[tokio::test]
    async fn what_metadata_were_read_from_is_read_again_for_samples() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("things");
        let definition = definition(&format!("cat {}", file.display()), "");
        let gatherer = Gatherer::new(None);
        let hour = Duration::from_hours(1);
        let mut found = Vec::new();
        for (id, lifetime) in [("a", hour), ("b", hour), ("c", Duration::ZERO), ("d", hour)] {
            std::fs::write(&file, json!([{ "id": id }]).to_string()).unwrap();
            let mut pages = gatherer.pages(&definition, &Map::new(), "", lifetime).unwrap();
            found.extend(pages.next().await.unwrap().unwrap());
        }
        assert_eq!(found, ["a", "a", "c", "a"].map(|id| json!({ "id": id })));
    }

    #[tokio::test]
    async fn definitions_share_only_what_they_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("things");
        std::fs::write(&file, r#"[{"id":"a"}]"#).unwrap();
        let gatherer = Gatherer::new(None);
        let mut found = Vec::new();
        for handler in ["json", "text", "json"] {
            let handlers = format!("  response_handlers: [{handler}]\n");
            let definition = definition(&format!("cat {}", file.display()), &handlers);
            let mut pages = gatherer.pages(&definition, &Map::new(), "", Duration::from_hours(1)).unwrap();
            found.extend(pages.next().await.unwrap().unwrap());
        }
        let (id, out) = (json!({ "id": "a" }), json!({ "out": r#"[{"id":"a"}]"# }));
        assert_eq!(found, [id.clone(), out, id]);
        assert_eq!(gatherer.answers.lock().by_place.len(), 2);
    }

    #[test]
    fn paths_are_joined_as_links() {
        for (endpoint, path, url) in [
            ("http://a:1/v1", "x/y", "http://a:1/v1/x/y"),
            ("http://a:1/v1/", "x?y=z", "http://a:1/v1/x?y=z"),
            ("http://a:1/v1", "/x", "http://a:1/x"),
            ("http://a:1", "/x", "http://a:1/x"),
            ("http://a:1", "http://a:1/p?marker=2", "http://a:1/p?marker=2"),
            ("http://a:1/v3/p", "../x/y?z=a b&m=é", "http://a:1/v3/x/y?z=a%20b&m=%C3%A9"),
            ("http://a:1/v3", "/../x y", "http://a:1/x%20y"),
        ] {
            assert_eq!(joined(endpoint, path), url);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_remembered_for_a_time_and_within_bounds() {
        let mut answers = Answers::default();
        let (now, answer, second) = (Instant::now(), Arc::new(Value::from(1)), Duration::from_secs(1));
        answers.put("a", &answer, 10, now);
        assert_eq!(answers.get("a", now, second).as_deref(), Some(&Value::from(1)));
        assert_eq!(answers.get("a", now + second, second), None);
        assert!(answers.get("a", now + second, second * 2).is_some());
        assert_eq!(answers.get("a", now, Duration::ZERO), None);
        assert_eq!(answers.get("b", now, second), None);
        answers.put("b", &answer, REMEMBERED_BYTES_MAX, now);
        assert_eq!((answers.get("a", now, second), answers.by_place.len()), (None, 1));
        // What is requested again counts once.
        answers.put("c", &answer, 10, now);
        for _ in 0..10 {
            answers.put("d", &answer, REMEMBERED_BYTES_MAX / 4, now);
        }
        assert_eq!((answers.get("c", now, second).is_some(), answers.by_place.len()), (true, 2));
        // Many small responses take memory, too.
        for number in 0..REMEMBERED_BYTES_MAX / ENTRY_BYTES {
            answers.put(&number.to_string(), &answer, 1, now);
        }
        assert!(answers.by_place.len() < REMEMBERED_BYTES_MAX / ENTRY_BYTES);
    }
}
