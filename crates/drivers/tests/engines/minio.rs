//! A minio of the tests, on loopback. It is optional: Debian has no package of it.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{env, path::PathBuf, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;

use super::server::{Server, folder, free_port};

pub const ACCESS_KEY: &str = "gnudi-access";
pub const SECRET_KEY: &str = "gnudi-secret";

pub struct Minio {
    folder: TempDir,
    port: u16,
    server: Server,
}

impl Minio {
    /// `None` where there is none on this machine.
    pub fn start() -> Option<Self> {
        let home = env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
        let path = env::var_os("PATH").unwrap_or_default();
        let program =
            env::split_paths(&path).chain(home).map(|dir| dir.join("minio")).find(|file| file.is_file())?;
        let (folder, port) = (folder(), free_port());
        let mut command = Command::new(program);
        command.args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")]);
        command.arg(folder.path().join("data")).env("HOME", folder.path());
        command.env("MINIO_ROOT_USER", ACCESS_KEY).env("MINIO_ROOT_PASSWORD", SECRET_KEY);
        command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off").env("MINIO_CI_CD", "on");
        let server = Server::start(&mut command, port, &folder.path().join("log"));
        Some(Minio { folder, port, server })
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Minio {
    fn drop(&mut self) {
        self.server.end(Signal::KILL);
    }
}
