//! The message of a remote write (`prometheus.WriteRequest`, protobuf), read where it lies.
//!
//! Of its parts only labels and samples are kept; metadata, exemplars, histograms and what later versions add are passed
//! over. Any bytes give a message or an error.

/// Why bytes are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWriteRequest {
    #[error("the message ends early")]
    Truncated,
    #[error("a number of more than 64 bits")]
    Varint,
    #[error("a field without a number")]
    FieldNumber,
    #[error("field {field} has wire type {wire_type}")]
    WireType { field: u64, wire_type: u8 },
    #[error("a text is not UTF-8")]
    Utf8,
    #[error("there are more than {0} samples")]
    TooManySamples(usize),
    #[error("there are more than {0} labels")]
    TooManyLabels(usize),
}

/// Labels of all series of a request, for each sample of `samples_max`: far more than any series has.
const LABELS_PER_SAMPLE_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
}

/// One series: its labels in the order of the message, and its samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series<'a> {
    pub labels: Vec<(&'a str, &'a str)>,
    pub samples: Vec<Sample>,
}

/// The series of a message.
pub fn read(message: &[u8], samples_max: usize) -> Result<Vec<Series<'_>>, NoWriteRequest> {
    let mut left = Left { samples: samples_max, labels: samples_max.saturating_mul(LABELS_PER_SAMPLE_MAX) };
    let limits = (left.samples, left.labels);
    let mut all = Vec::new();
    for field in Fields(message) {
        if let (1, value) = field? {
            all.push(series(value.bytes(1)?, &mut left, limits)?);
        }
    }
    Ok(all)
}

/// How many more of each are taken.
struct Left {
    samples: usize,
    labels: usize,
}

fn series<'a>(message: &'a [u8], left: &mut Left, max: (usize, usize)) -> Result<Series<'a>, NoWriteRequest> {
    let mut series = Series::default();
    for field in Fields(message) {
        match field? {
            (1, value) => {
                left.labels = left.labels.checked_sub(1).ok_or(NoWriteRequest::TooManyLabels(max.1))?;
                series.labels.push(label(value.bytes(1)?)?);
            }
            (2, value) => {
                left.samples = left.samples.checked_sub(1).ok_or(NoWriteRequest::TooManySamples(max.0))?;
                series.samples.push(sample(value.bytes(2)?)?);
            }
            _ => {}
        }
    }
    Ok(series)
}

fn label(message: &[u8]) -> Result<(&str, &str), NoWriteRequest> {
    let (mut name, mut value) = ("", "");
    for field in Fields(message) {
        match field? {
            (1, text) => name = text.text(1)?,
            (2, text) => value = text.text(2)?,
            _ => {}
        }
    }
    Ok((name, value))
}

fn sample(message: &[u8]) -> Result<Sample, NoWriteRequest> {
    let mut sample = Sample { value: 0.0, timestamp_ms: 0 };
    for field in Fields(message) {
        match field? {
            (1, value) => sample.value = value.double(1)?,
            // Negative numbers are sent in two's complement.
            (2, value) => sample.timestamp_ms = value.varint(2)? as i64,
            _ => {}
        }
    }
    Ok(sample)
}

/// A field's value, by protobuf's wire types.
#[derive(Clone, Copy)]
enum FieldValue<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> FieldValue<'a> {
    fn unexpected(self, field: u64) -> NoWriteRequest {
        let wire_type = match self {
            FieldValue::Varint(_) => 0,
            FieldValue::Fixed64(_) => 1,
            FieldValue::Bytes(_) => 2,
            FieldValue::Fixed32 => 5,
        };
        NoWriteRequest::WireType { field, wire_type }
    }

    fn bytes(self, field: u64) -> Result<&'a [u8], NoWriteRequest> {
        if let FieldValue::Bytes(bytes) = self { Ok(bytes) } else { Err(self.unexpected(field)) }
    }

    fn text(self, field: u64) -> Result<&'a str, NoWriteRequest> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| NoWriteRequest::Utf8)
    }

    fn double(self, field: u64) -> Result<f64, NoWriteRequest> {
        if let FieldValue::Fixed64(bytes) = self {
            Ok(f64::from_le_bytes(bytes))
        } else {
            Err(self.unexpected(field))
        }
    }

    fn varint(self, field: u64) -> Result<u64, NoWriteRequest> {
        if let FieldValue::Varint(number) = self { Ok(number) } else { Err(self.unexpected(field)) }
    }
}

/// The fields of a message, up to the first fault.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, FieldValue<'a>), NoWriteRequest>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, FieldValue<'a>), NoWriteRequest> {
        let tag = self.varint()?;
        let (field, wire_type) = (tag >> 3, (tag & 7) as u8);
        if field == 0 {
            return Err(NoWriteRequest::FieldNumber);
        }
        let value = match wire_type {
            0 => FieldValue::Varint(self.varint()?),
            1 => FieldValue::Fixed64(self.take(8)?.try_into().expect("eight bytes")),
            2 => {
                let length = self.varint()?;
                FieldValue::Bytes(self.take(usize::try_from(length).map_err(|_| NoWriteRequest::Truncated)?)?)
            }
            5 => {
                self.take(4)?;
                FieldValue::Fixed32
            }
            _ => return Err(NoWriteRequest::WireType { field, wire_type }),
        };
        Ok((field, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], NoWriteRequest> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(NoWriteRequest::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, NoWriteRequest> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(NoWriteRequest::Truncated)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(NoWriteRequest::Varint);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(NoWriteRequest::Varint)
    }
}
