//! An etcd for tests: one member, on loopback.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use super::server::{Server, folder, free_port, program};

pub struct Etcd {
    pub process: Server,
    port: u16,
    _folder: TempDir,
}

impl Etcd {
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        let (clients, peers) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
        let mut command = Command::new(program("etcd", "etcd-server"));
        command.arg("--data-dir").arg(folder.path().join("data")).args(["--name", "test"]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("test={peers}")]);
        let process =
            Server::start_until(command, port, &folder.path().join("log"), move || is_healthy(port));
        Etcd { process, port, _folder: folder }
    }

    /// Its address, without a scheme.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The answer to a request; empty if none comes for a second.
    pub fn post(&self, path: &str, body: &str) -> String {
        let length = body.len();
        let request = format!("POST {path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}");
        ask(self.port, &request).unwrap_or_default()
    }
}

fn ask(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn is_healthy(port: u16) -> bool {
    ask(port, "GET /health HTTP/1.0\r\n\r\n").is_ok_and(|answer| answer.contains("\"true\""))
}
