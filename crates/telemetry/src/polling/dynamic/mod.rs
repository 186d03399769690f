//! Dynamic pollsters: meters of any service that speaks JSON, XML or plain text, defined in files.
//!
//! [`file`] parses the files, [`gather`] fetches from services and commands, [`reading`] and [`extra`] extract values
//! and metadata. What is Python in Ceilometer (operations on values, expressions in paths and commands) is evaluated by
//! [`expression`]; unsupported expressions are rejected with file, line and key, as is authentication by Python
//! modules.

mod definition;
mod document;
mod expression;
mod extra;
mod file;
mod gather;
mod pollster;
mod reading;
mod template;
mod value_path;

use std::{path::PathBuf, sync::Arc};

pub use definition::DynamicDefinition;
pub use expression::{Expression, ExpressionError};
pub use file::parse;
pub use pollster::DynamicPollster;

use self::gather::Gatherer;
use super::{cloud::Cloud, pollster::Pollster};
use crate::yaml::{self, YamlError};

/// All pollsters of these namespaces in the directories' `*.yaml` files, sorted by name. Invalid and duplicate ones are
/// logged and skipped. `cloud`: `None` without service credentials.
pub fn pollsters(
    directories: &[PathBuf],
    namespaces: &[String],
    cloud: Option<&Cloud>,
) -> Vec<Arc<dyn Pollster>> {
    let mut all: Vec<Arc<dyn Pollster>> = Vec::new();
    let files = directories.iter().map(|directory| yaml::files(directory));
    for path in files.flat_map(|files| files.unwrap_or_else(|error| left_out(&error))) {
        let definitions = yaml::text(&path).and_then(|text| parse(&path, &text));
        for definition in definitions.unwrap_or_else(|error| left_out(&error)) {
            match definition {
                Err(error) => tracing::error!(%error, "a dynamic pollster is skipped"),
                Ok(definition) if !definition.is_for(namespaces) => {
                    tracing::debug!(name = definition.name, "a dynamic pollster of another namespace");
                }
                Ok(definition) if all.iter().any(|other| other.name() == definition.name) => {
                    tracing::warn!(name = definition.name, file = %path.display(), "a dynamic pollster is defined before");
                }
                Ok(definition) if cloud.is_none() && definition.asks_services() => {
                    tracing::warn!(
                        name = definition.name,
                        "[service_credentials] auth_url is not set: a dynamic pollster of a service is skipped"
                    );
                }
                Ok(definition) => {
                    // Each has its own cache, so that none waits for another or evicts its entries.
                    let gatherer = Gatherer::new(cloud.cloned());
                    all.push(Arc::new(DynamicPollster::new(definition, gatherer)));
                }
            }
        }
    }
    all
}

/// Nothing of a file or directory, for this error.
fn left_out<T>(error: &YamlError) -> Vec<T> {
    tracing::error!(%error, "dynamic pollsters are left out");
    Vec::new()
}
