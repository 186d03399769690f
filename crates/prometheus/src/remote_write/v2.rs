//! The message of remote write 2.0 (`io.prometheus.write.v2.Request`, protobuf): texts stand in a table, and series refer to them.
//!
//! A table of few long texts may be referred to often, so what all references stand for has a bound. Native histograms are
//! counted; what later versions add is passed over.

use super::{InvalidLabels, Left, Limits, Numbers, ReadError, Series, WriteRequest, read_series};
use crate::{
    metadata::Metadata,
    protobuf::{FieldValue, Fields, Malformed, read_varint},
};

/// Texts of a request, for each sample of `samples_max`.
const SYMBOLS_PER_SAMPLE_MAX: usize = 4;

/// What a series says of its metric, by references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesMetadata {
    kind: u64,
    help: u64,
    unit: u64,
}

impl SeriesMetadata {
    pub(super) fn resolve<'a>(&self, symbols: &[&'a str]) -> Result<Metadata<'a>, InvalidLabels> {
        let (help, unit) = (symbol(symbols, self.help)?, symbol(symbols, self.unit)?);
        Ok(Metadata { kind: self.kind.into(), help: help.into(), unit: unit.into() })
    }
}

/// The series of a message.
pub fn read(message: &[u8], limits: Limits) -> Result<WriteRequest<'_>, ReadError> {
    // The table may stand behind what refers to it.
    let symbols_max = limits.samples_max.saturating_mul(SYMBOLS_PER_SAMPLE_MAX);
    let mut symbols = Vec::new();
    for field in Fields(message) {
        if let (4, value) = field? {
            if symbols.len() == symbols_max {
                return Err(ReadError::TooManySymbols(symbols_max));
            }
            symbols.push(value.text(4)?);
        }
    }
    let mut left = Left::new(limits);
    let mut labels_bytes = 0;
    let mut request = WriteRequest::default();
    for field in Fields(message) {
        if let (5, value) = field? {
            left.take_series()?;
            let mut metadata = None;
            let numbers = Numbers { exemplar: 4, histogram: 3 };
            let series = read_series(value.bytes(5)?, &mut left, &mut request, numbers, |_, field| {
                match field {
                    (1, FieldValue::Bytes(_) | FieldValue::Varint(_)) => return Ok(true),
                    (1, value) => return Err(value.unexpected(1).into()),
                    (5, value) => metadata = Some(series_metadata(value.bytes(5)?)?),
                    _ => {}
                }
                Ok(false)
            })?;
            let series = Series { metadata, ..series };
            for reference in references(series.labels) {
                let text = symbol(&symbols, reference?).unwrap_or_default();
                labels_bytes += text.len();
                if labels_bytes > limits.labels_bytes_max {
                    return Err(ReadError::LabelsTooLarge(limits.labels_bytes_max));
                }
            }
            request.series.push(series);
        }
    }
    request.symbols = Some(symbols);
    Ok(request)
}

fn series_metadata(message: &[u8]) -> Result<SeriesMetadata, Malformed> {
    let mut metadata = SeriesMetadata::default();
    for field in Fields(message) {
        match field? {
            (1, value) => metadata.kind = value.varint(1)?,
            (3, value) => metadata.help = value.varint(3)?,
            (4, value) => metadata.unit = value.varint(4)?,
            _ => {}
        }
    }
    Ok(metadata)
}

/// The references in a part of a series, packed or one by one, up to the first fault.
fn references(part: &[u8]) -> impl Iterator<Item = Result<u64, Malformed>> {
    let mut fields = Fields(part);
    let mut packed: &[u8] = &[];
    std::iter::from_fn(move || {
        loop {
            if !packed.is_empty() {
                let reference = read_varint(&mut packed);
                if reference.is_err() {
                    (packed, fields) = (&[], Fields(&[]));
                }
                return Some(reference);
            }
            match fields.next()? {
                Ok((1, FieldValue::Bytes(bytes))) => packed = bytes,
                Ok((1, FieldValue::Varint(reference))) => return Some(Ok(reference)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

fn symbol<'a>(symbols: &[&'a str], reference: u64) -> Result<&'a str, InvalidLabels> {
    let found = usize::try_from(reference).ok().and_then(|place| symbols.get(place));
    found.copied().ok_or(InvalidLabels::NoSuchSymbol { reference, symbols: symbols.len() })
}

/// The labels that a part of a series refers to.
pub(super) fn labels<'a>(
    part: &[u8],
    symbols: &[&'a str],
    labels_max: usize,
) -> Result<Vec<(&'a str, &'a str)>, InvalidLabels> {
    let mut labels = Vec::new();
    let mut references = references(part);
    while let Some(name) = references.next() {
        let value = references.next().ok_or(InvalidLabels::OddReferences)?;
        if labels.len() == labels_max {
            return Err(InvalidLabels::TooMany(labels_max));
        }
        labels.push((symbol(symbols, name?)?, symbol(symbols, value?)?));
    }
    Ok(labels)
}

/// Writes each text that a part of a series refers to, with its length; nothing of a reference that is none, which `labels` refuses.
pub(super) fn write_key(part: &[u8], symbols: &[&str], key: &mut Vec<u8>) {
    for reference in references(part) {
        let text =
            reference.map_or(Err(InvalidLabels::OddReferences), |reference| symbol(symbols, reference));
        // No text is as long as what stands for none.
        let length = text.as_ref().map_or(u32::MAX, |text| text.len() as u32);
        key.extend_from_slice(&length.to_le_bytes());
        key.extend_from_slice(text.unwrap_or_default().as_bytes());
    }
}
