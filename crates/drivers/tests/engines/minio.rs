//! A minio for tests, on loopback. Optional: Debian has no package of it.
#![allow(dead_code, reason = "no test needs all of this")]

use std::{env, fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use super::{
    radosgw::{ACCESS_KEY, SECRET_KEY},
    server::{Server, folder, free_port, program, run},
};

pub struct Minio {
    _server: Server,
    folder: TempDir,
    port: u16,
    is_secure: bool,
}

/// For a self-signed certificate.
const CERTIFICATE: &str = "[req]\ndistinguished_name = name\nx509_extensions = more\nprompt = no\n[name]\nCN = minio\n\
    [more]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = CA:FALSE\n";

impl Minio {
    /// `None`, with a message, if it is not installed.
    pub fn start() -> Option<Self> {
        Self::serve(false)
    }

    /// With HTTPS only.
    pub fn start_secure() -> Option<Self> {
        Self::serve(true)
    }

    fn serve(is_secure: bool) -> Option<Self> {
        let home = env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
        let path = env::var_os("PATH").unwrap_or_default();
        let mut places = env::split_paths(&path).chain(home).map(|dir| dir.join("minio"));
        let Some(minio) = places.find(|file| file.is_file()) else {
            eprintln!("no minio on this machine: left out");
            return None;
        };
        let (folder, port) = (folder(), free_port());
        let mut command = Command::new(minio);
        command.args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")]);
        command.arg(folder.path().join("data")).env("HOME", folder.path());
        command.env("MINIO_ROOT_USER", ACCESS_KEY).env("MINIO_ROOT_PASSWORD", SECRET_KEY);
        command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off").env("MINIO_CI_CD", "on");
        if is_secure {
            let certificates = folder.path().join("certs");
            fs::create_dir(&certificates).unwrap();
            fs::write(certificates.join("conf"), CERTIFICATE).unwrap();
            let mut make = Command::new(program("openssl", "openssl"));
            make.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config", "conf"]);
            run(make.args(["-keyout", "private.key", "-out", "public.crt"]).current_dir(&certificates));
            command.arg("--certs-dir").arg(certificates);
        }
        let server = Server::start(command, port, &folder.path().join("log"));
        Some(Minio { _server: server, folder, port, is_secure })
    }

    pub fn endpoint(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certs/public.crt")
    }
}
