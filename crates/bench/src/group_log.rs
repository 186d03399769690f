//! A log whose appends share syncs, and that nobody reads: the limit of a server that answers once its data are on disk.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Written once at the start, then over and over: neither the file's size nor its extents change.
const FILE_BYTES: u64 = 64 << 20;

/// Stopped when dropped; appends in progress then never end.
#[derive(Debug)]
pub struct GroupLog {
    shared: Arc<Shared>,
    synced: watch::Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Number of the last group whose write has begun. Waiting bytes form the next one.
    groups: u64,
    is_stopped: bool,
}

impl GroupLog {
    /// A log in a new file of the directory.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join("group-log");
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all_at(&vec![0; FILE_BYTES as usize], 0)?;
        file.sync_all()?;
        let shared = Arc::new(Shared::default());
        let (sender, synced) = watch::channel(0);
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("group-log".to_owned())
            .spawn(move || write_groups(&of_thread, &file, &sender))?;
        Ok(GroupLog { shared, synced, thread: Some(thread) })
    }

    /// Returns once the bytes, and all that arrived with them, are on disk.
    pub async fn append(&self, bytes: &[u8]) {
        let group = {
            let mut waiting = self.shared.waiting.lock();
            waiting.bytes.extend_from_slice(bytes);
            waiting.groups + 1
        };
        self.shared.arrived.notify_one();
        let mut synced = self.synced.clone();
        if synced.wait_for(|groups| *groups >= group).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for GroupLog {
    fn drop(&mut self) {
        self.shared.waiting.lock().is_stopped = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Until the log is dropped, or the disk fails.
fn write_groups(shared: &Shared, file: &File, synced: &watch::Sender<u64>) {
    let mut at = 0;
    let mut bytes = Vec::new();
    loop {
        let group = {
            let mut waiting = shared.waiting.lock();
            while waiting.bytes.is_empty() && !waiting.is_stopped {
                shared.arrived.wait(&mut waiting);
            }
            if waiting.is_stopped {
                return;
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut waiting.bytes);
            waiting.groups += 1;
            waiting.groups
        };
        if at + bytes.len() as u64 > FILE_BYTES {
            at = 0;
        }
        if let Err(error) = file.write_all_at(&bytes, at).and_then(|()| file.sync_data()) {
            eprintln!("the group log failed: {error}");
            return;
        }
        at += bytes.len() as u64;
        synced.send_replace(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn appends_share_groups() {
        let directory = tempfile::tempdir().unwrap();
        let log = GroupLog::create(directory.path()).unwrap();
        let appends = (0..64u8).map(|number| {
            let log = &log;
            async move { log.append(&[number; 100]).await }
        });
        futures_util::future::join_all(appends).await;
        let groups = *log.synced.borrow();
        assert!((1..64).contains(&groups), "{groups}");
        let written = std::fs::read(directory.path().join("group-log")).unwrap();
        assert_eq!(written.len() as u64, FILE_BYTES);
        for number in 0..64 {
            assert_eq!(written[100 * number..100 * (number + 1)], [number as u8; 100]);
        }
    }
}
