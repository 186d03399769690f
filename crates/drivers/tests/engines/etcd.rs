//! An etcd of the tests: one member, on loopback.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use tempfile::TempDir;

use super::server::{Server, folder, free_port, program};

pub struct Etcd {
    folder: TempDir,
    port: u16,
    peer_port: u16,
    server: Server,
}

impl Etcd {
    pub fn start() -> Self {
        let (folder, port, peer_port) = (folder(), free_port(), free_port());
        let server = Self::serve(&folder, port, peer_port);
        Etcd { folder, port, peer_port, server }
    }

    fn serve(folder: &TempDir, port: u16, peer_port: u16) -> Server {
        let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let mut command = Command::new(program("etcd", "etcd-server"));
        command.arg("--data-dir").arg(folder.path().join("data")).args(["--name", "test"]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("test={peers}")]);
        let mut server = Server::start(&mut command, port, &folder.path().join("log"));
        server.wait_until(|| is_healthy(port));
        server
    }

    /// Its address, without a scheme.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn stop(&mut self) {
        self.server.end(Signal::KILL);
    }

    pub fn start_again(&mut self) {
        self.server = Self::serve(&self.folder, self.port, self.peer_port);
    }

    /// Answers nothing until it is resumed.
    pub fn pause(&self) {
        self.server.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.server.signal(Signal::CONT);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.server.end(Signal::KILL);
    }
}

fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"true\""))
}
