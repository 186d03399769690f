//! Ceph's object gateway on a Ceph of the tests: S3 and Swift over HTTP, one user.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{path::PathBuf, process::Command};

use rustix::process::Signal;

use super::server::{Server, free_port, program, run};

pub const ACCESS_KEY: &str = "gnudi-access";
pub const SECRET_KEY: &str = "gnudi-secret";
pub const SWIFT_USER: &str = "gnudi:swift";
pub const SWIFT_KEY: &str = "gnudi-swift-secret";

/// Ends before the Ceph whose `ceph.conf` it was started with.
pub struct Radosgw {
    conf: PathBuf,
    port: u16,
    server: Server,
}

impl Radosgw {
    pub fn start(conf: PathBuf) -> Self {
        let port = free_port();
        let server = Self::serve(&conf, port);
        let gateway = Radosgw { conf, port, server };
        let keys = [format!("--access-key={ACCESS_KEY}"), format!("--secret-key={SECRET_KEY}")];
        let user = ["user", "create", "--uid=gnudi", "--display-name=gnudi", "--max-buckets=0"];
        gateway.admin(&[&user[..], &[&keys[0], &keys[1]]].concat());
        let swift = format!("--subuser={SWIFT_USER}");
        gateway.admin(&["subuser", "create", "--uid=gnudi", &swift, "--access=full"]);
        let key = format!("--secret-key={SWIFT_KEY}");
        gateway.admin(&["key", "create", &swift, "--key-type=swift", &key]);
        gateway
    }

    fn serve(conf: &PathBuf, port: u16) -> Server {
        let mut command = Command::new(program("radosgw", "radosgw"));
        command.args(["-f", "-n", "client.rgw.a", "-c"]).arg(conf).env_remove("CEPH_ARGS");
        command.arg(format!("--rgw-frontends=beast endpoint=127.0.0.1:{port}"));
        Server::start(&mut command, port, &conf.with_file_name("radosgw.out"))
    }

    fn admin(&self, words: &[&str]) {
        let mut command = Command::new(program("radosgw-admin", "radosgw"));
        run(command.arg("-c").arg(&self.conf).args(words).env_remove("CEPH_ARGS"));
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where Swift's users log in.
    pub fn swift_auth(&self) -> String {
        format!("{}/auth/1.0", self.endpoint())
    }

    pub fn stop(&mut self) {
        self.server.end(Signal::KILL);
    }

    pub fn start_again(&mut self) {
        self.server = Self::serve(&self.conf, self.port);
    }

    /// Answers nothing until it is resumed.
    pub fn pause(&self) {
        self.server.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.server.signal(Signal::CONT);
    }
}

impl Drop for Radosgw {
    fn drop(&mut self) {
        self.server.end(Signal::KILL);
    }
}
