//! Minimum, median and maximum of some values.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    /// The mean of the two middle values for an even number.
    pub median: f64,
    pub greatest: f64,
}

impl Spread {
    /// Of the finite values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { least, median, greatest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        let of = |values: &[f64]| Spread::of(values.iter().copied()).map(|spread| spread.median);
        assert_eq!((of(&[]), of(&[3.0]), of(&[2.0, 1.0])), (None, Some(3.0), Some(1.5)));
        let spread = Spread { least: 1.0, median: 2.0, greatest: 9.0 };
        assert_eq!(Spread::of([9.0, 1.0, f64::NAN, 2.0]), Some(spread));
    }
}
