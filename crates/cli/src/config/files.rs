//! Which files Ceilometer's programs read: those that the command line names, else those where oslo.config looks.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Where files are looked for that the command line does not name, after `~/.ceilometer` and `~`.
const DIRECTORIES: [&str; 2] = ["/etc/ceilometer", "/etc"];

const NAME: &str = "ceilometer.conf";

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// `--config-file`, in their order.
    pub config_files: Vec<PathBuf>,
    /// `--config-dir`: all `*.conf` in it, by name, after the files.
    pub config_dirs: Vec<PathBuf>,
}

impl Files {
    /// The files to read, in their order.
    pub(super) fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths = self.config_files.clone();
        let mut directories = self.config_dirs.clone();
        if paths.is_empty() && directories.is_empty() {
            paths.extend(
                usual_directories()
                    .into_iter()
                    .map(|directory| directory.join(NAME))
                    .find(|path| path.is_file()),
            );
            let usual = usual_directories().into_iter().map(|directory| directory.join(format!("{NAME}.d")));
            directories.extend(usual.filter(|path| path.is_dir()).take(1));
        }
        for directory in directories {
            paths.extend(files_in(&directory).with_context(|| format!("{}", directory.display()))?);
        }
        Ok(paths)
    }

    /// Where files that options name are looked for.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let parents = self.config_files.iter().filter_map(|file| file.parent()).map(|parent| {
            // The parent of a bare name is empty, and means here.
            if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() }
        });
        parents.chain(self.config_dirs.iter().cloned()).chain(usual_directories()).collect()
    }
}

fn usual_directories() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let own = home.iter().flat_map(|home| [home.join(".ceilometer"), home.clone()]);
    own.chain(DIRECTORIES.map(PathBuf::from)).collect()
}

fn files_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "conf") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_directory_follow_those_named() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let files =
            Files { config_files: vec!["x/y.conf".into()], config_dirs: vec![directory.path().to_owned()] };
        let paths = files.paths().unwrap();
        assert_eq!(paths[0], Path::new("x/y.conf"));
        assert_eq!(paths[1..], [directory.path().join("a.conf"), directory.path().join("b.conf")]);
        assert_eq!(files.directories()[0], Path::new("x"));
        assert!(Files { config_dirs: vec!["/nowhere/at/all".into()], ..Files::default() }.paths().is_err());
    }
}
