//! What the kernel tells of a mounted file system.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

/// Options of NFS with which it asks the server whether a name is still absent.
const ASKING: [&str; 4] = ["lookupcache=pos", "lookupcache=none", "noac", "acdirmax=0"];

/// Logs if this host may take an object that another one has created for absent, for up to a minute.
pub(super) fn warn_of_cached_absence(folder: &Path) {
    let (Ok(metadata), Ok(mounts)) = (fs::metadata(folder), fs::read_to_string("/proc/self/mountinfo"))
    else {
        return;
    };
    let device = format!("{}:{}", rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    if caches_absence(&mounts, &device) {
        tracing::warn!(
            folder = %folder.display(),
            "NFS remembers for up to a minute that a file is absent, so measures of other hosts are seen late, \
             and tables may seem lost: mount it with lookupcache=positive"
        );
    }
}

/// Whether the mount of a device does so. Its line is like
/// `36 35 0:52 / /mnt rw,noatime shared:1 - nfs4 server:/export rw,vers=4.2,lookupcache=pos`
fn caches_absence(mounts: &str, device: &str) -> bool {
    mounts.lines().filter_map(|line| line.split_once(" - ")).any(|(mount, file_system)| {
        let mut fields = file_system.split(' ');
        let is_nfs = fields.next().is_some_and(|kind| kind.starts_with("nfs"));
        let options = fields.nth(1).unwrap_or_default();
        let asks = options.split(',').any(|option| ASKING.contains(&option));
        is_nfs && !asks && mount.split(' ').nth(2) == Some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nfs_caches_absent_names_unless_told_otherwise() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      36 22 0:52 / /a rw - nfs4 host:/a rw,vers=4.2,hard,proto=tcp\n\
                      37 22 0:53 / /b rw shared:2 - nfs4 host:/b rw,vers=4.2,lookupcache=pos\n\
                      38 22 0:54 / /c rw shared:3 master:4 - nfs host:/c rw,vers=3,acdirmin=0,acdirmax=0\n";
        let caches = ["8:1", "0:52", "0:53", "0:54", "0:5"].map(|device| caches_absence(mounts, device));
        assert_eq!(caches, [false, true, false, false, false]);
    }
}
