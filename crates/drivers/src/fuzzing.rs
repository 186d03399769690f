//! Called by the fuzz targets: decoding bytes of files, objects and Redis never panics, and needs memory in proportion to their number.

use std::{path::Path, sync::Arc};

use bytes::Bytes;

use crate::{
    aggregates::{
        objects::manifest::{Decoded, Manifest},
        redis::layout as aggregates_in_redis,
        table::exercise::{exercise, of_entries, with_checksums},
    },
    disk::{Disk, LocalDisk},
    incoming::{
        Position,
        log::entries,
        objects::object::{self, Object},
        redis::layout as measures_in_redis,
    },
    quarantine::Quarantine,
    reserve::Reserve,
    segments::{self, OwnerState, Tear, frame},
};

/// If the first byte is even: the bytes as a table, as they are and with valid checksums. If it is odd: a valid table, then
/// with changes. Four bytes make an entry, up to a zero, and three bytes a change.
pub fn table(bytes: &[u8]) {
    let Some((1.., rest)) = bytes.split_first().map(|(kind, rest)| (kind % 2, rest)) else {
        exercise(bytes);
        exercise(&with_checksums(bytes));
        return;
    };
    let (entries, changes) = rest.split_at(rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len()));
    let (keys, mut table) =
        of_entries(entries.chunks_exact(4).map(|entry| (entry[0], entry[1] % 20, entry[2], entry[3])));
    assert_eq!(exercise(&table), Some(keys), "a valid table");
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % table.len();
        table[at] = change[2];
    }
    exercise(&table);
    exercise(&with_checksums(&table));
}

/// A manifest, as an object and as its text.
pub fn manifest(bytes: &[u8]) {
    let decode = |bytes: &[u8]| {
        let Some(Decoded { manifest, table_bytes, .. }) = Manifest::decode(bytes) else { return };
        let again = Manifest::decode(&manifest.encode(&bytes[..table_bytes]));
        assert!(again == Some(Decoded { manifest: manifest.clone(), is_sound: true, table_bytes }));
        let _ = (manifest.guard(), manifest.outdated());
        for run in manifest.runs.all() {
            let _ = (run.bytes(), run.tables.first().map(|table| run.tables_of(table.first)));
        }
    };
    decode(bytes);
    decode(&Manifest::encode_text(b"", bytes));
    decode(&Manifest::encode_text(bytes, bytes));
}

/// An object of the log of measures, a small sealed object, and the items of a frame.
pub fn frames(bytes: &[u8]) {
    let object = Object::parse(1, bytes);
    let whole = Bytes::copy_from_slice(bytes);
    object.parts.iter().for_each(|part| measures(&part.payload(&whole)));
    let _ = (Object::parse_head(1, bytes), object::unseal(1, bytes), frame::items(bytes));
    // A valid frame gives its items back.
    let mut valid = frame::Frame::with_capacity(bytes.len());
    let items: Vec<&[u8]> = bytes.split(|byte| *byte == 0).take(50).collect();
    for item in &items {
        valid.push(7, |out| out.extend_from_slice(item));
    }
    valid.stamp(segments::Location::unpack(1 << 32), 0);
    let found = frame::items(valid.bytes());
    assert!(found.len() == items.len() && found.iter().all(|item| item.valid && item.tag == 7));
    measures(&whole);
}

fn measures(payload: &Bytes) {
    let mut records = Vec::new();
    let _ = entries::decode(payload, Position(1), &mut records);
    assert!(records.len() <= payload.len());
}

/// Two files of a log, recovered twice: the second recovery finds no new frames.
pub fn recovery(bytes: &[u8], dir: &Path) {
    let (cut, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let files = bytes.split_at(usize::from(*cut) * bytes.len() / 256);
    for tear in [Tear::Cut, Tear::KeepWhole] {
        for (number, file) in [(1, files.0), (2, files.1)] {
            std::fs::write(dir.join(segments::file_name(number)), file).expect("a file");
        }
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let recover = || {
            let quarantine = Quarantine::observed(Arc::clone(&disk), None, Box::new(|_| {}));
            let mut found = Vec::new();
            let (none, unknown) = (Reserve::default(), OwnerState::default());
            let recovered = segments::recover(&none, &*disk, dir, tear, unknown, &quarantine, &mut |frame| {
                found.push((frame.at, frame.bytes.to_vec()));
            });
            recovered.map(|_| found)
        };
        if let Ok(first) = recover() {
            let again = recover().expect("what was recovered opens");
            assert!(again.len() <= first.len(), "a recovered log has new frames");
        }
        for name in disk.list(dir).expect("a list") {
            disk.remove(&dir.join(name)).expect("removed");
        }
    }
}

/// Any bytes in place of the entries, names and values that Redis stores.
pub fn redis(bytes: &[u8]) {
    let value = Bytes::copy_from_slice(bytes);
    let mut sealed = crc_fast::crc32_iscsi(bytes).to_le_bytes().to_vec();
    sealed.extend_from_slice(bytes);
    for payload in [value.clone(), sealed.into()] {
        let _ = measures_in_redis::records(&payload, Position(1), &mut Vec::new());
        let _ = aggregates_in_redis::opened(&payload);
    }
    let _ = (measures_in_redis::first_number(bytes), measures_in_redis::number_at(bytes, 3));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (measures_in_redis::parse_member(text), measures_in_redis::parse_count(text));
    }
    if let Some(metric) = aggregates_in_redis::metric(&bytes[..bytes.len().min(16)]) {
        let _ = aggregates_in_redis::block(metric, &bytes[16..]);
    }
}
