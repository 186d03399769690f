//! All meter definitions, loaded from files, and the lookup by event type.

use std::{
    borrow::Cow,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{
    built_in,
    definition::{MeterDefinition, NotificationSender},
    metadata::SampleOptions,
};
use crate::{
    definitions::{ByEventType, DefinitionError, Field, LookupError, pattern::Pattern, python},
    located::Located,
    notification::Notification,
    sample::Sample,
    yaml::{self, YamlError},
};

/// Ceilometer's own file, the default.
const SHIPPED: &str = include_str!("../../data/meters.yaml");
const SHIPPED_PATH: &str = "meters.yaml (built in)";

/// The default directory; Ceilometer's own file is read after it.
const DIRECTORY: &str = "/etc/ceilometer/meters.d";

/// The end of the path of Ceilometer's own folder: old configurations name it, and it may not exist.
const SHIPPED_FOLDER: &str = "ceilometer/data/meters.d";

/// The samples of a notification.
#[derive(Debug, Default)]
pub struct MadeSamples {
    pub samples: Vec<Sample<'static>>,
    /// Ranges of samples made by definitions with `lookup`: these get user and project names.
    pub looked_up: Vec<Range<usize>>,
}

/// Compiled meter definitions.
#[derive(Debug)]
pub struct MeterDefinitions {
    meters: Vec<MeterDefinition>,
    /// Each distinct pattern, with the meters that use it.
    patterns: Vec<(Pattern, Vec<usize>)>,
    by_event_type: ByEventType<Arc<[usize]>>,
    user_id: Field,
    project_id: Field,
    options: SampleOptions,
}

impl MeterDefinitions {
    /// Loads the `*.yaml` of some folders by file name; `None` is Ceilometer's default. If several meters have one
    /// name, the first folder's wins, and the last one within a file. An invalid definition is skipped with a warning.
    /// A file that is not YAML, or has no list `metric`, is an error.
    pub fn load(folders: Option<&[PathBuf]>, options: SampleOptions) -> Result<Self, YamlError> {
        let default = [PathBuf::from(DIRECTORY), PathBuf::from(SHIPPED_FOLDER)];
        let mut reader = Reader::default();
        for folder in folders.unwrap_or(&default) {
            if folder.ends_with(SHIPPED_FOLDER) && !folder.exists() {
                reader.read(Path::new(SHIPPED_PATH), SHIPPED)?;
                continue;
            }
            for path in yaml::files(folder)? {
                reader.read(&path, &yaml::text(&path)?)?;
            }
        }
        Ok(MeterDefinitions::new(reader.meters, options))
    }

    /// Ceilometer's own definitions only.
    pub fn shipped(options: SampleOptions) -> Result<Self, YamlError> {
        let mut reader = Reader::default();
        reader.read(Path::new(SHIPPED_PATH), SHIPPED)?;
        Ok(MeterDefinitions::new(reader.meters, options))
    }

    fn new(meters: Vec<MeterDefinition>, options: SampleOptions) -> Self {
        let mut patterns: Vec<(Pattern, Vec<usize>)> = Vec::new();
        for (at, meter) in meters.iter().enumerate() {
            for pattern in &meter.event_types {
                match patterns.iter_mut().find(|(known, _)| known.text() == pattern.text()) {
                    Some((_, meters)) => meters.push(at),
                    None => patterns.push((pattern.clone(), vec![at])),
                }
            }
        }
        // As in Ceilometer. An alternative binds tighter than a dot, so the second name is looked up within the first.
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

    /// Number of meters.
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }

    /// Whether notifications of this type may make samples; for others no document needs to be built.
    pub fn matches(&self, event_type: &str) -> bool {
        // `samples` reports an expression that fails.
        built_in::matches(event_type) || self.meters_of(event_type).map_or(true, |meters| !meters.is_empty())
    }

    /// The samples of a notification; `document` is its `document()`. If one definition fails, the whole notification
    /// does: a permanent error.
    pub fn samples(
        &self,
        notification: &Notification<'_>,
        document: &Value,
    ) -> Result<MadeSamples, LookupError> {
        let meters = self.meters_of(&notification.event_type)?;
        let mut made = MadeSamples::default();
        if !meters.is_empty() {
            self.add_defined(&meters, notification, document, &mut made)?;
        }
        built_in::add_samples(notification, document, &self.options, &mut made.samples)?;
        Ok(made)
    }

    fn add_defined(
        &self,
        meters: &[usize],
        notification: &Notification<'_>,
        document: &Value,
        made: &mut MadeSamples,
    ) -> Result<(), LookupError> {
        let found = |field: &Field| Ok(field.first(document)?.map(Cow::into_owned).unwrap_or_default());
        let sender =
            NotificationSender { user_id: found(&self.user_id)?, project_id: found(&self.project_id)? };
        for at in meters {
            let (meter, before) = (&self.meters[*at], made.samples.len());
            meter.samples(notification, document, &sender, &self.options, &mut made.samples)?;
            if meter.lookup.is_some() && made.samples.len() > before {
                made.looked_up.push(before..made.samples.len());
            }
        }
        Ok(())
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

/// Collects meters from files.
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
            let definition = located.json();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::notification::read;

    fn samples(
        meters: &MeterDefinitions,
        event_type: &str,
        payload: &Value,
    ) -> Result<Vec<Sample<'static>>, LookupError> {
        let message = json!({"publisher_id": "compute.host", "event_type": event_type, "priority": "info",
            "message_id": "m", "timestamp": "2026-01-02 03:04:05.678", "payload": payload});
        let message = message.to_string();
        let notification = read(&message).unwrap();
        meters.samples(&notification, &notification.document().unwrap()).map(|made| made.samples)
    }

    #[test]
    fn what_is_shipped_is_there() {
        let meters = MeterDefinitions::shipped(SampleOptions::default()).unwrap();
        assert_eq!(meters.len(), 38);
        assert!(meters.matches("compute.instance.exists") && !meters.matches("compute.instance.update"));
        let payload =
            json!({"instance_id": "i", "memory_mb": 512, "vcpus": 2, "root_gb": 1, "ephemeral_gb": 0});
        let made = samples(&meters, "compute.instance.exists", &payload).unwrap();
        let names: Vec<&str> = made.iter().map(|sample| sample.name.as_ref()).collect();
        assert_eq!(names, ["disk.ephemeral.size", "disk.root.size", "vcpus", "memory"]);
        assert_eq!(
            (&made[3].volume, made[3].timestamp.as_deref()),
            (&json!(512), Some("2026-01-02T03:04:05.678000+00:00"))
        );
        // The same message makes the same samples, with distinct ids.
        let again = samples(&meters, "compute.instance.exists", &payload).unwrap();
        let ids: Vec<&str> = made.iter().map(|sample| sample.id.as_ref()).collect();
        assert_eq!(ids, again.iter().map(|sample| sample.id.as_ref()).collect::<Vec<_>>());
        assert!((1..4).all(|at| ids[at] != ids[0]));
    }

    #[test]
    fn copies_of_a_payload_are_limited() {
        let meters = MeterDefinitions::shipped(SampleOptions::default()).unwrap();
        let made = |count: usize, resource: &str| {
            let metric = json!({"name": "n", "unit": "u", "value": 1});
            let payload = json!({"metrics": vec![metric; count], "resource_id": resource});
            let made = samples(&meters, "magnum.bay.metrics.update", &payload);
            made.map(|made| made.len()).map_err(|error| error.0)
        };
        assert_eq!(made(200, "r"), Ok(200));
        assert!(made(5000, "r").unwrap_err().contains("in common"));
        assert!(made(40, &"r".repeat(1 << 20)).unwrap_err().contains("in common"));
    }

    #[test]
    fn a_bad_file_is_named_and_a_bad_definition_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            MeterDefinitions::load(Some(&[folder.path().to_owned()]), SampleOptions::default())
        };
        for (text, problem) in [
            ("meter: []", "the key `metric` is missing"),
            ("metric: {}", "`metric` is no list"),
            ("metric: [", "line"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains("a.yaml: ") && error.contains(problem), "{error}");
        }
        let good = "{name: x, type: gauge, unit: B, event_type: a, volume: v, resource_id: r}";
        let meters =
            load(&format!("metric:\n- {good}\n- {{name: y}}\n- {good}\n- {}\n", good.replace("gauge", "x")));
        assert_eq!(meters.unwrap().len(), 1);
        assert!(load("metric: []").unwrap().is_empty());
    }
}
