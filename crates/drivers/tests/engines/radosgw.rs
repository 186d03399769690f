//! Ceph's object gateway on a Ceph of the tests: S3 and Swift over HTTP, one user.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{path::PathBuf, process::Command};

use gnudi_drivers::objects::{Secret, s3::S3Options, swift::SwiftOptions};

use super::server::{Server, free_port, program, run};

pub const ACCESS_KEY: &str = "gnudi-access";
pub const SECRET_KEY: &str = "gnudi-secret";
pub const SWIFT_USER: &str = "gnudi:swift";
pub const SWIFT_KEY: &str = "gnudi-swift-secret";

/// Of a server of S3 that has the user.
pub fn s3_at(endpoint: &str) -> S3Options {
    S3Options {
        endpoint_url: Some(endpoint.to_owned()),
        access_key_id: Some(ACCESS_KEY.to_owned()),
        secret_access_key: Some(Secret::new(SECRET_KEY)),
        ..S3Options::default()
    }
}

/// Of a server of Swift that has the user.
pub fn swift_at(auth: &str) -> SwiftOptions {
    SwiftOptions {
        authurl: auth.to_owned(),
        user: SWIFT_USER.to_owned(),
        key: Secret::new(SWIFT_KEY),
        ..SwiftOptions::default()
    }
}

/// Ends before the Ceph whose `ceph.conf` it was started with.
pub struct Radosgw {
    conf: PathBuf,
    port: u16,
    pub process: Server,
}

impl Radosgw {
    pub fn start(conf: PathBuf) -> Self {
        let port = free_port();
        let mut command = Command::new(program("radosgw", "radosgw"));
        command.args(["-f", "-n", "client.rgw.a", "-c"]).arg(&conf).env_remove("CEPH_ARGS");
        command.arg(format!("--rgw-frontends=beast endpoint=127.0.0.1:{port}"));
        let process = Server::start(command, port, &conf.with_file_name("radosgw.out"));
        let gateway = Radosgw { conf, port, process };
        let keys = [format!("--access-key={ACCESS_KEY}"), format!("--secret-key={SECRET_KEY}")];
        let user = ["user", "create", "--uid=gnudi", "--display-name=gnudi", "--max-buckets=0"];
        gateway.admin(&[&user[..], &[&keys[0], &keys[1]]].concat());
        let swift = format!("--subuser={SWIFT_USER}");
        gateway.admin(&["subuser", "create", "--uid=gnudi", &swift, "--access=full"]);
        let key = format!("--secret-key={SWIFT_KEY}");
        gateway.admin(&["key", "create", &swift, "--key-type=swift", &key]);
        gateway
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
}
