//! Damaged objects: each place is reported once, and copied to the quarantine.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;

use super::names;
use crate::{
    objects::Objects,
    quarantine::{QUARANTINE_BYTES_MAX, Reported},
};

pub struct Damage {
    objects: Arc<dyn Objects>,
    /// Objects and offsets.
    reported: Reported<(String, u64)>,
    copied_bytes: AtomicU64,
}

impl Damage {
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects, reported: Reported::default(), copied_bytes: AtomicU64::new(0) }
    }

    /// Number of damaged places found.
    pub fn found(&self) -> u64 {
        self.reported.found()
    }

    /// An object, for messages.
    pub fn place(&self, name: &str) -> String {
        format!("{name} in {}", self.objects.place())
    }

    /// Reports damaged bytes of an object.
    pub fn report(&self, what: &str, name: &str, offset: u64, bytes: &[u8]) {
        if !self.reported.insert((name.to_owned(), offset)) {
            return;
        }
        let object = self.place(name);
        tracing::error!(object, offset, length = bytes.len(), "damaged {what}: set aside");
        let length = bytes.len() as u64;
        let copied = self.copied_bytes.fetch_add(length, Ordering::Relaxed);
        if bytes.is_empty() || copied + length > QUARANTINE_BYTES_MAX {
            return;
        }
        let (objects, copy) = (self.objects.clone(), names::quarantine(name, offset));
        let bytes = Bytes::copy_from_slice(bytes);
        tokio::spawn(async move {
            if let Err(error) = objects.put(&copy, bytes).await {
                tracing::error!("the bytes could not be copied to {copy}: {error}");
            }
        });
    }
}
