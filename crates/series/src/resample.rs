//! Aggregates a stored series again, into coarser buckets or calendar periods.

use gnudi_model::{AggregationMethod, Timespan, Timestamp};

use crate::{
    aggregate::{Bucket, Workspace},
    calendar::Calendar,
    read::ReadError,
    rows::{is_absent, may_lack},
};

/// Into what buckets stored points are aggregated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resample {
    /// Positive.
    Span(Timespan),
    Calendar(Calendar),
}

impl Resample {
    /// The start of the bucket that holds `time`.
    pub fn floor(self, time: Timestamp) -> Timestamp {
        match self {
            Resample::Span(span) => Timestamp(crate::layout::floor(time.0, span.0)),
            Resample::Calendar(calendar) => calendar.floor(time),
        }
    }
}

/// Aggregates a series (oldest first, both columns of one length) with `method`. A `rate:` method is taken over the
/// differences of the stored values, as Gnocchi takes it, rates of rates included; it has no meaning on a calendar.
pub fn resample(
    timestamps: &[Timestamp],
    values: &[f64],
    to: Resample,
    method: AggregationMethod,
) -> Result<(Vec<Timestamp>, Vec<f64>), ReadError> {
    match to {
        Resample::Span(span) if span.0 <= 0 => return Err(ReadError::ResampleSpan),
        Resample::Calendar(_) if method.rate => return Err(ReadError::RateOnCalendar),
        _ => {}
    }
    if !method.rate {
        return Ok(group(timestamps, values, to, method));
    }
    let differences: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Ok(group(timestamps.get(1..).unwrap_or_default(), &differences, to, method))
}

fn group(
    timestamps: &[Timestamp],
    values: &[f64],
    to: Resample,
    method: AggregationMethod,
) -> (Vec<Timestamp>, Vec<f64>) {
    let mut workspace = Workspace::new(values.to_vec());
    let mut from = 0;
    for bucket in timestamps.chunk_by(|a, b| to.floor(*a) == to.floor(*b)) {
        let end = from + bucket.len();
        let start = to.floor(bucket[0]).0;
        workspace.buckets.push(Bucket { start, from, to: end, offset: from as u64 });
        from = end;
    }
    let mut columns = [Vec::with_capacity(workspace.buckets.len())];
    workspace.push_columns(&[method], &mut columns);
    let [results] = columns;
    let present =
        workspace.buckets.iter().zip(results).filter(|(_, value)| !may_lack(method) || !is_absent(*value));
    present.map(|(bucket, value)| (Timestamp(bucket.start), value)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: &[i64]) -> Vec<Timestamp> {
        seconds.iter().map(|&second| Timestamp::from_secs(second)).collect()
    }

    #[test]
    fn spans_and_rates() {
        let times = seconds(&[0, 10, 20, 60, 70, 130]);
        let values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        let minute = Resample::Span(Timespan::from_secs(60));
        let of = |name: &str| resample(&times, &values, minute, name.parse().unwrap()).unwrap();
        assert_eq!(of("sum"), (seconds(&[0, 60, 120]), vec![7.0, 24.0, 32.0]));
        assert_eq!(of("rate:sum"), (seconds(&[0, 60, 120]), vec![3.0, 12.0, 16.0]));
        assert_eq!(of("std").0, seconds(&[0, 60]));
        assert_eq!(of("rate:count").1, [2.0, 2.0, 1.0]);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let month = Resample::Calendar(Calendar::Month);
        assert_eq!(resample(&[], &[], month, "rate:mean".parse().unwrap()), Err(ReadError::RateOnCalendar));
        let none = Resample::Span(Timespan(0));
        assert_eq!(resample(&[], &[], none, "mean".parse().unwrap()), Err(ReadError::ResampleSpan));
    }
}
