//! Tells the service manager when a service is ready and when it stops, as `sd_notify(3)` of systemd does.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

/// Names the socket of the service manager, if there is one.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// How long a service manager that does not read may hold up the service.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The service does its work from now on.
pub fn ready() {
    tell("READY=1");
}

/// The service ends soon.
pub fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(VARIABLE).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "{VARIABLE} {}: {state} was not sent", socket.display());
    }
}

/// `@` begins the name of an abstract socket; others are paths.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let own = UnixDatagram::unbound()?;
    own.set_write_timeout(Some(TIMEOUT))?;
    own.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_may_be_files_or_abstract() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("gnudi-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), OsStr::new(&format!("@{name}"))),
        ] {
            manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            send(socket, "READY=1").unwrap();
            let mut told = [0; 64];
            let length = manager.recv(&mut told).unwrap();
            assert_eq!(told[..length], *b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/notify"), "READY=1").is_err());
    }
}
