//! A log that only syncs and is never read: shows the limit of a server that answers once its data are on disk. Concurrent
//! appends share a sync.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
};

use tokio::sync::{mpsc, oneshot};

/// The size of the file. It is filled once at the start and then overwritten, so that neither its size nor its extents change.
const FILE_BYTES: u64 = 64 << 20;

/// Maximum appends that share a sync.
const GROUP_MAX: usize = 100_000;

/// The bytes, and the sender of the number of the group with which they are synced.
type Append = (Vec<u8>, oneshot::Sender<u64>);

/// A log with its own thread, which ends when the log is dropped.
#[derive(Debug)]
pub struct GroupLog {
    appends: mpsc::UnboundedSender<Append>,
}

impl GroupLog {
    /// A log in a new file of the directory.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join("group-log");
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all_at(&vec![0; FILE_BYTES as usize], 0)?;
        file.sync_all()?;
        let (appends, waiting) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("group-log".to_owned()).spawn(move || {
            if let Err(error) = write_groups(&file, waiting) {
                eprintln!("the group log failed: {error}");
            }
        })?;
        Ok(GroupLog { appends })
    }

    /// Returns the number of the bytes' group once the group is on disk. Never returns if the disk fails.
    pub async fn append(&self, bytes: &[u8]) -> u64 {
        let (written, group) = oneshot::channel();
        let _ = self.appends.send((bytes.to_vec(), written));
        match group.await {
            Ok(group) => group,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Writes and syncs group after group until the log is dropped or the disk fails.
fn write_groups(file: &File, mut waiting: mpsc::UnboundedReceiver<Append>) -> io::Result<()> {
    let (mut at, mut groups) = (0, 0);
    let (mut group, mut bytes): (Vec<Append>, Vec<u8>) = (Vec::new(), Vec::new());
    while waiting.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
        groups += 1;
        bytes.clear();
        for (append, _) in &group {
            bytes.extend_from_slice(append);
        }
        if at + bytes.len() as u64 > FILE_BYTES {
            at = 0;
        }
        file.write_all_at(&bytes, at)?;
        file.sync_data()?;
        at += bytes.len() as u64;
        for (_, written) in group.drain(..) {
            let _ = written.send(groups);
        }
    }
    Ok(())
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
        let groups = futures_util::future::join_all(appends).await.into_iter().max().unwrap();
        assert!((1..64).contains(&groups), "{groups}");
        let written = std::fs::read(directory.path().join("group-log")).unwrap();
        assert_eq!(written.len() as u64, FILE_BYTES);
        for number in 0..64 {
            assert_eq!(written[100 * number..100 * (number + 1)], [number as u8; 100]);
        }
    }
}
