//! `gnudi aggregates OPERATIONS [SEARCH]`

use anyhow::Result;
use clap::Args;
use clap_complete::ArgValueCompleter;
use gnudi_client::{Client, uri::Query};
use gnudi_endpoint::{
    ServerArgs,
    output::{Cell, Listing, Output},
};
use gnudi_http::Bytes;
use gnudi_model::python;
use serde_json::{Map, Value, json};

use super::{completion, measures::Period, object, objects};

#[derive(Clone, Debug, Args)]
pub struct Aggregates {
    /// Operations, such as `(aggregate mean (metric cpu.util mean))`: docs/api.md.
    #[arg(value_name = "OPERATIONS")]
    operations: String,
    /// A filter of resources; the operations then name metrics of these resources.
    #[arg(value_name = "SEARCH")]
    search: Option<String>,
    /// Type of those resources.
    #[arg(long, value_name = "TYPE", default_value = "generic", add = ArgValueCompleter::new(completion::resource_types))]
    resource_type: String,
    #[command(flatten)]
    period: Period,
    /// Granularity of the series: seconds, or a span such as 5min.
    #[arg(long, value_name = "SPAN")]
    granularity: Option<String>,
    /// Minimum percentage of the series that must have a point at a time.
    #[arg(long, value_name = "PERCENT")]
    needed_overlap: Option<f64>,
    /// Attribute to group resources by; can be repeated.
    #[arg(long, value_name = "ATTRIBUTE")]
    groupby: Vec<String>,
    /// Value for times at which a series has none, or null.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    /// Whether groups use the attributes that the resources had at the time.
    #[arg(long, value_name = "BOOLEAN")]
    use_history: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: &Aggregates) -> Result<()> {
    super::run(&args.server, async |client| fetch(client, args).await)
}

async fn fetch(client: &Client, args: &Aggregates) -> Result<()> {
    let mut query = Query::new("/v1/aggregates");
    args.period.add_to(crate::commands::now(), &mut query);
    query.add_some("granularity", args.granularity.as_deref());
    let overlap = args.needed_overlap.map(python::text_of_float);
    query.add_some("needed_overlap", overlap.as_deref());
    query.add_some("fill", args.fill.as_deref());
    query.add_some("use_history", args.use_history.as_deref());
    let mut body = json!({"operations": args.operations});
    if let Some(search) = &args.search {
        body["search"] = search.as_str().into();
        body["resource_type"] = args.resource_type.as_str().into();
        for attribute in &args.groupby {
            query.add("groupby", attribute);
        }
    }
    let answer = client.post_series_page(query.finish(), Bytes::from(body.to_string())).await?.value;
    let is_grouped = args.search.is_some() && !args.groupby.is_empty();
    args.output.print_listing(if is_grouped { grouped(answer)? } else { all(answer)? })
}

const COLUMNS: [&str; 4] = ["name", "timestamp", "granularity", "value"];

fn all(answer: Value) -> Result<Listing> {
    let mut rows = Vec::new();
    let answer = object(answer)?;
    put_series(answer.get("measures").unwrap_or(&Value::Null), "", &[], &mut rows);
    Ok(Listing { columns: COLUMNS.map(str::to_owned).to_vec(), rows })
}

fn grouped(answer: Value) -> Result<Listing> {
    let mut rows = Vec::new();
    for group in objects(answer)? {
        let name = group.get("group").and_then(Value::as_object).map(name_of).unwrap_or_default();
        let measures = group.get("measures").and_then(|measures| measures.get("measures"));
        put_series(measures.unwrap_or(&Value::Null), "", &[Cell::from(name.as_str())], &mut rows);
    }
    let columns = ["group"].into_iter().chain(COLUMNS).map(str::to_owned).collect();
    Ok(Listing { columns, rows })
}

/// `enabled: True, host: a, project_id: None`, by attribute.
fn name_of(group: &Map<String, Value>) -> String {
    let mut attributes: Vec<(&String, &Value)> = group.iter().collect();
    attributes.sort_by_key(|(name, _)| *name);
    let part = |(name, value): (&String, &Value)| format!("{name}: {}", Cell::from(value.clone()).text());
    attributes.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Collects the points of all series in a tree of names: `{"<resource>": {"<metric>": {"mean": [[time, granularity,
/// value], ...]}}}`. A series is named by its path.
fn put_series(tree: &Value, name: &str, prefix: &[Cell], rows: &mut Vec<Vec<Cell>>) {
    match tree {
        Value::Object(branches) => {
            for (branch, below) in branches {
                let name = if name.is_empty() { branch.clone() } else { format!("{name}/{branch}") };
                put_series(below, &name, prefix, rows);
            }
        }
        Value::Array(points) => {
            for point in points.iter().filter_map(Value::as_array) {
                let mut row = prefix.to_vec();
                row.push(name.into());
                row.extend(
                    point
                        .iter()
                        .enumerate()
                        .map(|(at, value)| if at == 0 { value.clone().into() } else { number(value) }),
                );
                rows.push(row);
            }
        }
        _ => {}
    }
}

/// A number, which the client passes as a text if JSON cannot represent it; or null.
fn number(value: &Value) -> Cell {
    match value {
        Value::String(text) => Cell::Float(python::float_of_text(text).unwrap_or(f64::NAN)),
        Value::Number(number) => Cell::Float(number.as_f64().unwrap_or(f64::NAN)),
        other => other.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_named_by_their_way() {
        let answer = json!({"measures": {"r": {"cpu": {"mean": [["t", 60.0, 1.5], ["u", 60.0, "Infinity"]]}},
                                         "aggregated": [["t", 60.0, null]]}});
        let Listing { columns, rows } = all(answer).unwrap();
        assert_eq!(columns, COLUMNS);
        let row =
            |name: &str, time: &str, value: Cell| vec![name.into(), time.into(), Cell::Float(60.0), value];
        assert_eq!(
            rows,
            [
                row("r/cpu/mean", "t", Cell::Float(1.5)),
                row("r/cpu/mean", "u", Cell::Float(f64::INFINITY)),
                row("aggregated", "t", Value::Null.into()),
            ]
        );
    }

    #[test]
    fn groups_stand_before_their_series() {
        let answer = json!([{"group": {"b": "x", "a": null}, "measures": {"measures": {"aggregated": [["t", 1.0, 2.0]]}}}]);
        let Listing { columns, rows } = grouped(answer).unwrap();
        assert_eq!(columns[0], "group");
        assert_eq!(rows[0][..2], [Cell::from("a: None, b: x"), Cell::from("aggregated")]);
        assert!(grouped(json!({})).is_err() && all(json!([])).is_err());
    }

    #[test]
    fn a_group_is_named_as_by_gnocchis_client() {
        let name = |group: Value| name_of(&object(group).unwrap());
        assert_eq!(name(json!({"up": true, "load": 1.0, "n": 1e16})), "load: 1.0, n: 1e+16, up: True");
        assert_eq!(name(json!({"host1": "b", "host": "a"})), "host: a, host1: b", "by attribute");
        assert_eq!(name(json!({})), "");
    }
}
