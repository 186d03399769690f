//! A blocked Bloom filter: excludes most metrics that a table does not contain, without reading its pages.
//!
//! A metric's bits all lie in one block of 64 bytes, so a lookup costs one memory access. With ten bits per
//! metric the false positive rate is about 1 % (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient
//! Bloom Filters", 2007).

use gnudi_model::MetricId;

const BLOCK_BYTES: usize = 64;
const BITS_EACH: usize = 10;
/// Bits set per metric; nine bits of its hash select each.
const PROBES: u32 = 6;

#[derive(Debug)]
pub struct Filter {
    bits: Vec<u8>,
}

impl Filter {
    /// A filter of metrics, given by their [`hash`]es.
    pub fn new(hashes: &[u64]) -> Self {
        let blocks = (hashes.len() * BITS_EACH).div_ceil(BLOCK_BYTES * 8).max(1);
        let mut filter = Self { bits: vec![0; blocks * BLOCK_BYTES] };
        for &hash in hashes {
            let block = filter.block(hash);
            for bit in probes(hash) {
                filter.bits[block + bit / 8] |= 1 << (bit % 8);
            }
        }
        filter
    }

    /// A filter from its serialised bytes; `None` if their length is invalid.
    pub fn from_bytes(bits: Vec<u8>) -> Option<Self> {
        (!bits.is_empty() && bits.len().is_multiple_of(BLOCK_BYTES)).then_some(Self { bits })
    }

    /// A filter that contains every metric.
    pub fn everything() -> Self {
        Self { bits: vec![0xff; BLOCK_BYTES] }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bits
    }

    /// False if the metric is certainly not in the set.
    pub fn may_contain(&self, metric: MetricId) -> bool {
        let hash = hash(metric);
        let block = self.block(hash);
        probes(hash).all(|bit| self.bits[block + bit / 8] & 1 << (bit % 8) != 0)
    }

    fn block(&self, hash: u64) -> usize {
        let blocks = (self.bits.len() / BLOCK_BYTES) as u64;
        // The upper half of the product spreads the hash over the blocks evenly.
        ((u128::from(hash) * u128::from(blocks)) >> 64) as usize * BLOCK_BYTES
    }
}

/// Bits within a block, from another mix of the hash than the choice of the block.
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    let bits = mix(hash);
    (0..PROBES).map(move |probe| (bits >> (9 * probe)) as usize & (BLOCK_BYTES * 8 - 1))
}

pub fn hash(metric: MetricId) -> u64 {
    let (high, low) = metric.0.as_u64_pair();
    mix(mix(high) ^ low)
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
fn mix(mut number: u64) -> u64 {
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn knows_its_own_and_few_others() {
        // Ids in a row are the hardest case for a hash.
        let metric = |id| MetricId(Uuid::from_u128(id));
        let hashes: Vec<u64> = (0..10_000).map(|id| hash(metric(id))).collect();
        let filter = Filter::new(&hashes);
        assert!((0..10_000).all(|id| filter.may_contain(metric(id))));
        let wrong = (10_000..110_000).filter(|id| filter.may_contain(metric(*id))).count();
        assert!(wrong < 3000, "{wrong} of 100,000");
        assert!(filter.bytes().len() < 10_000 * 11 / 8);
        let copy = Filter::from_bytes(filter.bytes().to_vec()).unwrap();
        assert!((0..10_000).all(|id| copy.may_contain(metric(id))));
    }

    #[test]
    fn the_empty_and_the_full_one() {
        let metric = MetricId(Uuid::from_u128(7));
        assert!(!Filter::new(&[]).may_contain(metric));
        assert!(Filter::everything().may_contain(metric));
        assert!(Filter::from_bytes(Vec::new()).is_none());
    }
}
