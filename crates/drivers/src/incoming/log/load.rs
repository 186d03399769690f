//! Fills the index from the frames that recovery finds in the log.

use std::{num::NonZeroU16, path::Path, sync::Arc};

use gnudi_model::SackCount;

use super::{
    entries::SackExtent,
    index::{Index, Item},
    queue::Gate,
};
use crate::{OpenError, incoming::Position, segments::RecoveredFrame};

pub struct Loader {
    /// For each sack, from the checkpoint; may be empty.
    trimmed: Vec<Position>,
    gate: Arc<Gate>,
    /// Created once the sack count is known.
    index: Option<Index>,
    /// Why the log is invalid.
    invalid: Option<String>,
}

impl Loader {
    pub fn new(trimmed: Vec<Position>, gate: Arc<Gate>) -> Self {
        Self { trimmed, gate, index: None, invalid: None }
    }

    /// Adds a frame's items, except trimmed ones.
    pub fn take(&mut self, found: &RecoveredFrame<'_>) {
        self.prepare(found.owner_tag);
        let Some(index) = &self.index else { return };
        let waits = |part: &SackExtent| {
            let position = Item::of(found.at, part).position();
            // A part without records is padding of a repair.
            part.length > 0
                && self.trimmed.get(usize::from(part.sack.0)).is_none_or(|trimmed| position > *trimmed)
        };
        let parts: Vec<SackExtent> = found.items.iter().map(SackExtent::of_item).filter(waits).collect();
        if let Some(part) = parts.iter().find(|part| usize::from(part.sack.0) >= self.trimmed.len()) {
            self.invalid = Some(format!(
                "a record for sack {}, but there are {} sacks only",
                part.sack.0,
                self.trimmed.len()
            ));
            return;
        }
        self.gate.enter(parts.iter().map(SackExtent::stored_bytes).sum());
        index.publish([(found.at, &parts[..], None)].into_iter());
    }

    fn prepare(&mut self, owner_tag: u64) {
        if self.index.is_none() && self.invalid.is_none() {
            match u16::try_from(owner_tag).ok().and_then(NonZeroU16::new) {
                Some(count) => {
                    self.trimmed.resize(count.get().into(), Position(0));
                    self.index = Some(Index::new(&self.trimmed, Arc::clone(&self.gate)));
                }
                None => self.invalid = Some(format!("the log says that it has {owner_tag} sacks")),
            }
        }
    }

    /// The index, and the sack count: that of the log takes precedence over the configured one.
    pub fn finish(
        mut self,
        dir: &Path,
        owner_tag: u64,
        configured: SackCount,
    ) -> Result<(Index, SackCount), OpenError> {
        self.prepare(owner_tag);
        let count = u16::try_from(self.trimmed.len()).ok().and_then(NonZeroU16::new).map(SackCount);
        let (Some(index), Some(count), None) = (self.index, count, &self.invalid) else {
            let reason = self.invalid.unwrap_or_else(|| "no sacks".into());
            return Err(OpenError::Invalid { path: dir.to_owned(), reason });
        };
        if count != configured {
            tracing::warn!(
                "{} was created with {} sacks and keeps them; the configured count is {}",
                dir.display(),
                count.get(),
                configured.get()
            );
        }
        Ok((index, count))
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::SackId;

    use super::*;
    use crate::{
        incoming::{Positions, log::entries},
        segments::{Frame, Location, SEGMENT_HEADER_BYTES, frame::items},
    };

    /// A reader would wait for records in it.
    #[test]
    fn padding_without_records_does_not_wait() {
        let mut frame = Frame::with_capacity(0);
        for (sack, length) in [(0, 0), (1, 24)] {
            let padding = entries::padding(length).unwrap();
            frame.push(entries::tag(SackId(sack), 0), |out| out.extend_from_slice(&padding));
        }
        let at = Location { segment: 1, offset: SEGMENT_HEADER_BYTES };
        let found = RecoveredFrame {
            owner_tag: 2,
            at,
            bytes: frame.bytes(),
            items: &items(frame.bytes()),
            missing: Some(0),
        };
        let mut loader = Loader::new(Vec::new(), Gate::new(u64::MAX));
        loader.take(&found);
        let (index, _) = loader.finish(Path::new("log"), 2, SackCount::DEFAULT).unwrap();
        assert_eq!(index.positions(SackId(0)), Positions::default());
        assert_eq!(index.pending(SackId(0), Position(0), 1000).len(), 0);
        assert_eq!(index.pending(SackId(1), Position(0), 1000).len(), 1);
    }
}
