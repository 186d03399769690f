//! `/api/v1/status/...`, and constant responses for rules and alerts, which gnudi does not have.

use std::sync::Arc;

use gnudi_prometheus::answer::{success, write_list, write_text};

use gnudi_promql::quoted;

use crate::{
    arguments::{Arguments, integer_fault},
    catalogue::Census,
    failure::Failure,
    routes::prelude::*,
    selected::find_all,
};

/// The emulated version of Prometheus, whose language and API gnudi has: clients check it.
const PROMETHEUS_VERSION: &str = "3.16.0";

/// The default and maximum length of the lists in `tsdb`.
const CENSUS_DEFAULT: usize = 10;
const CENSUS_MAX: i64 = 10_000;

/// A response that is the same for every caller.
#[expect(clippy::unnecessary_wraps, reason = "handlers return it")]
fn fixed(call: &Call<'_>, data: &str) -> Answer {
    call.has_no_items(Rule::ListMetric);
    Ok(reply::ok(success(data.as_bytes(), &[], &[])))
}

/// `GET /api/v1/status/buildinfo`. Without `features`, by which Grafana would detect another server.
pub async fn build_info(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let data = format!(
        "{{\"version\":\"{PROMETHEUS_VERSION}\",\"revision\":\"gnudi-{}\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\"}}",
        env!("CARGO_PKG_VERSION")
    );
    fixed(call, &data)
}

/// `GET /api/v1/status/runtimeinfo`
pub async fn runtime_info(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    let (started, now) = (call.app.started(), call.app.now());
    let processors = call.app.engine().processor_count();
    let data = format!(
        "{{\"startTime\":\"{0}\",\"CWD\":\"/\",\"hostname\":\"\",\"serverTime\":\"{1}\",\"reloadConfigSuccess\":true,\
         \"lastConfigTime\":\"{0}\",\"corruptionCount\":0,\"goroutineCount\":0,\"GOMAXPROCS\":{processors},\
         \"GOMEMLIMIT\":0,\"GOGC\":\"\",\"GODEBUG\":\"\",\"storageRetention\":\"\"}}",
        started.to_iso(),
        now.to_iso()
    );
    fixed(call, &data)
}

/// `GET /api/v1/status/flags`: empty.
pub async fn flags(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    fixed(call, "{}")
}

/// `GET /api/v1/status/config`: empty.
pub async fn config(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    fixed(call, "{\"yaml\":\"\"}")
}

/// `GET /api/v1/rules`: empty. Its arguments are checked.
pub async fn rules(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    call.has_no_items(Rule::ListMetric);
    super::respond(call, body, async |arguments| {
        arguments.require_readable()?;
        arguments.matchers(call.app.engine()).await?;
        check_rules(&arguments)?;
        Ok(reply::ok(success(b"{\"groups\":[]}", &[], &[])))
    })
    .await
}

/// The arguments that select rules, in the order in which Prometheus checks them.
fn check_rules(arguments: &Arguments) -> Result<(), Failure> {
    let kind = arguments.get("type").to_lowercase();
    if !matches!(kind.as_str(), "" | "alert" | "record") {
        return Err(Failure::parameter("type", format!("not supported value {}", quoted(&kind))));
    }
    let excludes = arguments.get("exclude_alerts").to_lowercase();
    if !matches!(excludes.as_str(), "" | "1" | "t" | "true" | "0" | "f" | "false") {
        let parsing = format!("strconv.ParseBool: parsing {}: invalid syntax", quoted(&excludes));
        let text = format!("error converting exclude_alerts: {parsing}");
        return Err(Failure::parameter("exclude_alerts", text));
    }
    let limit = arguments.get("group_limit");
    if limit.is_empty() && !arguments.get("group_next_token").is_empty() {
        let text = "group_limit needs to be present in order to paginate over the groups";
        return Err(Failure::parameter("group_next_token", text));
    }
    let text = match limit.parse::<i32>() {
        _ if limit.is_empty() => return Ok(()),
        Ok(1..) => return Ok(()),
        Ok(_) => "group_limit needs to be greater than 0".to_owned(),
        Err(error) => {
            let parsing = format!("strconv.ParseInt: parsing {}: {}", quoted(limit), integer_fault(&error));
            format!("group_limit needs to be a valid number: {parsing}")
        }
    };
    Err(Failure::parameter("group_limit", text))
}

/// `GET /api/v1/alerts`: empty.
pub async fn alerts(call: &Call<'_>, _: &mut RequestBody<'_>) -> Answer {
    fixed(call, "{\"alerts\":[]}")
}

/// `GET /api/v1/status/tsdb`: cardinality statistics of the series that the caller may see.
pub async fn tsdb(call: &Call<'_>, body: &mut RequestBody<'_>) -> Answer {
    let seen = call.metrics_seen(Rule::ListMetric)?;
    let seen = seen.as_ref();
    super::respond(call, body, async |arguments| {
    let limit = match arguments.number("limit") {
        Ok(None) => CENSUS_DEFAULT,
        Ok(Some(limit @ 1..=CENSUS_MAX)) => limit as usize,
        Ok(Some(limit)) if limit > CENSUS_MAX => {
            return Err(Failure::bad_data(format!("limit must not exceed {CENSUS_MAX}")));
        }
        Ok(Some(_)) | Err(_) => return Err(Failure::bad_data("limit must be a positive number")),
    };
    let census = if call.app.options().policy.is_customised(Rule::ListMetric) {
        let series = find_all(call, Rule::ListMetric, &[Vec::new()], seen).await?;
        Census::of(&series, limit)
    } else {
        call.api.catalogue.census(seen, limit).await?
    };
    let (series, label_pairs) = (census.series, census.label_pairs);
    let mut data = format!(
        "{{\"headStats\":{{\"numSeries\":{series},\"numLabelPairs\":{label_pairs},\"chunkCount\":0,\"minTime\":0,\"maxTime\":0}}"
    )
    .into_bytes();
    let pair =
        |((name, value), count): &((Arc<str>, Arc<str>), u64)| (format!("{name}={value}").into(), *count);
    let pairs: Vec<Counted> = census.series_by_label_pair.iter().map(pair).collect();
    for (name, counted) in [
        ("seriesCountByMetricName", &census.series_by_metric_name),
        ("labelValueCountByLabelName", &census.values_by_label),
        ("memoryInBytesByLabelName", &census.value_bytes_by_label),
        ("seriesCountByLabelValuePair", &pairs),
    ] {
        data.extend_from_slice(format!(",\"{name}\":").as_bytes());
        write_counted(counted, &mut data);
    }
    data.push(b'}');
    Ok(reply::ok(success(&data, &[], &[])))
    })
    .await
}

/// A name and its count.
type Counted = (Arc<str>, u64);

fn write_counted(counted: &[Counted], data: &mut Vec<u8>) {
    write_list(counted, data, |(name, count), data| {
        data.extend_from_slice(b"{\"name\":");
        write_text(name, data);
        data.extend_from_slice(format!(",\"value\":{count}}}").as_bytes());
    });
}
