//! The heartbeat socket of Ceilometer's polling agent: each client gets the last polling time of every meter.

use std::{
    io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;

/// A client that does not read within this time is disconnected.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after accept fails, until others have closed their files.
const PAUSE: Duration = Duration::from_millis(100);

/// Meters in order of their first poll, each with the time of its last one.
#[derive(Debug, Default)]
pub struct Heartbeats(Mutex<Vec<(String, String)>>);

impl Heartbeats {
    pub fn beat(&self, meter: &str, timestamp: &str) {
        let mut all = self.0.lock();
        match all.iter_mut().find(|(known, _)| known == meter) {
            Some((_, last)) => timestamp.clone_into(last),
            None => all.push((meter.to_owned(), timestamp.to_owned())),
        }
    }

    /// One line per meter: its name and time.
    pub fn text(&self) -> String {
        let lines: Vec<String> =
            self.0.lock().iter().map(|(meter, last)| format!("{meter} {last}")).collect();
        lines.join("\n")
    }
}

/// A socket that serves heartbeats. Its file is removed on drop, unless another agent has replaced it.
#[derive(Debug)]
pub struct HeartbeatSocket {
    listener: UnixListener,
    path: PathBuf,
    file: FileId,
}

/// Device and inode.
type FileId = (u64, u64);

fn file_id(path: &Path) -> io::Result<FileId> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl HeartbeatSocket {
    /// Binds `DIRECTORY/ceilometer-NAMESPACES.socket`, and replaces one that another agent has left behind.
    pub fn bind(directory: &Path, namespaces: &[String]) -> io::Result<Self> {
        let mut namespaces = namespaces.to_vec();
        namespaces.sort();
        let path = directory.join(format!("ceilometer-{}.socket", namespaces.join("-")));
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let file = file_id(&path)?;
        Ok(HeartbeatSocket { listener, path, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves clients until dropped.
    pub async fn serve(&self, heartbeats: Arc<Heartbeats>) -> io::Result<()> {
        let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let text = heartbeats.text();
            let told = async { stream.write_all(text.as_bytes()).await };
            let _ = tokio::time::timeout(TIMEOUT, told).await;
        }
    }
}

impl Drop for HeartbeatSocket {
    fn drop(&mut self) {
        // The listener is still open, so that no other file has its inode.
        if file_id(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn heartbeats_are_told_to_who_connects() {
        let folder = tempfile::tempdir().unwrap();
        let namespaces = ["compute".to_owned(), "central".to_owned()];
        let left = HeartbeatSocket::bind(folder.path(), &namespaces).unwrap();
        std::mem::forget(left);
        let socket = HeartbeatSocket::bind(folder.path(), &namespaces).unwrap();
        let path = folder.path().join("ceilometer-central-compute.socket");
        assert_eq!(socket.path(), path);
        let heartbeats = Arc::new(Heartbeats::default());
        heartbeats.beat("cpu", "1");
        heartbeats.beat("memory", "2");
        heartbeats.beat("cpu", "3");
        let serving = {
            let heartbeats = heartbeats.clone();
            tokio::spawn(async move { socket.serve(heartbeats).await })
        };
        let mut told = String::new();
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        stream.read_to_string(&mut told).await.unwrap();
        assert_eq!(told, "cpu 3\nmemory 2");
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(HeartbeatSocket::bind(folder.path(), &namespaces).is_err(), "it is none of ours");
    }

    #[test]
    fn an_agent_that_ends_leaves_the_socket_of_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let namespaces = ["compute".to_owned()];
        let old = HeartbeatSocket::bind(folder.path(), &namespaces).unwrap();
        let new = HeartbeatSocket::bind(folder.path(), &namespaces).unwrap();
        let path = new.path().to_owned();
        drop(old);
        assert!(path.exists());
        drop(new);
        assert!(!path.exists());
    }
}
