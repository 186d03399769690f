//! Parses `pipeline.yaml` and `event_pipeline.yaml`: sources select names and refer to sinks; sinks name publishers.
//!
//! Files that Ceilometer rejects are rejected. What Ceilometer silently ignores (forms and keys of older releases) is
//! logged. Publishers are opened elsewhere.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
};

use super::{PipelineKind, Selection};
use crate::{
    located::{Located, YamlNode, key_text},
    yaml::{self, YamlError},
};

/// Why a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    Yaml(#[from] YamlError),
    #[error("{}:{line}: {key}: {problem}", path.display())]
    Wrong { path: PathBuf, line: u64, key: String, problem: String },
    /// A sink that a source uses has no publisher that can be opened.
    #[error(
        "{place}: sink {sink}: none of its publishers can be opened, and what it gets would be lost: {reasons}"
    )]
    NoPublisher { place: String, sink: String, reasons: String },
}

/// The pipelines of one file.
#[derive(Clone, Debug)]
pub struct PipelineFile {
    /// `None`: the default without a file.
    pub path: Option<PathBuf>,
    pub sources: Vec<PipelineSource>,
    pub sinks: Vec<PipelineSink>,
}

#[derive(Clone, Debug)]
pub struct PipelineSource {
    pub name: String,
    pub selection: Selection,
    /// Indexes into the file's sinks.
    pub sinks: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct PipelineSink {
    pub name: String,
    /// In the file; 0 without one.
    pub line: u64,
    /// URLs with `://`.
    pub publishers: Vec<String>,
}

/// Sections of the transformers, removed in 2018.
const TRANSFORMERS_GONE: &str = "transformers were removed from Ceilometer in 2018 and are not run; delete this key, and let \
    the store compute: rates and deltas are Gnocchi's aggregates \"rate:mean\" and so on (archive policies ceilometer-low-rate and \
    ceilometer-high-rate have them), arithmetic and units are its operations on aggregates";

impl PipelineFile {
    /// The default without a file: everything goes to the store.
    pub fn defaults(kind: PipelineKind) -> Self {
        let (source, sink) = match kind {
            PipelineKind::Samples => ("meter_source", "meter_sink"),
            PipelineKind::Events => ("event_source", "event_sink"),
        };
        PipelineFile {
            path: None,
            sources: vec![PipelineSource {
                name: source.to_owned(),
                selection: Selection::everything(),
                sinks: vec![0],
            }],
            sinks: vec![PipelineSink {
                name: sink.to_owned(),
                line: 0,
                publishers: vec!["gnocchi://".to_owned()],
            }],
        }
    }

    pub fn load(path: &Path, kind: PipelineKind) -> Result<Self, PipelineError> {
        PipelineFile::parse(path, &yaml::text(path)?, kind)
    }

    /// Parses a text; `path` is for errors.
    pub fn parse(path: &Path, text: &str, kind: PipelineKind) -> Result<Self, PipelineError> {
        let file = Located::parse(path, text)?;
        Reader { path, kind }.read(&file)
    }

    /// The names of the pipelines: each is a source with one of its sinks.
    pub fn pipelines(&self) -> impl Iterator<Item = (String, &PipelineSource, &PipelineSink)> {
        self.sources.iter().flat_map(move |source| {
            source.sinks.iter().map(move |sink| {
                let sink = &self.sinks[*sink];
                (pipeline_name(&source.name, &sink.name), source, sink)
            })
        })
    }

    /// Whether each sink that a source uses has a publisher that can be opened. `fault` is why one cannot be.
    /// Ceilometer goes on without any, and acknowledges what it then drops.
    pub fn check_sinks(&self, fault: impl Fn(&str) -> Option<String>) -> Result<(), PipelineError> {
        for (_, _, sink) in self.pipelines() {
            let faults: Vec<String> = sink.publishers.iter().filter_map(|url| fault(url)).collect();
            if faults.len() == sink.publishers.len() {
                let place = match &self.path {
                    Some(path) => format!("{}:{}", path.display(), sink.line),
                    None => "without a pipeline file".to_owned(),
                };
                let (sink, reasons) = (sink.name.clone(), faults.join("; "));
                return Err(PipelineError::NoPublisher { place, sink, reasons });
            }
        }
        Ok(())
    }
}

fn pipeline_name(source: &str, sink: &str) -> String {
    if source == sink { source.to_owned() } else { format!("{source}:{sink}") }
}

struct Reader<'a> {
    path: &'a Path,
    kind: PipelineKind,
}

impl Reader<'_> {
    fn error(&self, line: u64, key: impl fmt::Display, problem: impl fmt::Display) -> PipelineError {
        let (key, problem) = (key.to_string(), problem.to_string());
        PipelineError::Wrong { path: self.path.to_owned(), line, key, problem }
    }

    /// A value of another kind than its key takes.
    fn wrong_kind(&self, value: &Located, key: impl fmt::Display, must: &str) -> PipelineError {
        self.error(value.line, key, format!("must {must}, not {}", value.kind()))
    }

    fn read(&self, file: &Located) -> Result<PipelineFile, PipelineError> {
        if file.list().is_some() {
            return Err(self.error(
                file.line,
                "the file",
                "a list of pipelines is the form before 2013; write two lists, `sources` (name, meters or events, sinks) and \
                 `sinks` (name, publishers), and intervals in polling.yaml",
            ));
        }
        let sinks = self.entries(file, "sinks")?;
        let sources = self.entries(file, "sources")?;
        let sinks = self.named(sinks, "sinks", |at, name, entry| self.sink(at, name, entry))?;
        let sources =
            self.named(sources, "sources", |at, name, entry| self.source(at, name, entry, &sinks))?;
        let read = PipelineFile { path: Some(self.path.to_owned()), sources, sinks };
        let mut names = HashSet::new();
        for (name, ..) in read.pipelines() {
            if !names.insert(name.clone()) {
                return Err(self.error(
                    file.get("sources").map_or(file.line, |list| list.line),
                    "sources",
                    format!(
                        "the pipeline {name} (a source and one of its sinks) is there twice; give its source another name"
                    ),
                ));
            }
        }
        if names.is_empty() {
            tracing::warn!(file = %self.path.display(), "no source: nothing is published");
        }
        Ok(read)
    }

    fn entries<'f>(&self, file: &'f Located, key: &str) -> Result<&'f [Located], PipelineError> {
        let list = file.get(key).ok_or_else(|| {
            self.error(file.line.max(1), key, "missing; both `sources` and `sinks` are required")
        })?;
        list.list().ok_or_else(|| self.wrong_kind(list, key, "be a list"))
    }

    /// Reads the entries of a list, whose names must differ.
    fn named<T>(
        &self,
        entries: &[Located],
        list: &str,
        read: impl Fn(&str, String, &Located) -> Result<T, PipelineError>,
    ) -> Result<Vec<T>, PipelineError> {
        let mut names = HashSet::new();
        let mut all = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let at = format!("{list}[{at}]");
            let YamlNode::Map(_) = &entry.node else {
                return Err(self.wrong_kind(entry, at, "be a map with a name"));
            };
            let key = format!("{at}.name");
            let name = entry.get("name").ok_or_else(|| self.error(entry.line, &key, "missing"))?;
            let name = name.text().ok_or_else(|| self.wrong_kind(name, &key, "be a text"))?;
            if !names.insert(name) {
                let problem = format!("{name} is the name of another of the {list}");
                return Err(self.error(entry.line, key, problem));
            }
            all.push(read(&at, name.to_owned(), entry)?);
        }
        Ok(all)
    }

    fn sink(&self, at: &str, name: String, entry: &Located) -> Result<PipelineSink, PipelineError> {
        self.warn_unknown(at, entry, &["name", "publishers", "transformers"]);
        if let Some(transformers) = entry.get("transformers").filter(|value| !value.is_empty()) {
            return Err(self.error(transformers.line, format!("{at}.transformers"), TRANSFORMERS_GONE));
        }
        let mut publishers = self.texts(at, entry, "publishers")?;
        if publishers.is_empty() {
            return Err(self.error(
                entry.line,
                format!("{at}.publishers"),
                "names no publisher; gnocchi:// is the store",
            ));
        }
        for url in &mut publishers {
            if !url.contains("://") {
                url.push_str("://");
            }
        }
        Ok(PipelineSink { name, line: entry.line, publishers })
    }

    fn source(
        &self,
        at: &str,
        name: String,
        entry: &Located,
        sinks: &[PipelineSink],
    ) -> Result<PipelineSource, PipelineError> {
        let (key, other) = match self.kind {
            PipelineKind::Samples => ("meters", "events"),
            PipelineKind::Events => ("events", "meters"),
        };
        self.warn_unknown(at, entry, &["name", "sinks", key]);
        let Some(list) = entry.get(key) else {
            let hint = if entry.get(other).is_some() {
                format!("missing; `{other}` belong into the other of the two pipeline files")
            } else {
                "missing; write [\"*\"] to take everything".to_owned()
            };
            return Err(self.error(entry.line, format!("{at}.{key}"), hint));
        };
        let is_everything = list.text() == Some("*");
        let names = if is_everything { vec!["*".to_owned()] } else { self.texts(at, entry, key)? };
        let selection =
            Selection::new(&names).map_err(|error| self.error(list.line, format!("{at}.{key}"), error))?;
        Ok(PipelineSource { name, selection, sinks: self.source_sinks(at, entry, sinks)? })
    }

    fn source_sinks(
        &self,
        at: &str,
        entry: &Located,
        sinks: &[PipelineSink],
    ) -> Result<Vec<usize>, PipelineError> {
        let key = format!("{at}.sinks");
        let names = self.texts(at, entry, "sinks")?;
        if names.is_empty() {
            return Err(self.error(entry.line, key, "names no sink"));
        }
        let lines = entry.get("sinks").and_then(Located::list).unwrap_or_default();
        let place = |(name, line): (&String, &Located)| {
            sinks.iter().position(|sink| sink.name == *name).ok_or_else(|| {
                let known: Vec<&str> = sinks.iter().map(|sink| sink.name.as_str()).collect();
                self.error(
                    line.line,
                    &key,
                    format!("no sink is called {name}; there are: {}", known.join(", ")),
                )
            })
        };
        names.iter().zip(lines).map(place).collect()
    }

    /// A list of texts; empty if `null`, an error if the key is missing.
    fn texts(&self, at: &str, entry: &Located, key: &str) -> Result<Vec<String>, PipelineError> {
        let at = format!("{at}.{key}");
        let value = entry.get(key).ok_or_else(|| self.error(entry.line, &at, "missing"))?;
        match &value.node {
            YamlNode::Null => Ok(Vec::new()),
            YamlNode::List(items) => items
                .iter()
                .map(|item| {
                    let text = item.text().map(str::to_owned);
                    text.ok_or_else(|| self.wrong_kind(item, &at, "hold texts"))
                })
                .collect(),
            YamlNode::Text(text) => {
                Err(self.error(value.line, &at, format!("must be a list; write [\"{text}\"]")))
            }
            _ => Err(self.wrong_kind(value, &at, "be a list of texts")),
        }
    }

    fn warn_unknown(&self, at: &str, entry: &Located, known: &[&str]) {
        let YamlNode::Map(entries) = &entry.node else { return };
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&key_text(key))) {
            let (file, line, key) = (self.path.display(), key.referenced.line(), key_text(key));
            let hint = match key {
                "interval" | "resources" | "discovery" => "; it belongs into polling.yaml",
                _ => "",
            };
            tracing::warn!("{file}:{line}: {at}.{key}: has no effect and is ignored{hint}");
        }
    }
}
