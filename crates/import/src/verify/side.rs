//! Requests to one of the two servers, and their errors.

use std::collections::BTreeMap;

use gnudi_client::{
    Client, ClientError, JsonPage, MeasuresFilter, Point,
    uri::{self, Query},
};
use gnudi_model::MetricId;
use serde_json::Value;

use super::{Result, VerifyError};
use crate::merge::{self, Listing, Rows};

/// Rows per page; a server may return fewer.
const PAGE_ROWS: &str = "1000";
/// Pairs of rows that are compared together.
const PAIRS_AT_ONCE: usize = 1_000;

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

/// A row of a listing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// A UUID's text, which sorts like the UUID.
    pub id: String,
    pub value: Value,
}

/// A server's listing sorted by id.
struct SideRows<'a> {
    side: &'a Side,
    path: &'a str,
    marker: Option<String>,
}

impl Rows for SideRows<'_> {
    type Row = Row;
    type Id = String;
    type Error = VerifyError;

    /// A server may have its own limit: only an empty page is the last one.
    async fn page(&mut self) -> Result<Vec<Row>> {
        let mut query = Query::new(self.path);
        query.add("sort", "id:asc");
        query.add("limit", PAGE_ROWS);
        query.add_some("marker", self.marker.as_deref());
        let path = query.finish();
        let page = self.side.json(&path).await?;
        let rows = rows(page, self.marker.as_deref());
        let rows = rows.map_err(|reason| self.side.unexpected(&path, reason))?;
        self.marker = rows.last().map(|last| last.id.clone());
        Ok(rows)
    }

    fn id(row: &Row) -> String {
        row.id.clone()
    }
}

/// The rows of a page; `marker` is the last id of the page before it.
///
/// # Errors
/// Why it is not a list of objects with ids, sorted by id, all after `marker`.
fn rows(page: Value, marker: Option<&str>) -> Result<Vec<Row>, String> {
    let Value::Array(values) = page else { return Err("not a list".to_owned()) };
    let mut rows: Vec<Row> = Vec::with_capacity(values.len());
    for value in values {
        let Some(id) = value.get("id").and_then(Value::as_str).map(str::to_owned) else {
            return Err("a row without an id".to_owned());
        };
        let before = rows.last().map(|row| row.id.as_str()).or(marker);
        if let Some(before) = before.filter(|before| *before >= id.as_str()) {
            return Err(format!("not in the order of ids: {id} behind {before}"));
        }
        rows.push(Row { id, value });
    }
    Ok(rows)
}

/// The rows of Gnocchi and of gnudi with the same id.
pub(super) type Pair = (Option<Row>, Option<Row>);

/// The same listing of both servers, merged by id.
pub(super) struct MergedListing<'a> {
    gnocchi: Listing<SideRows<'a>>,
    gnudi: Listing<SideRows<'a>>,
}

impl<'a> MergedListing<'a> {
    pub fn new(sides: &'a Sides, path: &'a str) -> Self {
        let listing = |side| Listing::new(SideRows { side, path, marker: None });
        MergedListing { gnocchi: listing(&sides.gnocchi), gnudi: listing(&sides.gnudi) }
    }

    /// Some merged rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Pair>>> {
        let mut pairs = Vec::new();
        while pairs.len() < PAIRS_AT_ONCE {
            match merge::next(&mut self.gnocchi, &mut self.gnudi).await? {
                (None, None) => break,
                pair => pairs.push(pair),
            }
        }
        Ok(Some(pairs).filter(|pairs| !pairs.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pages_have_rows_by_id() {
        assert_eq!(rows(json!([]), Some("b")), Ok(Vec::new()));
        let page = rows(json!([{"id": "b", "x": 1}, {"id": "c"}]), Some("a")).unwrap();
        assert_eq!(page[0], Row { id: "b".to_owned(), value: json!({"id": "b", "x": 1}) });
        for (page, marker) in [
            (json!({}), None),
            (json!([1]), None),
            (json!([{"id": 1}]), None),
            (json!([{"id": "b"}, {"id": "a"}]), None),
            (json!([{"id": "b"}, {"id": "b"}]), None),
            (json!([{"id": "b"}]), Some("b")),
        ] {
            assert!(rows(page.clone(), marker).is_err(), "{page}");
        }
    }
}
