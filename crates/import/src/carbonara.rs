//! Gnocchi's stored series, version 3 of its module carbonara.
//!
//! A split holds the buckets of one aggregation method and granularity, at most 3600. Compressed, it is the letter `c`,
//! followed by LZ4 of all distances (u16, in buckets: the first from the split's start, others from the previous
//! bucket) and all values (f64). Drivers that append write it uncompressed: nine bytes per bucket from the split's
//! start on, 1 and the value, or zeros if the bucket is empty. The points of the back window are LZ4 of all distances
//! (u64, ns; the first is a time) and all values. All numbers are little-endian.

use gnudi_model::{Measure, Timespan, Timestamp};

/// Maximum number of buckets in a split.
pub const BUCKETS_MAX: i64 = 3_600;
/// Maximum compression ratio of LZ4.
const RATIO_MAX: usize = 255;
const PADDED_BYTES: usize = 9;
/// How many nanoseconds the start of a split in its name may be off.
const START_ERROR_MAX: u64 = 1_000;

/// Why stored bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    #[error("LZ4: {0}")]
    Compression(String),
    #[error("the series is cut short")]
    Short,
    #[error("a time is out of range")]
    Time,
}

/// The buckets of the split that starts at `named` by its name, oldest first.
pub fn split(
    bytes: &[u8],
    named: Timestamp,
    granularity: Timespan,
) -> Result<Vec<(Timestamp, f64)>, Damaged> {
    let start = split_start(named, granularity)?;
    let bucket = |index: i64| {
        // It would take the place of a bucket of the next split.
        if index >= BUCKETS_MAX {
            return Err(Damaged::Time);
        }
        let offset = granularity.0.checked_mul(index).ok_or(Damaged::Time)?;
        start.0.checked_add(offset).map(Timestamp).ok_or(Damaged::Time)
    };
    match bytes {
        [] => Ok(Vec::new()),
        [b'c', compressed @ ..] => {
            let bytes = decompressed(compressed)?;
            let (distances, values) = columns::<2>(&bytes)?;
            let mut index = 0;
            let step = |(distance, value): ([u8; 2], f64)| {
                index += i64::from(u16::from_le_bytes(distance));
                Ok((bucket(index)?, value))
            };
            distances.zip(values).map(step).collect()
        }
        padded => {
            let (cells, rest) = padded.as_chunks::<PADDED_BYTES>();
            if !rest.is_empty() {
                return Err(Damaged::Short);
            }
            let present = cells.iter().enumerate().filter(|(_, cell)| cell[0] != 0);
            let value = |(index, cell): (usize, &[u8; PADDED_BYTES])| {
                let value = f64::from_le_bytes(cell[1..].try_into().expect("eight bytes"));
                Ok((bucket(index as i64)?, value))
            };
            present.map(value).collect()
        }
    }
}

/// The multiple of a split's length that is its start. Gnocchi computes starts, and names them in seconds, in double
/// precision: if the length is no whole second, they may be off by some hundred nanoseconds.
fn split_start(named: Timestamp, granularity: Timespan) -> Result<Timestamp, Damaged> {
    if named < Timestamp::EPOCH {
        return Err(Damaged::Time);
    }
    let length = Timespan(granularity.0.saturating_mul(BUCKETS_MAX));
    let start = named.saturating_add(Timespan(length.0 / 2)).floor(length);
    if start.0.abs_diff(named.0) <= START_ERROR_MAX { Ok(start) } else { Err(Damaged::Time) }
}

/// The points of the back window, oldest first.
pub fn points(bytes: &[u8]) -> Result<Vec<Measure>, Damaged> {
    let bytes = decompressed(bytes)?;
    let (distances, values) = columns::<8>(&bytes)?;
    let mut time = 0_i64;
    let mut points = Vec::with_capacity(distances.len());
    for (distance, value) in distances.zip(values) {
        let distance = i64::try_from(u64::from_le_bytes(distance)).map_err(|_| Damaged::Time)?;
        if distance == 0 && !points.is_empty() {
            return Err(Damaged::Time);
        }
        time = time.checked_add(distance).ok_or(Damaged::Time)?;
        points.push(Measure { timestamp: Timestamp(time), value });
    }
    Ok(points)
}

/// Unprocessed measures in order: a time (u64, ns) and a value (f64) each.
pub fn measures(bytes: &[u8]) -> Result<Vec<Measure>, Damaged> {
    let (cells, rest) = bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(Damaged::Short);
    }
    let measure = |cell: &[u8; 16]| {
        let (time, value) = cell.split_at(8);
        let time = i64::from_le_bytes(time.try_into().expect("eight bytes"));
        let value = f64::from_le_bytes(value.try_into().expect("eight bytes"));
        if time < 0 { Err(Damaged::Time) } else { Ok(Measure { timestamp: Timestamp(time), value }) }
    };
    cells.iter().map(measure).collect()
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, Damaged> {
    let (size, compressed) = bytes.split_first_chunk::<4>().ok_or(Damaged::Short)?;
    let size = u32::from_le_bytes(*size) as usize;
    if size > compressed.len().saturating_mul(RATIO_MAX) {
        return Err(Damaged::Compression("the stated size is beyond what the bytes can hold".to_owned()));
    }
    lz4_flex::block::decompress(compressed, size).map_err(|error| Damaged::Compression(error.to_string()))
}

/// Distances of `N` bytes, followed by as many values.
fn columns<const N: usize>(
    bytes: &[u8],
) -> Result<(impl ExactSizeIterator<Item = [u8; N]>, impl Iterator<Item = f64>), Damaged> {
    let count = bytes.len() / (N + 8);
    if count * (N + 8) != bytes.len() {
        return Err(Damaged::Short);
    }
    let (distances, values) = bytes.split_at(count * N);
    let values = values.as_chunks::<8>().0.iter().map(|value| f64::from_le_bytes(*value));
    Ok((distances.as_chunks::<N>().0.iter().copied(), values))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Timespan = Timespan(1_000_000_000);

    /// The format of lz4's Python package.
    fn compressed(bytes: &[u8]) -> Vec<u8> {
        lz4_flex::block::compress_prepend_size(bytes)
    }

    #[test]
    fn both_forms_of_a_split_are_read() {
        let mut payload = Vec::new();
        for distance in [2_u16, 1, 3596] {
            payload.extend(distance.to_le_bytes());
        }
        for value in [1.5_f64, -0.0, f64::INFINITY] {
            payload.extend(value.to_le_bytes());
        }
        let start = Timestamp::from_secs(7200);
        let expected = [(7202, 1.5), (7203, -0.0), (10_799, f64::INFINITY)];
        let expected = expected.map(|(second, value)| (Timestamp::from_secs(second), value));
        let whole = [b"c".to_vec(), compressed(&payload)].concat();
        assert_eq!(split(&whole, start, SECOND).unwrap(), expected);
        let mut padded = vec![0; 4 * PADDED_BYTES];
        for (index, value) in [(2, 1.5_f64), (3, -0.0)] {
            padded[index * PADDED_BYTES] = 1;
            padded[index * PADDED_BYTES + 1..][..8].copy_from_slice(&value.to_le_bytes());
        }
        assert_eq!(split(&padded, start, SECOND).unwrap(), expected[..2]);
        assert_eq!(split(&[], start, SECOND), Ok(Vec::new()));
        for cut in 1..whole.len() {
            assert!(split(&whole[..cut], start, SECOND).is_err(), "{cut}");
        }
        assert_eq!(split(&padded[1..], start, SECOND), Err(Damaged::Short));
        assert_eq!(split(&whole, Timestamp::MAX, SECOND), Err(Damaged::Time));
    }

    #[test]
    fn a_split_has_no_bucket_of_the_next_one() {
        let beyond = BUCKETS_MAX as usize * PADDED_BYTES;
        let mut padded = vec![0; beyond + PADDED_BYTES];
        assert_eq!(split(&padded, Timestamp(0), SECOND), Ok(Vec::new()));
        padded[beyond] = 1;
        assert_eq!(split(&padded, Timestamp(0), SECOND), Err(Damaged::Time));
        let payload = [3_600_u16.to_le_bytes().as_slice(), 1.5_f64.to_le_bytes().as_slice()].concat();
        let whole = [b"c".to_vec(), compressed(&payload)].concat();
        assert_eq!(split(&whole, Timestamp(0), SECOND), Err(Damaged::Time));
    }

    #[test]
    fn a_split_starts_at_a_multiple_of_its_length() {
        // A policy of 2.11 s has this granularity in Gnocchi.
        let granularity = Timespan(2_109_999_998);
        let padded = [[1_u8].as_slice(), 1.5_f64.to_le_bytes().as_slice()].concat();
        let start = |named| split(&padded, Timestamp(named), granularity).map(|buckets| buckets[0].0.0);
        // Names that Gnocchi gave.
        for (named, expected) in [
            (1_700_007_586_388_618_496, 1_700_007_586_388_618_400),
            (1_700_015_182_388_611_072, 1_700_015_182_388_611_200),
        ] {
            assert_eq!(start(named), Ok(expected));
        }
        for named in [-1, i64::MIN, 1_000_000_000, 1_700_015_182_388_600_000] {
            assert_eq!(start(named), Err(Damaged::Time));
        }
    }

    #[test]
    fn points_are_distances_from_each_other() {
        let mut payload = Vec::new();
        for distance in [5_u64, 7] {
            payload.extend(distance.to_le_bytes());
        }
        for value in [1.0_f64, 2.0] {
            payload.extend(value.to_le_bytes());
        }
        let point = |nanoseconds, value| Measure { timestamp: Timestamp(nanoseconds), value };
        assert_eq!(points(&compressed(&payload)).unwrap(), [point(5, 1.0), point(12, 2.0)]);
        payload[8..16].fill(0);
        assert_eq!(points(&compressed(&payload)), Err(Damaged::Time));
        payload[8..16].fill(0xff);
        assert_eq!(points(&compressed(&payload)), Err(Damaged::Time));
        let one = [3_u64.to_le_bytes(), 4.0_f64.to_le_bytes()].concat();
        assert_eq!(measures(&one).unwrap(), [point(3, 4.0)]);
        assert_eq!(measures(&one[1..]), Err(Damaged::Short));
    }

    proptest! {
        #[test]
        fn no_bytes_are_fatal(mut bytes in prop::collection::vec(any::<u8>(), 0..200), is_compressed: bool) {
            let _ = points(&bytes);
            let _ = measures(&bytes);
            if is_compressed {
                bytes.insert(0, b'c');
            }
            let _ = split(&bytes, Timestamp(0), SECOND);
        }
    }
}
