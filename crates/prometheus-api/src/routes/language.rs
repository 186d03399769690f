//! `/api/v1/format_query` and `/api/v1/parse_query`: the syntax of a query.

use gnudi_prometheus::answer::{success, write_text};
use gnudi_promql::{Limits, format, syntax_tree};

use crate::routes::prelude::*;

/// `GET` and `POST /api/v1/format_query`
pub async fn format_query(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    call.has_no_items(Rule::ListMetric);
    super::respond(call, body, async |arguments| {
        let text = format(arguments.get("query"), &Limits::default())?;
        let mut data = Vec::with_capacity(text.len() + 2);
        write_text(&text, &mut data);
        Ok(reply::ok(success(&data, &[], &[])))
    })
    .await
}

/// `GET` and `POST /api/v1/parse_query`
pub async fn parse_query(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    call.has_no_items(Rule::ListMetric);
    super::respond(call, body, async |arguments| {
        let tree = syntax_tree(arguments.get("query"), &Limits::default())?;
        Ok(reply::ok(success(tree.as_bytes(), &[], &[])))
    })
    .await
}
