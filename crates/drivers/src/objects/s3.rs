//! Objects in a bucket of S3 or a compatible server (radosgw, minio).
//!
//! `create` is a PUT with `If-None-Match: *`; [`S3Objects::open`] rejects a server that ignores it, or races. An
//! attempt with a lost response may have taken effect: each create carries an id as metadata, and if a later
//! attempt finds the name taken, the stored id shows whether this create did it. Comparing bytes instead
//! would let two creators of equal bytes both conclude that they won. An attempt that a proxy repeats is not
//! seen: if the first one took effect, the answer is `Exists`, and callers recognise their own object.
//!
//! Buckets with versioning or lifecycles are used like any others.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use gnudi_http::{Request, StatusCode, header::CONTENT_LENGTH};
use rusty_s3::{Bucket, Credentials, Method, S3Action, UrlStyle};
use std::time::Duration;
use uuid::Uuid;

use super::{
    ObjectError, Objects, Secret, check_name,
    http::{Answer, Http, HttpOptions, Tries, part_of},
    is_name, open_error, range_of,
};
use crate::OpenError;

/// Validity of a signature: clocks differ.
const SIGNED_FOR: Duration = Duration::from_mins(15);
const DELETES_AT_ONCE: usize = 16;
/// S3's maximum.
const LIST_PAGE: &str = "1000";
/// Created once, and left there. Never a valid name, so no object of ours.
const PROBE: &str = "probe~";
const PROBES_AT_ONCE: usize = 8;
const CREATE_ID: &str = "x-amz-meta-gnudi-create";

/// Gnocchi's options in `[storage]` with the prefix `s3_`.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// `http://host:port` or `https://host`; without one, Amazon's endpoint of the region.
    pub endpoint_url: Option<String>,
    pub region_name: Option<String>,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret>,
    /// Of the bucket's name.
    pub bucket_prefix: String,
    pub http: HttpOptions,
}

impl Default for S3Options {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            region_name: None,
            access_key_id: None,
            secret_access_key: None,
            bucket_prefix: "gnocchi".to_owned(),
            http: HttpOptions::default(),
        }
    }
}

pub struct S3Objects {
    http: Http,
    bucket: Bucket,
    credentials: Credentials,
    place: String,
}

/// Reads a bucket that another program writes, with arbitrary names.
pub struct S3Reader(S3Objects);

impl S3Reader {
    /// Checks that the bucket exists.
    pub async fn open(options: &S3Options, bucket: String) -> Result<Self, OpenError> {
        let store = S3Objects::new(options, bucket)?;
        let is_there = store.is_there().await.map_err(|error| open_error(&store.place, &error))?;
        if is_there {
            Ok(S3Reader(store))
        } else {
            Err(OpenError::Engine { engine: store.place, reason: "there is no such bucket".to_owned() })
        }
    }

    /// The object; `None` if absent.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        self.0.get_any(name).await
    }

    /// The names with the prefix, sorted by bytes.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        self.0.list_any(prefix).await
    }
}

/// One call, signed and sent until it is answered.
struct Call<'a> {
    method: Method,
    /// Of the object; "" for the bucket.
    name: &'a str,
    query: Vec<(&'static str, &'a str)>,
    headers: Vec<(&'static str, &'a str)>,
    body: Bytes,
}

impl<'a> Call<'a> {
    fn new(method: Method, name: &'a str) -> Self {
        Call { method, name, query: Vec::new(), headers: Vec::new(), body: Bytes::new() }
    }
}

/// A page of a listing.
struct Page {
    names: Vec<String>,
    /// Whether there are more pages.
    more: bool,
    /// With which the server goes on.
    token: Option<String>,
}

/// The meaning of a response, for any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Missing,
    /// A precondition failed.
    Exists,
    /// The range begins after the object's end.
    OutOfRange,
    /// Retry later.
    Again,
    Refused,
}

impl S3Objects {
    /// Opens the bucket `PREFIX-gnudi-PURPOSE`, creating it if missing, and checks that the server supports
    /// exclusive creation.
    pub async fn open(options: &S3Options, purpose: &str) -> Result<Self, OpenError> {
        let store = Self::new(options, format!("{}-gnudi-{purpose}", options.bucket_prefix))?;
        let opening = async {
            if !store.is_there().await? {
                store.make_bucket(options.region_name.is_some()).await?;
            }
            store.check_exclusive().await
        };
        opening.await.map_err(|error| open_error(&store.place, &error))?;
        Ok(store)
    }

    /// Sends nothing yet.
    fn new(options: &S3Options, bucket: String) -> Result<Self, OpenError> {
        let region = options.region_name.clone().unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = match &options.endpoint_url {
            Some(url) => url.clone(),
            None => format!("https://s3.{region}.amazonaws.com"),
        };
        let refuse = |reason: String| OpenError::Engine { engine: format!("s3 at {endpoint}"), reason };
        let (Some(key), Some(secret)) = (&options.access_key_id, &options.secret_access_key) else {
            return Err(refuse("s3_access_key_id and s3_secret_access_key are not both set".to_owned()));
        };
        let url = endpoint.parse().map_err(|error| refuse(format!("s3_endpoint_url is no URL: {error}")))?;
        let bucket = Bucket::new(url, UrlStyle::Path, bucket, region)
            .map_err(|error| refuse(format!("s3_endpoint_url is not of HTTP: {error}")))?;
        let base = bucket.base_url();
        let http = Http::new(&options.http, base.scheme() == "https").map_err(refuse)?;
        let place = format!("s3 bucket {} at {}", bucket.name(), base.origin().ascii_serialization());
        let credentials = Credentials::new(key.clone(), secret.reveal().to_owned());
        Ok(Self { http, bucket, credentials, place })
    }

    /// Whether the bucket exists; uses a listing, since only its errors explain wrong keys.
    async fn is_there(&self) -> Result<bool, ObjectError> {
        let mut call = Call::new(Method::Get, "");
        call.query = vec![("list-type", "2"), ("max-keys", "1")];
        let (verdict, answer) = self.request(&call).await?;
        match verdict {
            Verdict::Fine => Ok(true),
            Verdict::Missing => Ok(false),
            Verdict::Refused if code(&answer) == "NoSuchBucket" => Ok(false),
            _ => Err(self.refusal(&call, &answer)),
        }
    }

    async fn make_bucket(&self, in_region: bool) -> Result<(), ObjectError> {
        let mut call = Call::new(Method::Put, "");
        let region = self.bucket.region();
        if in_region && region != "us-east-1" {
            call.body = format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            )
            .into();
        }
        let (verdict, answer) = self.request(&call).await?;
        // Another process may have created it concurrently.
        if verdict == Verdict::Fine || answer.status == StatusCode::CONFLICT && self.is_there().await? {
            return Ok(());
        }
        Err(self.refusal(&call, &answer))
    }

    /// A server without this precondition would let two creators both win; one that looks for the object first and then
    /// writes it, those that come at once.
    async fn check_exclusive(&self) -> Result<(), ObjectError> {
        let creates = (0..PROBES_AT_ONCE).map(|_| self.create_any(PROBE, Bytes::from_static(b"probe")));
        let outcomes = futures_util::future::join_all(creates).await;
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if won > 1 {
            // Otherwise the next start would find it, and learn nothing.
            self.delete_any(PROBE).await?;
            let lack = if won == PROBES_AT_ONCE {
                "ignores If-None-Match"
            } else {
                "does not apply If-None-Match to requests that come at once"
            };
            let text = format!(
                "{}: the server {lack}, so that two writers would overwrite each other: use another one",
                self.place
            );
            return Err(ObjectError::Refused(text));
        }
        let was_there = |outcome: &Result<(), ObjectError>| matches!(outcome, Err(ObjectError::Exists(_)));
        if outcomes.iter().any(was_there) {
            return Ok(());
        }
        outcomes.into_iter().collect()
    }

    async fn create_any(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let id = Uuid::new_v4().to_string();
        let mut call = Call::new(Method::Put, name);
        call.headers = vec![("if-none-match", "*"), (CREATE_ID, &id)];
        call.body = bytes;
        let mut tries = self.http.tries();
        // Whether an earlier attempt may have taken effect.
        let mut doubtful = false;
        loop {
            let reason = match self.send(&tries, &call).await {
                Err(reason) => reason,
                Ok(answer) => match verdict(&answer) {
                    Verdict::Fine => return Ok(()),
                    Verdict::Again => answer.text(),
                    Verdict::Exists if doubtful => match self.created_by(&tries, name).await {
                        Ok(Some(by)) if by == id => return Ok(()),
                        Ok(Some(_)) => return Err(ObjectError::Exists(name.to_owned())),
                        Ok(None) => {
                            let text = "whether it was created before it was deleted is not known";
                            return Err(ObjectError::Unavailable(format!("{}: {name}: {text}", self.place)));
                        }
                        Err(reason) => reason,
                    },
                    Verdict::Exists => return Err(ObjectError::Exists(name.to_owned())),
                    _ => return Err(self.create_refusal(&call, &answer, doubtful)),
                },
            };
            doubtful = true;
            tries.again(&self.place, &reason).await?;
        }
    }

    /// The id of the create that made an object, "" if it was put; `None` if absent.
    async fn created_by(&self, tries: &Tries, name: &str) -> Result<Option<String>, String> {
        let answer = self.send(tries, &Call::new(Method::Head, name)).await?;
        match verdict(&answer) {
            Verdict::Fine => Ok(Some(answer.header(CREATE_ID).unwrap_or_default().to_owned())),
            Verdict::Missing => Ok(None),
            _ => Err(answer.text()),
        }
    }

    async fn delete_any(&self, name: &str) -> Result<(), ObjectError> {
        let call = Call::new(Method::Delete, name);
        let (verdict, answer) = self.request(&call).await?;
        match verdict {
            Verdict::Fine | Verdict::Missing => Ok(()),
            _ => Err(self.refusal(&call, &answer)),
        }
    }

    async fn get_any(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        let call = Call::new(Method::Get, name);
        let (verdict, answer) = self.request(&call).await?;
        match verdict {
            Verdict::Fine => Ok(Some(answer.body)),
            Verdict::Missing => Ok(None),
            _ => Err(self.refusal(&call, &answer)),
        }
    }

    async fn list_any(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let mut names: Vec<String> = Vec::new();
        // The parameter that selects the next page.
        let mut from: Option<(&'static str, String)> = None;
        loop {
            let page = self.page(prefix, from.as_ref()).await?;
            let last =
                page.names.last().filter(|last| names.last().is_none_or(|known| known < *last)).cloned();
            names.extend(page.names);
            if !page.more {
                return Ok(names);
            }
            // A page may be empty, although there are more: of a versioned bucket with many deleted objects, for example.
            let next = match (last, page.token) {
                (Some(last), _) => ("start-after", last),
                (None, Some(token)) => ("continuation-token", token),
                (None, None) => return Err(self.stuck()),
            };
            if from.as_ref() == Some(&next) {
                return Err(self.stuck());
            }
            from = Some(next);
        }
    }

    fn stuck(&self) -> ObjectError {
        ObjectError::Unavailable(format!("{}: a page of a listing does not say how to go on", self.place))
    }

    async fn page(&self, prefix: &str, from: Option<&(&'static str, String)>) -> Result<Page, ObjectError> {
        let mut call = Call::new(Method::Get, "");
        call.query = vec![("list-type", "2"), ("max-keys", LIST_PAGE), ("prefix", prefix)];
        if let Some((parameter, value)) = from {
            call.query.push((*parameter, value.as_str()));
        }
        let (verdict, answer) = self.request(&call).await?;
        if verdict != Verdict::Fine {
            return Err(self.refusal(&call, &answer));
        }
        let text = String::from_utf8_lossy(&answer.body);
        // S3 always returns it. A proxy's page for maintenance must not look like an empty bucket.
        let Some(is_truncated) = elements(&text, "IsTruncated").next() else {
            return Err(ObjectError::Unavailable(format!("{}: not an S3 listing", self.place)));
        };
        Ok(Page {
            names: elements(&text, "Key").map(unescaped).collect(),
            more: is_truncated == "true",
            token: elements(&text, "NextContinuationToken").next().map(unescaped),
        })
    }

    /// Sends until the response is not "retry later".
    async fn request(&self, call: &Call<'_>) -> Result<(Verdict, Answer), ObjectError> {
        let mut tries = self.http.tries();
        loop {
            let reason = match self.send(&tries, call).await {
                Err(reason) => reason,
                Ok(answer) => match verdict(&answer) {
                    Verdict::Again => answer.text(),
                    verdict => return Ok((verdict, answer)),
                },
            };
            tries.again(&self.place, &reason).await?;
        }
    }

    /// Signs and sends once.
    async fn send(&self, tries: &Tries, call: &Call<'_>) -> Result<Answer, String> {
        let (bucket, credentials) = (&self.bucket, Some(&self.credentials));
        let url = match call.method {
            Method::Put => signed(bucket.put_object(credentials, call.name), call),
            Method::Head => signed(bucket.head_object(credentials, call.name), call),
            Method::Delete => signed(bucket.delete_object(credentials, call.name), call),
            _ => signed(bucket.get_object(credentials, call.name), call),
        };
        let mut request = Request::builder().method(call.method.to_str()).uri(url);
        for (name, value) in &call.headers {
            request = request.header(*name, *value);
        }
        if call.method == Method::Put {
            // Otherwise omitted for an empty body, which radosgw rejects.
            request = request.header(CONTENT_LENGTH, call.body.len());
        }
        let request = request.body(call.body.clone()).map_err(|error| error.to_string())?;
        self.http.send(tries, request).await
    }

    /// The server's error for an attempt of a create. If an earlier attempt may have taken effect, the object
    /// may exist.
    fn create_refusal(&self, call: &Call<'_>, answer: &Answer, doubtful: bool) -> ObjectError {
        let refusal = self.refusal(call, answer);
        if doubtful { ObjectError::Unavailable(refusal.to_string()) } else { refusal }
    }

    /// The server's error. Its message contains no secret; other fields might.
    fn refusal(&self, call: &Call<'_>, answer: &Answer) -> ObjectError {
        let body = String::from_utf8_lossy(&answer.body);
        let message = elements(&body, "Message").next().map(unescaped).unwrap_or_default();
        let (method, name) = (call.method, call.name);
        let text = format!("{}: {method} /{name}: {} {} {message}", self.place, answer.status, code(answer));
        let text = text.trim_end().to_owned();
        match (answer.status, code(answer).as_str()) {
            (StatusCode::INSUFFICIENT_STORAGE, _) => ObjectError::NoSpace(text),
            // radosgw's QuotaExceeded, and minio's XMinioAdminBucketQuotaExceeded, with status 400.
            (_, code) if code.ends_with("QuotaExceeded") => ObjectError::NoSpace(text),
            _ => ObjectError::Refused(text),
        }
    }
}

fn signed<'a>(mut action: impl S3Action<'a>, call: &Call<'a>) -> String {
    for (name, value) in &call.query {
        action.query_mut().insert(*name, *value);
    }
    for (name, value) in &call.headers {
        action.headers_mut().insert(*name, *value);
    }
    action.sign(SIGNED_FOR).to_string()
}

fn verdict(answer: &Answer) -> Verdict {
    match answer.status {
        status if status.is_success() => Verdict::Fine,
        StatusCode::NOT_FOUND if code(answer) == "NoSuchBucket" => Verdict::Refused,
        // Not S3's: a proxy that has lost its backend says so of everything. (An answer to HEAD has no body.)
        StatusCode::NOT_FOUND if !answer.body.is_empty() && code(answer).is_empty() => Verdict::Again,
        StatusCode::NOT_FOUND => Verdict::Missing,
        StatusCode::PRECONDITION_FAILED => Verdict::Exists,
        StatusCode::RANGE_NOT_SATISFIABLE => Verdict::OutOfRange,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Verdict::Again,
        StatusCode::INSUFFICIENT_STORAGE | StatusCode::NOT_IMPLEMENTED => Verdict::Refused,
        status if status.is_server_error() => Verdict::Again,
        // A concurrent change, or the body arrived too slowly.
        _ if ["ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "SlowDown"]
            .contains(&code(answer).as_str()) =>
        {
            Verdict::Again
        }
        _ => Verdict::Refused,
    }
}

/// The error's code, "" if there is none.
fn code(answer: &Answer) -> String {
    elements(&String::from_utf8_lossy(&answer.body), "Code").next().map(unescaped).unwrap_or_default()
}

/// The contents of all text-only elements with a name: all that is needed of S3's XML.
fn elements<'a>(text: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    let end = format!("</{name}>");
    text.split(&format!("<{name}>")[..])
        .skip(1)
        .filter_map(|rest| rest.split_once(&end[..]).map(|(inner, _)| inner))
        .collect::<Vec<_>>()
        .into_iter()
}

fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('&');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (entity, rest) = part.split_once(';').unwrap_or(("", part));
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let character = match entity {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => match (entity.strip_prefix("#x"), entity.strip_prefix('#')) {
                (Some(hex), _) => number(hex, 16),
                (None, Some(decimal)) => number(decimal, 10),
                (None, None) => None,
            },
        };
        plain.extend(character);
        plain.push_str(rest);
    }
    plain
}

#[async_trait]
impl Objects for S3Objects {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        let mut call = Call::new(Method::Put, name);
        call.body = bytes;
        match self.request(&call).await? {
            (Verdict::Fine, _) => Ok(()),
            (_, answer) => Err(self.refusal(&call, &answer)),
        }
    }

    async fn create(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        check_name(name)?;
        self.create_any(name, bytes).await
    }

    async fn get(&self, name: &str) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        self.get_any(name).await
    }

    async fn get_range(&self, name: &str, start: u64, length: u64) -> Result<Option<Bytes>, ObjectError> {
        check_name(name)?;
        let range = range_of(start, length);
        let method = if range.is_some() { Method::Get } else { Method::Head };
        let mut call = Call::new(method, name);
        if let Some(range) = &range {
            call.headers = vec![("range", range)];
        }
        let (verdict, answer) = self.request(&call).await?;
        match verdict {
            Verdict::Fine if range.is_none() => Ok(Some(Bytes::new())),
            Verdict::Fine => Ok(Some(part_of(&answer, start, length))),
            Verdict::OutOfRange => Ok(Some(Bytes::new())),
            Verdict::Missing => Ok(None),
            _ => Err(self.refusal(&call, &answer)),
        }
    }

    async fn delete(&self, names: &[String]) -> Result<(), ObjectError> {
        names.iter().try_for_each(|name| check_name(name))?;
        let deletes: Vec<_> = names.iter().map(|name| self.delete_any(name)).collect();
        futures_util::stream::iter(deletes).buffer_unordered(DELETES_AT_ONCE).try_collect().await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let mut names = self.list_any(prefix).await?;
        names.retain(|name| is_name(name));
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
