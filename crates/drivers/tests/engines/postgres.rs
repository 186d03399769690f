//! A `PostgreSQL` of the tests: superuser `postgres` without a password, on loopback.
#![allow(dead_code, reason = "no test needs all of this")]

use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::server::{Server, folder, free_port, program, run, run_as};

const PACKAGE: &str = "postgresql";

pub struct Postgres {
    folder: TempDir,
    port: u16,
    server: Server,
}

impl Postgres {
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        let mut initdb = Command::new(program("initdb", PACKAGE));
        run_as(&mut initdb, "postgres", folder.path());
        initdb.arg("-D").arg(folder.path().join("data"));
        run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]));
        let server = Self::serve(&folder, port);
        Postgres { folder, port, server }
    }

    fn serve(folder: &TempDir, port: u16) -> Server {
        let mut command = Command::new(program("postgres", PACKAGE));
        run_as(&mut command, "postgres", folder.path());
        command.arg("-D").arg(folder.path().join("data")).args(["-p", &port.to_string()]);
        command.arg("-k").arg(folder.path());
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off"]);
        let mut server = Server::start(&mut command, port, &folder.path().join("log"));
        // It takes connections before it answers them.
        let ready = program("pg_isready", "postgresql-client");
        let port = port.to_string();
        server.wait_until(|| {
            let mut command = Command::new(&ready);
            command.args(["-q", "-h", "127.0.0.1", "-p", &port]).status().unwrap().success()
        });
        server
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Of a database that is there, such as `postgres`.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements as an operator does.
    pub fn execute(&self, database: &str, sql: &str) {
        let mut psql = Command::new(program("psql", "postgresql-client"));
        run(psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-d", &self.url(database), "-c", sql]));
    }

    /// Makes an empty database and returns its URL.
    pub fn create_database(&self, name: &str) -> String {
        self.execute("postgres", &format!("CREATE DATABASE \"{name}\""));
        self.url(name)
    }

    /// As an operator does: connections are cut, transactions are undone.
    pub fn stop(&mut self) {
        self.server.end(Signal::INT);
    }

    pub fn start_again(&mut self) {
        self.server = Self::serve(&self.folder, self.port);
    }

    /// Answers nothing until it is resumed.
    pub fn pause(&self) {
        self.server.signal_family(Signal::STOP);
    }

    pub fn resume(&self) {
        self.server.signal_family(Signal::CONT);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.server.signal_family(Signal::CONT);
        self.server.end(Signal::QUIT);
    }
}
