//! The stored form of a head.
//!
//! ```text
//! u8      version: 1; 2 for a loss only; 3; 4 for bits 3 to 5 of the flags
//! varint  applied; signed varint the window's start
//! u8      in versions 3 and 4 flags: bit 0 a loss, bit 1 raw points, bit 2 late points, bit 3 methods,
//!         bit 4 partial buckets, bit 5 gaps
//! signed varint  when the loss was found; with bit 0
//! varint  number of late points dropped; with bit 2
//! u8      1 if the point before follows: varint time, 8 bytes value
//! varint  chunks of raw points; for each: varint length; the points as in `points`
//! varint  grains; for each
//!           varint granularity; signed varint final_until, kept_from
//!           varint length of the open block; the block as in `block`
//!           varint cuts; for each: varint time; u8 bit 0 a rate, bit 1 a std follows, 8 bytes each
//!           varint passes; for each: signed varint start; varint dropped; u8 cut
//! signed varint  the time from which all raw points are kept; signed varint the time before which their blocks
//!         have expired; varint parts of pending raw points; for each: varint length; the points as in `raw`; with bit 1
//! varint  methods; for each: u8 code; with bit 3
//! varint  partial buckets; for each: varint index of its grain; signed varint start, until; u8 which
//!         statistics are known; 8 bytes for each of them, in the order of `compose`; with bit 4
//! varint  gaps; for each: varint index of its grain; signed varint gap_until; with bit 5
//! u32     CRC32C of all before
//! ```

use gnudi_model::{AggregationMethod, Measure, Timespan, Timestamp};

use super::{
    Head,
    archive::{Archive, PARTS_MAX, Pending},
    compose::{Composite, Partial},
    grain::{GrainState, Open},
    marks::{Cut, Marks, Pass},
};
use crate::{
    CodecError, Result, block,
    packing::{Reader, checked, put_checksum, put_signed, put_varint},
    points,
};

const VERSION: u8 = 1;
const VERSION_AFTER_LOSS: u8 = 2;
const VERSION_WITH_FLAGS: u8 = 3;
const VERSION_WITH_METHODS: u8 = 4;

const HAS_LOSS: u8 = 1;
const HAS_RAW: u8 = 2;
const HAS_LATE: u8 = 4;
const HAS_METHODS: u8 = 8;
const HAS_PARTIALS: u8 = 16;
const HAS_GAPS: u8 = 32;
/// The flags that version 4 added.
const OF_VERSION_4: u8 = HAS_METHODS | HAS_PARTIALS | HAS_GAPS;

/// More granularities than any policy has.
const GRAINS_MAX: usize = 1024;

/// The most chunks of raw points; all but the last are full.
const CHUNKS_MAX: usize = 1024;

impl Head {
    /// Appends the stored form. Call [`Head::take_sealed`] first: sealed blocks are not part of it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.sealed.is_empty(), "sealed blocks are taken before the head is stored");
        assert!(self.late.is_empty(), "late points are merged before the head is stored");
        let start = out.len();
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        let flags = flag(self.lost_before.is_some(), HAS_LOSS)
            | flag(self.archive.is_some(), HAS_RAW)
            | flag(self.late_dropped > 0, HAS_LATE)
            | flag(self.archive.is_some() && !self.methods.is_empty(), HAS_METHODS)
            | flag(self.grains.iter().any(|grain| grain.partial.is_some()), HAS_PARTIALS)
            | flag(self.grains.iter().any(|grain| grain.gap_until > 0), HAS_GAPS);
        out.push(match flags {
            0 => VERSION,
            HAS_LOSS => VERSION_AFTER_LOSS,
            _ if flags & OF_VERSION_4 == 0 => VERSION_WITH_FLAGS,
            _ => VERSION_WITH_METHODS,
        });
        put_varint(self.applied, out);
        put_signed(self.window, out);
        if flags & !HAS_LOSS != 0 {
            out.push(flags);
        }
        if let Some(lost_before) = self.lost_before {
            put_signed(lost_before.0, out);
        }
        if flags & HAS_LATE != 0 {
            put_varint(self.late_dropped, out);
        }
        out.push(u8::from(self.before.is_some()));
        if let Some(before) = self.before {
            put_varint(before.timestamp.0 as u64, out);
            out.extend_from_slice(&before.value.to_le_bytes());
        }
        put_varint(self.raw.len().div_ceil(points::POINTS_MAX) as u64, out);
        for chunk in self.raw.chunks(points::POINTS_MAX) {
            let mut bytes = Vec::with_capacity(16 + 10 * chunk.len());
            points::encode(chunk, &mut bytes);
            put_bytes(&bytes, out);
        }
        put_varint(self.grains.len() as u64, out);
        for grain in &self.grains {
            grain.encode(&self.methods, out);
        }
        if let Some(archive) = &self.archive {
            put_signed(archive.from, out);
            put_signed(archive.kept_from, out);
            put_varint(archive.open.len() as u64, out);
            archive.open.iter().for_each(|part| put_bytes(&part.bytes, out));
        }
        if flags & HAS_METHODS != 0 {
            put_varint(self.methods.len() as u64, out);
            out.extend(self.methods.iter().map(|method| method.code()));
        }
        if flags & HAS_PARTIALS != 0 {
            let partial = |(place, grain): (usize, &GrainState)| Some((place, grain.partial?));
            let partials: Vec<(usize, Partial)> =
                self.grains.iter().enumerate().filter_map(partial).collect();
            put_varint(partials.len() as u64, out);
            for (place, partial) in partials {
                put_varint(place as u64, out);
                partial.encode(out);
            }
        }
        if flags & HAS_GAPS != 0 {
            let has_gap = |(_, grain): &(usize, &GrainState)| grain.gap_until > 0;
            let gaps: Vec<(usize, &GrainState)> = self.grains.iter().enumerate().filter(has_gap).collect();
            put_varint(gaps.len() as u64, out);
            for (place, grain) in gaps {
                put_varint(place as u64, out);
                put_signed(grain.gap_until, out);
            }
        }
        put_checksum(start, out);
    }

    /// The stored form.
    pub fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// Decodes the bytes of [`Head::encode`]; detects any damage.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(checked(bytes)?);
        let version = reader.byte()?;
        if !(VERSION..=VERSION_WITH_METHODS).contains(&version) {
            return Err(CodecError::Version(version));
        }
        let mut head = Head { applied: reader.varint()?, window: reader.signed()?, ..Head::default() };
        let flags = match version {
            VERSION => 0,
            VERSION_AFTER_LOSS => HAS_LOSS,
            _ => reader.byte()?,
        };
        let known = match version {
            VERSION_WITH_METHODS => HAS_LOSS | HAS_RAW | HAS_LATE | OF_VERSION_4,
            _ => HAS_LOSS | HAS_RAW | HAS_LATE,
        };
        if flags & !known != 0 {
            return Err(CodecError::Invalid("flags"));
        }
        head.lost_before = (flags & HAS_LOSS != 0).then(|| reader.signed()).transpose()?.map(Timestamp);
        head.late_dropped = if flags & HAS_LATE != 0 { reader.varint()? } else { 0 };
        head.before = match reader.byte()? {
            0 => None,
            _ => Some(Measure { timestamp: time(&mut reader)?, value: reader.float()? }),
        };
        for _ in 0..reader.count(CHUNKS_MAX, "number of chunks")? {
            let length = reader.count(usize::MAX, "length")?;
            points::decode(reader.take(length)?, &mut head.raw)?;
        }
        if !head.raw.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp) {
            return Err(CodecError::Invalid("order of points"));
        }
        if head.window < 0 {
            return Err(CodecError::Invalid("window"));
        }
        for _ in 0..reader.count(GRAINS_MAX, "number of granularities")? {
            head.grains.push(GrainState::decode(&mut reader)?);
        }
        if flags & HAS_RAW != 0 {
            let (from, kept_from) = (reader.signed()?, reader.signed()?);
            let mut archive = Archive { from, kept_from, open: Vec::new() };
            for _ in 0..reader.count(PARTS_MAX, "number of parts")? {
                let length = reader.count(usize::MAX, "length")?;
                archive.open.push(Pending::stored(reader.take(length)?.to_vec())?);
            }
            head.archive = Some(archive);
        }
        if flags & HAS_METHODS != 0 {
            for _ in 0..reader.count(usize::from(AggregationMethod::COUNT), "number of methods")? {
                let method = AggregationMethod::from_code(reader.byte()?);
                head.methods.push(method.ok_or(CodecError::Invalid("method"))?);
            }
        }
        if flags & HAS_PARTIALS != 0 {
            for _ in 0..reader.count(GRAINS_MAX, "number of partial buckets")? {
                let place = reader.count(GRAINS_MAX, "place of a grain")?;
                let grain = head.grains.get_mut(place).ok_or(CodecError::Invalid("place of a grain"))?;
                grain.partial = Some(Partial::decode(grain, &mut reader)?);
            }
        }
        if flags & HAS_GAPS != 0 {
            for _ in 0..reader.count(GRAINS_MAX, "number of gaps")? {
                let place = reader.count(GRAINS_MAX, "place of a grain")?;
                let grain = head.grains.get_mut(place).ok_or(CodecError::Invalid("place of a grain"))?;
                grain.gap_until = reader.signed()?;
            }
        }
        reader.end()?;
        Ok(head)
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn time(reader: &mut Reader<'_>) -> Result<Timestamp> {
    i64::try_from(reader.varint()?).map(Timestamp).map_err(|_| CodecError::Invalid("time"))
}

impl GrainState {
    fn encode(&self, methods: &[AggregationMethod], out: &mut Vec<u8>) {
        put_varint(self.granularity.0 as u64, out);
        put_signed(self.final_until, out);
        put_signed(self.kept_from, out);
        match &self.open {
            Open::Packed { bytes, .. } => put_bytes(bytes, out),
            Open::Rows(rows) if rows.is_empty() => put_bytes(&[], out),
            Open::Rows(rows) => {
                let mut bytes = Vec::with_capacity(64 + 8 * rows.len() * methods.len());
                block::encode(self.granularity, methods, rows, 0..rows.len(), &mut bytes);
                put_bytes(&bytes, out);
            }
        }
        put_varint(self.marks.cuts.len() as u64, out);
        for cut in &self.marks.cuts {
            put_varint(cut.time as u64, out);
            out.push(u8::from(cut.rate.is_some()) | u8::from(cut.std.is_some()) << 1);
            for value in [cut.rate, cut.std].into_iter().flatten() {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        put_varint(self.marks.passes.len() as u64, out);
        for pass in &self.marks.passes {
            put_signed(pass.start, out);
            put_varint(pass.dropped, out);
            out.push(u8::from(pass.cut));
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let granularity = time(reader)?.0;
        if granularity == 0 {
            return Err(CodecError::Invalid("granularity"));
        }
        let final_until = reader.signed()?;
        if final_until < 0 || final_until % granularity != 0 {
            return Err(CodecError::Invalid("final bucket"));
        }
        let mut grain = GrainState::new(Timespan(granularity), final_until);
        grain.kept_from = reader.signed()?;
        let length = reader.count(usize::MAX, "length")?;
        let bytes = reader.take(length)?.to_vec();
        if !bytes.is_empty() {
            let extent = block::extent_in_head(&bytes)?;
            if extent.granularity != grain.granularity || extent.last.0 >= final_until {
                return Err(CodecError::Invalid("open block"));
            }
            grain.open = Open::Packed { bytes, extent };
        }
        grain.marks = Marks::decode(reader)?;
        Ok(grain)
    }
}

impl Partial {
    fn encode(&self, out: &mut Vec<u8>) {
        put_signed(self.start, out);
        put_signed(self.until, out);
        let known = self.composite.0.iter().enumerate().map(|(bit, value)| u8::from(value.is_some()) << bit);
        out.push(known.sum());
        for value in self.composite.0.iter().flatten() {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// The first bucket of a grain that is not final.
    fn decode(grain: &GrainState, reader: &mut Reader<'_>) -> Result<Self> {
        let (start, until, known) = (reader.signed()?, reader.signed()?, reader.byte()?);
        let end = start.saturating_add(grain.granularity.0);
        if start != grain.final_until || !(start..=end).contains(&until) || grain.open.len() > 0 {
            return Err(CodecError::Invalid("partial bucket"));
        }
        let mut composite = Composite::default();
        for (bit, value) in composite.0.iter_mut().enumerate() {
            *value = (known >> bit & 1 == 1).then(|| reader.float()).transpose()?;
        }
        Ok(Partial { start, until, composite })
    }
}

impl Marks {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut marks = Marks::default();
        for _ in 0..reader.count(points::POINTS_MAX, "number of cuts")? {
            let (time, flags) = (time(reader)?.0, reader.byte()?);
            let mut value = |bit: u8| (flags & bit != 0).then(|| reader.float()).transpose();
            marks.cuts.push(Cut { time, rate: value(1)?, std: value(2)? });
        }
        for _ in 0..reader.count(points::POINTS_MAX, "number of passes")? {
            let (start, dropped, cut) = (reader.signed()?, reader.varint()?, reader.byte()? != 0);
            marks.passes.push(Pass { start, dropped, cut });
        }
        Ok(marks)
    }
}

#[cfg(test)]
mod tests {
    use gnudi_model::{Aggregation, ArchivePolicy};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        layout::Layout,
        packing::damage::{damage, damaged},
        read::{ReadRange, assemble},
    };

    fn policy() -> ArchivePolicy {
        let mut policy = ArchivePolicy::defaults(&ArchivePolicy::default_methods()).remove(2);
        policy.aggregation_methods.extend(
            ["rate:std", "rate:90pct", "90pct"].map(|name| name.parse::<AggregationMethod>().unwrap()),
        );
        policy
    }

    fn points(from: i64, times: &[u16]) -> Vec<Measure> {
        let point = |&time: &u16| Measure {
            timestamp: Timestamp::from_secs(from + i64::from(time)),
            value: f64::from(time),
        };
        times.iter().map(point).collect()
    }

    #[test]
    fn a_loss_is_remembered() {
        let layout = Layout::of(&policy());
        let mut head = Head::after_loss(Timestamp(-7));
        head.fold(&layout, 1, &mut points(1_000_000, &[1, 2]));
        head.take_sealed();
        let bytes = head.encoded();
        let read = Head::decode(&bytes).unwrap();
        assert_eq!((read.lost_before(), read.applied(), read.last()), (Some(Timestamp(-7)), 1, head.last()));
        assert_eq!(read.encoded(), bytes);
    }

    proptest! {
        /// Damaged bytes with a valid checksum do not cause a panic.
        #[test]
        fn any_bytes_are_refused_or_work(
            requests in prop::collection::vec(prop::collection::vec(any::<u16>(), 1..8), 1..5),
            damage in damage(),
        ) {
            let policy = policy();
            let layout = Layout::of(&policy);
            let mut head = Head::new();
            for (index, request) in requests.iter().enumerate() {
                head.fold(&layout, 1 + index as u64, &mut points(1_000_000, request));
            }
            head.take_sealed();
            let Ok(mut head) = Head::decode(&damaged(head.encoded(), damage)) else { return Ok(()) };
            for (index, request) in requests.iter().enumerate() {
                let position = head.applied().saturating_add(1);
                head.fold(&layout, position, &mut points(1_000_000 + 10_000 * index as i64, request));
                for &method in &layout.methods {
                    let granularity = layout.grains[0].granularity;
                    let aggregation = Aggregation { method, granularity, timespan: None };
                    let _ = assemble(&[], Some(&head), &layout, aggregation, ReadRange::default());
                }
            }
            head.take_sealed();
            let _ = head.encoded();
        }
    }
}
