//! Series of points with the keys that identify them, to be written as a table.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::{DataType, Field, TimeUnit};
use bytes::Bytes;
use gnudi_model::Timestamp;

pub(super) const VALUE: &str = "value";

pub(super) const POINT_BYTES: usize = 8;

/// Points, oldest first.
#[derive(Clone, Debug)]
pub struct Series {
    /// In seconds; `None` for calendar units, whose length varies, and for raw points.
    pub(super) granularity: Option<f64>,
    /// For each key column the index of its text; `None` for null.
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

    pub(super) fn time(&self, row: usize) -> i64 {
        i64::from_le_bytes(
            self.timestamps[row * POINT_BYTES..][..POINT_BYTES].try_into().expect("eight bytes"),
        )
    }
}

/// A column that identifies a row's series.
#[derive(Clone, Debug)]
pub(super) struct KeyColumn {
    pub name: String,
    /// The distinct texts.
    pub texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// Series with a common set of key columns.
#[derive(Debug, Default)]
pub struct SeriesSet {
    pub(super) keys: Vec<KeyColumn>,
    pub(super) series: VecDeque<Series>,
    points: usize,
    /// Whether the long form omits the granularity column.
    pub(super) omits_granularity: bool,
    /// The times of the last series and their encoding: several series often share their times.
    last_times: Option<(Arc<Vec<Timestamp>>, Bytes)>,
}

impl SeriesSet {
    /// An empty set with these key columns.
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        let column = |name| KeyColumn { name, texts: Vec::new(), numbers: HashMap::new() };
        SeriesSet { keys: keys.into_iter().map(column).collect(), ..SeriesSet::default() }
    }

    /// Omits the granularity column in the long form: the reader knows the only granularity.
    pub fn omit_granularity(&mut self) {
        self.omits_granularity = true;
    }

    /// The total number of points.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Appends a series; `None` is a null key. There must be as many values as times.
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
        self.series.push_back(Series { granularity, keys, timestamps, values: bytes_of(values) });
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

    /// The series' name: its keys joined by slashes.
    pub(super) fn name(&self, series: &Series) -> String {
        let key = |(column, number): (&KeyColumn, &Option<u32>)| {
            number.map_or(String::new(), |number| column.texts[number as usize].clone())
        };
        let keys: Vec<String> = self.keys.iter().zip(&series.keys).map(key).collect();
        if keys.is_empty() { VALUE.to_owned() } else { keys.join("/") }
    }
}

/// Without a copy: reuses the vector's memory.
fn bytes_of_times(times: Vec<Timestamp>) -> Bytes {
    let times: Vec<i64> = times.into_iter().map(|time| time.0).collect();
    bytes_of(times)
}

/// Without a copy.
pub(super) fn bytes_of<T: ArrowNativeType>(values: Vec<T>) -> Bytes {
    Bytes::from_owner(Buffer::from_vec(values))
}

pub(super) fn time_field() -> Field {
    let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Field::new("timestamp", utc, false)
}

pub(super) fn granularity_field() -> Field {
    Field::new("granularity", DataType::Float64, true)
}
