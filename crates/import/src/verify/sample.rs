//! Which items of a stream to look at: all, or a random choice (reservoir sampling).

use fastrand::Rng;

/// The items chosen so far. Of a choice each item of the stream has the same probability.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    /// `None`: all items.
    size: Option<usize>,
    offered: u64,
    random: Rng,
    kept: Vec<T>,
}

impl<T> Sample<T> {
    /// A choice of `size` items, the same for the same `seed` and stream.
    pub fn new(size: Option<usize>, seed: u64) -> Self {
        Sample { size, offered: 0, random: Rng::with_seed(seed), kept: Vec::new() }
    }

    /// Adds an item of the stream.
    pub fn offer(&mut self, item: T) {
        self.offered += 1;
        if self.size.is_none_or(|size| self.kept.len() < size) {
            self.kept.push(item);
            return;
        }
        let place = self.random.u64(..self.offered);
        if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.kept.get_mut(place)) {
            *kept = item;
        }
    }

    /// Items that need not wait for the end of the stream: those offered since the last call, if all are chosen.
    pub fn take(&mut self) -> Vec<T> {
        if self.size.is_none() { std::mem::take(&mut self.kept) } else { Vec::new() }
    }

    /// The rest, at the end of the stream.
    pub fn into_kept(self) -> Vec<T> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(size: usize, seed: u64, items: u64) -> Vec<u64> {
        let mut sample = Sample::new(Some(size), seed);
        for item in 0..items {
            sample.offer(item);
        }
        sample.into_kept()
    }

    #[test]
    fn few_are_all_there() {
        assert_eq!(chosen(5, 7, 3), [0, 1, 2]);
        assert_eq!(chosen(0, 7, 3), [0_u64; 0]);
        assert_eq!(chosen(5, 7, 1000), chosen(5, 7, 1000));
        assert_ne!(chosen(5, 7, 1000), chosen(5, 8, 1000));
    }

    #[test]
    fn all_are_taken_on_the_way() {
        let mut sample = Sample::new(None, 7);
        sample.offer(1);
        assert_eq!(sample.take(), [1]);
        sample.offer(2);
        assert_eq!(sample.into_kept(), [2]);
        let mut sample = Sample::new(Some(1), 7);
        sample.offer(1);
        assert_eq!(sample.take(), [0_u64; 0]);
    }

    #[test]
    fn each_is_as_likely() {
        let mut counts = [0_u32; 10];
        for seed in 0..10_000 {
            for item in chosen(3, seed, 10) {
                counts[item as usize] += 1;
            }
        }
        for count in counts {
            assert!((2_700..3_300).contains(&count), "{counts:?}");
        }
    }
}
