//! Remote write, versions 1.0 and 2.0: the series of a request, read where they lie.
//!
//! `inflate` undoes the compression, `v1` and `v2` read the messages, `labels` says whether a series' labels are sound, `names` which
//! metric a series is. What is done with them, the API decides.

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

/// Why a request is not read.
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

/// What of a request is taken.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Samples, histograms and exemplars of all series; as many series.
    pub samples_max: usize,
    /// Bytes of all series' labels, once the symbols stand where they are referred to.
    pub labels_bytes_max: usize,
}

/// Labels of all series of a request, for each sample of `samples_max`: far more than any series has.
const LABELS_PER_SAMPLE_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// An example of what a series counts, mostly a trace.
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
    /// The part of the message with the labels, and possibly others of its fields between them.
    labels: &'a [u8],
    /// Its samples, in those of the request.
    samples: Range<usize>,
    /// How many native histograms it has; they are not read.
    pub histograms: usize,
    /// Its exemplars, in those of the request.
    exemplars: Range<usize>,
    /// Of version 2.
    metadata: Option<v2::SeriesMetadata>,
}

/// The series of a request, whose labels are read when they are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteRequest<'a> {
    pub series: Vec<Series<'a>>,
    samples: Vec<Sample>,
    /// Their messages.
    exemplars: Vec<&'a [u8]>,
    /// Of version 2, whose series refer to them; without them labels are texts.
    symbols: Option<Vec<&'a str>>,
    /// What version 1 says of metrics: name, metadata.
    pub metadata: Vec<(&'a str, Metadata<'a>)>,
}

impl<'a> WriteRequest<'a> {
    /// Makes room for series that mostly have one sample each.
    fn reserve(&mut self, series: usize) {
        self.series.reserve(series);
        self.samples.reserve(series);
    }

    pub fn samples(&self, series: &Series<'_>) -> &[Sample] {
        &self.samples[series.samples.clone()]
    }

    /// How many samples all series have.
    pub fn samples_len(&self) -> usize {
        self.samples.len()
    }

    /// A series' labels in the order of the message, whether or not they are sound, if they are no more than `labels_max`.
    ///
    /// # Errors
    /// Labels that are no text, or refer to no symbol.
    pub fn labels(
        &self,
        series: &Series<'a>,
        labels_max: usize,
    ) -> Result<Vec<(&'a str, &'a str)>, InvalidLabels> {
        match &self.symbols {
            None => v1::labels(series.labels, labels_max),
            Some(symbols) => v2::labels(series.labels, symbols, labels_max),
        }
    }

    /// A series' exemplars, each with no more than `labels_max` labels.
    pub fn exemplars(
        &self,
        series: &Series<'a>,
        labels_max: usize,
    ) -> impl ExactSizeIterator<Item = Result<Exemplar<'a>, InvalidLabels>> {
        self.exemplars[series.exemplars.clone()].iter().map(move |message| {
            let labels = match &self.symbols {
                None => v1::labels(message, labels_max),
                Some(symbols) => v2::labels(message, symbols, labels_max),
            }?;
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

    /// Bytes that are the same for two series of one version only if their labels are; those may be invalid. `buffer` is overwritten
    /// if needed.
    pub fn key<'k>(&self, series: &Series<'a>, buffer: &'k mut Vec<u8>) -> &'k [u8]
    where
        'a: 'k,
    {
        let Some(symbols) = &self.symbols else { return series.labels };
        buffer.clear();
        v2::write_key(series.labels, symbols, buffer);
        buffer
    }

    /// What version 2 says of the series' metric.
    ///
    /// # Errors
    /// It refers to no symbol.
    pub fn metadata(&self, series: &Series<'a>) -> Result<Option<Metadata<'a>>, InvalidLabels> {
        match (&series.metadata, &self.symbols) {
            (Some(metadata), Some(symbols)) => metadata.resolve(symbols).map(Some),
            _ => Ok(None),
        }
    }
}

/// How many more of each are taken.
#[derive(Debug)]
struct Left {
    limits: Limits,
    samples: usize,
    series: usize,
    labels: usize,
}

impl Left {
    fn new(limits: Limits) -> Self {
        let labels = limits.samples_max.saturating_mul(LABELS_PER_SAMPLE_MAX);
        Left { limits, samples: limits.samples_max, series: limits.samples_max, labels }
    }

    fn take_sample(&mut self) -> Result<(), ReadError> {
        take(&mut self.samples, ReadError::TooManySamples(self.limits.samples_max))
    }

    fn take_series(&mut self) -> Result<(), ReadError> {
        take(&mut self.series, ReadError::TooManySeries(self.limits.samples_max))
    }

    fn take_label(&mut self) -> Result<(), ReadError> {
        let max = self.limits.samples_max.saturating_mul(LABELS_PER_SAMPLE_MAX);
        take(&mut self.labels, ReadError::TooManyLabels(max))
    }
}

fn take(left: &mut usize, error: ReadError) -> Result<(), ReadError> {
    *left = left.checked_sub(1).ok_or(error)?;
    Ok(())
}

/// The part of a message from its first field of a number to its last one.
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

/// The numbers of the fields of a series that differ between the versions.
#[derive(Clone, Copy)]
struct Numbers {
    exemplar: u64,
    histogram: u64,
}

/// Reads a series. `own` reads its labels and what only one version has; it answers whether a field is of the labels.
fn read_series<'a>(
    message: &'a [u8],
    left: &mut Left,
    request: &mut WriteRequest<'a>,
    numbers: Numbers,
    mut own: impl FnMut(&mut Left, (u64, FieldValue<'a>)) -> Result<bool, ReadError>,
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
                left.take_sample()?;
                request.samples.push(sample(value.bytes(2)?)?);
            }
            (number, value) if number == numbers.exemplar => {
                left.take_sample()?;
                request.exemplars.push(value.bytes(number)?);
            }
            (number, value) if number == numbers.histogram => {
                left.take_sample()?;
                value.bytes(number)?;
                histograms += 1;
            }
            other if own(left, other)? => span.add(start, end),
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
