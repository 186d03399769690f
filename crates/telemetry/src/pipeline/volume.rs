//! Warns once per meter about volumes that are not numbers.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::sample::Sample;

/// Maximum number of meters to warn about; further ones are only counted.
const WARNED_METERS_MAX: usize = 1_000;

/// Meters that were warned about.
#[derive(Debug, Default)]
pub struct Volumes(Mutex<HashSet<String>>);

impl Volumes {
    pub fn warn(&self, sample: &Sample<'_>) {
        const VOLUME_CHARACTERS_MAX: usize = 100;
        let mut warned = self.0.lock();
        if warned.len() >= WARNED_METERS_MAX || !warned.insert(sample.name.clone().into_owned()) {
            return;
        }
        drop(warned);
        let (meter, resource) = (&sample.name, &sample.resource_id);
        let volume: String = sample.volume.to_string().chars().take(VOLUME_CHARACTERS_MAX).collect();
        tracing::warn!(%meter, %resource, volume, "a sample's volume is no number: such samples of this meter are dropped");
    }
}
