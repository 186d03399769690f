//! Which engines the configuration names, and whether they can be combined. Opens nothing.
//!
//! Either everything is in a data directory that belongs to one process, or nothing is: measures that only one process
//! sees would be lost for all others that share an index.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use super::{Config, scheme};

/// The default data directory.
const DATA_DIR: &str = "gnudi-data";

/// The sections that name a driver.
pub const STORAGE: &str = "storage";
pub const INCOMING: &str = "incoming";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// Everything in this directory.
    Embedded(PathBuf),
    /// Everything on shared engines; their options are in the sections.
    Shared(Shared),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    pub incoming: EngineKind,
    pub storage: EngineKind,
    pub coordination: CoordinationKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// A folder mounted on all hosts.
    Folder,
    Redis,
    Ceph,
    S3,
    Swift,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationKind {
    /// A database: the index's own, unless another is configured.
    Database,
    Redis,
    Etcd,
}

/// For the log at start.
impl fmt::Display for Deployment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deployment::Embedded(dir) => {
                // A relative path is of little use in a service's log.
                let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
                write!(formatter, "embedded, in the data directory {}", dir.display())
            }
            Deployment::Shared(Shared { incoming, storage, coordination }) => write!(
                formatter,
                "shared: index in a database, measures in {}, aggregates in {}, coordination by {}",
                incoming.name(),
                storage.name(),
                coordination.name()
            ),
        }
    }
}

impl EngineKind {
    fn name(self) -> &'static str {
        match self {
            EngineKind::Folder => "a folder",
            EngineKind::Redis => "Redis",
            EngineKind::Ceph => "Ceph",
            EngineKind::S3 => "S3",
            EngineKind::Swift => "Swift",
        }
    }
}

impl CoordinationKind {
    fn name(self) -> &'static str {
        match self {
            CoordinationKind::Database => "a database",
            CoordinationKind::Redis => "Redis",
            CoordinationKind::Etcd => "etcd",
        }
    }
}

impl Deployment {
    /// `data_dir` from the command line selects the embedded store, whatever the file says; warns about engines that
    /// are not used.
    pub fn of(config: &Config, data_dir: Option<&Path>) -> Result<(Self, Vec<String>)> {
        let named = named_engines(config);
        if let Some(dir) = data_dir {
            let warn = |(place, engine): &(String, String)| {
                format!("{place}: {engine} is not used: --data-dir names the embedded store")
            };
            return Ok((Deployment::Embedded(dir.to_owned()), named.iter().map(warn).collect()));
        }
        let index = config.text("indexer", "url").and_then(scheme).filter(|scheme| *scheme != "sqlite");
        let Some(index) = index else {
            if let Some((place, engine)) = named.first() {
                bail!(
                    "{place} = {engine}: a shared engine needs a shared index: [indexer] url must be postgresql://... or mysql://...; --data-dir uses the embedded store instead"
                );
            }
            return Ok((Deployment::Embedded(embedded_dir(config)?), Vec::new()));
        };
        let shared = Shared {
            incoming: engine_kind(config, INCOMING, index)?,
            storage: engine_kind(config, STORAGE, index)?,
            coordination: match config.text("DEFAULT", "coordination_url").and_then(scheme) {
                Some("redis" | "rediss") => CoordinationKind::Redis,
                Some("etcd" | "etcd3") => CoordinationKind::Etcd,
                _ => CoordinationKind::Database,
            },
        };
        Ok((Deployment::Shared(shared), Vec::new()))
    }

    /// The same; logs the warnings.
    pub fn warned_of(config: &Config, data_dir: Option<&Path>) -> Result<Self> {
        let (deployment, warnings) = Deployment::of(config, data_dir)?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        Ok(deployment)
    }
}

/// Place and name of all configured engines other than the embedded store.
fn named_engines(config: &Config) -> Vec<(String, String)> {
    [(STORAGE, "driver"), (INCOMING, "driver"), ("indexer", "url"), ("DEFAULT", "coordination_url")]
        .into_iter()
        .filter_map(|(section, name)| {
            // Only the scheme of a URL: it may hold a password.
            let value = config.text(section, name)?;
            let engine = scheme(value).unwrap_or(value);
            let is_embedded = matches!(engine, "local" | "file" | "sqlite");
            (!is_embedded).then(|| (config.place(section, name), engine.to_owned()))
        })
        .collect()
}

fn embedded_dir(config: &Config) -> Result<PathBuf> {
    if let Some(url) = config.text("indexer", "url")
        && !url.trim_start_matches("sqlite:").trim_matches('/').is_empty()
    {
        bail!(
            "{}: the embedded index is in the data directory, with everything else: set [storage] file_basepath or --data-dir instead",
            config.place("indexer", "url")
        );
    }
    Ok(config.text(STORAGE, "file_basepath").unwrap_or(DATA_DIR).into())
}

/// The engine of aggregates beside a shared index, in a file that need not configure anything else.
pub fn storage_kind(config: &Config) -> Result<EngineKind> {
    engine_kind(config, STORAGE, "of --config-file")
}

/// The engine of a section, if the index is shared.
fn engine_kind(config: &Config, section: &str, index: &str) -> Result<EngineKind> {
    let place = config.place(section, "driver");
    match config.text(section, "driver") {
        Some("redis") => Ok(EngineKind::Redis),
        Some("ceph") => Ok(EngineKind::Ceph),
        Some("s3") => Ok(EngineKind::S3),
        Some("swift") => Ok(EngineKind::Swift),
        Some("file") if config.text(section, "file_basepath").is_some() => Ok(EngineKind::Folder),
        Some("file") => bail!(
            "{place} = file: beside a shared index ({index}) it is a folder that all hosts have mounted: [{section}] file_basepath must name it"
        ),
        _ => bail!(
            "{place} = local: the embedded store belongs to one process, but [indexer] url ({index}) is shared: name redis, ceph, s3, swift or file, or leave [indexer] url out"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Project;

    fn deployment(text: &str, data_dir: Option<&str>) -> Result<(Deployment, Vec<String>)> {
        Deployment::of(&Config::of_text(Project::Gnocchi, text)?, data_dir.map(Path::new))
    }

    const INDEX: &str = "[indexer]\nurl = postgresql+psycopg2://u:hunter2@h/d\n";

    #[test]
    fn without_an_index_that_is_shared_everything_is_embedded() {
        for (text, dir) in [
            ("", "gnudi-data"),
            ("[storage]\ndriver = file\nfile_basepath = /d\n", "/d"),
            ("[storage]\ndriver = local\n[indexer]\nurl = sqlite://\n", "gnudi-data"),
        ] {
            let embedded = (Deployment::Embedded(dir.into()), Vec::new());
            assert_eq!(deployment(text, None).unwrap(), embedded, "{text}");
        }
    }

    #[test]
    fn a_shared_index_goes_with_shared_engines() {
        use CoordinationKind::{Database, Etcd, Redis as OnRedis};
        use EngineKind::{Ceph, Folder, Redis, S3, Swift};
        for (text, incoming, storage, coordination) in [
            ("[storage]\ndriver = ceph\n", Ceph, Ceph, Database),
            ("[storage]\ndriver = ceph\n[incoming]\ndriver = redis\n", Redis, Ceph, Database),
            ("[storage]\ndriver = swift\n[incoming]\ndriver = s3\n", S3, Swift, Database),
            ("[storage]\ndriver = file\nfile_basepath = /nfs\n", Folder, Folder, Database),
            ("[storage]\ndriver = s3\n[DEFAULT]\ncoordination_url = redis://:hunter2@h\n", S3, S3, OnRedis),
            ("[storage]\ndriver = s3\n[DEFAULT]\ncoordination_url = etcd3+http://h\n", S3, S3, Etcd),
            ("[storage]\ndriver = s3\n[DEFAULT]\ncoordination_url = mysql://h/d\n", S3, S3, Database),
        ] {
            let shared = Shared { incoming, storage, coordination };
            let found = deployment(&format!("{INDEX}{text}"), None).unwrap();
            assert_eq!(found, (Deployment::Shared(shared), Vec::new()), "{text}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_file_line_and_option() {
        for (text, place) in [
            (INDEX.to_owned(), "[storage] driver = local: "),
            (
                format!("{INDEX}[storage]\ndriver = ceph\n[incoming]\ndriver = local\n"),
                ":6: [incoming] driver = local: ",
            ),
            (format!("{INDEX}[storage]\ndriver = file\n"), ":4: [storage] driver = file: "),
            ("[storage]\ndriver = redis\n".to_owned(), ":2: [storage] driver = redis: "),
            ("[incoming]\ndriver = s3\n".to_owned(), ":2: [incoming] driver = s3: "),
            (
                "[DEFAULT]\ncoordination_url = redis://:hunter2@h\n".to_owned(),
                ":2: [DEFAULT] coordination_url = redis: ",
            ),
            ("[indexer]\nurl = sqlite:////tmp/index.db\n".to_owned(), ":2: [indexer] url: "),
        ] {
            let error = deployment(&text, None).unwrap_err().to_string();
            assert!(error.contains(place) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_data_directory_on_the_command_line_counts_more() {
        let text = format!("{INDEX}[storage]\ndriver = ceph\n");
        let (deployment, warnings) = deployment(&text, Some("/d")).unwrap();
        assert_eq!(deployment, Deployment::Embedded("/d".into()));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(!format!("{warnings:?}").contains("hunter2"), "{warnings:?}");
    }
}
