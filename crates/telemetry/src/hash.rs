//! A fast hash for change detection.

/// Fast, not collision-resistant, 32 bytes at a time. A collision hides an attribute change until the next refresh.
pub fn quick_hash(bytes: &[u8], seed: u64) -> u64 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xd1b5_4a32_d192_ed03;
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let pair = |hash: u64, bytes: &[u8]| mix(word(&bytes[..8]) ^ A ^ hash, word(&bytes[8..16]) ^ B);
    // Two independent products, to hide the latency of the multiplication.
    let (mut one, mut other) = (mix(seed ^ A, bytes.len() as u64 ^ B), seed ^ B);
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        one = pair(one, &chunk[..16]);
        other = pair(other, &chunk[16..]);
    }
    let mut last = [0; 32];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(pair(one, &last[..16]) ^ A, pair(other, &last[16..]) ^ B)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_tell_texts_apart() {
        let text = b"0123456789abcdef0123456789abcdef0123";
        let mut hashes: Vec<u64> = (0..=text.len()).map(|length| quick_hash(&text[..length], 0)).collect();
        hashes.extend((0..text.len()).map(|place| {
            let mut other = *text;
            other[place] ^= 1;
            quick_hash(&other, 0)
        }));
        hashes.push(quick_hash(b"\0", 0));
        hashes.push(quick_hash(text, 1));
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }
}
