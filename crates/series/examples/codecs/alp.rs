//! The size of a vector in bits with ALP, after Afroozeh, Kuffo, Boncz: "ALP: Adaptive Lossless
//! floating-Point Compression", SIGMOD 2024. Counts only; the exponents are searched over a sample of each
//! vector, which is more than the paper's search does.

use std::collections::BTreeMap;

const SAMPLE: usize = 64;

/// The size of an exception: its value and its position.
const EXCEPTION: usize = 64 + 16;

/// Exponent, factor, base, width, and the number of exceptions.
const HEAD: usize = 8 + 8 + 64 + 8 + 16;

pub fn bits(values: &[f64]) -> usize {
    let sample: Vec<f64> = values.iter().copied().step_by(values.len().div_ceil(SAMPLE)).collect();
    let exponents = (0..=18).flat_map(|exponent| (0..=exponent).map(move |factor| (exponent, factor)));
    let (exponent, factor) =
        exponents.min_by_key(|(exponent, factor)| decimal(&sample, *exponent, *factor)).expect("some");
    decimal(values, exponent, factor).min(real(values))
}

fn power(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().expect("a number")
}

fn decimal(values: &[f64], exponent: i32, factor: i32) -> usize {
    let (up, down) = ((power(exponent), power(-factor)), (power(factor), power(-exponent)));
    let (mut min, mut max, mut exceptions) = (i64::MAX, i64::MIN, 0);
    for value in values {
        let number = (value * up.0 * up.1).round_ties_even() as i64;
        if (number as f64 * down.0 * down.1).to_bits() == value.to_bits() {
            (min, max) = (min.min(number), max.max(number));
        } else {
            exceptions += 1;
        }
    }
    let width = if min > max { 0 } else { 64 - max.wrapping_sub(min).leading_zeros() as usize };
    HEAD + width * values.len() + exceptions * EXCEPTION
}

/// ALP for real doubles: the upper bits by a dictionary of eight, the lower ones unchanged.
fn real(values: &[f64]) -> usize {
    let of_cut = |left: usize| {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for value in values {
            *counts.entry(value.to_bits() >> (64 - left)).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let of_code = |code: usize| {
            let exceptions: usize = counts.iter().skip(1 << code).sum();
            values.len() * (64 - left + code) + exceptions * 32 + 16 * (1 << code)
        };
        (0..=3).map(of_code).min().expect("some")
    };
    HEAD + (1..=16).map(of_cut).min().expect("some")
}
