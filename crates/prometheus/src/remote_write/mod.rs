//! Remote write 1.0 and 2.0: decodes the series of a request without copying.
//!
//! `inflate` decompresses, `v1` and `v2` decode the messages, `labels` validates a series' labels, `names` derives its
//! resource and metric. Storing them is left to the API.

mod inflate;
pub mod labels;
pub mod names;
pub mod v1;
pub mod v2;

use std::ops::Range;

pub use inflate::{InflateError, inflate, inflated_bytes};
pub use labels::InvalidLabels;

use crate::{
    metadata::Metadata,
    protobuf::{FieldValue, Fields, Malformed},
};

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("there are more than {0} samples")]
    TooManySamples(usize),
    #[error("there are more than {0} series")]
    TooManySeries(usize),
    #[error("there are more than {0} labels")]
    TooManyLabels(usize),
    #[error("there are more than {0} symbols")]
    TooManySymbols(usize),
    #[error("the labels of all series have more than {0} bytes")]
    LabelsTooLarge(usize),
}

/// Limits on a request; more is an error.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum of samples, histograms and exemplars together; also of series, including version 1's metadata.
    pub samples_max: usize,
    /// Version 2: maximum bytes of all series' labels and metadata, with each symbol counted at each reference to it.
    pub labels_bytes_max: usize,
}

/// Version 1: the maximum of labels of a request, per sample of `samples_max`. Far more than any series has.
const LABELS_PER_SAMPLE_MAX: usize = 64;

impl Limits {
    fn labels_max(self) -> usize {
        self.samples_max.saturating_mul(LABELS_PER_SAMPLE_MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// A staleness marker is a NaN with specific bits, which are preserved.
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// An exemplar: a single observation behind a series' value. Its labels usually identify a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar<'a> {
    pub labels: Vec<(&'a str, &'a str)>,
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// One series of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'a> {
    /// The part of the message from the first label to the last, with the fields between them.
    labels: &'a [u8],
    /// Range in the request's samples.
    samples: Range<usize>,
    /// Number of native histograms, which are not decoded.
    pub histograms: usize,
    /// Range in the request's exemplars.
    exemplars: Range<usize>,
    /// Version 2 only.
    metadata: Option<v2::SeriesMetadata>,
}

/// A request. Labels and exemplars are decoded on access.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteRequest<'a> {
    pub series: Vec<Series<'a>>,
    samples: Vec<Sample>,
    /// The encoded messages.
    exemplars: Vec<&'a [u8]>,
    /// Version 2's symbol table, to which labels refer by index, without what is not UTF-8; `None` in version 1.
    symbols: Option<Vec<Option<&'a str>>>,
    /// Version 1's metadata, by metric name.
    pub metadata: Vec<(&'a str, Metadata<'a>)>,
}

impl<'a> WriteRequest<'a> {
    /// Reserves capacity for series, assuming one sample each.
    fn reserve(&mut self, series: usize) {
        self.series.reserve(series);
        self.samples.reserve(series);
    }

    /// A series' samples in the order of the message.
    pub fn samples(&self, series: &Series<'_>) -> &[Sample] {
        &self.samples[series.samples.clone()]
    }

    /// A series' labels in the order of the message, not validated.
    ///
    /// # Errors
    /// There are more than `labels_max`, a label is malformed, or a reference has no symbol.
    pub fn labels(
        &self,
        series: &Series<'a>,
        labels_max: usize,
    ) -> Result<Vec<(&'a str, &'a str)>, InvalidLabels> {
        self.labels_in(series.labels, labels_max)
    }

    /// The labels in a part of the message.
    fn labels_in(&self, part: &'a [u8], labels_max: usize) -> Result<Vec<(&'a str, &'a str)>, InvalidLabels> {
        match &self.symbols {
            None => v1::labels(part, labels_max),
            Some(symbols) => v2::labels(part, symbols, labels_max),
        }
    }

    /// Decodes a series' exemplars. One that is malformed or has more than `labels_max` labels is an error, and the
    /// iteration goes on.
    pub fn exemplars(
        &self,
        series: &Series<'a>,
        labels_max: usize,
    ) -> impl ExactSizeIterator<Item = Result<Exemplar<'a>, InvalidLabels>> {
        self.exemplars[series.exemplars.clone()].iter().map(move |message| {
            let labels = self.labels_in(message, labels_max)?;
            let mut exemplar = Exemplar { labels, value: 0.0, timestamp_ms: 0 };
            for field in Fields(message) {
                match field? {
                    (2, value) => exemplar.value = value.double(2)?,
                    (3, value) => exemplar.timestamp_ms = value.signed(3)?,
                    _ => {}
                }
            }
            Ok(exemplar)
        })
    }

    /// A series' key. The keys of two series of the same version are equal only if their labels are equal or both
    /// invalid; equal labels may have different keys, and have them if their metadata differs. May overwrite `buffer`,
    /// which need not be empty.
    pub fn key<'k>(&self, series: &Series<'a>, buffer: &'k mut Vec<u8>) -> &'k [u8]
    where
        'a: 'k,
    {
        let Some(symbols) = &self.symbols else { return series.labels };
        buffer.clear();
        buffer.push(u8::from(series.metadata.is_some()));
        if let Some(metadata) = &series.metadata {
            metadata.write_key(symbols, buffer);
        }
        v2::write_key(series.labels, symbols, buffer);
        buffer
    }

    /// Version 2: a series' metric name, not validated; `None` if it has none.
    pub fn metric_name(&self, series: &Series<'a>) -> Option<&'a str> {
        v2::metric_name(series.labels, self.symbols.as_deref()?)
    }

    /// Version 2's metadata of the series' metric; `None` in version 1.
    ///
    /// # Errors
    /// A reference has no symbol.
    pub fn metadata(&self, series: &Series<'a>) -> Result<Option<Metadata<'a>>, InvalidLabels> {
        match (&series.metadata, &self.symbols) {
            (Some(metadata), Some(symbols)) => metadata.resolve(symbols).map(Some),
            _ => Ok(None),
        }
    }
}

/// How many more of each the limits allow.
#[derive(Debug)]
struct Remaining {
    limits: Limits,
    samples: usize,
    series: usize,
    labels: usize,
}

impl Remaining {
    fn new(limits: Limits) -> Self {
        let (samples, series, labels) = (limits.samples_max, limits.samples_max, limits.labels_max());
        Remaining { limits, samples, series, labels }
    }

    fn take_sample(&mut self) -> Result<(), ReadError> {
        take(&mut self.samples, ReadError::TooManySamples(self.limits.samples_max))
    }

    fn take_series(&mut self) -> Result<(), ReadError> {
        take(&mut self.series, ReadError::TooManySeries(self.limits.samples_max))
    }

    fn take_label(&mut self) -> Result<(), ReadError> {
        take(&mut self.labels, ReadError::TooManyLabels(self.limits.labels_max()))
    }
}

fn take(left: &mut usize, error: ReadError) -> Result<(), ReadError> {
    *left = left.checked_sub(1).ok_or(error)?;
    Ok(())
}

/// The part of a message from the first to the last of the fields that were added.
#[derive(Clone, Copy, Debug, Default)]
struct Span(Option<(usize, usize)>);

impl Span {
    fn add(&mut self, start: usize, end: usize) {
        self.0 = Some((self.0.map_or(start, |(first, _)| first), end));
    }

    fn of<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        self.0.map_or(&[], |(start, end)| &message[start..end])
    }
}

/// The numbers of a series' fields that differ between the versions.
#[derive(Clone, Copy)]
struct FieldNumbers {
    exemplar: u64,
    histogram: u64,
}

/// Decodes a series. `decode_own` is called for labels and for the fields that only one version has; it returns whether
/// the field has labels.
fn read_series<'a>(
    message: &'a [u8],
    remaining: &mut Remaining,
    request: &mut WriteRequest<'a>,
    numbers: FieldNumbers,
    mut decode_own: impl FnMut(&mut Remaining, (u64, FieldValue<'a>)) -> Result<bool, ReadError>,
) -> Result<Series<'a>, ReadError> {
    let (first, first_exemplar) = (request.samples.len(), request.exemplars.len());
    let (mut span, mut histograms) = (Span::default(), 0);
    let mut fields = Fields(message);
    let mut start = 0;
    while let Some(field) = fields.next() {
        let field = field?;
        let end = message.len() - fields.0.len();
        match field {
            (2, value) => {
                remaining.take_sample()?;
                request.samples.push(sample(value.bytes(2)?)?);
            }
            (number, value) if number == numbers.exemplar => {
                remaining.take_sample()?;
                request.exemplars.push(value.bytes(number)?);
            }
            (number, value) if number == numbers.histogram => {
                remaining.take_sample()?;
                value.bytes(number)?;
                histograms += 1;
            }
            other if decode_own(remaining, other)? => span.add(start, end),
            _ => {}
        }
        start = end;
    }
    let samples = first..request.samples.len();
    let exemplars = first_exemplar..request.exemplars.len();
    Ok(Series { labels: span.of(message), samples, histograms, exemplars, metadata: None })
}

fn sample(message: &[u8]) -> Result<Sample, Malformed> {
    let mut sample = Sample { value: 0.0, timestamp_ms: 0 };
    for field in Fields(message) {
        match field? {
            (1, value) => sample.value = value.double(1)?,
            (2, value) => sample.timestamp_ms = value.signed(2)?,
            _ => {}
        }
    }
    Ok(sample)
}
