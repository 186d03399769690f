//! Blocks of raw points, which policies with a raw timespan keep besides the aggregates.
//!
//! Times are in the coarsest decimal unit that fits them all, as differences less the smallest one. Values
//! are exact. A block is named as a block of aggregates with the granularity [`GRANULARITY`].
//!
//! ```text
//! u8      version
//! varint  points; u8 unit of time: ns, us, ms, s; varint first time / unit; varint last time / unit
//!         from the second point on: varint the smallest difference; the excess of each as in `bits`
//! values  as in `values`
//! u32     CRC32C of all before
//! ```

use gnudi_model::{Measure, Timespan, Timestamp};

use crate::{
    CodecError, Result, bits,
    packing::{Reader, checked, put_checksum, put_varint},
    values,
};

/// Marks raw points in names of blocks. No aggregate has it.
pub const GRANULARITY: Timespan = Timespan(0);

/// The most points in a block: late ones rewrite a whole block.
pub const BLOCK_POINTS: usize = 1024;

/// Bounds what decoding allocates.
pub(crate) const POINTS_MAX: usize = 1 << 16;

/// Version 1 lacks some kinds of values.
const VERSION: u8 = 2;

/// The units of time, in nanoseconds.
const UNITS: [i64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

/// The fields of a block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub points: usize,
    pub first: Timestamp,
    pub last: Timestamp,
}

/// Appends points as a block: at least one, none before the epoch, in strictly ascending order.
pub fn encode(points: &[Measure], out: &mut Vec<u8>) {
    assert!(!points.is_empty() && points.len() <= POINTS_MAX, "{} points in a block", points.len());
    assert!(points[0].timestamp.0 >= 0, "a time before the epoch");
    let start = out.len();
    let fits = |unit: &i64| points.iter().all(|point| point.timestamp.0 % unit == 0);
    let index = UNITS.iter().rposition(fits).expect("a nanosecond fits all times");
    let unit = UNITS[index];
    out.push(VERSION);
    put_varint(points.len() as u64, out);
    out.push(index as u8);
    put_varint((points[0].timestamp.0 / unit) as u64, out);
    put_varint((points[points.len() - 1].timestamp.0 / unit) as u64, out);
    let difference = |pair: &[Measure]| ((pair[1].timestamp.0 - pair[0].timestamp.0) / unit) as u64;
    let mut differences: Vec<u64> = points.windows(2).map(difference).collect();
    if let Some(min) = differences.iter().copied().min() {
        assert!(min > 0, "points are in order");
        put_varint(min, out);
        for difference in &mut differences {
            *difference -= min;
        }
        bits::put(&differences, out);
    }
    let column: Vec<f64> = points.iter().map(|point| point.value).collect();
    values::put(&column, out);
    put_checksum(start, out);
}

/// Decodes a block's header.
pub fn extent(bytes: &[u8]) -> Result<Extent> {
    Parsed::new(bytes).map(|parsed| parsed.extent)
}

/// The header of a block inside a head, whose checksum includes the block's bytes.
pub(crate) fn extent_in_head(bytes: &[u8]) -> Result<Extent> {
    Parsed::read(bytes).map(|parsed| parsed.extent)
}

/// Appends the times and values of a block. After an error the vectors contain what was decoded before it.
pub fn decode(bytes: &[u8], timestamps: &mut Vec<Timestamp>, values: &mut Vec<f64>) -> Result<()> {
    let Parsed { extent, unit, mut rest } = Parsed::new(bytes)?;
    let mut numbers = Vec::new();
    let start = timestamps.len();
    timestamps.reserve(extent.points);
    timestamps.push(extent.first);
    if extent.points > 1 {
        let min = rest.varint()?;
        bits::read(extent.points - 1, &mut rest, &mut numbers)?;
        // If each step and the last time are in range, the sum cannot wrap.
        let span = (extent.last.0 - extent.first.0) as u64 / unit as u64;
        let mut time = extent.first.0;
        let mut is_in_order = min > 0;
        timestamps.extend(numbers.iter().map(|above| {
            let step = min.saturating_add(*above);
            is_in_order &= step <= span;
            time = time.wrapping_add((step as i64).wrapping_mul(unit));
            Timestamp(time)
        }));
        is_in_order &= timestamps[start..].windows(2).all(|pair| pair[0] < pair[1]);
        if !is_in_order {
            return Err(CodecError::Invalid("order of points"));
        }
    }
    if timestamps.last() != Some(&extent.last) {
        return Err(CodecError::Invalid("last time"));
    }
    values::read(extent.points, &mut rest, &mut numbers, values)?;
    rest.end()
}

/// Appends the points of a block.
pub(crate) fn decode_points(bytes: &[u8], out: &mut Vec<Measure>) -> Result<()> {
    let (mut timestamps, mut values) = (Vec::new(), Vec::new());
    decode(bytes, &mut timestamps, &mut values)?;
    let pairs = timestamps.into_iter().zip(values);
    out.extend(pairs.map(|(timestamp, value)| Measure { timestamp, value }));
    Ok(())
}

/// A block, decoded up to its times.
struct Parsed<'a> {
    extent: Extent,
    unit: i64,
    rest: Reader<'a>,
}

impl<'a> Parsed<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        Self::read(checked(bytes)?)
    }

    /// Of a block's bytes; the checksum may be left out.
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        match reader.byte()? {
            1..=VERSION => {}
            version => return Err(CodecError::Version(version)),
        }
        let points = reader.count(POINTS_MAX, "number of points")?;
        let unit = *UNITS.get(usize::from(reader.byte()?)).ok_or(CodecError::Invalid("unit of time"))?;
        let mut time = || {
            let time = i64::try_from(reader.varint()?).ok().and_then(|time| time.checked_mul(unit));
            time.map(Timestamp).ok_or(CodecError::Invalid("time"))
        };
        let (first, last) = (time()?, time()?);
        if points == 0 || last < first {
            return Err(CodecError::Invalid("number of points"));
        }
        Ok(Parsed { extent: Extent { points, first, last }, unit, rest: reader })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packing::damage::{damage, damaged};

    prop_compose! {
        fn points()(
            first in 0i64..2_000_000_000,
            unit in prop::sample::select(UNITS.to_vec()),
            steps in prop::collection::vec(prop_oneof![9 => 1i64..20, 1 => 1i64..1_000_000], 0..100),
            values in prop::collection::vec(any::<u64>(), 101),
        ) -> Vec<Measure> {
            let mut time = first;
            let times = std::iter::once(0).chain(steps).map(|step| {
                time += step;
                Timestamp(time * unit)
            });
            let values = values.into_iter().map(f64::from_bits);
            times.zip(values).map(|(timestamp, value)| Measure { timestamp, value }).collect()
        }
    }

    proptest! {
        #[test]
        fn blocks_round_trip(points in points()) {
            let mut bytes = Vec::new();
            encode(&points, &mut bytes);
            let mut back = Vec::new();
            decode_points(&bytes, &mut back).unwrap();
            let bits = |points: &[Measure]| {
                points.iter().map(|point| (point.timestamp, point.value.to_bits())).collect::<Vec<_>>()
            };
            prop_assert_eq!(bits(&back), bits(&points));
            let (first, last) = (points[0].timestamp, points[points.len() - 1].timestamp);
            prop_assert_eq!(extent(&bytes), Ok(Extent { points: points.len(), first, last }));
        }

        /// Also with a valid checksum.
        #[test]
        fn any_bytes_are_refused_or_read(
            points in points(),
            damage in damage(),
        ) {
            let mut bytes = Vec::new();
            encode(&points, &mut bytes);
            let _ = decode_points(&damaged(bytes, damage), &mut Vec::new());
        }
    }
}
