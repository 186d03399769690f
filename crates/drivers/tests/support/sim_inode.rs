//! A simulated file's bytes: durable, visible to readers, and pending changes in between.

use super::random::Random;

const SECTOR_BYTES: usize = 512;

#[derive(Clone, Default)]
pub struct Inode {
    pub durable: Vec<u8>,
    pub current: Vec<u8>,
    pub pending: Vec<Change>,
}

#[derive(Clone)]
pub enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Inode {
    pub fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
        if bytes.len() < offset + data.len() {
            bytes.resize(offset + data.len(), 0);
        }
        bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Makes pending changes durable.
    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Length(length) => self.durable.resize(length, 0),
                Change::Write(offset, data) => Self::write(&mut self.durable, offset, &data),
            }
        }
    }

    /// A failed sync: of the pending changes only the lengths can still become durable.
    pub fn lose_pages(&mut self) {
        let mut length = self.durable.len();
        for change in &mut self.pending {
            match change {
                Change::Length(given) => length = *given,
                Change::Write(offset, data) => {
                    length = length.max(*offset + data.len());
                    *change = Change::Length(length);
                }
            }
        }
    }

    /// The state after a power cut: the durable bytes with some of the changes, some of those torn.
    pub fn after_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match change {
                Change::Length(length) => {
                    if !random.one_in(3) {
                        bytes.resize(*length, 0);
                    }
                }
                Change::Write(offset, data) => match random.below(3) {
                    0 => {}
                    1 => Self::write(&mut bytes, *offset, data),
                    _ => {
                        let mut at = 0;
                        while at < data.len() {
                            let sector_end = (offset + at) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;
                            let end = (sector_end - offset).min(data.len());
                            if random.one_in(2) {
                                Self::write(&mut bytes, offset + at, &data[at..end]);
                            }
                            at = end;
                        }
                    }
                },
            }
        }
        bytes
    }
}
