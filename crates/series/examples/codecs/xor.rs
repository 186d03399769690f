//! The sizes in bits with Gorilla and Chimp128, after their papers and the authors' programs. Counts only.

const NONE: u32 = 65;

/// Pelkonen et al.: "Gorilla: A Fast, Scalable, In-Memory Time Series Database", VLDB 2015.
pub fn gorilla(values: &[f64]) -> usize {
    let (mut bits, mut leading_before, mut trailing_before) = (64, NONE, 0);
    for pair in values.windows(2) {
        let xor = pair[0].to_bits() ^ pair[1].to_bits();
        bits += 1;
        if xor == 0 {
            continue;
        }
        let (leading, trailing) = (xor.leading_zeros().min(31), xor.trailing_zeros());
        bits += 1;
        if leading_before != NONE && leading >= leading_before && trailing >= trailing_before {
            bits += (64 - leading_before - trailing_before) as usize;
        } else {
            bits += 5 + 6 + (64 - leading - trailing) as usize;
            (leading_before, trailing_before) = (leading, trailing);
        }
    }
    bits
}

/// The numbers of leading zeros that Chimp distinguishes.
const LEADING: [u32; 8] = [0, 8, 12, 16, 18, 20, 22, 24];

const WINDOW: usize = 128;
const THRESHOLD: u32 = 6 + 7;
const LOWEST: usize = (1 << (THRESHOLD + 1)) - 1;

/// Liakos et al.: "Chimp: Efficient Lossless Floating Point Compression for Time Series Databases", VLDB 2022.
pub fn chimp128(values: &[f64]) -> usize {
    let mut places = vec![usize::MAX; LOWEST + 1];
    let (mut bits, mut leading_before) = (64, NONE);
    places[values[0].to_bits() as usize & LOWEST] = 0;
    for (index, value) in values.iter().enumerate().skip(1) {
        let value = value.to_bits();
        let key = value as usize & LOWEST;
        let mut xor = value ^ values[index - 1].to_bits();
        let mut trailing = 0;
        if places[key] != usize::MAX && index - places[key] <= WINDOW {
            let of_place = value ^ values[places[key]].to_bits();
            trailing = of_place.trailing_zeros();
            if trailing > THRESHOLD {
                xor = of_place;
            }
        }
        places[key] = index;
        let leading = *LEADING.iter().rfind(|leading| **leading <= xor.leading_zeros()).expect("0");
        if xor == 0 {
            bits += 9;
            leading_before = NONE;
        } else if trailing > THRESHOLD {
            bits += 18 + (64 - leading - trailing) as usize;
            leading_before = NONE;
        } else if leading == leading_before {
            bits += 2 + (64 - leading) as usize;
        } else {
            bits += 5 + (64 - leading) as usize;
            leading_before = leading;
        }
    }
    bits
}
