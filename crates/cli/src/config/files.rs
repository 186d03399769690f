//! Which configuration files to read: those named on the command line, else those that oslo.config would find.
//!
//! Files and directories have separate defaults: `--config-file` does not disable `gnocchi.conf.d`.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::options::{CEILOMETER, Catalogue, GNOCCHI};
use crate::command_line;

/// The project whose files are read; it is also their base name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Project {
    #[default]
    Gnocchi,
    Ceilometer,
}

impl Project {
    fn name(self) -> &'static str {
        match self {
            Project::Gnocchi => "gnocchi",
            Project::Ceilometer => "ceilometer",
        }
    }

    /// The options of its files.
    pub fn catalogue(self) -> Catalogue {
        match self {
            Project::Gnocchi => GNOCCHI,
            Project::Ceilometer => CEILOMETER,
        }
    }
}

/// gnudi's own directory; not searched if called by the name of an original program.
const OWN_DIRECTORY: &str = "/etc/gnudi";

/// A command line argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileArgument {
    File(PathBuf),
    /// All `*.conf` in it, sorted by name.
    Directory(PathBuf),
}

/// The command line arguments, in order.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub named: Vec<FileArgument>,
}

/// Where to search for files that are not named on the command line.
pub(super) struct SearchPath {
    project: Project,
    /// The original program's name that this process was called by.
    program: Option<&'static str>,
    home: Option<PathBuf>,
    /// `SNAP_COMMON` and `SNAP`.
    snaps: Vec<PathBuf>,
}

impl Files {
    /// These files and no others.
    pub fn of(files: &[PathBuf]) -> Self {
        Files { named: files.iter().cloned().map(FileArgument::File).collect() }
    }

    /// The files to read, in order: later ones take precedence.
    pub(super) fn paths(&self, search: &SearchPath) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        if !self.named.iter().any(|named| matches!(named, FileArgument::File(_))) {
            paths.extend(search.files());
        }
        if !self.named.iter().any(|named| matches!(named, FileArgument::Directory(_))) {
            for directory in search.matching_files(".conf.d") {
                paths.extend(files_in(&directory)?);
            }
        }
        for named in &self.named {
            match named {
                FileArgument::File(path) => paths.push(search.expanded(path)),
                FileArgument::Directory(path) => {
                    let path = search.expanded(path);
                    if !path.exists() {
                        bail!("--config-dir {}: there is no such directory", path.display());
                    }
                    paths.extend(files_in(&path)?);
                }
            }
        }
        Ok(paths)
    }

    /// Where to search for files named by options, in oslo.config's order.
    pub(super) fn directories(&self, search: &SearchPath) -> Vec<PathBuf> {
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        for named in &self.named {
            match named {
                FileArgument::Directory(path) => directories.push(search.expanded(path)),
                FileArgument::File(path) => files.push(search.expanded(path)),
            }
        }
        if files.is_empty() {
            files = search.files();
        }
        // What belongs to a file that takes precedence does so, too.
        for file in files.iter().rev() {
            let Some(parent) = file.parent() else { continue };
            // The parent of a bare name is empty, which means the current directory.
            directories.push(if parent.as_os_str().is_empty() { ".".into() } else { parent.to_owned() });
        }
        directories.extend(search.directories());
        directories
    }
}

impl SearchPath {
    pub(super) fn of_process(project: Project) -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        SearchPath {
            project,
            program: command_line::original_program(),
            home: std::env::home_dir(),
            snaps: ["SNAP_COMMON", "SNAP"].into_iter().filter_map(variable).collect(),
        }
    }

    /// Gnocchi's metricd's, whichever program this is.
    pub(super) fn of_metricd() -> Self {
        SearchPath { program: Some("gnocchi-metricd"), ..SearchPath::of_process(Project::Gnocchi) }
    }

    /// In oslo.config's search order.
    fn directories(&self) -> Vec<PathBuf> {
        let project = self.project.name();
        let mut directories = Vec::new();
        if let Some(home) = &self.home {
            directories.extend([home.join(format!(".{project}")), home.clone()]);
        }
        if self.program.is_none() {
            directories.push(OWN_DIRECTORY.into());
        }
        directories.extend([Path::new("/etc").join(project), PathBuf::from("/etc")]);
        directories.extend(self.snaps.iter().map(|snap| snap.join("etc").join(project)));
        directories
    }

    /// The first file named after the project, and the first one named after the program.
    fn matching_files(&self, extension: &str) -> Vec<PathBuf> {
        let directories = self.directories();
        let names = [Some(self.project.name()), self.program];
        let first = |name: &str| {
            let paths = directories.iter().map(|directory| directory.join(format!("{name}{extension}")));
            paths.into_iter().find(|path| path.exists())
        };
        names.into_iter().flatten().filter_map(first).collect()
    }

    /// Preceded by the distribution's files where its patched oslo.config (RDO) looks.
    fn files(&self) -> Vec<PathBuf> {
        let project = self.project.name();
        let directory = Path::new("/usr/share").join(project);
        let names = [Some(project), self.program].into_iter().flatten();
        let distribution = names.map(|name| directory.join(format!("{name}-dist.conf")));
        distribution.filter(|path| path.exists()).chain(self.matching_files(".conf")).collect()
    }

    /// Replaces `~/` by the user's home.
    fn expanded(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        }
    }
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = entries(directory).with_context(|| directory.display().to_string())?;
    files.retain(|path| path.as_os_str().as_encoded_bytes().ends_with(b".conf"));
    Ok(files)
}

/// What a directory has, by name; like Python's glob, without what is hidden.
pub fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| !path.file_name().unwrap_or_default().as_encoded_bytes().starts_with(b"."));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(home: &Path, program: Option<&'static str>) -> SearchPath {
        SearchPath {
            project: Project::Gnocchi,
            program,
            home: Some(home.to_owned()),
            snaps: vec![home.join("snap")],
        }
    }

    fn write(directory: &Path, names: &[&str]) {
        for name in names {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn files_of_a_directory_stand_where_it_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        write(home, &["d/b.conf", "d/a.conf", "d/c.txt", "d/.hidden.conf", "gnocchi.conf.d/z.conf"]);
        let file = |name: &str| FileArgument::File(name.into());
        let named = vec![file("x/y.conf"), FileArgument::Directory("~/d".into()), file("~/z.conf")];
        let files = Files { named };
        let paths = files.paths(&search(home, None)).unwrap();
        let expected = ["d/a.conf", "d/b.conf", "z.conf"].map(|name| home.join(name));
        assert_eq!((paths[0].as_path(), &paths[1..]), (Path::new("x/y.conf"), &expected[..]));
        let missing = Files { named: vec![FileArgument::Directory("/nowhere/at/all".into())] };
        assert!(missing.paths(&search(home, None)).is_err());
    }

    #[test]
    fn what_options_name_is_searched_as_in_oslo_config() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        write(home, &[".gnocchi/gnocchi.conf"]);
        let search = search(home, Some("gnocchi-api"));
        let file = |name: &str| FileArgument::File(name.into());
        let folder = |name: &str| FileArgument::Directory(name.into());
        let named =
            vec![file("a/base.conf"), folder("~/d"), file("b/site.conf"), folder("e"), file("own.conf")];
        let directories = Files { named }.directories(&search);
        let first = [home.join("d"), "e".into(), ".".into(), "b".into(), "a".into(), home.join(".gnocchi")];
        assert_eq!(directories[..first.len()], first);
        assert_eq!(directories[first.len()], home);
        // The files that are found where none is named.
        let directories = Files { named: vec![folder("e")] }.directories(&search);
        assert_eq!(directories[..2], [PathBuf::from("e"), home.join(".gnocchi")]);
    }

    #[test]
    fn where_none_is_named_the_first_of_project_and_program_count() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let names = [
            ".gnocchi/gnocchi.conf",
            "gnocchi.conf",
            "gnocchi-api.conf",
            "gnocchi-api.conf.d/one.conf",
            "snap/etc/gnocchi/gnocchi.conf.d/two.conf",
        ];
        write(home, &names);
        let matching_files = |files: &Files, program| files.paths(&search(home, program)).unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<Vec<_>>();
        let [first, _, of_program, in_directory, of_snap] = names;
        let none = Files::default();
        assert_eq!(
            matching_files(&none, Some("gnocchi-api")),
            paths(&[first, of_program, of_snap, in_directory])
        );
        assert_eq!(matching_files(&none, Some("gnocchi-metricd")), paths(&[first, of_snap]));
        // Files for gnudi say nothing about where Gnocchi stores.
        assert!(search(home, None).directories().contains(&OWN_DIRECTORY.into()));
        assert!(!SearchPath::of_metricd().directories().contains(&OWN_DIRECTORY.into()));
        // A named file replaces files, not directories.
        let one = Files::of(&[home.join("own")]);
        assert_eq!(matching_files(&one, Some("gnocchi-api")), paths(&[of_snap, in_directory, "own"]));
    }
}
