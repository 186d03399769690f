//! All meters: the files that define them, and which of them an event type has.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{
    definition::{MeterDefinition, Sender},
    metadata::SampleOptions,
};
use crate::{
    definitions::{ByEventType, DefinitionError, Field, LookupError, json, pattern::Pattern, python},
    located::Located,
    notification::Notification,
    sample::Sample,
    yaml::YamlError,
};

/// What Ceilometer ships, for clouds that have no file of their own.
const SHIPPED: &str = include_str!("../../data/meters.yaml");
const SHIPPED_PATH: &str = "meters.yaml (built in)";

/// Where files are looked for unless an option says otherwise; what is shipped comes behind.
const DIRECTORY: &str = "/etc/ceilometer/meters.d";

/// How the folder of Ceilometer's own files ends, which old configurations name and which is not there any more.
const SHIPPED_FOLDER: &str = "ceilometer/data/meters.d";

/// Compiled meter definitions.
#[derive(Debug)]
pub struct MeterDefinitions {
    meters: Vec<MeterDefinition>,
    /// Each pattern once, with the meters that have it.
    patterns: Vec<(Pattern, Vec<usize>)>,
    by_event_type: ByEventType<Arc<[usize]>>,
    user_id: Field,
    project_id: Field,
    options: SampleOptions,
}

impl MeterDefinitions {
    /// Reads the `*.yaml` of some folders, in the order of their names; `None` is what Ceilometer does by default. Of meters
    /// with one name the first folder's counts, and the last one in a file. A definition that cannot be used is left out
    /// with a warning; a file that is no YAML, or has no list `metric`, is an error.
    pub fn load(folders: Option<&[PathBuf]>, options: SampleOptions) -> Result<Self, YamlError> {
        let default = [PathBuf::from(DIRECTORY), PathBuf::from(SHIPPED_FOLDER)];
        let mut reader = Reader::default();
        for folder in folders.unwrap_or(&default) {
            if folder.ends_with(SHIPPED_FOLDER) && !folder.exists() {
                reader.read(Path::new(SHIPPED_PATH), SHIPPED)?;
                continue;
            }
            for path in files(folder)? {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| YamlError::Unreadable { path: path.clone(), error })?;
                reader.read(&path, &text)?;
            }
        }
        Ok(MeterDefinitions::new(reader.meters, options))
    }

    /// What is shipped, and nothing else.
    pub fn shipped(options: SampleOptions) -> Result<Self, YamlError> {
        let mut reader = Reader::default();
        reader.read(Path::new(SHIPPED_PATH), SHIPPED)?;
        Ok(MeterDefinitions::new(reader.meters, options))
    }

    fn new(meters: Vec<MeterDefinition>, options: SampleOptions) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut patterns: Vec<(Pattern, Vec<usize>)> = Vec::new();
        for (at, meter) in meters.iter().enumerate() {
            for pattern in &meter.event_types {
                let place = *places.entry(pattern.text().to_owned()).or_insert_with(|| {
                    patterns.push((pattern.clone(), Vec::new()));
                    patterns.len() - 1
                });
                patterns[place].1.push(at);
            }
        }
        // As Ceilometer has them. An alternative binds tighter than a dot, so that the second name is one within the first.
        let field = |path: &str| Field::parse("context", &Value::from(path)).expect("a correct path");
        MeterDefinitions {
            meters,
            patterns,
            by_event_type: ByEventType::default(),
            user_id: field("ctxt.user_id|ctxt.user"),
            project_id: field("ctxt.project_id|ctxt.tenant_id"),
            options,
        }
    }

    /// How many meters there are.
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }

    /// Whether notifications of this type may make samples; for others no document is needed.
    pub fn matches(&self, event_type: &str) -> bool {
        // An expression that fails is for `samples` to tell.
        self.meters_of(event_type).map_or(true, |meters| !meters.is_empty())
    }

    /// The samples of a notification; `document` is its own `document()`. An error says that one definition cannot be
    /// followed in it, and stands for the whole notification: it would fail again.
    pub fn samples(
        &self,
        notification: &Notification<'_>,
        document: &Value,
    ) -> Result<Vec<Sample<'static>>, LookupError> {
        let meters = self.meters_of(&notification.event_type)?;
        if meters.is_empty() {
            return Ok(Vec::new());
        }
        let found =
            |field: &Field| Ok(field.first(document)?.map(|value| value.into_owned()).unwrap_or_default());
        let sender = Sender { user_id: found(&self.user_id)?, project_id: found(&self.project_id)? };
        let mut samples = Vec::with_capacity(meters.len());
        for at in meters.iter() {
            self.meters[*at].samples(notification, document, &sender, &self.options, &mut samples)?;
        }
        Ok(samples)
    }

    fn meters_of(&self, event_type: &str) -> Result<Arc<[usize]>, LookupError> {
        self.by_event_type.get_or(event_type, || {
            let mut meters = Vec::new();
            for (pattern, of) in &self.patterns {
                if pattern.matches(event_type)? {
                    meters.extend(of);
                }
            }
            meters.sort_unstable();
            meters.dedup();
            Ok(meters.into())
        })
    }
}

/// Gathers meters out of files.
#[derive(Default)]
struct Reader {
    names: Vec<Value>,
    meters: Vec<MeterDefinition>,
}

impl Reader {
    fn read(&mut self, path: &Path, text: &str) -> Result<(), YamlError> {
        let malformed =
            |problem: &str| YamlError::Malformed { path: path.to_owned(), problem: problem.to_owned() };
        let file = Located::parse(path, text)?;
        let list = file.get("metric").ok_or_else(|| malformed("the key `metric` is missing"))?;
        let list = list.list().ok_or_else(|| malformed("`metric` is no list"))?;
        for located in list.iter().rev() {
            let definition = json(located);
            let name = definition.get("name").cloned().unwrap_or_default();
            let (file, line) = (path.display(), located.line);
            if self.names.iter().any(|known| python::is_equal(known, &name)) {
                tracing::warn!(%file, line, %name, "a meter that is defined already is left out");
                continue;
            }
            match MeterDefinition::parse(&definition) {
                Ok(meter) => {
                    self.names.push(name);
                    self.meters.push(meter);
                }
                Err(DefinitionError(error)) => {
                    tracing::warn!(%file, line, %name, error, "a meter that cannot be used is left out");
                }
            }
        }
        Ok(())
    }
}

/// The `*.yaml` of a folder, by name; none where there is no such folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, YamlError> {
    let unreadable = |error| YamlError::Unreadable { path: folder.to_owned(), error };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".yaml") && !name.starts_with('.') {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
