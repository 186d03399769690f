//! A `MariaDB` of the tests: `root` without a password, on loopback.
#![allow(dead_code, reason = "no test needs all of this")]

use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::server::{Server, folder, free_port, program, run, run_as};

const PACKAGE: &str = "mariadb-server";

pub struct MariaDb {
    folder: TempDir,
    port: u16,
    server: Server,
}

impl MariaDb {
    pub fn start() -> Self {
        let (folder, port) = (folder(), free_port());
        let mut install = Command::new(program("mariadb-install-db", PACKAGE));
        run_as(&mut install, "mysql", folder.path());
        install.arg("--no-defaults").arg(format!("--datadir={}", folder.path().join("data").display()));
        // Several that are installed at once take the same names for their temporary tables.
        install.arg(format!("--tmpdir={}", folder.path().display()));
        run(install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]));
        let server = Self::serve(&folder, port);
        MariaDb { folder, port, server }
    }

    fn serve(folder: &TempDir, port: u16) -> Server {
        let mut command = Command::new(program("mariadbd", PACKAGE));
        run_as(&mut command, "mysql", folder.path());
        let path = |name| folder.path().join(name).display().to_string();
        command.arg("--no-defaults").arg(format!("--datadir={}", path("data")));
        command.arg(format!("--tmpdir={}", folder.path().display()));
        command.arg(format!("--socket={}", path("socket"))).arg(format!("--pid-file={}", path("pid")));
        command.arg(format!("--port={port}")).arg("--bind-address=127.0.0.1");
        command.args(["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"]);
        command.args([
            "--character-set-server=utf8mb4",
            "--max-connections=200",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        Server::start(&mut command, port, &folder.path().join("log"))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Of a database that is there, such as `mysql`.
    pub fn url(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements as an operator does.
    pub fn execute(&self, database: &str, sql: &str) {
        let mut client = Command::new(program("mariadb", "mariadb-client"));
        client.args(["--no-defaults", "-h", "127.0.0.1", "-u", "root", "-P", &self.port.to_string()]);
        run(client.args(["-D", database, "-e", sql]));
    }

    /// Makes an empty database and returns its URL.
    pub fn create_database(&self, name: &str) -> String {
        self.execute("mysql", &format!("CREATE DATABASE `{name}`"));
        self.url(name)
    }

    /// As an operator does: connections are cut, transactions are undone.
    pub fn stop(&mut self) {
        self.server.end(Signal::TERM);
    }

    pub fn start_again(&mut self) {
        self.server = Self::serve(&self.folder, self.port);
    }

    /// Answers nothing until it is resumed.
    pub fn pause(&self) {
        self.server.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.server.signal(Signal::CONT);
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.server.end(Signal::KILL);
    }
}
