//! `GET /v1/metric/{id}/measures`

use std::sync::Arc;

use gnudi_app::query::{Argument, Query};
use gnudi_engine::{MeasuresQuery, ReadRange, Resample};
use gnudi_model::{Aggregation, AggregationMethod, ArchivePolicy, Timespan, Timestamp};
use gnudi_series::calendar::Calendar;
use gnudi_server::ReplyBody;

use crate::{
    arrow::{
        self,
        series::{Form, SeriesAnswer, seconds},
    },
    measures::{
        document::{Document, WHOLE_ROWS_MAX},
        write::{Column, Rows},
    },
    routes::prelude::*,
};

/// Requests raw points instead of an aggregation method.
const RAW: &str = "raw";

/// An estimate of the longest row.
const ROW_BYTES: usize = 64;

/// The arguments, before they are checked against the metric's policy.
struct Wanted<'q> {
    start: Option<Timestamp>,
    stop: Option<Timestamp>,
    granularity: Option<Timespan>,
    aggregation: Argument<'q>,
    resample: Option<Resample>,
}

pub async fn get_measures(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let query = call.query();
    let wanted = wanted(&query, call.app.now())?;
    let policy = call.policy_of(&call.metric().archive_policy_name).await?;
    // Raw points have a granularity of 0; only their range can be chosen.
    let is_raw = wanted.aggregation == Argument::One(RAW) && policy.raw_timespan.is_some();
    if is_raw && (wanted.granularity.is_some() || wanted.resample.is_some()) {
        return Err(ApiError::bad_request("Raw points have no granularity and cannot be resampled"));
    }
    let aggregations = if is_raw { Vec::new() } else { aggregations(call, &policy, &wanted)? };
    // As in Gnocchi, an unknown aggregation comes before an invalid flag.
    let refresh = query.flag("refresh", false)?;
    let Wanted { start, stop, granularity, resample, .. } = wanted;
    let (engine, metric) = (call.app.engine(), call.metric().id);
    if refresh {
        engine.refresh(&[metric], call.app.options().operation_timeout).await?;
    }
    let answers = if is_raw {
        vec![engine.raw_points(metric, &policy, start, stop).await?]
    } else {
        let range = ReadRange { start, stop, resample };
        engine.measures(metric, &policy, &MeasuresQuery { aggregations, range }).await?
    };
    if arrow::is_wanted(call.parts) {
        let budget = &call.answers();
        let mut series = if is_raw || (granularity.is_some() && resample.is_none()) {
            SeriesAnswer::of_one_granularity(budget)
        } else {
            SeriesAnswer::new(budget, [])
        };
        for answer in answers {
            let granularity = seconds(resample.unwrap_or(Resample::Span(answer.granularity)));
            series.push(&[], granularity, Arc::new(answer.timestamps), answer.values)?;
        }
        return series.into_response(&query, Form::Long);
    }
    let column = |answer| if is_raw { Column::of_raw_points(answer) } else { Column::of(answer, resample) };
    Ok(reply::ok(body_of(call, answers.into_iter().map(column).collect())?))
}

fn body_of(call: &Call<'_>, columns: Vec<Column>) -> Result<ReplyBody> {
    let mut rows = Rows::new(columns);
    let count = rows.len();
    if count > WHOLE_ROWS_MAX {
        // The points are held in memory until the client has read them.
        let mut document = Document::new(&call.answers());
        document.append_rows(rows)?;
        return Ok(document.into_body());
    }
    let mut bytes = Vec::with_capacity(count * ROW_BYTES + 2);
    rows.write(usize::MAX, &mut bytes);
    Ok(bytes.into())
}

fn wanted(query: &Query, now: Timestamp) -> Result<Wanted<'_>> {
    let granularity = query.get("granularity");
    let resample = resample(query, granularity.as_ref())?;
    Ok(Wanted {
        start: query.time("start", now)?,
        stop: query.time("stop", now)?,
        granularity: granularity
            .map(|granularity| {
                granularity.timespan().map_err(|reason| ApiError::argument("granularity", reason))
            })
            .transpose()?,
        aggregation: query.get("aggregation").unwrap_or(Argument::One("mean")),
        resample,
    })
}

/// What to resample to; requires a granularity.
pub(crate) fn resample(query: &Query, granularity: Option<&Argument<'_>>) -> Result<Option<Resample>> {
    let Some(asked) = query.get("resample").filter(|asked| *asked != Argument::One("")) else {
        return Ok(None);
    };
    if granularity.is_none_or(|granularity| *granularity == Argument::One("")) {
        return Err(ApiError::bad_request("A granularity must be specified to resample"));
    }
    let calendar = match asked {
        Argument::One(text) => text.parse().ok().and_then(Calendar::from_letter),
        Argument::Several(_) => None,
    };
    Ok(Some(match calendar {
        Some(calendar) => Resample::Calendar(calendar),
        None => Resample::Span(asked.timespan().map_err(ApiError::bad_request)?),
    }))
}

/// The requested aggregations of the policy, coarsest first.
fn aggregations(call: &Call<'_>, policy: &ArchivePolicy, wanted: &Wanted<'_>) -> Result<Vec<Aggregation>> {
    let method = match &wanted.aggregation {
        Argument::One(name) => name.parse::<AggregationMethod>().ok(),
        Argument::Several(_) => None,
    };
    let Some(method) = method.filter(|method| policy.aggregation_methods.contains(method)) else {
        let name = match &wanted.aggregation {
            Argument::One(name) => Value::from(*name),
            Argument::Several(names) => names.clone().into(),
        };
        return Err(super::no_such_method(call.metric(), name));
    };
    let mut granularities: Vec<Timespan> = match wanted.granularity {
        Some(granularity) => vec![granularity],
        None => policy.definition.iter().map(|item| item.granularity).collect(),
    };
    granularities.sort_unstable_by(|a, b| b.cmp(a));
    granularities
        .into_iter()
        .map(|granularity| {
            let found = policy.aggregation(method, granularity);
            found.ok_or_else(|| super::no_aggregation(call.metric(), method, granularity))
        })
        .collect()
}
