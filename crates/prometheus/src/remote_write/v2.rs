//! The message of remote write 2.0 (`io.prometheus.write.v2.Request`, protobuf): the texts are in a symbol table, to
//! which series refer by index.
//!
//! A small message can refer to a long symbol many times, so the total size of all references is limited. Native
//! histograms are counted but not decoded. Unknown fields are ignored.

use gnudi_promql::METRIC_NAME;

use super::{FieldNumbers, InvalidLabels, Limits, ReadError, Remaining, Series, WriteRequest, read_series};
use crate::{
    metadata::Metadata,
    protobuf::{FieldValue, Fields, Malformed, read_varint},
};

/// The maximum number of symbols of a request, per sample of `samples_max`.
const SYMBOLS_PER_SAMPLE_MAX: usize = 4;

/// Metadata of a series' metric: the number of its type, and references to symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesMetadata {
    kind: u64,
    help: u64,
    unit: u64,
}

impl SeriesMetadata {
    pub(super) fn resolve<'a>(&self, symbols: &[Option<&'a str>]) -> Result<Metadata<'a>, InvalidLabels> {
        let (help, unit) = (symbol(symbols, self.help)?, symbol(symbols, self.unit)?);
        Ok(Metadata { kind: self.kind.into(), help: help.into(), unit: unit.into() })
    }

    /// Appends what identifies the metadata.
    pub(super) fn write_key(&self, symbols: &[Option<&str>], key: &mut Vec<u8>) {
        key.extend_from_slice(&self.kind.to_le_bytes());
        put_symbol(symbols, self.help, key);
        put_symbol(symbols, self.unit, key);
    }
}

/// Decodes a message. Labels, metadata and exemplars are resolved on access.
///
/// # Errors
/// The message is malformed, or exceeds the limits. A reference without a symbol is an error on access only.
pub fn read(message: &[u8], limits: Limits) -> Result<WriteRequest<'_>, ReadError> {
    // First the symbol table: the message may contain it after the series.
    let symbols_max = limits.samples_max.saturating_mul(SYMBOLS_PER_SAMPLE_MAX);
    let mut symbols = Vec::new();
    for field in Fields(message) {
        if let (4, value) = field? {
            if symbols.len() == symbols_max {
                return Err(ReadError::TooManySymbols(symbols_max));
            }
            // One that is not UTF-8 makes only the series that refer to it invalid.
            symbols.push(std::str::from_utf8(value.bytes(4)?).ok());
        }
    }
    let mut remaining = Remaining::new(limits);
    let mut labels_bytes = 0;
    let mut request = WriteRequest::default();
    for field in Fields(message) {
        if let (5, value) = field? {
            remaining.take_series()?;
            let mut metadata = None;
            let numbers = FieldNumbers { exemplar: 4, histogram: 3 };
            let series = read_series(value.bytes(5)?, &mut remaining, &mut request, numbers, |_, field| {
                match field {
                    (1, FieldValue::Bytes(_) | FieldValue::Varint(_)) => return Ok(true),
                    (1, value) => return Err(value.unexpected(1).into()),
                    (5, value) => metadata = Some(series_metadata(value.bytes(5)?)?),
                    _ => {}
                }
                Ok(false)
            })?;
            let series = Series { metadata, ..series };
            let of_metadata = metadata.iter().flat_map(|metadata| [metadata.help, metadata.unit]);
            for reference in references(series.labels).chain(of_metadata.map(Ok)) {
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

/// The references in a part of a series, packed or not, up to and including the first error.
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

fn symbol<'a>(symbols: &[Option<&'a str>], reference: u64) -> Result<&'a str, InvalidLabels> {
    let found = usize::try_from(reference).ok().and_then(|place| symbols.get(place));
    let text = found.ok_or(InvalidLabels::NoSuchSymbol { reference, symbols: symbols.len() })?;
    text.ok_or(InvalidLabels::Malformed(Malformed::Utf8))
}

/// Resolves the labels in a part of a series.
pub(super) fn labels<'a>(
    part: &[u8],
    symbols: &[Option<&'a str>],
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

/// The metric name in a part of a series.
pub(super) fn metric_name<'a>(part: &[u8], symbols: &[Option<&'a str>]) -> Option<&'a str> {
    let mut references = references(part);
    while let Some(name) = references.next() {
        let value = references.next()?.ok()?;
        if symbol(symbols, name.ok()?).ok()? == METRIC_NAME {
            return symbol(symbols, value).ok();
        }
    }
    None
}

/// Appends each symbol that a part of a series refers to. A malformed reference, which makes the labels invalid, becomes
/// one without a symbol.
pub(super) fn write_key(part: &[u8], symbols: &[Option<&str>], key: &mut Vec<u8>) {
    for reference in references(part) {
        put_symbol(symbols, reference.unwrap_or(u64::MAX), key);
    }
}

/// Appends a symbol after its length, which is `u32::MAX` if there is none: no symbol has this length.
fn put_symbol(symbols: &[Option<&str>], reference: u64, key: &mut Vec<u8>) {
    let text = symbol(symbols, reference);
    let length = text.as_ref().map_or(u32::MAX, |text| text.len() as u32);
    key.extend_from_slice(&length.to_le_bytes());
    key.extend_from_slice(text.unwrap_or_default().as_bytes());
}
