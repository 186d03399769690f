//! Blocks: finalised buckets of one granularity with all their methods, as columns. A sealed block is written
//! once; an open block is stored in the head.
//!
//! Columns are often redundant. With one point in each bucket, mean, min, max and sum are equal and count is
//! constant; the mean is sum / count; the std follows from the sum, the count and a whole number
//! ([`deviation`]). Such columns take few bytes or none. Others are encoded as raw values are. Values are
//! exact. A directory locates each column, so that reading one method does not decode the others.
//!
//! ```text
//! u8      version
//! varint  rows; varint granularity (ns); varint first start / granularity
//!         from the second row on: varint the smallest step (in granularities); u8 width; width bytes: the excess
//! varint  columns; for each: u8 method code, varint length; then the columns
//! u32     CRC32C of all before
//!
//! column  u8 kind, with bit 6: a bitmap of the rows that have a value follows, and values are only those rows'
//!         same: u8 column; quotient: u8 column, u8 column; none: nothing; deviation: as there; others: as in `values`
//! ```
//!
//! Version 1 has other column kinds: see [`version_1`].

mod decode;
mod deviation;
mod encode;
mod version_1;

use gnudi_model::{Timespan, Timestamp};

pub use decode::{decode, extent};
pub(crate) use decode::{decode_all, decode_rows, extent_in_head};
pub(crate) use encode::encode;

const VERSION: u8 = 2;

/// The most rows in a block; bounds what decoding allocates.
pub const ROWS_MAX: usize = 1 << 16;

// Column kinds besides those of `values`, which have lower codes.
const SAME: u8 = 0x10;
const QUOTIENT: u8 = 0x11;
const NONE: u8 = 0x12;
const DEVIATION: u8 = 0x13;
const SPARSE: u8 = 0x40;

/// The first and last bucket starts and the number of buckets, from the block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub granularity: Timespan,
    pub rows: usize,
    pub first: Timestamp,
    pub last: Timestamp,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use gnudi_model::AggregationMethod;

    use super::*;
    use crate::{
        packing::{
            damage::{damage, damaged},
            put_checksum,
        },
        rows::{Rows, absent, is_absent, may_lack},
        whole::WHOLE_MAX,
    };

    fn methods(names: &[&str]) -> Vec<AggregationMethod> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn encoded(granularity: i64, methods: &[AggregationMethod], rows: &Rows) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(Timespan(granularity), methods, rows, 0..rows.len(), &mut bytes);
        bytes
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Rows of one-minute buckets.
    fn minutes(columns: Vec<Vec<f64>>) -> Rows {
        let start = |row: usize| Timestamp::from_secs(1_700_000_040 + 60 * row as i64);
        Rows { starts: (0..columns[0].len()).map(start).collect(), columns }
    }

    #[test]
    fn repeated_columns_cost_nothing() {
        let methods = methods(&["mean", "sum", "max", "min", "std", "count"]);
        let noisy: Vec<f64> = (0..64).map(|row| (f64::from(row)).sin()).collect();
        let same = [noisy.clone(), noisy.clone(), noisy.clone(), noisy.clone()];
        let rest = [vec![absent(); 64], vec![1.0; 64]];
        let one_point_each = minutes(same.into_iter().chain(rest).collect());
        assert!(encoded(60_000_000_000, &methods, &one_point_each).len() < 64 * 8 + 60);
        let sums: Vec<f64> = noisy.iter().map(|value| value * 6.5).collect();
        let means = sums.iter().map(|sum| sum / 6.0).collect();
        let stds = noisy.iter().map(|value| value.abs()).collect();
        let columns =
            vec![means, sums, noisy.clone(), noisy.iter().map(|v| v - 1.0).collect(), stds, vec![6.0; 64]];
        assert!(encoded(60_000_000_000, &methods, &minutes(columns)).len() < 64 * 8 * 4 + 70);
    }

    #[test]
    fn a_mean_that_is_not_stored_is_the_quotient() {
        let rows = minutes(vec![vec![3.0, 5.0], vec![2.0, 4.0]]);
        let bytes = encoded(60_000_000_000, &methods(&["sum", "count"]), &rows);
        let mean = decode_rows(&bytes, &methods(&["mean"])).unwrap().unwrap();
        assert_eq!(mean.columns, [[1.5, 1.25]]);
        assert_eq!(decode_rows(&bytes, &methods(&["rate:mean"])), Ok(None));
    }

    #[test]
    fn a_mean_that_is_no_quotient_is_kept() {
        let methods = methods(&["mean", "sum", "count"]);
        let rows = minutes(vec![vec![1.0, 2.5], vec![3.0, 5.0], vec![3.0, 3.0]]);
        let bytes = encoded(60_000_000_000, &methods, &rows);
        assert_eq!(decode_rows(&bytes, &methods), Ok(Some(rows)));
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (-3i32..3).prop_map(f64::from),
            2 => any::<u64>().prop_map(f64::from_bits),
            1 => Just(absent()),
            1 => prop::sample::select(vec![-0.0, WHOLE_MAX as f64, -(WHOLE_MAX as f64), f64::NAN]),
        ]
    }

    const NAMES: [&str; 9] =
        ["mean", "sum", "max", "std", "count", "7pct", "rate:mean", "rate:sum", "rate:count"];

    prop_compose! {
        fn any_rows()(
            names in prop::sample::subsequence(NAMES.to_vec(), 1..9),
            granularity in 1i64..1_000_000_000_000,
            steps in prop::collection::vec(prop_oneof![4 => Just(1i64), 1 => 1i64..300], 1..30),
            kinds in prop::collection::vec(0u8..5, 9),
            values in prop::collection::vec(prop::collection::vec(value(), 30), 9),
        ) -> (i64, Vec<AggregationMethod>, Rows) {
            let methods = methods(&names);
            let mut start = 1000;
            let starts: Vec<Timestamp> = steps.iter().map(|step| {
                start += step;
                Timestamp(start * granularity)
            }).collect();
            let mut rows = Rows { starts, columns: Vec::new() };
            for (column, (kind, values)) in kinds.iter().zip(&values).take(methods.len()).enumerate() {
                let values = &values[..rows.starts.len()];
                // A random column, a constant one, a copy, or the quotient of others.
                rows.columns.push(match (kind, column) {
                    (0, _) => vec![values[0]; values.len()],
                    (1, 1..) => rows.columns[0].clone(),
                    (2, 2..) => rows.columns[0].iter().zip(&rows.columns[1]).map(|(a, b)| a / b).collect(),
                    _ => values.to_vec(),
                });
            }
            (granularity, methods, rows)
        }
    }

    proptest! {
        #[test]
        fn blocks_round_trip((granularity, methods, rows) in any_rows()) {
            let bytes = encoded(granularity, &methods, &rows);
            let last = rows.starts[rows.len() - 1];
            let expected = Extent { granularity: Timespan(granularity), rows: rows.len(), first: rows.starts[0], last };
            prop_assert_eq!(extent(&bytes), Ok(expected));
            let back = decode_rows(&bytes, &methods).unwrap().unwrap();
            prop_assert_eq!(&back.starts, &rows.starts);
            for (column, method) in methods.iter().enumerate() {
                prop_assert_eq!(bits(&back.columns[column]), bits(&rows.columns[column]));
                let (mut times, mut values) = (vec![Timestamp(7)], vec![7.0]);
                decode(&bytes, *method, &mut times, &mut values).unwrap();
                let lacks = |value: f64| may_lack(*method) && is_absent(value);
                let present = rows.starts.iter().zip(&rows.columns[column]).filter(|(_, value)| !lacks(**value));
                let (expected_times, expected): (Vec<Timestamp>, Vec<f64>) = present.unzip();
                prop_assert_eq!(&times[1..], &expected_times[..]);
                prop_assert_eq!(bits(&values[1..]), bits(&expected));
            }
            let some = decode_rows(&bytes, &methods[1..]).unwrap().unwrap();
            prop_assert_eq!(some.columns.len(), methods.len() - 1);
            prop_assert_eq!(decode_rows(&bytes, &["99pct".parse().unwrap()]), Ok(None));
            let (all, rows_of_all) = decode_all(&bytes).unwrap();
            prop_assert_eq!((all, rows_of_all.len()), (methods.clone(), rows.len()));
        }

        /// Also behind a checksum that matches.
        #[test]
        fn any_bytes_are_refused_or_read(
            (granularity, methods, rows) in any_rows(),
            damage in damage(),
            any_body: Option<Vec<u8>>,
        ) {
            let mut bytes = damaged(encoded(granularity, &methods, &rows), damage);
            if let Some(body) = any_body {
                bytes = body;
                put_checksum(0, &mut bytes);
            }
            let _ = extent(&bytes);
            let _ = decode_rows(&bytes, &methods);
            let _ = decode_all(&bytes);
            for method in methods {
                let _ = decode(&bytes, method, &mut Vec::new(), &mut Vec::new());
            }
        }
    }
}
