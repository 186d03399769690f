//! Decodes a request from protobuf (`opentelemetry.proto.collector.metrics.v1`). Limits are enforced while decoding.
//! The collector forwards texts as they are, also if they are not UTF-8: one of them may not cost the request.

use super::{
    ATTRIBUTES_PER_SAMPLE_MAX, OtlpError, Request, any_value,
    model::{
        Attribute, ExponentialPoint, Histogram, HistogramPoint, Metric, NumberPoint, Points, Quantile,
        Resource, ResourceMetrics, ScopeMetrics, Sum, SummaryPoint,
    },
};
use crate::{
    protobuf::{FieldValue, Fields, Malformed, repeated},
    remote_write::Limits,
};

type Read<T> = Result<T, OtlpError>;

/// How many more the limits allow.
struct Remaining {
    items_max: usize,
    /// Resources, scopes, metrics, data points and quantiles together.
    items: usize,
    /// Attributes and the elements of their values.
    attributes: usize,
}

impl Remaining {
    fn take_item(&mut self) -> Read<()> {
        self.items = self.items.checked_sub(1).ok_or(OtlpError::TooManyItems(self.items_max))?;
        Ok(())
    }

    fn take_attribute(&mut self) -> Read<()> {
        let max = self.items_max.saturating_mul(ATTRIBUTES_PER_SAMPLE_MAX);
        self.attributes = self.attributes.checked_sub(1).ok_or(OtlpError::TooManyAttributes(max))?;
        Ok(())
    }
}

pub(super) fn read(body: &[u8], limits: Limits) -> Read<Request<'_>> {
    let items = limits.samples_max;
    let attributes = items.saturating_mul(ATTRIBUTES_PER_SAMPLE_MAX);
    let mut remaining = Remaining { items_max: items, items, attributes };
    let resource_metrics = repeated(1, body, |message| resource_metrics(message, &mut remaining))?;
    Ok(Request { resource_metrics })
}

fn resource_metrics<'a>(message: &'a [u8], remaining: &mut Remaining) -> Read<ResourceMetrics<'a>> {
    remaining.take_item()?;
    let mut all = ResourceMetrics::default();
    for field in Fields(message) {
        match field? {
            (1, value) => {
                let attributes = repeated(1, value.bytes(1)?, |message| attribute(message, remaining))?;
                all.resource = Resource { attributes };
            }
            (2, value) => {
                remaining.take_item()?;
                let metrics = repeated(2, value.bytes(2)?, |message| metric(message, remaining))?;
                all.scope_metrics.push(ScopeMetrics { metrics });
            }
            _ => {}
        }
    }
    Ok(all)
}

fn metric<'a>(message: &'a [u8], remaining: &mut Remaining) -> Read<Metric<'a>> {
    remaining.take_item()?;
    let mut metric = Metric::default();
    for field in Fields(message) {
        let (number, value) = field?;
        if matches!(number, 5 | 7 | 9 | 10 | 11) {
            // A oneof: the last one replaces the others.
            let Metric { name, description, unit, .. } = metric;
            metric = Metric { name, description, unit, ..Metric::default() };
        }
        match number {
            1 => metric.name = value.lossy_text(1)?,
            2 => metric.description = value.lossy_text(2)?,
            3 => metric.unit = value.lossy_text(3)?,
            5 => {
                let data_points = points(value.bytes(5)?, remaining, number_point)?.0;
                metric.gauge = Some(Points { data_points });
            }
            7 => {
                let (data_points, aggregation_temporality, is_monotonic) =
                    points(value.bytes(7)?, remaining, number_point)?;
                metric.sum = Some(Sum { data_points, aggregation_temporality, is_monotonic });
            }
            9 => {
                let (data_points, aggregation_temporality, _) =
                    points(value.bytes(9)?, remaining, histogram_point)?;
                metric.histogram = Some(Histogram { data_points, aggregation_temporality });
            }
            10 => {
                let data_points = points(value.bytes(10)?, remaining, exponential_point)?.0;
                metric.exponential_histogram = Some(Points { data_points });
            }
            11 => {
                let data_points = points(value.bytes(11)?, remaining, summary_point)?.0;
                metric.summary = Some(Points { data_points });
            }
            _ => {}
        }
    }
    Ok(metric)
}

/// Decodes the data of a metric of any type: the data points, the temporality, and whether it is monotonic. Types
/// without one of the last two get its default.
fn points<'a, T>(
    message: &'a [u8],
    remaining: &mut Remaining,
    point: fn(&'a [u8], &mut Remaining) -> Read<T>,
) -> Read<(Vec<T>, u64, bool)> {
    let (mut points, mut temporality, mut is_monotonic) = (Vec::new(), 0, false);
    for field in Fields(message) {
        match field? {
            (1, value) => {
                remaining.take_item()?;
                points.push(point(value.bytes(1)?, remaining)?);
            }
            (2, value) => temporality = value.varint(2)?,
            (3, value) => is_monotonic = value.varint(3)? != 0,
            _ => {}
        }
    }
    Ok((points, temporality, is_monotonic))
}

fn number_point<'a>(message: &'a [u8], remaining: &mut Remaining) -> Read<NumberPoint<'a>> {
    let mut point = NumberPoint::default();
    for field in Fields(message) {
        match field? {
            (3, value) => point.time_unix_nano = value.fixed64(3)?,
            (4, value) => (point.as_double, point.as_int) = (Some(value.double(4)?), None),
            (6, value) => {
                (point.as_double, point.as_int) = (None, Some(value.fixed64(6)?.cast_signed()));
            }
            (7, value) => point.attributes.push(attribute(value.bytes(7)?, remaining)?),
            (8, value) => point.flags = value.varint(8)?,
            _ => {}
        }
    }
    Ok(point)
}

fn histogram_point<'a>(message: &'a [u8], remaining: &mut Remaining) -> Read<HistogramPoint<'a>> {
    let mut point = HistogramPoint::default();
    for field in Fields(message) {
        match field? {
            (3, value) => point.time_unix_nano = value.fixed64(3)?,
            (4, value) => point.count = value.fixed64(4)?,
            (5, value) => point.sum = Some(value.double(5)?),
            (6, value) => put_fixed64(6, value, |bits| point.bucket_counts.push(bits))?,
            (7, value) => put_fixed64(7, value, |bits| point.explicit_bounds.push(f64::from_bits(bits)))?,
            (9, value) => point.attributes.push(attribute(value.bytes(9)?, remaining)?),
            (10, value) => point.flags = value.varint(10)?,
            _ => {}
        }
    }
    Ok(point)
}

/// Decodes 64-bit numbers, packed or not.
fn put_fixed64(field: u64, value: FieldValue<'_>, mut put: impl FnMut(u64)) -> Result<(), Malformed> {
    let FieldValue::Bytes(packed) = value else {
        put(value.fixed64(field)?);
        return Ok(());
    };
    let (numbers, rest) = packed.as_chunks();
    if !rest.is_empty() {
        return Err(Malformed::Truncated);
    }
    for bytes in numbers {
        put(u64::from_le_bytes(*bytes));
    }
    Ok(())
}

fn exponential_point(message: &[u8], _: &mut Remaining) -> Read<ExponentialPoint> {
    let mut point = ExponentialPoint::default();
    for field in Fields(message) {
        if let (3, value) = field? {
            point.time_unix_nano = value.fixed64(3)?;
        }
    }
    Ok(point)
}

fn summary_point<'a>(message: &'a [u8], remaining: &mut Remaining) -> Read<SummaryPoint<'a>> {
    let mut point = SummaryPoint::default();
    for field in Fields(message) {
        match field? {
            (3, value) => point.time_unix_nano = value.fixed64(3)?,
            (4, value) => point.count = value.fixed64(4)?,
            (5, value) => point.sum = value.double(5)?,
            (6, value) => {
                remaining.take_item()?;
                point.quantile_values.push(quantile(value.bytes(6)?)?);
            }
            (7, value) => point.attributes.push(attribute(value.bytes(7)?, remaining)?),
            (8, value) => point.flags = value.varint(8)?,
            _ => {}
        }
    }
    Ok(point)
}

fn quantile(message: &[u8]) -> Result<Quantile, Malformed> {
    let mut quantile = Quantile::default();
    for field in Fields(message) {
        match field? {
            (1, value) => quantile.quantile = value.double(1)?,
            (2, value) => quantile.value = value.double(2)?,
            _ => {}
        }
    }
    Ok(quantile)
}

fn attribute<'a>(message: &'a [u8], remaining: &mut Remaining) -> Read<Attribute<'a>> {
    remaining.take_attribute()?;
    let mut attribute = Attribute::default();
    for field in Fields(message) {
        match field? {
            (1, key) => attribute.key = key.lossy_text(1)?,
            (2, value) => {
                attribute.value =
                    any_value::text_of_protobuf(value.bytes(2)?, &mut || remaining.take_attribute())?;
            }
            _ => {}
        }
    }
    Ok(attribute)
}
