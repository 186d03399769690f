//! Rows that were read from `SQLite`. The rows of a buffer share two allocations.

use std::sync::Arc;

use rusqlite::types::ValueRef;

use crate::{Row, row::decode};

/// A buffer is full at this many rows, or this many bytes of texts. mimalloc returns larger blocks to the system, which
/// zeroes the pages at the next use.
const ROWS_MAX: usize = 256;
const BYTES_MAX: usize = 64 << 10;

/// A value of a row. Texts and bytes are in the buffer; floating-point numbers, which nobody reads, are not kept.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Real,
    Text { at: u32, length: u32 },
    Bytes { at: u32, length: u32 },
}

/// Consecutive rows.
#[derive(Debug)]
pub(crate) struct Buffer {
    columns: usize,
    rows: usize,
    /// Row by row.
    cells: Vec<Cell>,
    bytes: Vec<u8>,
}

/// A row; it keeps the other rows of its buffer alive.
#[derive(Clone, Debug)]
pub struct BufferedRow {
    buffer: Arc<Buffer>,
    row: usize,
}

impl Buffer {
    pub fn new(columns: usize) -> Self {
        Buffer { columns, rows: 0, cells: Vec::new(), bytes: Vec::new() }
    }

    pub fn is_full(&self) -> bool {
        self.rows >= ROWS_MAX || self.bytes.len() >= BYTES_MAX
    }

    pub fn push(&mut self, row: &rusqlite::Row<'_>) -> Result<(), rusqlite::Error> {
        for column in 0..self.columns {
            let cell = match row.get_ref(column)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Integer(number),
                ValueRef::Real(_) => Cell::Real,
                ValueRef::Text(text) => {
                    let (at, length) = self.keep(text);
                    Cell::Text { at, length }
                }
                ValueRef::Blob(bytes) => {
                    let (at, length) = self.keep(bytes);
                    Cell::Bytes { at, length }
                }
            };
            self.cells.push(cell);
        }
        self.rows += 1;
        Ok(())
    }

    /// Appends bytes; returns their offset and length, which fit: a row of `SQLite` has less than 2 GiB.
    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        (at, bytes.len() as u32)
    }

    pub fn into_rows(self) -> Vec<Row> {
        let (rows, buffer) = (self.rows, Arc::new(self));
        (0..rows).map(|row| Row::Buffered(BufferedRow { buffer: buffer.clone(), row })).collect()
    }
}

impl BufferedRow {
    pub fn integer(&self, index: usize) -> Result<Option<i64>, sqlx::Error> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Integer(number) => Ok(Some(number)),
            other => Err(decode(format!("column {index} is not a number: {other:?}").into())),
        }
    }

    /// Texts can be read as bytes, too.
    pub fn bytes(&self, index: usize) -> Result<Option<&[u8]>, sqlx::Error> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Text { at, length } | Cell::Bytes { at, length } => {
                Ok(Some(&self.buffer.bytes[at as usize..][..length as usize]))
            }
            other => Err(decode(format!("column {index} has no bytes: {other:?}").into())),
        }
    }

    pub fn text(&self, index: usize) -> Result<Option<&str>, sqlx::Error> {
        if let Cell::Bytes { .. } = self.cell(index)? {
            return Err(decode(format!("column {index} is not a text").into()));
        }
        let text = self.bytes(index)?.map(std::str::from_utf8).transpose();
        text.map_err(|error| decode(error.into()))
    }

    fn cell(&self, index: usize) -> Result<Cell, sqlx::Error> {
        let Buffer { columns, cells, .. } = &*self.buffer;
        if index >= *columns {
            return Err(sqlx::Error::ColumnIndexOutOfBounds { index, len: *columns });
        }
        Ok(cells[self.row * columns + index])
    }
}
