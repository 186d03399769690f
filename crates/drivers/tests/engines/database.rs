//! A `PostgreSQL` or `MariaDB` for tests: one user without a password, on loopback.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{path::Path, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;

use super::server::{Server, folder, free_port, program, run, run_as};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    MariaDb,
}

pub struct Database {
    kind: Kind,
    port: u16,
    pub process: Server,
    _folder: TempDir,
}

impl Database {
    pub fn start(kind: Kind) -> Self {
        let (folder, port) = (folder(), free_port());
        let process = match kind {
            Kind::Postgres => start_postgres(folder.path(), port),
            Kind::MariaDb => start_mariadb(folder.path(), port),
        };
        Database { kind, port, process, _folder: folder }
    }

    pub fn url(&self, database: &str) -> String {
        match self.kind {
            Kind::Postgres => format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port),
            Kind::MariaDb => format!("mysql://root@127.0.0.1:{}/{database}", self.port),
        }
    }

    /// Of the database that always exists.
    pub fn admin_url(&self) -> String {
        self.url(self.admin_database())
    }

    fn admin_database(&self) -> &'static str {
        match self.kind {
            Kind::Postgres => "postgres",
            Kind::MariaDb => "mysql",
        }
    }

    /// Runs statements like an operator; returns the single value found.
    pub fn execute(&self, database: &str, sql: &str) -> String {
        let mut client = match self.kind {
            Kind::Postgres => {
                let mut psql = Command::new(program("psql", "postgresql-client"));
                psql.args(["-qAt", "-v", "ON_ERROR_STOP=1", "-d", &self.url(database), "-c", sql]);
                psql
            }
            Kind::MariaDb => {
                let mut mariadb = Command::new(program("mariadb", "mariadb-client"));
                mariadb.args(["--no-defaults", "-N", "-h", "127.0.0.1", "-u", "root", "-P"]);
                mariadb.args([&self.port.to_string(), "-D", database, "-e", sql]);
                mariadb
            }
        };
        run(&mut client).trim().to_owned()
    }

    /// Creates an empty database and returns its URL.
    pub fn create_database(&self, name: &str) -> String {
        let quote = if self.kind == Kind::Postgres { '"' } else { '`' };
        self.execute(self.admin_database(), &format!("CREATE DATABASE {quote}{name}{quote}"));
        self.url(name)
    }
}

/// When stopped, both close connections and roll back transactions.
fn start_postgres(folder: &Path, port: u16) -> Server {
    let mut initdb = Command::new(program("initdb", "postgresql"));
    run_as(&mut initdb, "postgres", folder);
    initdb.arg("-D").arg(folder.join("data"));
    run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]));
    let mut command = Command::new(program("postgres", "postgresql"));
    run_as(&mut command, "postgres", folder);
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
    command.arg("-k").arg(folder);
    command.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off"]);
    // It accepts connections before it serves them.
    let (is_ready, port_text) = (program("pg_isready", "postgresql-client"), port.to_string());
    let is_ready = move || {
        let mut command = Command::new(&is_ready);
        command.args(["-q", "-h", "127.0.0.1", "-p", &port_text]).status().unwrap().success()
    };
    Server::start_until(command, port, &folder.join("log"), is_ready).ended_by(Signal::INT, Signal::QUIT)
}

fn start_mariadb(folder: &Path, port: u16) -> Server {
    let path = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    // Concurrent installations use the same names of temporary tables.
    let folders = [path("datadir", "data"), path("tmpdir", "")];
    let mut install = Command::new(program("mariadb-install-db", "mariadb-server"));
    run_as(&mut install, "mysql", folder);
    install.arg("--no-defaults").args(&folders);
    run(install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]));
    let mut command = Command::new(program("mariadbd", "mariadb-server"));
    run_as(&mut command, "mysql", folder);
    command.arg("--no-defaults").args(&folders);
    command.args([path("socket", "socket"), path("pid-file", "pid"), format!("--port={port}")]);
    command.args(["--bind-address=127.0.0.1", "--character-set-server=utf8mb4", "--max-connections=200"]);
    command.args(["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"]);
    command.arg("--innodb-flush-log-at-trx-commit=0");
    Server::start(command, port, &folder.join("log")).ended_by(Signal::TERM, Signal::KILL)
}
