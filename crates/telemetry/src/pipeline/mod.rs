//! Pipelines: which samples and events go to which publishers.
//!
//! `file` parses the files, `selection` matches a source's list of names, `routes` caches the pipelines of each name,
//! so that patterns are matched once per name and not per sample. Nothing is transformed.

mod figures;
mod file;
#[cfg(test)]
mod file_tests;
mod routes;
mod selection;

use std::{collections::HashSet, path::PathBuf};

use parking_lot::Mutex;

pub use figures::PipelineFigures;
pub use file::{PipelineError, PipelineFile, PipelineSink, PipelineSource};
pub use selection::{Selection, SelectionError};

use self::routes::Routes;
use crate::{
    event::Event,
    publishers::{OpenError, Opened, Publisher, Receipt},
    sample::{Sample, volume_number},
};

/// Maximum number of meters to warn about whose volumes are no numbers; further ones are only counted.
const WARNED_METERS_MAX: usize = 1_000;

/// What a pipeline carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PipelineKind {
    Samples,
    Events,
}

/// Where the pipelines of one kind come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineOrigin {
    /// No pipelines: everything is dropped.
    Nowhere,
    /// No file: everything goes to the store.
    Defaults,
    File(PathBuf),
}

impl PipelineOrigin {
    /// `None`: no pipelines.
    fn read(&self, kind: PipelineKind) -> Result<Option<PipelineFile>, PipelineError> {
        Ok(match self {
            PipelineOrigin::Nowhere => None,
            PipelineOrigin::Defaults => Some(PipelineFile::defaults(kind)),
            PipelineOrigin::File(path) => Some(PipelineFile::load(path, kind)?),
        })
    }
}

/// All pipelines of an agent.
pub struct Pipelines {
    samples: Routes,
    events: Routes,
    /// Meters that were warned about.
    warned: Mutex<HashSet<String>>,
    figures: PipelineFigures,
    publishers_left_out: Vec<String>,
}

impl Pipelines {
    /// Reads the files and opens each publisher once per kind and URL. One that cannot be opened is skipped and
    /// returned by [`Pipelines::publishers_left_out`], for the log.
    ///
    /// # Errors
    /// A file is rejected, or a sink that a source uses is left without any publisher.
    pub fn load(
        samples: &PipelineOrigin,
        events: &PipelineOrigin,
        open: &dyn Fn(&str, PipelineKind) -> Opened,
        figures: PipelineFigures,
    ) -> Result<Self, PipelineError> {
        let mut publishers_left_out = Vec::new();
        let mut routes = |origin: &PipelineOrigin, kind| -> Result<Routes, PipelineError> {
            let Some(file) = origin.read(kind)? else { return Ok(Routes::default()) };
            Routes::new(&file, &mut |url| open(url, kind), &mut publishers_left_out)
        };
        let samples = routes(samples, PipelineKind::Samples)?;
        let events = routes(events, PipelineKind::Events)?;
        Ok(Pipelines { samples, events, warned: Mutex::default(), figures, publishers_left_out })
    }

    /// The errors of [`Pipelines::load`] that are found without opening a publisher. `check` returns why
    /// the publisher of a URL certainly cannot be opened.
    pub fn check(
        samples: &PipelineOrigin,
        events: &PipelineOrigin,
        check: &dyn Fn(&str) -> Result<(), OpenError>,
    ) -> Result<(), PipelineError> {
        for (origin, kind) in [(samples, PipelineKind::Samples), (events, PipelineKind::Events)] {
            if let Some(file) = origin.read(kind)? {
                file.check_sinks(|url| check(url).err().map(|error| error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Errors of the publishers that could not be opened.
    pub fn publishers_left_out(&self) -> &[String] {
        &self.publishers_left_out
    }

    /// Whether any publisher gets samples.
    pub fn take_samples(&self) -> bool {
        !self.samples.is_empty()
    }

    /// Whether any publisher gets events.
    pub fn take_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Warns about a sample whose volume is no number, once per meter.
    fn warn(&self, sample: &Sample<'_>) {
        const VOLUME_CHARACTERS_MAX: usize = 100;
        let mut warned = self.warned.lock();
        if warned.len() >= WARNED_METERS_MAX || !warned.insert(sample.name.clone().into_owned()) {
            return;
        }
        drop(warned);
        let (meter, resource) = (&sample.name, &sample.resource_id);
        let volume: String = sample.volume.to_string().chars().take(VOLUME_CHARACTERS_MAX).collect();
        tracing::warn!(%meter, %resource, volume, "a sample's volume is no number: such samples of this meter are dropped");
    }
}

impl Publisher for Pipelines {
    /// Publishes samples. Those whose volume is not a number are counted and dropped.
    fn samples(&self, samples: &[Sample<'_>]) -> Receipt {
        let is_valid = |sample: &&Sample<'_>| volume_number(&sample.volume).is_some();
        let valid: Vec<Sample<'_>>;
        let samples = if samples.iter().all(|sample| is_valid(&sample)) {
            samples
        } else {
            for sample in samples.iter().filter(|sample| !is_valid(sample)) {
                self.figures.samples_without_volume.inc();
                self.warn(sample);
            }
            valid = samples.iter().filter(is_valid).cloned().collect();
            &valid
        };
        let routed = self.samples.publish(samples, |sample| &sample.name, |to, samples| to.samples(samples));
        self.figures.samples.inc_by(samples.len() as u64);
        self.figures.samples_unrouted.inc_by(routed.unrouted as u64);
        routed.receipt
    }

    fn events(&self, events: &[Event]) -> Receipt {
        let routed = self.events.publish(events, |event| &event.event_type, |to, events| to.events(events));
        self.figures.events.inc_by(events.len() as u64);
        self.figures.events_unrouted.inc_by(routed.unrouted as u64);
        routed.receipt
    }
}
