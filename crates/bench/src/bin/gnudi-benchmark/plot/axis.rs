//! An axis: its range, the positions of values, and its ticks.

/// A tick of an axis.
#[derive(Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

/// Values of an axis and their positions.
#[derive(Debug)]
pub struct Scale {
    /// The positions of the least and the greatest value.
    pub range: (f64, f64),
    least: f64,
    greatest: f64,
    logarithmic: bool,
}

/// Digits of a tick's label, and of an exact value.
const TICK_DIGITS: i32 = 3;
pub const EXACT_DIGITS: i32 = 4;

/// Approximate number of ticks on a linear axis.
const TICKS: f64 = 6.0;

impl Scale {
    /// An axis for all these values, from tick to tick; a linear one begins at zero unless values are negative. `None`
    /// if no value can be shown.
    pub fn new(values: impl Iterator<Item = f64>, logarithmic: bool, range: (f64, f64)) -> Option<Self> {
        let shown = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
        let (least, greatest) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), value| {
            (least.min(value), greatest.max(value))
        });
        if least > greatest {
            return None;
        }
        let (least, greatest) =
            if logarithmic { decades(least, greatest) } else { rounded(least.min(0.0), greatest.max(0.0)) };
        Some(Scale { range, least, greatest, logarithmic })
    }

    /// Whether the value can be shown.
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.logarithmic || value > 0.0)
    }

    pub fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.least).ln() / (self.greatest / self.least).ln()
        } else {
            (value - self.least) / (self.greatest - self.least)
        };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    pub fn ticks(&self) -> Vec<Tick> {
        let tick = |value: f64| Tick { value, label: label(value, TICK_DIGITS) };
        if !self.logarithmic {
            let step = step(self.greatest - self.least);
            let steps = ((self.greatest - self.least) / step).round() as i64;
            let first = (self.least / step).round() as i64;
            return (0..=steps).map(|index| tick((first + index) as f64 * step)).collect();
        }
        let decades = (self.greatest / self.least).log10();
        // Few decades have room for ticks in between, many do not even have room for each decade.
        let (within, every): (&[f64], usize) = match decades {
            few if few < 1.5 => (&[1.0, 2.0, 3.0, 5.0], 1),
            few if few < 2.5 => (&[1.0, 3.0], 1),
            many => (&[1.0], (many / 9.0).ceil() as usize),
        };
        let (first, last) =
            (self.least.log10().floor() as i32, (self.greatest.log10() + 1e-9).floor() as i32);
        (first..=last)
            .step_by(every)
            .flat_map(|power| within.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(|value| *value >= self.least * (1.0 - 1e-9) && *value <= self.greatest * (1.0 + 1e-9))
            .map(tick)
            .collect()
    }
}

/// The values' range, widened to digits of their decade.
fn decades(least: f64, greatest: f64) -> (f64, f64) {
    let down = |value: f64| {
        let decade = 10f64.powf((value.log10() + 1e-9).floor());
        [5.0, 3.0, 2.0, 1.0].map(|digit| digit * decade).into_iter().find(|&bound| bound <= value * 1.000_001)
    };
    let up = |value: f64| {
        let decade = 10f64.powf((value.log10() - 1e-9).floor());
        [1.0, 2.0, 3.0, 5.0, 10.0]
            .map(|digit| digit * decade)
            .into_iter()
            .find(|&bound| bound >= value * 0.999_999)
    };
    let (least, greatest) = (down(least).unwrap_or(least), up(greatest).unwrap_or(greatest));
    if greatest / least < 2.0 { (least / 2.0, greatest * 2.0) } else { (least, greatest) }
}

/// The range, widened to ticks.
fn rounded(least: f64, greatest: f64) -> (f64, f64) {
    if least == greatest {
        return (0.0, 1.0);
    }
    let step = step(greatest - least);
    ((least / step + 1e-9).floor() * step, (greatest / step - 1e-9).ceil() * step)
}

/// A step of 1, 2 or 5 times a power of ten for about the desired number of ticks.
fn step(span: f64) -> f64 {
    let rough = span / TICKS;
    let decade = 10f64.powf(rough.log10().floor());
    let digit = match rough / decade {
        digit if digit < 1.5 => 1.0,
        digit if digit < 3.5 => 2.0,
        digit if digit < 7.5 => 5.0,
        _ => 10.0,
    };
    digit * decade
}

/// A value with significant digits and a magnitude: `0`, `0.5`, `20k`, `1.5M`.
pub fn label(value: f64, digits: i32) -> String {
    let size = value.abs();
    let (divisor, magnitude) = match size {
        size if size >= 0.9995e9 => (1e9, "G"),
        size if size >= 0.9995e6 => (1e6, "M"),
        size if size >= 0.9995e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let scaled = value / divisor;
    let before = if scaled == 0.0 { 1 } else { scaled.abs().log10().floor() as i32 + 1 };
    let places = (digits - before).clamp(0, 12) as usize;
    let text = format!("{scaled:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{magnitude}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], logarithmic: bool) -> Vec<String> {
        let scale = Scale::new(values.iter().copied(), logarithmic, (0.0, 100.0)).unwrap();
        let ticks = scale.ticks();
        for tick in &ticks {
            let place = scale.place(tick.value);
            assert!((-1e-6..=100.000_001).contains(&place), "{tick:?} stands at {place}");
        }
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_ticks_begin_at_zero_and_are_round() {
        assert_eq!(labels(&[10.0, 1_150_000.0], false), ["0", "200k", "400k", "600k", "800k", "1M", "1.2M"]);
        assert_eq!(labels(&[0.1, 0.7], false), ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]);
        assert_eq!(labels(&[-3.0, 4.0], false), ["-3", "-2", "-1", "0", "1", "2", "3", "4"]);
        assert_eq!(labels(&[0.0], false), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_within_them() {
        assert_eq!(labels(&[1.0, 1e6], true), ["1", "10", "100", "1k", "10k", "100k", "1M"]);
        assert_eq!(labels(&[16.0, 16_384.0], true), ["10", "100", "1k", "10k"]);
        assert_eq!(labels(&[200.0, 900.0], true), ["200", "300", "500", "1k"]);
        assert_eq!(labels(&[50.0], true), ["30", "50", "100"]);
    }

    #[test]
    fn every_value_stands_within_its_axis() {
        for logarithmic in [false, true] {
            for values in [[1e-9, 1e-8], [3.0, 3.0], [999.0, 1001.0], [1e-3, 1e12], [7.0, 7e9]] {
                let scale = Scale::new(values.into_iter(), logarithmic, (10.0, 20.0)).unwrap();
                for value in values {
                    let place = scale.place(value);
                    assert!((10.0 - 1e-6..=20.0 + 1e-6).contains(&place), "{value} of {values:?}: {place}");
                }
                assert!((2..=12).contains(&scale.ticks().len()), "{values:?}: {:?}", scale.ticks());
            }
        }
        assert!(Scale::new([0.0, -1.0].into_iter(), true, (0.0, 1.0)).is_none());
    }

    #[test]
    fn labels_have_magnitudes() {
        for (value, text) in
            [(0.0, "0"), (0.05, "0.05"), (999.0, "999"), (1500.0, "1.5k"), (2.5e9, "2.5G"), (-2e6, "-2M")]
        {
            assert_eq!(label(value, TICK_DIGITS), text);
        }
        assert_eq!(label(1_234_567.0, EXACT_DIGITS), "1.235M");
    }
}
