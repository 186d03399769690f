//! `gnudi resource list|show|history|search`

use anyhow::Result;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use gnudi_client::{
    Client,
    uri::{self, Query},
};
use gnudi_endpoint::{
    ServerArgs,
    output::{Format, Listing, Output},
};
use serde_json::{Map, Value};

use super::{Part, completion, listing, object, pages, record};

/// `gnudi resource`
#[derive(Clone, Debug, Subcommand)]
pub enum ResourceCommand {
    /// List resources.
    List(List),
    /// Show a resource.
    Show(Show),
    /// Show the revisions of a resource.
    History(History),
    /// List the resources that match a filter.
    Search(Search),
}

#[derive(Clone, Debug, Args)]
struct OfType {
    /// Type of the resource.
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "generic",
          add = ArgValueCompleter::new(completion::resource_types))]
    resource_type: String,
}

#[derive(Clone, Debug, Args)]
struct ResourceId {
    /// Id of the resource.
    #[arg(value_name = "RESOURCE", add = ArgValueCompleter::new(completion::resource_ids))]
    id: String,
}

/// Options of listings.
#[derive(Clone, Debug, Args)]
struct ListingOptions {
    /// Show all attributes of generic resources.
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    of: OfType,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

impl ListingOptions {
    /// A request for the listing at a path.
    fn query(&self, path: &str, history: bool) -> Query {
        let mut query = Query::new(path);
        if self.details {
            query.add("details", "true");
        }
        if history {
            query.add("history", "true");
        }
        self.part.add_to(&mut query);
        query
    }
}

#[derive(Clone, Debug, Args)]
pub struct List {
    /// Include former revisions.
    #[arg(long)]
    history: bool,
    #[command(flatten)]
    listing: ListingOptions,
}

#[derive(Clone, Debug, Args)]
pub struct Show {
    #[command(flatten)]
    resource: ResourceId,
    #[command(flatten)]
    of: OfType,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Debug, Args)]
pub struct History {
    #[command(flatten)]
    resource: ResourceId,
    #[command(flatten)]
    listing: ListingOptions,
}

#[derive(Clone, Debug, Args)]
pub struct Search {
    /// Filter, such as `host="a" and not (flavor_id!="1" or memory>=24)`: docs/api.md.
    #[arg(value_name = "FILTER")]
    query: String,
    #[command(flatten)]
    list: List,
}

pub fn run(command: &ResourceCommand) -> Result<()> {
    match command {
        ResourceCommand::List(args) => list(args, None),
        ResourceCommand::Show(args) => super::run(&args.server, async |client| {
            let mut shown = object(client.get_json(one(&args.of, &args.resource.id)).await?)?;
            if args.output.format == Format::Table {
                put_metrics_on_lines(&mut shown);
            }
            args.output.print_record(record(shown))
        }),
        ResourceCommand::History(args) => {
            super::run(&args.listing.server, async |client| history(client, args).await)
        }
        ResourceCommand::Search(Search { query: filter, list: args }) => list(args, Some(filter)),
    }
}

/// All resources of a type, or those that match a filter.
fn list(List { history, listing }: &List, filter: Option<&str>) -> Result<()> {
    let prefix = if filter.is_some() { "/v1/search/resource/" } else { "/v1/resource/" };
    let mut query = listing.query(&path(prefix, &listing.of), *history);
    query.add_some("filter", filter);
    super::run(&listing.server, async |client| {
        let fetch = async |path| match filter {
            Some(_) => client.post_json_page(path, None).await,
            None => client.get_json_page(path).await,
        };
        let resources = pages(query.finish(), listing.part.limit, fetch).await?;
        listing.output.print_listing(without_metrics(resources))
    })
}

async fn history(client: &Client, args: &History) -> Result<()> {
    let path = one(&args.listing.of, &args.resource.id) + "/history";
    let path = args.listing.query(&path, false).finish();
    let fetch = async |path| client.get_json_page(path).await;
    let mut revisions = pages(path, args.listing.part.limit, fetch).await?;
    if args.listing.output.format == Format::Table {
        revisions.iter_mut().for_each(put_metrics_on_lines);
    }
    args.listing.output.print_listing(with_all_columns(revisions))
}

fn path(prefix: &str, of: &OfType) -> String {
    uri::path(prefix, &of.resource_type)
}

fn one(of: &OfType, resource: &str) -> String {
    path("/v1/resource/", of) + &uri::path("/", resource)
}

/// Metrics would make the listing too wide.
fn without_metrics(mut resources: Vec<Map<String, Value>>) -> Listing {
    for resource in &mut resources {
        resource.shift_remove("metrics");
    }
    with_all_columns(resources)
}

/// Gnocchi's columns first, then other attributes of the first resource.
fn with_all_columns(resources: Vec<Map<String, Value>>) -> Listing {
    const COLUMNS: [&str; 9] = [
        "id",
        "type",
        "project_id",
        "user_id",
        "original_resource_id",
        "started_at",
        "ended_at",
        "revision_start",
        "revision_end",
    ];
    let mut columns: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
    if let Some(first) = resources.first() {
        let has_creator = first.contains_key("creator");
        let is_of_creator = |name: &str| ["created_by_user_id", "created_by_project_id"].contains(&name);
        let others = first.keys().filter(|name| !COLUMNS.contains(&name.as_str()));
        columns.extend(others.filter(|name| !(has_creator && is_of_creator(name))).cloned());
    }
    listing(columns, resources)
}

/// One line `name: id` per metric.
fn put_metrics_on_lines(resource: &mut Map<String, Value>) {
    let Some(Value::Object(metrics)) = resource.get("metrics") else { return };
    let mut lines: Vec<String> =
        metrics.iter().map(|(name, id)| format!("{name}: {}", id.as_str().unwrap_or_default())).collect();
    lines.sort();
    resource.insert("metrics".to_owned(), lines.join("\n").into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_gnocchis_and_then_the_types_own() {
        let resource = json!({"creator": "admin", "created_by_user_id": "admin", "created_by_project_id": "", "id": "r",
                              "type": "host", "metrics": {"cpu": "m"}, "name": "n"});
        let found = without_metrics(vec![object(resource).unwrap()]);
        assert_eq!(found.columns[..2], ["id", "type"]);
        assert_eq!(found.columns[9..], ["creator", "name"]);
        assert_eq!(found.rows[0].len(), found.columns.len());
        assert_eq!(with_all_columns(Vec::new()).columns.len(), 9);
    }

    #[test]
    fn metrics_stand_on_lines() {
        let mut resource = object(json!({"metrics": {"b": "2", "a": "1"}})).unwrap();
        put_metrics_on_lines(&mut resource);
        assert_eq!(resource["metrics"], "a: 1\nb: 2");
    }
}
