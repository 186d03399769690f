//! Requests to one of the two servers, and their errors.

use std::collections::BTreeMap;

use gnudi_client::{
    Client, ClientError, JsonPage, MeasuresFilter, Point,
    uri::{self, Query},
};
use gnudi_model::MetricId;
use serde_json::Value;

use super::{
    Result, VerifyError,
    merge::{self, Pair, Queue},
};

/// Rows per page; a server may return fewer.
const PAGE_ROWS: &str = "1000";

/// A server; `name` is Gnocchi or gnudi.
#[derive(Debug)]
pub(super) struct Side {
    pub name: &'static str,
    pub client: Client,
}

/// Both servers.
#[derive(Debug)]
pub(super) struct Sides {
    pub gnocchi: Side,
    pub gnudi: Side,
}

impl Side {
    /// The objects of a short listing, by name.
    pub async fn named(&self, path: &str) -> Result<BTreeMap<String, Value>> {
        let value = self.json(path).await?;
        let Value::Array(items) = value else { return Err(self.unexpected(path, "not a list")) };
        let named = |item: Value| Some((item.get("name")?.as_str()?.to_owned(), item));
        let named: Option<BTreeMap<String, Value>> = items.into_iter().map(named).collect();
        named.ok_or_else(|| self.unexpected(path, "an object without a name"))
    }

    /// The revisions of a resource; `None`: it does not exist.
    pub async fn history(&self, resource_type: &str, id: &str) -> Result<Option<Vec<Value>>> {
        let bare = format!("{}{}/history", uri::path("/v1/resource/", resource_type), uri::path("/", id));
        let mut query = Query::new(&bare);
        query.add("sort", "revision_start:asc");
        query.add("limit", PAGE_ROWS);
        let mut path = query.finish();
        let mut revisions = Vec::new();
        loop {
            let Some(page) = self.page(&path).await? else { return Ok(None) };
            let Value::Array(rows) = page.value else { return Err(self.unexpected(&path, "not a list")) };
            let is_empty = rows.is_empty();
            revisions.extend(rows);
            // Revisions do not show their numbers, so only the server knows the marker.
            let Some(next) = page.next_query.filter(|_| !is_empty) else { return Ok(Some(revisions)) };
            let next = format!("{bare}?{next}");
            if next == path {
                return Err(self.unexpected(&path, "its next page is itself"));
            }
            path = next;
        }
    }

    /// The aggregates of a metric; `None`: the metric or the aggregates do not exist.
    pub async fn points(&self, metric: MetricId, filter: &MeasuresFilter) -> Result<Option<Vec<Point>>> {
        self.ask(|| self.client.get_measures(metric, filter)).await
    }

    async fn json(&self, path: &str) -> Result<Value> {
        let answer = self.ask(|| self.client.get_json(path.to_owned())).await?;
        answer.ok_or_else(|| self.unexpected(path, "404: is this the URL of its API?"))
    }

    async fn page(&self, path: &str) -> Result<Option<JsonPage>> {
        self.ask(|| self.client.get_json_page(path.to_owned())).await
    }

    /// The response to a read; `None` for a 404. Retried once without a response: servers close idle connections just
    /// when the next request is sent.
    async fn ask<T, A>(&self, call: impl Fn() -> A) -> Result<Option<T>>
    where
        A: Future<Output = Result<T, ClientError>>,
    {
        let mut answer = call().await;
        if matches!(answer, Err(ClientError::NoAnswer { .. })) {
            answer = call().await;
        }
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: ClientError) -> VerifyError {
        let (side, url) = (self.name, self.client.base_url().to_owned());
        match error.status() {
            Some(status @ (401 | 403)) => VerifyError::NotAllowed { side, url, status },
            _ => VerifyError::Client { side, url, error: Box::new(error) },
        }
    }

    pub fn unexpected(&self, path: &str, reason: impl Into<String>) -> VerifyError {
        VerifyError::UnexpectedAnswer {
            side: self.name,
            url: self.client.base_url().to_owned(),
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// A server's listing sorted by id, with one page in memory.
struct Listing<'a> {
    side: &'a Side,
    path: &'a str,
    marker: Option<String>,
    queue: Queue,
}

impl<'a> Listing<'a> {
    fn new(side: &'a Side, path: &'a str) -> Self {
        Listing { side, path, marker: None, queue: Queue::default() }
    }

    /// Loads another page if no rows are left.
    async fn fill(&mut self) -> Result<()> {
        if !self.queue.needs_page() {
            return Ok(());
        }
        let mut query = Query::new(self.path);
        query.add("sort", "id:asc");
        query.add("limit", PAGE_ROWS);
        query.add_some("marker", self.marker.as_deref());
        let path = query.finish();
        let page = self.side.json(&path).await?;
        let rows = merge::rows(page, self.marker.as_deref());
        self.queue.rows = rows.map_err(|reason| self.side.unexpected(&path, reason))?;
        // A server may have its own limit: only an empty page is the last one.
        match self.queue.rows.back() {
            Some(last) => self.marker = Some(last.id.clone()),
            None => self.queue.is_at_end = true,
        }
        Ok(())
    }
}

/// The same listing of both servers, merged by id.
pub(super) struct MergedListing<'a> {
    gnocchi: Listing<'a>,
    gnudi: Listing<'a>,
}

impl<'a> MergedListing<'a> {
    pub fn new(sides: &'a Sides, path: &'a str) -> Self {
        MergedListing { gnocchi: Listing::new(&sides.gnocchi, path), gnudi: Listing::new(&sides.gnudi, path) }
    }

    /// About a page of merged rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Pair>>> {
        loop {
            tokio::try_join!(self.gnocchi.fill(), self.gnudi.fill())?;
            let pairs = merge::merge(&mut self.gnocchi.queue, &mut self.gnudi.queue);
            if !pairs.is_empty() {
                return Ok(Some(pairs));
            }
            if !self.gnocchi.queue.needs_page() && !self.gnudi.queue.needs_page() {
                return Ok(None);
            }
        }
    }
}
