//! Resources, generic ones and those of a type of their own: create, show, search by an attribute.

use anyhow::{Result, ensure};

use super::{Bench, setup};
use crate::{
    load::{Requests, Until},
    measurement::{Row, Unit, Work},
    peers::{Peer, Server},
};

pub const ROWS: [Row; 4] = [
    Row { key: "resource-create", title: "create generic resource, 48 connections", unit: Unit::Resources },
    Row {
        key: "resource-create-typed",
        title: "create resource with 4 attributes, 48 connections",
        unit: Unit::Resources,
    },
    Row { key: "resource-show", title: "show resource, 48 connections", unit: Unit::Resources },
    Row {
        key: "resource-search",
        title: "search resources by an attribute, 1 connection",
        unit: Unit::Searches,
    },
];

const TYPE: &str = "bench_instance";

/// How many resources share a host: what a search finds.
const RESOURCES_PER_HOST: usize = 10;

pub fn run(bench: &mut Bench, server: &mut Server) -> Result<()> {
    let counts = bench.counts(server.peer);
    let [create_generic, create, show, search] = &ROWS;
    if bench.options.wants(create_generic.key) {
        measure_generic(bench, server, create_generic)?;
    }
    if ![create, show, search].iter().any(|row| bench.options.wants(row.key)) {
        return Ok(());
    }
    create_type(bench, server)?;
    let path = format!("/v1/resource/{TYPE}");
    let resources = counts.resources;
    let requests = Requests::Listed(
        (0..resources).map(|index| server.headers.post(&path, resource(index).as_bytes())).collect(),
    );
    bench.measure(server, create, None, |bench| {
        let until = Until::Count(resources as u64);
        let outcome = bench.load(server, &requests, setup::METADATA_CONNECTIONS, until).run();
        setup::check(&outcome)?;
        Ok(Work::of(outcome, 1).note(format!("{resources} resources")))
    })?;
    if bench.options.wants(show.key) {
        let requests = Requests::Listed(
            (0..resources)
                .map(|index| server.headers.bare("GET", &format!("{path}/{}", id(index))))
                .collect(),
        );
        bench.measure(server, show, None, |bench| {
            let until = Until::Elapsed(counts.load);
            Ok(Work::of(bench.load(server, &requests, setup::METADATA_CONNECTIONS, until).run(), 1))
        })?;
    }
    if bench.options.wants(search.key) {
        let hosts = resources.div_ceil(RESOURCES_PER_HOST);
        let path = format!("/v1/search/resource/{TYPE}");
        let body = |host: usize| format!("{{\"=\": {{\"host\": \"{}\"}}}}", host_name(host));
        let requests = Requests::Listed(
            (0..hosts).map(|host| server.headers.post(&path, body(host).as_bytes())).collect(),
        );
        check_search(bench, server, &requests)?;
        bench.measure(server, search, None, |bench| {
            let until = Until::Elapsed(counts.load);
            let outcome = bench.load(server, &requests, 1, until).run();
            Ok(Work::of(outcome, 1)
                .note(format!("{RESOURCES_PER_HOST} of {resources} resources found each time")))
        })?;
    }
    if !bench.options.wants(create.key) {
        bench.measurements.retain(|measurement| measurement.row != create.key);
    }
    Ok(())
}

fn measure_generic(bench: &mut Bench, server: &Server, row: &Row) -> Result<()> {
    let resources = bench.counts(server.peer).resources;
    let body = |index: usize| {
        let project_id = format!("project-{}", index % 97);
        // Other ids than those of the resources with attributes.
        serde_json::json!({ "id": id(index + resources), "project_id": project_id }).to_string()
    };
    let requests = Requests::Listed(
        (0..resources)
            .map(|index| server.headers.post("/v1/resource/generic", body(index).as_bytes()))
            .collect(),
    );
    bench.measure(server, row, None, |bench| {
        let until = Until::Count(resources as u64);
        let outcome = bench.load(server, &requests, setup::METADATA_CONNECTIONS, until).run();
        setup::check(&outcome)?;
        Ok(Work::of(outcome, 1).note(format!("{resources} resources")))
    })?;
    Ok(())
}

fn create_type(bench: &Bench, server: &Server) -> Result<()> {
    let body = serde_json::json!({ "name": TYPE, "attributes": {
        "display_name": { "type": "string", "required": true },
        "host": { "type": "string", "required": true },
        "flavor": { "type": "uuid", "required": false },
        "memory_mb": { "type": "number", "required": false },
    }});
    let requests =
        Requests::Listed(vec![server.headers.post("/v1/resource_type", body.to_string().as_bytes())]);
    setup::check(&bench.load(server, &requests, 1, Until::Count(1)).run())
}

fn id(index: usize) -> uuid::Uuid {
    // Spread like random ids, and the same in every run.
    uuid::Uuid::from_u128((index as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn host_name(host: usize) -> String {
    format!("compute-{host}.example.org")
}

fn resource(index: usize) -> String {
    serde_json::json!({
        "id": id(index),
        "project_id": format!("project-{}", index % 97),
        "display_name": format!("instance-{index}"),
        "host": host_name(index / RESOURCES_PER_HOST),
        "flavor": id(index % 20),
        "memory_mb": 512 << (index % 6),
    })
    .to_string()
}

/// One search finds what it should: what is fast and wrong is not measured.
fn check_search(bench: &Bench, server: &Server, requests: &Requests) -> Result<()> {
    if server.peer == Peer::Limit {
        return Ok(());
    }
    let found: Vec<serde_json::Value> =
        serde_json::from_slice(&setup::first_answer(bench, server, requests)?)?;
    ensure!(found.len() == RESOURCES_PER_HOST, "a search finds {} resources", found.len());
    Ok(())
}
