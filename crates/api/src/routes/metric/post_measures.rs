//! `POST /v1/metric/{id}/measures`: the hot way in.

use gnudi_drivers::incoming::Batch;
use gnudi_series::points;

use crate::{
    body::RequestBody,
    call::Call,
    error::ApiError,
    measures,
    reply::{self, Response},
    request,
};

/// Takes measures; 202 means that they are durable.
pub async fn post_measures(call: &Call<'_>, body: &mut RequestBody<'_>) -> Result<Response, ApiError> {
    let input = request::json_bytes(call.parts, body).await?;
    let app = call.app;
    let mut batch = Batch::default();
    let mut read = app.measure_buffers.take();
    let measures_max = app.options().limits.measures_max;
    let scan = || measures::read_list(&input, || app.now(), measures_max, &mut read);
    let by = body.long_work.run(input.len(), scan).await?;
    app.figures.read_by(by);
    let count = read.len();
    if count > 0 {
        batch.push(call.metric().id, count as u32, |out| points::encode(&read, out));
    }
    app.measure_buffers.put(read);
    drop(input);
    call.append(batch).await?;
    Ok(reply::accepted())
}
