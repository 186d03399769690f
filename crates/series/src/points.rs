//! The encoding of one request's points of one metric, as the incoming log stores them.
//!
//! Times are in the coarsest decimal unit that fits them all, as differences less the smallest difference.
//! Values are whole numbers if all are, else one constant if all are equal, else raw. Exact for every value
//! (NaN payloads and -0.0 too) and for any order of times. No checksum: each record of the log has one.
//!
//! ```text
//! u8      unit of time (bits 0-1: ns, us, ms, s), kind of values (bits 2-3: raw, constant, whole), rest 0
//! varint  count; nothing follows 0
//! varint  first time / unit
//!         from the second point on: signed varint the smallest difference; u8 width; width bytes: the excess
//! values  raw: 8 bytes each; constant: 8 bytes; whole: as in `whole`
//! ```

use gnudi_model::{Measure, Timestamp};

use crate::{
    CodecError, Result,
    packing::{Reader, Span, pack, put_signed, put_varint, unpack},
    whole,
};

/// The most points of one metric in a request; bounds what decoding allocates.
pub const POINTS_MAX: usize = 1 << 22;

/// The units of time, in nanoseconds.
const UNITS: [i64; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const WHOLE: u8 = 2;

/// Appends the points: at most [`POINTS_MAX`], none before the epoch.
pub fn encode(points: &[Measure], out: &mut Vec<u8>) {
    assert!(points.len() <= POINTS_MAX, "{} points in one request", points.len());
    let head = out.len();
    out.push(0);
    put_varint(points.len() as u64, out);
    if points.is_empty() {
        return;
    }
    let unit = encode_times(points, out);
    let kind = encode_values(points, out);
    out[head] = unit | kind << 2;
}

/// Appends the points to `out`. On an error, `out` keeps its length.
pub fn decode(bytes: &[u8], out: &mut Vec<Measure>) -> Result<()> {
    let before = out.len();
    let mut reader = Reader(bytes);
    let result = decode_from(&mut reader, out).and_then(|()| reader.end());
    if result.is_err() {
        out.truncate(before);
    }
    result
}

fn decode_from(reader: &mut Reader<'_>, out: &mut Vec<Measure>) -> Result<()> {
    let flags = reader.byte()?;
    if flags >> 4 != 0 {
        return Err(CodecError::Version(flags >> 4));
    }
    let count = reader.count(POINTS_MAX, "number of points")?;
    if count == 0 {
        return Ok(());
    }
    let start = out.len();
    decode_times(UNITS[usize::from(flags & 3)], count, reader, out)?;
    decode_values(flags >> 2, &mut out[start..], reader)
}

fn encode_times(points: &[Measure], out: &mut Vec<u8>) -> u8 {
    let first = points[0].timestamp.0;
    assert!(first >= 0, "a time before the epoch");
    let mut span = Span::new();
    let mut before = first;
    for point in &points[1..] {
        assert!(point.timestamp.0 >= 0, "a time before the epoch");
        span.add(point.timestamp.0 - before);
        before = point.timestamp.0;
    }
    // Regular times: all differences are equal, so checking one is enough.
    let regular = points.len() > 1 && span.min == span.max;
    let fits = |unit: i64| first % unit == 0 && (!regular || span.min % unit == 0);
    let all_fit = |index: usize| match index {
        _ if regular || points.len() == 1 => true,
        1 => all_divisible::<1_000>(points),
        2 => all_divisible::<1_000_000>(points),
        _ => all_divisible::<1_000_000_000>(points),
    };
    let index = (1..UNITS.len()).rev().find(|&index| fits(UNITS[index]) && all_fit(index)).unwrap_or(0);
    let unit = UNITS[index];
    put_varint((first / unit) as u64, out);
    if points.len() > 1 {
        let span = Span { min: span.min / unit, max: span.max / unit };
        let (min, width) = (span.min, span.width());
        put_signed(min, out);
        out.push(width as u8);
        match index {
            0 => pack_times::<1>(points, min, width, out),
            1 => pack_times::<1_000>(points, min, width, out),
            2 => pack_times::<1_000_000>(points, min, width, out),
            _ => pack_times::<1_000_000_000>(points, min, width, out),
        }
    }
    index as u8
}

/// A constant divisor lets the compiler divide by multiplying.
fn all_divisible<const UNIT: i64>(points: &[Measure]) -> bool {
    points.iter().all(|point| point.timestamp.0 % UNIT == 0)
}

fn pack_times<const UNIT: i64>(points: &[Measure], min: i64, width: usize, out: &mut Vec<u8>) {
    let above = points
        .windows(2)
        .map(|pair| ((pair[1].timestamp.0 - pair[0].timestamp.0) / UNIT).wrapping_sub(min) as u64);
    pack(width, points.len() - 1, above, out);
}

fn decode_times(unit: i64, count: usize, reader: &mut Reader<'_>, out: &mut Vec<Measure>) -> Result<()> {
    // Unsigned: one comparison finds both times before the epoch and times out of range.
    let max = (i64::MAX / unit) as u64;
    let mut time = reader.varint()?;
    let mut in_range = time <= max;
    let (min, width) = if count > 1 { (reader.signed()?, reader.byte()?) } else { (0, 0) };
    let start = out.len();
    let first = Measure { timestamp: Timestamp((time as i64).wrapping_mul(unit)), value: 0.0 };
    out.resize(start + count, first);
    let mut rest = out[start + 1..].iter_mut();
    unpack(usize::from(width), count - 1, reader, |above| {
        time = time.wrapping_add(min as u64).wrapping_add(above);
        in_range &= time <= max;
        let Some(point) = rest.next() else { return };
        point.timestamp = Timestamp((time as i64).wrapping_mul(unit));
    })?;
    if in_range { Ok(()) } else { Err(CodecError::Invalid("time")) }
}

fn encode_values(points: &[Measure], out: &mut Vec<u8>) -> u8 {
    let first = points[0].value;
    if whole::put(points.iter().map(|point| point.value), points.len(), out) {
        return WHOLE;
    }
    if points.len() > 1 && points.iter().all(|point| point.value.to_bits() == first.to_bits()) {
        out.extend_from_slice(&first.to_le_bytes());
        return CONSTANT;
    }
    let start = out.len();
    out.resize(start + 8 * points.len(), 0);
    for (room, point) in out[start..].chunks_exact_mut(8).zip(points) {
        room.copy_from_slice(&point.value.to_le_bytes());
    }
    RAW
}

fn decode_values(kind: u8, points: &mut [Measure], reader: &mut Reader<'_>) -> Result<()> {
    match kind {
        RAW => {
            let bytes = reader.take(8 * points.len())?;
            for (point, bytes) in points.iter_mut().zip(bytes.chunks_exact(8)) {
                point.value = f64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            }
        }
        CONSTANT => {
            let value = reader.float()?;
            for point in points {
                point.value = value;
            }
        }
        WHOLE => {
            let mut rest = points.iter_mut();
            whole::read(rest.len(), reader, |value| {
                let Some(point) = rest.next() else { return };
                point.value = value;
            })?;
        }
        _ => return Err(CodecError::Invalid("kind of values")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::whole::WHOLE_MAX;

    fn bits(points: &[Measure]) -> Vec<(i64, u64)> {
        points.iter().map(|point| (point.timestamp.0, point.value.to_bits())).collect()
    }

    fn series(times: impl Iterator<Item = i64>, value: impl Fn(i64) -> f64) -> Vec<Measure> {
        times.map(|time| Measure { timestamp: Timestamp(time), value: value(time) }).collect()
    }

    fn encoded(points: &[Measure]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(points, &mut bytes);
        bytes
    }

    #[test]
    fn usual_series_are_small() {
        let second = 1_000_000_000;
        let start = 1_700_000_000 * second;
        let regular = || (0..60).map(|index| start + index * 10 * second);
        assert!(encoded(&series(regular(), |time| (time as f64).sin())).len() < 60 * 8 + 16);
        assert!(encoded(&series(regular(), |_| 0.25)).len() < 24);
        assert!(encoded(&series(regular(), |time| (time / second % 200) as f64)).len() < 60 * 2 + 16);
        let jitter = || (0..60).map(|index| start + index * 10 * second + index * 7919 % 5000 * 1000);
        assert!(encoded(&series(jitter(), |_| 1.5)).len() < 60 * 2 + 32);
        assert!(encoded(&series(std::iter::once(start), |_| 1.5)).len() <= 15);
    }

    fn times() -> impl Strategy<Value = Vec<i64>> {
        let unit = prop::sample::select(UNITS.to_vec());
        let step =
            (0i64..5_000, prop::collection::vec(0i64..300, 0..50), unit).prop_map(|(step, jitter, unit)| {
                let jitter = jitter.into_iter().enumerate();
                jitter.map(|(index, jitter)| (1_700_000_000 + index as i64 * step + jitter) * unit).collect()
            });
        prop_oneof![step, prop::collection::vec(0i64..=i64::MAX, 0..20)]
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-300i64..300).prop_map(|number| number as f64),
            any::<u64>().prop_map(f64::from_bits),
            Just(-0.0),
            Just(WHOLE_MAX as f64),
            Just(-WHOLE_MAX as f64),
        ]
    }

    fn points() -> impl Strategy<Value = Vec<Measure>> {
        let whole = prop::collection::vec((-300i64..300).prop_map(|number| number as f64), 50);
        let values = prop_oneof![
            whole,
            prop::collection::vec(value(), 50),
            value().prop_map(|value| vec![value; 50]),
        ];
        (times(), values).prop_map(|(times, values)| {
            let pairs = times.into_iter().zip(values);
            pairs.map(|(time, value)| Measure { timestamp: Timestamp(time), value }).collect()
        })
    }

    proptest! {
        #[test]
        fn points_round_trip(points in points()) {
            let mut back = vec![Measure { timestamp: Timestamp(1), value: 1.0 }];
            decode(&encoded(&points), &mut back).unwrap();
            prop_assert_eq!(bits(&back[1..]), bits(&points));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>, points in points(), cut: prop::sample::Index, flip: u8) {
            let mut out = Vec::new();
            let _ = decode(&bytes, &mut out);
            let mut damaged = encoded(&points);
            let at = cut.index(damaged.len());
            damaged[at] ^= flip;
            let mut out = Vec::new();
            let _ = decode(&damaged, &mut out);
            prop_assert!(out.iter().all(|point| point.timestamp.0 >= 0));
            damaged[at] ^= flip;
            damaged.truncate(at);
            let mut out = Vec::new();
            prop_assert!(decode(&damaged, &mut out).is_err());
            prop_assert!(out.is_empty());
        }
    }
}
