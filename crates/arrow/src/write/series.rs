//! Series of points with the keys that tell them apart, to be written as a table.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, TimeUnit};
use bytes::Bytes;
use gnudi_model::Timestamp;

pub(super) const TIMESTAMP: &str = "timestamp";
pub(super) const GRANULARITY: &str = "granularity";
pub(super) const VALUE: &str = "value";

/// The time zone of all times.
const UTC: &str = "UTC";

pub(super) const POINT_BYTES: usize = 8;

/// Points, oldest first.
#[derive(Clone, Debug)]
pub struct Series {
    /// In seconds; `None` for a calendar's units, which differ in length, and for points that are in no bucket.
    granularity: Option<f64>,
    /// The number of what it has in each column of keys; `None` for nothing.
    pub(super) keys: Vec<Option<u32>>,
    /// Nanoseconds since 1970, eight bytes each.
    pub(super) timestamps: Bytes,
    /// Eight bytes each.
    pub(super) values: Bytes,
}

impl Series {
    pub(super) fn len(&self) -> usize {
        self.values.len() / POINT_BYTES
    }

    pub(super) fn granularity(&self) -> Option<f64> {
        self.granularity
    }

    pub(super) fn time(&self, row: usize) -> i64 {
        i64::from_le_bytes(
            self.timestamps[row * POINT_BYTES..][..POINT_BYTES].try_into().expect("eight bytes"),
        )
    }
}

/// A column whose rows say which series they are of.
#[derive(Clone, Debug)]
pub(super) struct KeyColumn {
    pub name: String,
    /// Each once.
    pub texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// Some series, and the columns of keys that tell them apart.
#[derive(Debug, Default)]
pub struct SeriesSet {
    pub(super) keys: Vec<KeyColumn>,
    pub(super) series: VecDeque<Series>,
    points: usize,
    /// A table in long form has no column of granularities.
    pub(super) omits_granularity: bool,
    /// Times that the series before had, and what was made of them: those of several are often the same.
    last_times: Option<(Arc<Vec<Timestamp>>, Bytes)>,
}

impl SeriesSet {
    /// One whose series have so many keys, which have these names.
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        let column = |name| KeyColumn { name, texts: Vec::new(), numbers: HashMap::new() };
        SeriesSet { keys: keys.into_iter().map(column).collect(), ..SeriesSet::default() }
    }

    /// Leaves the column of granularities out of a table in long form: who reads it knows the one there is.
    pub fn omit_granularity(&mut self) {
        self.omits_granularity = true;
    }

    /// Points of all series together.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Appends a series; `None` stands for a key that it has not. There are as many values as times.
    pub fn push(
        &mut self,
        keys: &[Option<&str>],
        granularity: Option<f64>,
        timestamps: Arc<Vec<Timestamp>>,
        values: Vec<f64>,
    ) {
        assert_eq!(keys.len(), self.keys.len(), "a series has all keys");
        assert_eq!(timestamps.len(), values.len(), "each value has its time");
        self.points += values.len();
        let keys = self.keys.iter_mut().zip(keys).map(|(column, key)| {
            let key = (*key)?;
            if let Some(number) = column.numbers.get(key) {
                return Some(*number);
            }
            let number = column.texts.len() as u32;
            column.texts.push(key.to_owned());
            column.numbers.insert(key.to_owned(), number);
            Some(number)
        });
        let keys = keys.collect();
        let timestamps = self.times(timestamps);
        self.series.push_back(Series { granularity, keys, timestamps, values: bytes_of_floats(values) });
    }

    fn times(&mut self, times: Arc<Vec<Timestamp>>) -> Bytes {
        if let Some((known, bytes)) = &self.last_times
            && Arc::ptr_eq(known, &times)
        {
            return bytes.clone();
        }
        match Arc::try_unwrap(times) {
            Ok(times) => bytes_of_times(times),
            Err(shared) => {
                let bytes = bytes_of_times(shared.to_vec());
                self.last_times = Some((shared, bytes.clone()));
                bytes
            }
        }
    }

    /// What a series is called in one word: its keys, with slashes between.
    pub(super) fn name(&self, series: &Series) -> String {
        let key = |(column, number): (&KeyColumn, &Option<u32>)| {
            number.map_or(String::new(), |number| column.texts[number as usize].clone())
        };
        let keys: Vec<String> = self.keys.iter().zip(&series.keys).map(key).collect();
        if keys.is_empty() { VALUE.to_owned() } else { keys.join("/") }
    }
}

/// In place: the vector is the same memory.
fn bytes_of_times(times: Vec<Timestamp>) -> Bytes {
    let times: Vec<i64> = times.into_iter().map(|time| time.0).collect();
    Bytes::from_owner(Buffer::from_vec(times))
}

/// In place.
pub(super) fn bytes_of_floats(values: Vec<f64>) -> Bytes {
    Bytes::from_owner(Buffer::from_vec(values))
}

pub(super) fn bytes_of_ints(values: Vec<i64>) -> Bytes {
    Bytes::from_owner(Buffer::from_vec(values))
}

pub(super) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into()))
}

pub(super) fn time_field() -> Field {
    Field::new(TIMESTAMP, time_type(), false)
}

pub(super) fn granularity_field() -> Field {
    Field::new(GRANULARITY, DataType::Float64, true)
}
