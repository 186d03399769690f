//! Standard deviations, stored as the information that sum and count do not give.
//!
//! If the n points of a bucket are whole numbers x (or decimals, times a power of ten), the square of the std is
//! N / (n (n - 1)) with the whole number N = n sum(x x) - sum(x) sum(x). N mod n follows from the sum. As x x is
//! even if and only if x is, N mod 2n follows too. So only floor(N / 2n) is stored: about half the sum of the squared
//! distances from the mean, 15 bits for 60 points of a percentage with distances of 0.3. Stored besides: the
//! difference between the std and the root computed from N, in units of the last bit.
//!
//! ```text
//! u8       column of the sum, u8 column of the count, u8 power of ten
//! numbers  in mode 0 as in `numbers`; then the differences in the last bits likewise
//! ```
//!
//! A bucket of one point has no std.

use crate::{
    Result,
    packing::Reader,
    rows::{absent, is_absent},
    values::{decimal, numbers},
};

/// Exact as doubles.
const NUMBER_MAX: f64 = (1u64 << 53) as f64;

const COUNT_MAX: f64 = (1u32 << 31) as f64;

/// The most bits in a row: above this, plain values are no larger.
const WORTH_BITS: usize = 48;

/// Remainders modulo twice the count. Most buckets of a block have the same count, so its reciprocal is
/// cached.
struct Remainders {
    power: f64,
    count: u64,
    /// 2^64 divided by 2 n.
    reciprocal: u64,
}

impl Remainders {
    fn new(power: f64) -> Self {
        Remainders { power, count: 0, reciprocal: 0 }
    }

    /// `number` modulo twice the count.
    fn rest(&self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number.wrapping_sub(quotient.wrapping_mul(2 * self.count));
        if rest >= 2 * self.count { rest - 2 * self.count } else { rest }
    }

    /// N modulo twice the count.
    fn of(&mut self, sum: f64, count: u64) -> u64 {
        if count != self.count {
            self.count = count;
            self.reciprocal = u64::MAX / (2 * count);
        }
        // The square does not depend on the sign.
        let number = decimal::number(sum, self.power).unsigned_abs();
        let rest = self.rest(number);
        let square = self.rest(rest.wrapping_mul(rest));
        let odd = if number & 1 == 1 { count } else { 0 };
        let rest = odd + 2 * count - square;
        if rest >= 2 * count { rest - 2 * count } else { rest }
    }
}

/// The std that follows from N.
fn root(number: u64, count: u64, power: f64) -> f64 {
    (number as f64 / (count as f64 * (count - 1) as f64)).sqrt() / power
}

/// The count as a number, if there are enough points for a std.
fn counted(count: f64) -> Option<u64> {
    (2.0..COUNT_MAX).contains(&count).then_some(count as u64)
}

/// Encoded stds.
#[derive(Debug)]
pub struct Deviations {
    power: u8,
    halves: numbers::Planned,
    steps: numbers::Planned,
}

impl Deviations {
    /// `None` if the stds are not of this form.
    pub fn of(stds: &[f64], sums: &[f64], counts: &[f64], power: usize) -> Option<Self> {
        let times = decimal::power(power).ok()?;
        let mut remainders = Remainders::new(times);
        let (mut halves, mut steps) = (Vec::with_capacity(stds.len()), Vec::with_capacity(stds.len()));
        for ((&std, &sum), &count) in stds.iter().zip(sums).zip(counts) {
            let Some(n) = counted(count) else {
                let lacks = is_absent(std) && (count < 2.0 || is_absent(count));
                if !lacks {
                    return None;
                }
                // Repeating the half before costs the least.
                halves.push(halves.last().copied().unwrap_or(0));
                steps.push(0);
                continue;
            };
            let scaled = std * times;
            let number = scaled * scaled * (count * (count - 1.0));
            let in_range = number < NUMBER_MAX && sum.is_finite();
            if !in_range {
                return None;
            }
            let rest = remainders.of(sum, n);
            let half = ((number - rest as f64) / (2.0 * count)).round().max(0.0) as u64;
            let root = root(rest.wrapping_add(half.wrapping_mul(2 * n)), n, times);
            halves.push(half as i64);
            steps.push(std.to_bits().wrapping_sub(root.to_bits()) as i64);
        }
        Some(Deviations {
            power: power as u8,
            halves: numbers::Planned::plain(&halves),
            steps: numbers::Planned::plain(&steps),
        })
    }

    /// The approximate size in bits.
    pub fn cost(&self) -> usize {
        40 + self.halves.cost() + self.steps.cost()
    }

    /// Whether the space saved is worth the decoding time.
    pub fn is_worth(&self, rows: usize) -> bool {
        self.cost() < WORTH_BITS * rows
    }

    pub fn put(&self, sum: usize, count: usize, out: &mut Vec<u8>) {
        out.extend([sum as u8, count as u8, self.power]);
        self.halves.put(out);
        self.steps.put(out);
    }
}

/// Replaces the sums of buckets by their stds. `counts` has one for each bucket, or one for all.
pub fn read(
    power: u8,
    counts: &[f64],
    reader: &mut Reader<'_>,
    halves: &mut Vec<u64>,
    sums: &mut [f64],
) -> Result<()> {
    let power = decimal::power(usize::from(power))?;
    let least_half = numbers::read_above(sums.len(), reader, halves)?;
    let mut steps = Vec::with_capacity(sums.len());
    let least_steps = numbers::read_above(sums.len(), reader, &mut steps)?;
    let mut remainders = Remainders::new(power);
    let parts = sums.iter_mut().zip(halves.iter().zip(&steps));
    let mut std = |sum: f64, count: f64, half: u64, above: u64| {
        let Some(count) = counted(count) else { return absent() };
        let half = least_half.wrapping_add(half as i64) as u64;
        let number = remainders.of(sum, count).wrapping_add(half.wrapping_mul(2 * count));
        let steps = least_steps.wrapping_add(above as i64);
        f64::from_bits(root(number, count, power).to_bits().wrapping_add(steps as u64))
    };
    if let [count] = *counts {
        parts.for_each(|(sum, (half, above))| *sum = std(*sum, count, *half, *above));
    } else {
        parts.zip(counts).for_each(|((sum, (half, above)), count)| *sum = std(*sum, *count, *half, *above));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gnudi_model::AggregationMethod;
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::Workspace;

    /// Sums, counts and stds of buckets, as a pass computes them.
    fn columns(buckets: &[Vec<f64>]) -> [Vec<f64>; 3] {
        let methods: [AggregationMethod; 3] = ["sum", "count", "std"].map(|name| name.parse().unwrap());
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        for values in buckets {
            Workspace::whole(values.clone()).push_columns(&methods, &mut columns);
        }
        columns
    }

    fn round_trip(buckets: &[Vec<f64>], power: usize) -> Option<usize> {
        let [sums, counts, stds] = columns(buckets);
        let deviations = Deviations::of(&stds, &sums, &counts, power)?;
        let (mut bytes, mut back) = (Vec::new(), sums);
        deviations.put(1, 2, &mut bytes);
        let mut reader = Reader(&bytes[3..]);
        read(bytes[2], &counts, &mut reader, &mut Vec::new(), &mut back).unwrap();
        assert!(reader.end().is_ok());
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back), bits(&stds));
        Some(bytes.len())
    }

    #[test]
    fn stds_of_decimals_are_small() {
        let value = |index: u32| f64::from(index.wrapping_mul(2_654_435_761) >> 16 & 0x3ff) / 100.0;
        let buckets: Vec<Vec<f64>> =
            (0..60).map(|row| (0..12).map(|index| value(12 * row + index)).collect()).collect();
        // A std is about 3, or 300 hundredths: half the sum of squares is 500,000, or 20 bits.
        assert!(round_trip(&buckets, 2).unwrap() < 60 * 26 / 8 + 16);
        let constant = vec![vec![12.5; 7]; 60];
        assert!(round_trip(&constant, 1).unwrap() < 16);
    }

    proptest! {
        #[test]
        fn stds_round_trip(
            power in 0usize..6,
            buckets in prop::collection::vec(prop::collection::vec(-100_000i64..1_000_000, 1..20), 1..40),
            far in prop::option::of(any::<i32>()),
            odd in prop::option::weighted(0.2, any::<f64>()),
        ) {
            let scale = 10f64.powi(power as i32);
            let value = |&number: &i64| (number + 1_000_000 * i64::from(far.unwrap_or(0))) as f64 / scale;
            let mut buckets: Vec<Vec<f64>> = buckets.iter().map(|bucket| bucket.iter().map(value).collect()).collect();
            if let Some(odd) = odd {
                buckets[0].push(odd);
            }
            let is_taken = round_trip(&buckets, power).is_some();
            prop_assert!(is_taken || odd.is_some());
        }

        #[test]
        fn any_columns_are_read(
            rows in prop::collection::vec((any::<u64>(), any::<u64>()), 1..40),
            power: u8,
            bytes: Vec<u8>,
        ) {
            let (mut sums, counts): (Vec<f64>, Vec<f64>) =
                rows.into_iter().map(|(sum, count)| (f64::from_bits(sum), f64::from_bits(count))).unzip();
            let _ = read(power, &counts, &mut Reader(&bytes), &mut Vec::new(), &mut sums);
        }
    }
}
