//! The client commands `gnudi metric`, `measures`, `resource` and `aggregates`, one file per noun, each with its
//! options.
//!
//! Options, columns and values are those of Gnocchi's client, so that scripts only need another program name.
//! `gnudi_client` sends the requests.

pub mod aggregates;
pub mod completion;
pub mod measures;
pub mod metric;
pub mod resource;
pub mod sparkline;

use std::collections::HashSet;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use gnudi_client::{Client, ClientError, JsonPage, uri::Query};
use gnudi_endpoint::{
    ServerArgs,
    output::{Cell, Listing, Record},
};
use serde_json::{Map, Value};

/// Runs a command against the selected server, and explains failures.
pub fn run(server: &ServerArgs, work: impl AsyncFnOnce(&Client) -> Result<()>) -> Result<()> {
    crate::commands::own_thread()?.block_on(async {
        let client = server.connect().await?;
        work(&client).await.map_err(|error| explained(error, client.base_url()))
    })
}

/// A failed call explained to the user: the server's message, or what to do.
pub fn explained(error: anyhow::Error, endpoint: &str) -> anyhow::Error {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::NoAnswer { reason, .. }) if reason.contains("certificate") => {
            anyhow!(
                "no answer from {endpoint} ({reason}): --cacert or OS_CACERT names whose certificates are trusted"
            )
        }
        Some(ClientError::NoAnswer { reason, .. }) => anyhow!(
            "no answer from {endpoint} ({reason}): start a server with `gnudi serve`, or name one with --endpoint or GNOCCHI_ENDPOINT"
        ),
        Some(ClientError::Refused { refused, .. }) if refused.status == 401 => anyhow!(
            "{endpoint} refuses the credentials (HTTP 401): set --user and GNOCCHI_PASSWORD, or Keystone's OS_* variables"
        ),
        Some(ClientError::Refused { refused, .. }) => {
            anyhow!("{} (HTTP {})", in_words(&refused.message).trim_end_matches('.'), refused.status)
        }
        _ => error,
    }
}

/// The message of an error response, which may be an object: `{"cause": ..., "reason": ..., "detail": ...}`.
fn in_words(message: &str) -> String {
    fn words(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
            Value::Object(entries) => entries
                .iter()
                .map(|(name, value)| format!("{name} {}", words(value)))
                .collect::<Vec<_>>()
                .join(", "),
            other => other.to_string(),
        }
    }
    let Ok(described) = serde_json::from_str::<Value>(message) else { return message.to_owned() };
    let Some(cause) = described.get("cause").and_then(Value::as_str) else { return message.to_owned() };
    let parts = ["detail", "reason"].into_iter().filter_map(|name| described.get(name));
    let parts = parts.filter(|part| !part.is_null()).map(words).filter(|text| !text.is_empty());
    std::iter::once(cause.to_owned()).chain(parts).collect::<Vec<_>>().join(": ")
}

/// Pagination of a listing.
#[derive(Clone, Debug, Default, Args)]
pub struct Part {
    /// Maximum number of items; 0: a page of the server [default: all, page by page].
    #[arg(long, value_name = "LIMIT")]
    pub limit: Option<usize>,
    /// Last item of the previous listing: continue after it.
    #[arg(long, value_name = "MARKER")]
    pub marker: Option<String>,
    /// Attribute to sort by, such as name:desc; can be repeated.
    #[arg(long, value_name = "SORT")]
    pub sort: Vec<String>,
}

impl Part {
    fn add_to(&self, query: &mut Query) {
        let limit = self.limit.filter(|&limit| limit > 0);
        query.add_some("limit", limit.map(|limit| limit.to_string()).as_deref());
        query.add_some("marker", self.marker.as_deref());
        for sort in &self.sort {
            query.add("sort", sort);
        }
    }
}

/// All pages of a listing, or as many as needed for `limit` items; for 0 the first one. `fetch` requests a path with its
/// query string.
async fn pages(
    first: String,
    limit: Option<usize>,
    fetch: impl AsyncFn(String) -> Result<JsonPage, ClientError>,
) -> Result<Vec<Map<String, Value>>> {
    let path = first.split('?').next().unwrap_or_default().to_owned();
    let mut next = Some(first);
    let (mut items, mut seen) = (Vec::new(), HashSet::new());
    while let Some(asked) = next {
        // Without an end, or else until the memory is full.
        if !seen.insert(asked.clone()) {
            bail!("the server's pages lead back to {asked}");
        }
        let JsonPage { value, next_query } = fetch(asked).await?;
        items.extend(objects(value)?);
        let is_enough = limit.is_some_and(|limit| items.len() >= limit);
        next = next_query.filter(|_| !is_enough).map(|query| format!("{path}?{query}"));
    }
    // The last page is as long as the others: the server's limit, if that is below the one asked for.
    items.truncate(limit.filter(|&limit| limit > 0).unwrap_or(usize::MAX));
    Ok(items)
}

fn objects(value: Value) -> Result<Vec<Map<String, Value>>> {
    let Value::Array(items) = value else {
        return Err(anyhow!("the server's response is not a list"));
    };
    items.into_iter().map(object).collect()
}

fn object(value: Value) -> Result<Map<String, Value>> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(anyhow!("the server's response is not an object")),
    }
}

/// A listing of these columns; missing values are `None`.
fn listing(columns: Vec<String>, mut items: Vec<Map<String, Value>>) -> Listing {
    let row = |item: &mut Map<String, Value>| {
        columns.iter().map(|column| item.remove(column).unwrap_or_default().into()).collect()
    };
    let rows = items.iter_mut().map(row).collect();
    Listing { columns, rows }
}

/// The fields of an item, in order.
fn record(item: Map<String, Value>) -> Record {
    item.into_iter().map(|(name, value)| (name, Cell::from(value))).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn no_more_than_the_limit_is_listed() {
        for (limit, listed, requests) in
            [(None, 7, 4), (Some(3), 3, 2), (Some(2), 2, 1), (Some(9), 7, 4), (Some(0), 2, 1)]
        {
            let asked = RefCell::new(Vec::new());
            // Seven items, two on a page, whatever is asked for.
            let fetch = async |path: String| {
                let start = asked.borrow().len() * 2;
                asked.borrow_mut().push(path);
                let items: Vec<Value> = (start..7).take(2).map(|id| json!({ "id": id })).collect();
                let next_query = (start + 2 < 7).then(|| format!("marker={start}"));
                Ok::<_, ClientError>(JsonPage { value: items.into(), next_query })
            };
            let items = pages("/v1/metric?limit=9".to_owned(), limit, fetch).await.unwrap();
            let asked = asked.into_inner();
            assert_eq!((items.len(), asked.len()), (listed, requests), "{limit:?}");
            assert_eq!(asked[0], "/v1/metric?limit=9");
            assert!(asked[1..].iter().all(|path| path.starts_with("/v1/metric?marker=")), "{asked:?}");
        }
    }

    #[tokio::test]
    async fn pages_that_lead_back_are_an_error() {
        for length in [1, 2] {
            let requests = RefCell::new(0);
            let fetch = async |_: String| {
                *requests.borrow_mut() += 1;
                let next_query = Some(format!("marker={}", *requests.borrow() % length));
                Ok::<_, ClientError>(JsonPage { value: json!([{}]), next_query })
            };
            let error = pages("/v1/metric".to_owned(), None, fetch).await.unwrap_err();
            assert!(error.to_string().contains("lead back to /v1/metric?marker="), "{error}");
            assert_eq!(requests.into_inner(), length + 1);
        }
    }

    #[test]
    fn a_refusal_is_told_in_words() {
        for (message, expected) in [
            ("Metric m does not exist", "Metric m does not exist"),
            (r#"{"cause": "Unknown metrics"}"#, "Unknown metrics"),
            (r#"{"cause": "Invalid input", "detail": ["metric", "x", 7]}"#, "Invalid input: metric, x, 7"),
            (
                r#"{"cause": "No method", "detail": {"metric": "m", "method": "x"}}"#,
                "No method: metric m, method x",
            ),
            (r#"{"cause": "Invalid input", "reason": "bad time", "detail": []}"#, "Invalid input: bad time"),
            (r#"{"cause": "No", "reason": "Must be 1", "detail": "limit"}"#, "No: limit: Must be 1"),
            (r#"["cause"]"#, r#"["cause"]"#),
        ] {
            assert_eq!(in_words(message), expected);
        }
    }
}
