//! numpy's sum of contiguous values: pairwise, with eight running sums in each block.

/// The most values summed by eight running sums; larger slices are halved.
const BLOCK: usize = 128;

/// The sum of `of` each item, started from 0.0.
pub(super) fn pairwise<T: Copy>(items: &[T], of: &impl Fn(T) -> f64) -> f64 {
    0.0 + halves(items, of)
}

fn halves<T: Copy>(items: &[T], of: &impl Fn(T) -> f64) -> f64 {
    if items.len() < 8 {
        return items.iter().fold(-0.0, |sum, &item| sum + of(item));
    }
    if items.len() > BLOCK {
        let half = items.len() / 2;
        let (left, right) = items.split_at(half - half % 8);
        return halves(left, of) + halves(right, of);
    }
    let mut chunks = items.chunks_exact(8);
    let first = chunks.next().expect("eight items at least");
    let mut sums: [f64; 8] = std::array::from_fn(|lane| of(first[lane]));
    for chunk in &mut chunks {
        for (sum, &item) in sums.iter_mut().zip(chunk) {
            *sum += of(item);
        }
    }
    let sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    chunks.remainder().iter().fold(sum, |sum, &item| sum + of(item))
}
