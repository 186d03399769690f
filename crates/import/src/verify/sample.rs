//! Reservoir sampling: a random choice from a stream.

/// The items chosen so far: each item of the stream is chosen with the same probability.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    size: usize,
    came: u64,
    state: u64,
    kept: Vec<T>,
}

impl<T> Sample<T> {
    /// A choice of `size` items, the same for the same `seed` and stream.
    pub fn new(size: usize, seed: u64) -> Self {
        Sample { size, came: 0, state: seed, kept: Vec::new() }
    }

    /// Adds an item of the stream.
    pub fn offer(&mut self, item: T) {
        self.came += 1;
        if self.kept.len() < self.size {
            self.kept.push(item);
            return;
        }
        let place = self.random() % self.came;
        if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.kept.get_mut(place)) {
            *kept = item;
        }
    }

    pub fn into_kept(self) -> Vec<T> {
        self.kept
    }

    /// The next number of the generator `SplitMix64`.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(size: usize, seed: u64, items: u64) -> Vec<u64> {
        let mut sample = Sample::new(size, seed);
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
