//! Lists as tables, written as a whole.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    builder::{MapBuilder, StringBuilder},
};
use arrow_ipc::{
    MetadataVersion,
    writer::{IpcWriteOptions, StreamWriter},
};
use arrow_schema::{Field, Schema};
use gnudi_model::Timestamp;

use crate::Compression;

/// A column's cells, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    Texts(Vec<Option<String>>),
    Times(Vec<Option<Timestamp>>),
    Numbers(Vec<Option<f64>>),
    Flags(Vec<Option<bool>>),
    /// Maps from text to text.
    Maps(Vec<Vec<(String, String)>>),
}

impl Cells {
    fn array(self) -> ArrayRef {
        match self {
            Cells::Texts(texts) => Arc::new(StringArray::from(texts)),
            Cells::Times(times) => {
                let times = times.into_iter().map(|time| time.map(|time| time.0));
                Arc::new(times.collect::<TimestampNanosecondArray>().with_timezone("UTC"))
            }
            Cells::Numbers(numbers) => Arc::new(Float64Array::from(numbers)),
            Cells::Flags(flags) => Arc::new(BooleanArray::from(flags)),
            Cells::Maps(maps) => {
                let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
                for map in maps {
                    for (key, value) in map {
                        builder.keys().append_value(key);
                        builder.values().append_value(value);
                    }
                    builder.append(true).expect("each key has its value");
                }
                Arc::new(builder.finish())
            }
        }
    }
}

/// Columns of equal length.
#[derive(Debug, Default)]
pub struct Table(Vec<(String, Cells)>);

impl Table {
    /// Appends a column.
    pub fn column(&mut self, name: impl Into<String>, cells: Cells) {
        self.0.push((name.into(), cells));
    }

    /// Encodes the stream.
    pub fn into_stream(self, compression: Compression) -> Vec<u8> {
        let arrays: Vec<(String, ArrayRef)> =
            self.0.into_iter().map(|(name, cells)| (name, cells.array())).collect();
        let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(arrays.iter().map(field).collect::<Vec<Field>>()));
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
            .and_then(|options| options.try_with_compression(compression.codec()))
            .expect("the features are there");
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options)
            .expect("writing to memory does not fail");
        if arrays.first().is_some_and(|(_, array)| !array.is_empty()) {
            let arrays = arrays.into_iter().map(|(_, array)| array).collect();
            let batch = RecordBatch::try_new(schema, arrays).expect("the columns have one length");
            writer.write(&batch).expect("writing to memory does not fail");
        }
        writer.into_inner().expect("writing to memory does not fail")
    }
}
