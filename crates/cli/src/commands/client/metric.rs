//! `gnudi metric list|show|create|delete`

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use gnudi_client::{
    Client,
    uri::{self, Query},
};
use gnudi_endpoint::{ServerArgs, output::Output};
use gnudi_http::Bytes;
use gnudi_model::{MetricId, python};
use serde_json::{Map, Value, json};

use super::{Part, completion, listing, object, objects, pages, record};

/// `gnudi metric`
#[derive(Clone, Debug, Subcommand)]
pub enum MetricCommand {
    /// List metrics.
    List(List),
    /// Show a metric.
    Show(Show),
    /// Create a metric.
    Create(Create),
    /// Delete metrics.
    Delete(Delete),
}

#[derive(Clone, Debug, Args)]
pub struct List {
    #[command(flatten)]
    part: Part,
    /// Only metrics with this name; `*` matches anything.
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completion::metric_names))]
    name: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

/// The resource that metric names are looked up in.
#[derive(Clone, Debug, Default, Args)]
pub struct OfResource {
    /// Resource of the metric; the metric can then be given by its name.
    #[arg(short, long, value_name = "ID", add = ArgValueCompleter::new(completion::resource_ids))]
    pub resource_id: Option<String>,
}

/// A metric.
#[derive(Clone, Debug, Args)]
pub struct OneMetric {
    /// Id of the metric, or its name.
    #[arg(value_name = "METRIC", add = ArgValueCompleter::new(completion::metric_names))]
    metric: String,
    #[command(flatten)]
    resource: OfResource,
}

impl OneMetric {
    pub async fn path(&self, client: &Client) -> Result<String> {
        path(client, &self.metric, &self.resource).await
    }
}

#[derive(Clone, Debug, Args)]
pub struct Show {
    #[command(flatten)]
    metric: OneMetric,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Debug, Args)]
pub struct Create {
    /// Name of the metric.
    #[arg(value_name = "METRIC_NAME")]
    name: Option<String>,
    /// Resource that the metric belongs to.
    #[arg(short, long, value_name = "ID", requires = "name", add = ArgValueCompleter::new(completion::resource_ids))]
    resource_id: Option<String>,
    /// Archive policy [default: by the server's rules].
    #[arg(short, long, value_name = "NAME", add = ArgValueCompleter::new(completion::archive_policies))]
    archive_policy_name: Option<String>,
    /// Unit of the values.
    #[arg(short, long, value_name = "UNIT")]
    unit: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Debug, Args)]
pub struct Delete {
    /// Ids of the metrics, or their names.
    #[arg(value_name = "METRIC", required = true, add = ArgValueCompleter::new(completion::metric_names))]
    metrics: Vec<String>,
    #[command(flatten)]
    resource: OfResource,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(command: &MetricCommand) -> Result<()> {
    match command {
        MetricCommand::List(args) => super::run(&args.server, async |client| list(client, args).await),
        MetricCommand::Show(args) => super::run(&args.server, async |client| {
            let shown = object(client.get_json(args.metric.path(client).await?).await?)?;
            args.output.print_record(record(flat(shown)))
        }),
        MetricCommand::Create(args) => super::run(&args.server, async |client| create(client, args).await),
        MetricCommand::Delete(args) => super::run(&args.server, async |client| {
            for metric in &args.metrics {
                client.send_json("DELETE", path(client, metric, &args.resource).await?, None).await?;
            }
            Ok(())
        }),
    }
}

async fn list(client: &Client, args: &List) -> Result<()> {
    const COLUMNS: [&str; 5] = ["id", "archive_policy/name", "name", "unit", "resource_id"];
    let mut query = Query::new("/v1/metric");
    args.part.add_to(&mut query);
    match &args.name {
        Some(name) if name.contains('*') => query.add("name_like", &pattern(name)),
        name => query.add_some("name", name.as_deref()),
    }
    let fetch = async |path| client.get_json_page(path).await;
    let mut metrics = pages(query.finish(), args.part.limit, fetch).await?;
    for metric in &mut metrics {
        let policy = metric.get("archive_policy").and_then(|policy| policy.get("name")).cloned();
        metric.insert("archive_policy/name".to_owned(), policy.unwrap_or_default());
    }
    args.output.print_listing(listing(COLUMNS.map(str::to_owned).to_vec(), metrics))
}

/// Converts a pattern with `*` to one of SQL's `like`.
pub fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '*' => pattern.push('%'),
            '%' | '_' | '\\' => pattern.extend(['\\', character]),
            other => pattern.push(other),
        }
    }
    pattern
}

async fn create(client: &Client, args: &Create) -> Result<()> {
    let mut spec = Map::new();
    for (name, value) in
        [("name", &args.name), ("archive_policy_name", &args.archive_policy_name), ("unit", &args.unit)]
    {
        if let Some(value) = value {
            spec.insert(name.to_owned(), value.as_str().into());
        }
    }
    let (path, body) = match (&args.resource_id, &args.name) {
        (Some(resource), Some(name)) => (of_resource(resource), json!({ name: spec })),
        _ => ("/v1/metric".to_owned(), spec.into()),
    };
    let answer = client.send_json("POST", path, Some(Bytes::from(body.to_string()))).await?;
    let created: Value = serde_json::from_slice(&answer).context("the server's answer")?;
    let created = match (created, &args.name) {
        // The response has all metrics of the resource, including older ones.
        (Value::Array(list), Some(name)) => {
            let is_it = |metric: &Value| metric.get("name").and_then(Value::as_str) == Some(name);
            list.into_iter().find(is_it).context("the server's response does not contain the metric")?
        }
        (other, _) => other,
    };
    args.output.print_record(record(flat(object(created)?)))
}

/// The path of the metrics of a resource of any type.
fn of_resource(resource: &str) -> String {
    uri::path("/v1/resource/generic/", resource) + "/metric"
}

/// A metric as Gnocchi's client shows it: the fields of policy and resource come last.
fn flat(mut metric: Map<String, Value>) -> Map<String, Value> {
    for name in ["created_by_user_id", "created_by_project_id"] {
        metric.shift_remove(name);
    }
    if let Some(policy) = metric.shift_remove("archive_policy") {
        let name = policy.get("name").cloned().unwrap_or_default();
        metric.insert("archive_policy/name".to_owned(), name);
    }
    match metric.shift_remove("resource") {
        Some(Value::Object(resource)) if !resource.is_empty() => {
            let fields = resource.into_iter().map(|(name, value)| (format!("resource/{name}"), value));
            metric.extend(fields);
        }
        Some(_) => drop(metric.insert("resource/id".to_owned(), Value::Null)),
        None => {}
    }
    metric
}

/// The path of a metric, given by its id, by its name within a resource, or by a unique name.
async fn path(client: &Client, metric: &str, of: &OfResource) -> Result<String> {
    ensure!(!metric.is_empty(), "the metric has no name");
    if let Some(resource) = &of.resource_id {
        return Ok(uri::path(&(of_resource(resource) + "/"), metric));
    }
    if let Some(id) = python::parse_uuid(metric) {
        return Ok(format!("/v1/metric/{}", MetricId(id)));
    }
    let mut query = Query::new("/v1/metric");
    query.add("name", metric);
    query.add("limit", &NAMESAKES_MAX.to_string());
    let found = objects(client.get_json(query.finish()).await?)?;
    let text = |item: &Map<String, Value>, name: &str| {
        item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match &found[..] {
        [] => bail!("no metric has the name {metric}"),
        [only] => Ok(uri::path("/v1/metric/", &text(only, "id"))),
        several => {
            let lines = several.iter().map(|item| match text(item, "resource_id") {
                resource if resource.is_empty() => format!("\n  {}", text(item, "id")),
                resource => format!("\n  {} of resource {resource}", text(item, "id")),
            });
            let more = if several.len() == NAMESAKES_MAX { "at least " } else { "" };
            let lines: String = lines.collect();
            bail!(
                "{more}{} metrics have the name {metric}: take an id, or --resource-id{lines}",
                several.len()
            )
        }
    }
}

/// Maximum number of metrics listed for an ambiguous name.
const NAMESAKES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_one_special_character() {
        assert_eq!(pattern("disk_*.100%\\"), "disk\\_%.100\\%\\\\");
    }

    #[test]
    fn a_metric_is_shown_flat() {
        let shown = |value: Value| Value::Object(flat(object(value).unwrap()));
        assert_eq!(
            shown(json!({"id": "m", "created_by_user_id": "u", "created_by_project_id": "", "creator": "u",
                         "archive_policy": {"name": "low", "definition": []}, "resource": {"id": "r", "type": "t"}})),
            json!({"id": "m", "creator": "u", "archive_policy/name": "low", "resource/id": "r", "resource/type": "t"})
        );
        assert_eq!(shown(json!({"id": "m", "resource": null})), json!({"id": "m", "resource/id": null}));
        assert_eq!(
            shown(json!({"archive_policy_name": "low", "resource_id": null})),
            json!({"archive_policy_name": "low", "resource_id": null})
        );
    }
}
