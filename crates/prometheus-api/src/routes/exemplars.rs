//! `/api/v1/query_exemplars`: the exemplars of a query's series.

use gnudi_prometheus::{
    answer::{success, write_labels, write_list},
    number::{write_time, write_value},
};
use gnudi_promql::{Labels, Limits, Matcher, QueryTimes, parse};

use crate::{exemplar_store::StoredExemplar, failure::Failure, routes::prelude::*};

/// `GET` and `POST /api/v1/query_exemplars`
pub async fn query_exemplars(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_allowed(Rule::GetMeasures)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
        let (start, end) = arguments.times()?;
        let times = start.unwrap_or(i64::MIN)..=end.unwrap_or(i64::MAX);
        if times.is_empty() {
            return Err(Failure::bad_data("end timestamp must not be before start timestamp"));
        }
        let plan = parse(arguments.get("query"), QueryTimes::instant(0), &Limits::default())?;
        let selections = plan.selections(0);
        let is_selected = |series: &Labels| {
            let fulfils = |matcher: &Matcher| matcher.matches(series.get(&matcher.name));
            selections.iter().any(|selection| selection.matchers.iter().all(fulfils))
        };
        let mut exemplars = call.api.exemplars.find(|exemplar| {
            times.contains(&exemplar.time_ms)
                && super::sees_creator(seen, &exemplar.creator)
                && is_selected(&exemplar.series)
        });
        exemplars.sort_by(|a, b| a.series.cmp(&b.series).then(a.time_ms.cmp(&b.time_ms)));
        let by_series: Vec<&[StoredExemplar]> = exemplars.chunk_by(|a, b| a.series == b.series).collect();
        let mut data = Vec::new();
        write_list(&by_series, &mut data, |exemplars, data| {
            data.extend_from_slice(b"{\"seriesLabels\":");
            write_labels(&exemplars[0].series, data);
            data.extend_from_slice(b",\"exemplars\":");
            write_list(*exemplars, data, write_exemplar);
            data.push(b'}');
        });
        Ok(reply::ok(success(&data, &[], &[])))
    })
    .await
}

fn write_exemplar(exemplar: &StoredExemplar, data: &mut Vec<u8>) {
    data.extend_from_slice(b"{\"labels\":");
    write_labels(&exemplar.labels, data);
    data.extend_from_slice(b",\"value\":\"");
    write_value(exemplar.value, data);
    data.extend_from_slice(b"\",\"timestamp\":");
    write_time(exemplar.time_ms, data);
    data.push(b'}');
}
