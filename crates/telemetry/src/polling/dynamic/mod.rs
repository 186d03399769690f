//! Dynamic pollsters: meters of any service that speaks JSON, XML or plain text, as files describe them.
//!
//! What evaluates Python in Ceilometer is refused with the file, the line and the key: operations on values, expressions in
//! paths, authentication by modules. So are commands on the host, and metadata that further requests would have to bring.

mod definition;
mod document;
mod pollster;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use definition::{Definition, parse};
pub use pollster::DynamicPollster;

use super::{cloud::Cloud, pollster::Pollster};
use crate::yaml;

/// All pollsters of the directories' files (`*.yaml`, by name) for these namespaces. What cannot be used is logged and left
/// out, as are names that come twice.
pub fn pollsters(directories: &[PathBuf], namespaces: &[String], cloud: &Cloud) -> Vec<Arc<dyn Pollster>> {
    let mut all: Vec<Arc<dyn Pollster>> = Vec::new();
    for path in directories.iter().flat_map(|directory| files(directory)) {
        let definitions = match yaml::text(&path).and_then(|text| parse(&path, &text)) {
            Ok(definitions) => definitions,
            Err(error) => {
                tracing::error!(%error, "dynamic pollsters are left out");
                continue;
            }
        };
        for definition in definitions {
            match definition {
                Err(error) => tracing::error!(%error, "a dynamic pollster is left out"),
                Ok(definition) if !definition.is_for(namespaces) => {
                    tracing::debug!(name = definition.name, "a dynamic pollster of another namespace");
                }
                Ok(definition) if all.iter().any(|other| other.name() == definition.name) => {
                    tracing::warn!(name = definition.name, file = %path.display(), "a dynamic pollster is defined before");
                }
                Ok(definition) => all.push(Arc::new(DynamicPollster::new(definition, cloud.clone()))),
            }
        }
    }
    all
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::debug!(%error, directory = %directory.display(), "no dynamic pollsters");
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}
