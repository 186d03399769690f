//! The message of remote write 1.0 (`prometheus.WriteRequest`, protobuf).
//!
//! Native histograms are counted but not decoded. Unknown fields are ignored.

use super::{FieldNumbers, InvalidLabels, Limits, ReadError, Remaining, WriteRequest, read_series};
use crate::{
    metadata::Metadata,
    protobuf::{Fields, Malformed},
};

/// Decodes a message. Labels and exemplars are decoded on access.
///
/// # Errors
/// The message is malformed, or exceeds the limits.
pub fn read(message: &[u8], limits: Limits) -> Result<WriteRequest<'_>, ReadError> {
    let mut remaining = Remaining::new(limits);
    let mut request = WriteRequest::default();
    request
        .reserve(Fields(message).filter(|field| matches!(field, Ok((1, _)))).count().min(limits.samples_max));
    for field in Fields(message) {
        match field? {
            (1, value) => {
                remaining.take_series()?;
                let numbers = FieldNumbers { exemplar: 3, histogram: 4 };
                let series = read_series(
                    value.bytes(1)?,
                    &mut remaining,
                    &mut request,
                    numbers,
                    |remaining, field| {
                        let (1, value) = field else { return Ok(false) };
                        remaining.take_label()?;
                        value.bytes(1)?;
                        Ok(true)
                    },
                )?;
                request.series.push(series);
            }
            (3, value) => {
                remaining.take_series()?;
                request.metadata.push(metadata(value.bytes(3)?)?);
            }
            _ => {}
        }
    }
    Ok(request)
}

/// Decodes the labels in a part of a series.
pub(super) fn labels(part: &[u8], labels_max: usize) -> Result<Vec<(&str, &str)>, InvalidLabels> {
    let mut labels = Vec::new();
    for field in Fields(part) {
        if let (1, value) = field? {
            if labels.len() == labels_max {
                return Err(InvalidLabels::TooMany(labels_max));
            }
            labels.push(label(value.bytes(1)?)?);
        }
    }
    Ok(labels)
}

fn label(message: &[u8]) -> Result<(&str, &str), Malformed> {
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

fn metadata(message: &[u8]) -> Result<(&str, Metadata<'_>), Malformed> {
    let (mut name, mut metadata) = ("", Metadata::default());
    for field in Fields(message) {
        match field? {
            (1, kind) => metadata.kind = kind.varint(1)?.into(),
            (2, text) => name = text.text(2)?,
            (4, text) => metadata.help = text.lossy_text(4)?,
            (5, text) => metadata.unit = text.lossy_text(5)?,
            _ => {}
        }
    }
    Ok((name, metadata))
}
