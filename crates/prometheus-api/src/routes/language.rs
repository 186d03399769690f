//! `/api/v1/format_query` and `/api/v1/parse_query`: the syntax of a query. Both run off the request threads: they wait for a thread
//! with a large stack.

use gnudi_prometheus::answer::{success, write_text};
use gnudi_promql::{Limits, format, syntax_tree};

use crate::routes::prelude::*;

/// `GET` and `POST /api/v1/format_query`
pub async fn format_query(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    call.has_no_items(Rule::ListMetric);
    super::respond(call, body, async |arguments| {
        let query = arguments.get("query").to_owned();
        let text = call.app.engine().compute(move || format(&query, &Limits::default())).await?;
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
        let query = arguments.get("query").to_owned();
        let tree = call.app.engine().compute(move || syntax_tree(&query, &Limits::default())).await?;
        Ok(reply::ok(success(tree.as_bytes(), &[], &[])))
    })
    .await
}
