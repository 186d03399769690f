//! Draws a series as one line of block characters. Pure.

/// From the lowest value to the highest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A missing value.
const GAP: char = ' ';

/// Draws the values, oldest first, in at most `width` characters; with more values, each character is the mean of
/// several. NaN and infinities count as missing. If all values are equal, they are drawn at half height.
pub fn draw(values: &[f64], width: usize) -> String {
    let columns: Vec<Option<f64>> = (0..values.len().min(width))
        .map(|column| mean(&values[share(column, values.len(), width)]))
        .collect();
    let known = || columns.iter().copied().flatten();
    let (least, greatest) =
        (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let block = |value: Option<f64>| {
        let Some(value) = value else { return GAP };
        // Halves, so that the range does not overflow.
        let range = greatest / 2.0 - least / 2.0;
        if range == 0.0 {
            return BLOCKS[BLOCKS.len() / 2];
        }
        let height = (value / 2.0 - least / 2.0) / range * (BLOCKS.len() - 1) as f64;
        BLOCKS[(height.round() as usize).min(BLOCKS.len() - 1)]
    };
    columns.into_iter().map(block).collect()
}

/// The values of one column.
fn share(column: usize, values: usize, width: usize) -> std::ops::Range<usize> {
    if values <= width {
        return column..column + 1;
    }
    column * values / width..(column + 1) * values / width
}

fn mean(values: &[f64]) -> Option<f64> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let count = finite().count();
    // Divide first, so that the sum does not overflow.
    (count > 0).then(|| finite().map(|value| value / count as f64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_follow_values() {
        assert_eq!(draw(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 80), "▁▂▃▄▅▆▇█");
        assert_eq!(draw(&[-1.0, f64::NAN, 1.0, f64::INFINITY], 80), "▁ █ ");
        assert_eq!(draw(&[5.0, 5.0], 80), "▅▅");
        assert_eq!(draw(&[f64::MAX, f64::MIN], 80), "█▁");
        assert_eq!(draw(&[f64::NAN], 80), " ");
        assert_eq!(draw(&[], 80), "");
    }

    #[test]
    fn many_values_share_columns() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(draw(&values, 8), "▁▂▃▄▅▆▇█");
        for (count, width) in [(81, 80), (80, 80), (79, 80), (1, 1), (7, 3), (10, 0)] {
            let drawn = draw(&values[..count], width).chars().count();
            assert_eq!(drawn, count.min(width), "{count} values, {width} columns");
        }
        assert_eq!(draw(&[0.0, 0.0, 8.0, 8.0, 0.0, 0.0], 3), "▁█▁");
    }
}
