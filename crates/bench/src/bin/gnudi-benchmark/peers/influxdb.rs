//! InfluxDB 1 with its defaults, except addresses, reporting and logging; and its protocol.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::Result;
use gnudi_model::python::quote;

use super::{DATA, Site, check_exists, child::Guarded, free_address};

const DATABASE: &str = "bench";

/// Where lines are posted, with times in milliseconds.
pub const WRITE_PATH: &str = "/write?db=bench&precision=ms";

/// The series of a metric, with a fixed length.
pub fn series_name(index: usize) -> String {
    format!("gnudi_bench,metric={index:08}")
}

/// Where a metric's points are read, with times in milliseconds as in dashboards; from `start_ms` on, if given.
pub fn read_path(index: usize, start_ms: Option<i64>) -> String {
    let since = start_ms.map_or_else(String::new, |start_ms| format!(" AND time >= {start_ms}ms"));
    query_path(&format!("SELECT value FROM gnudi_bench WHERE metric = '{index:08}'{since}"))
}

fn query_path(statement: &str) -> String {
    format!("/query?db={DATABASE}&epoch=ms&q={}", quote(statement, ""))
}

/// Number of points in a response to `read_path`: `{"results": [{"series": [{"values": [[time, value], ...]}]}]}`.
pub fn points(answer: &serde_json::Value) -> usize {
    answer["results"][0]["series"][0]["values"].as_array().map_or(0, Vec::len)
}

pub(super) fn start(site: &Site) -> Result<Vec<Guarded>> {
    let program = &site.programs.influxdb;
    check_exists(program)?;
    let config = site.directory.join("influxdb.conf");
    std::fs::write(&config, configuration(site.directory, site.address, free_address()?))?;
    let mut command = Command::new(program);
    command.arg("-config").arg(&config).env("HOME", site.directory);
    // Environment variables would override the file.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("INFLUXDB_") {
            command.env_remove(name);
        }
    }
    let create = query_path(&format!("CREATE DATABASE {DATABASE}"));
    site.serve(&mut command, "influxdb.log", ["POST", &create])
}

fn configuration(directory: &Path, address: SocketAddr, rpc_address: SocketAddr) -> String {
    let path = |name: &str| directory.join(DATA).join(name).display().to_string();
    let (meta, data, wal) = (path("meta"), path("data"), path("wal"));
    format!(
        "reporting-disabled = true\n\
         bind-address = \"{rpc_address}\"\n\
         [meta]\ndir = {meta:?}\n\
         [data]\ndir = {data:?}\nwal-dir = {wal:?}\nquery-log-enabled = false\n\
         [monitor]\nstore-enabled = false\n\
         [http]\nbind-address = \"{address}\"\nlog-enabled = false\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(
            read_path(7, Some(1_420_070_400_123)),
            "/query?db=bench&epoch=ms&q=SELECT%20value%20FROM%20gnudi_bench%20WHERE%20metric%20%3D%20%2700000007%27\
             %20AND%20time%20%3E%3D%201420070400123ms"
        );
        assert!(!read_path(0, None).contains("time"));
        assert!(WRITE_PATH.contains(&format!("db={DATABASE}&")));
        assert_eq!(series_name(7).len(), series_name(99_999_999).len());
    }

    #[test]
    fn nothing_leaves_the_machine() {
        let address = |text: &str| text.parse().unwrap();
        let text = configuration(Path::new("/d"), address("127.0.0.1:1"), address("127.0.0.1:2"));
        assert!(text.starts_with("reporting-disabled = true\nbind-address = \"127.0.0.1:2\"\n"), "{text}");
        assert!(text.contains("[http]\nbind-address = \"127.0.0.1:1\"\n"), "{text}");
        assert!(text.contains("wal-dir = \"/d/data/wal\"\n"), "{text}");
    }
}
