//! Ceph's object gateway on a test Ceph: S3 and Swift over HTTP, one user.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{path::PathBuf, process::Command};

use gnudi_drivers::objects::{Secret, s3::S3Options, swift::SwiftOptions};

use super::server::{Server, free_port, program, run};

pub const ACCESS_KEY: &str = "gnudi-access";
pub const SECRET_KEY: &str = "gnudi-secret";
pub const SWIFT_USER: &str = "gnudi:swift";
pub const SWIFT_KEY: &str = "gnudi-swift-secret";

/// Options of an S3 server with the user.
pub fn s3_at(endpoint: &str) -> S3Options {
    S3Options {
        endpoint_url: Some(endpoint.to_owned()),
        access_key_id: Some(ACCESS_KEY.to_owned()),
        secret_access_key: Some(Secret::new(SECRET_KEY)),
        ..S3Options::default()
    }
}

/// Options of a Swift server with the user.
pub fn swift_at(auth: &str) -> SwiftOptions {
    SwiftOptions {
        authurl: auth.to_owned(),
        user: SWIFT_USER.to_owned(),
        key: Secret::new(SWIFT_KEY),
        ..SwiftOptions::default()
    }
}

/// Must be dropped before its Ceph.
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

    /// The login URL of Swift's users.
    pub fn swift_auth(&self) -> String {
        format!("{}/auth/1.0", self.endpoint())
    }
}
