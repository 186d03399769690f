//! Metrics and resources without measures: create, show, search, delete.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Bench, setup};
use crate::{
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::Server,
};

pub const METRIC_ROWS: [Row; 3] = [
    Row::new("create", Unit::Metrics, "create metric, 48 connections"),
    Row::new("show", Unit::Metrics, "show metric, 48 connections"),
    Row::new("delete", Unit::Metrics, "delete metric, 48 connections"),
];

pub const RESOURCE_ROWS: [Row; 4] = [
    Row::new("resource-create", Unit::Resources, "create generic resource, 48 connections"),
    Row::new("resource-create-typed", Unit::Resources, "create resource with 4 attributes, 48 connections"),
    Row::new("resource-show", Unit::Resources, "show resource, 48 connections"),
    Row::new("resource-search", Unit::Searches, "search resources by an attribute, 1 connection"),
];

/// A type with four attributes.
pub(super) const TYPE: &str = "bench_instance";

const RESOURCES: usize = 20_000;
const RESOURCES_OF_GNOCCHI: usize = 500;
/// Resources per host, the number found by a search.
const RESOURCES_PER_HOST: usize = 10;

/// Metrics: create, show, delete.
pub fn run_metrics(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let [create, show, delete] = &METRIC_ROWS;
    let count = server.peer.sized(20_000, 1_000);
    let mut ids = Vec::new();
    bench.measure(server, create, || {
        let (created, outcome) = setup::create_metrics(server, "low", count)?;
        ids = created;
        Ok(Work::of(outcome, 1).note(format!("{count} metrics")))
    })?;
    let requests = |method| {
        let request = |id| server.headers.bare(method, &format!("/v1/metric/{id}"));
        Requests::listed(ids.iter().map(request).collect())
    };
    if bench.options.wants(show.key) {
        bench.measure_load(server, show, &requests("GET"), setup::METADATA_CONNECTIONS, 1)?;
    }
    if bench.options.wants(delete.key) {
        let (requests, until) = (requests("DELETE"), Until::Count(count as u64));
        bench.measure(server, delete, || {
            Ok(Work::of(server.load(&requests, setup::METADATA_CONNECTIONS, until).run(), 1))
        })?;
    }
    bench.drop_unless_selected(create);
    Ok(())
}

/// Resources, generic ones and typed ones: create, show, search by an attribute.
pub fn run_resources(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let resources = server.peer.sized(RESOURCES, RESOURCES_OF_GNOCCHI);
    let [create_generic, create_typed, show, search] = &RESOURCE_ROWS;
    if bench.options.wants(create_generic.key) {
        create(bench, server, create_generic, "/v1/resource/generic", generic_resource)?;
    }
    if ![create_typed, show, search].iter().any(|row| bench.options.wants(row.key)) {
        return Ok(());
    }
    create_type(server)?;
    let path = format!("/v1/resource/{TYPE}");
    create(bench, server, create_typed, &path, resource)?;
    if bench.options.wants(show.key) {
        let get = |index| server.headers.bare("GET", &format!("{path}/{}", id(index)));
        let requests = Requests::listed((0..resources).map(get).collect());
        bench.measure_load(server, show, &requests, setup::METADATA_CONNECTIONS, 1)?;
    }
    if bench.options.wants(search.key) {
        let path = format!("/v1/search/resource/{TYPE}");
        let post = |host| server.headers.post_json(&path, &json!({ "=": { "host": host_name(host) } }));
        let hosts = resources.div_ceil(RESOURCES_PER_HOST);
        let requests = Requests::listed((0..hosts).map(post).collect());
        setup::check_answer(server, &requests, |answer| {
            let found = serde_json::from_slice::<Vec<Value>>(answer)?.len();
            ensure!(found == RESOURCES_PER_HOST, "a search finds {found} resources");
            Ok(())
        })?;
        let measurement = bench.measure_load(server, search, &requests, 1, 1)?;
        let note = format!("{RESOURCES_PER_HOST} of {resources} resources found each time");
        measurement.notes.insert(0, note);
    }
    bench.drop_unless_selected(create_typed);
    Ok(())
}

/// Creates the configured number of resources; each must succeed.
fn create(
    bench: &mut Bench,
    server: &Server,
    row: &Row,
    path: &str,
    body: fn(index: usize, resources: usize) -> Value,
) -> Result<()> {
    let resources = server.peer.sized(RESOURCES, RESOURCES_OF_GNOCCHI);
    let post = |index| server.headers.post_json(path, &body(index, resources));
    let requests: Vec<_> = (0..resources).map(post).collect();
    bench.measure(server, row, || {
        let outcome = setup::send(server, requests, setup::METADATA_CONNECTIONS)?;
        Ok(Work::of(outcome, 1).note(format!("{resources} resources")))
    })?;
    Ok(())
}

pub(super) fn create_type(server: &Server) -> Result<()> {
    let body = json!({ "name": TYPE, "attributes": {
        "display_name": { "type": "string", "required": true },
        "host": { "type": "string", "required": true },
        "flavor": { "type": "uuid", "required": false },
        "memory_mb": { "type": "number", "required": false },
    }});
    setup::send(server, vec![server.headers.post_json("/v1/resource_type", &body)], 1).map(drop)
}

pub(super) fn id(index: usize) -> uuid::Uuid {
    // Distributed like random ids, and the same in every run.
    uuid::Uuid::from_u128((index as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn host_name(host: usize) -> String {
    format!("compute-{host}.example.org")
}

fn generic_resource(index: usize, resources: usize) -> Value {
    let project_id = format!("project-{}", index % 97);
    // Different from the ids of resources with attributes.
    json!({ "id": id(index + resources), "project_id": project_id })
}

pub(super) fn resource(index: usize, _resources: usize) -> Value {
    json!({
        "id": id(index),
        "project_id": format!("project-{}", index % 97),
        "display_name": format!("instance-{index}"),
        "host": host_name(index / RESOURCES_PER_HOST),
        "flavor": id(index % 20),
        "memory_mb": 512 << (index % 6),
    })
}
