//! The columns of a record batch, read row by row, and their dictionaries.

use std::borrow::Cow;

use arrow_ipc::{DictionaryBatch, RecordBatch};
use uuid::Uuid;

use super::{
    ReadError, Result,
    buffers::{Buffers, Inflate, Nulls, row_count, too_short},
    distinct::Distinct,
    schema::{Column, Layout, Number, Role},
};

/// A dictionary value that no row has referred to yet.
const UNKNOWN: u32 = u32::MAX;
/// A null value or row.
const NULL: u32 = u32::MAX - 1;

/// Ids or names in their Arrow layout.
enum Keys<'s> {
    /// Offsets of 32 or 64 bits, one more than rows, and the data between them.
    Offsets {
        width: usize,
        offsets: Cow<'s, [u8]>,
        data: Cow<'s, [u8]>,
    },
    Views {
        views: Cow<'s, [u8]>,
        data: Vec<Cow<'s, [u8]>>,
    },
    Uuids(Cow<'s, [u8]>),
}

/// The maximum length of an id or name: 289 characters, the longest id of a resource. Many rows may share the bytes of one
/// text, so that a longer one would be read, and kept, far more often than it was sent.
const TEXT_BYTES_MAX: usize = 289 * 4;

/// Texts of up to this many bytes are inline in their view.
const VIEW_INLINE_BYTES_MAX: usize = 12;

impl<'s> Keys<'s> {
    fn read(layout: Layout, rows: usize, name: &str, buffers: &mut Buffers<'s, '_>) -> Result<Self> {
        let offsets = |width: usize, buffers: &mut Buffers<'s, '_>| {
            // Without rows the offsets may be missing.
            let count = if rows == 0 { 0 } else { rows.checked_add(1).ok_or_else(|| too_short(name))? };
            let offsets = buffers.fixed(name, count, width)?;
            let data = buffers.next(name)?;
            Ok(Keys::Offsets { width, offsets, data })
        };
        match layout {
            Layout::Utf8 => offsets(4, buffers),
            Layout::LargeUtf8 => offsets(8, buffers),
            Layout::Utf8View => {
                let views = buffers.fixed(name, rows, 16)?;
                let count = buffers.variadic_count(name)?;
                let data = (0..count).map(|_| buffers.next(name)).collect::<Result<_>>()?;
                Ok(Keys::Views { views, data })
            }
            Layout::Uuid => Ok(Keys::Uuids(buffers.fixed(name, rows, 16)?)),
            Layout::Time(_) | Layout::Number(_) => unreachable!("the schema has refused it"),
        }
    }

    /// The bytes of a row; `None` if they exceed their buffer.
    #[inline]
    fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Keys::Offsets { width: 4, offsets, data } => {
                let (pairs, at) = (&offsets[row * 4..], |bytes: [u8; 4]| i32::from_le_bytes(bytes));
                let (start, end) = (at(*pairs.first_chunk()?), at(*pairs.get(4..)?.first_chunk()?));
                data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
            }
            Keys::Offsets { offsets, data, .. } => {
                let (pairs, at) = (&offsets[row * 8..], |bytes: [u8; 8]| i64::from_le_bytes(bytes));
                let (start, end) = (at(*pairs.first_chunk()?), at(*pairs.get(8..)?.first_chunk()?));
                data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
            }
            Keys::Views { views, data } => {
                let view = &views[row * 16..][..16];
                let word = |at: usize| u32::from_le_bytes(*view[at..].first_chunk().expect("four bytes"));
                let length = usize::try_from(word(0) as i32).ok()?;
                if length <= VIEW_INLINE_BYTES_MAX {
                    return Some(&view[4..4 + length]);
                }
                let start = usize::try_from(word(12) as i32).ok()?;
                data.get(word(8) as usize)?.get(start..start.checked_add(length)?)
            }
            Keys::Uuids(ids) => Some(&ids[row * 16..][..16]),
        }
    }

    fn code(&self, row: usize, distinct: &mut dyn Distinct) -> Result<u32> {
        let name = distinct.role().name();
        let bytes = self.bytes(row).ok_or_else(|| {
            ReadError::Malformed(format!("A text of column '{name}' lies outside of its buffer (row {row})"))
        })?;
        if let Keys::Uuids(_) = self {
            return distinct.id(Uuid::from_slice(bytes).expect("sixteen bytes"));
        }
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(ReadError::Malformed(format!(
                "A text of column '{name}' has more than {TEXT_BYTES_MAX} bytes (row {row})"
            )));
        }
        let text = str::from_utf8(bytes).map_err(|_| {
            ReadError::Malformed(format!("A text of column '{name}' is no UTF-8 (row {row})"))
        })?;
        distinct.text(text)
    }
}

/// The values that one message added to a dictionary.
struct Part<'s> {
    /// The index of its first value.
    from: usize,
    nulls: Nulls<'s>,
    keys: Keys<'s>,
}

/// A dictionary. A value is resolved when a row first refers to it: a client's dictionary may have many
/// unused values.
struct Dictionary<'s> {
    id: i64,
    /// The column that uses it.
    role: Role,
    layout: Layout,
    parts: Vec<Part<'s>>,
    codes: Vec<u32>,
}

impl Dictionary<'_> {
    fn code(&mut self, index: usize, distinct: &mut dyn Distinct) -> Result<u32> {
        let known = self.codes.get(index).copied().ok_or_else(|| {
            ReadError::Malformed(format!(
                "A row of column '{}' is number {index} of a dictionary, which has {} values",
                distinct.role().name(),
                self.codes.len()
            ))
        })?;
        if known != UNKNOWN {
            return Ok(known);
        }
        let part = &self.parts[self.parts.partition_point(|part| part.from <= index) - 1];
        let row = index - part.from;
        let code = if part.nulls.is_null(row) { NULL } else { part.keys.code(row, distinct)? };
        self.codes[index] = code;
        Ok(code)
    }
}

/// The dictionaries of a stream, one per column that has one: different columns have different codes.
pub struct Dictionaries<'s>(Vec<Dictionary<'s>>);

impl<'s> Dictionaries<'s> {
    pub fn of(schema: &[Column]) -> Self {
        let dictionary = |column: &Column| {
            let id = column.dictionary?.id;
            Some(Dictionary {
                id,
                role: column.role,
                layout: column.layout,
                parts: Vec::new(),
                codes: Vec::new(),
            })
        };
        Dictionaries(schema.iter().filter_map(dictionary).collect())
    }

    /// Adds the values of a message (a delta), or replaces the dictionary.
    pub fn read(&mut self, batch: &DictionaryBatch<'_>, body: &'s [u8], inflate: &mut Inflate) -> Result<()> {
        let id = batch.id();
        let is_delta = batch.isDelta();
        let data = batch.data();
        let data = data.ok_or_else(|| ReadError::malformed("A dictionary has no values"))?;
        let rows = row_count(&data)?;
        let mut known = false;
        for dictionary in self.0.iter_mut().filter(|dictionary| dictionary.id == id) {
            known = true;
            let name = dictionary.role.name();
            let mut buffers = Buffers::of(&data, rows, body, inflate)?;
            let nulls = buffers.column(name)?;
            let keys = Keys::read(dictionary.layout, rows, name, &mut buffers)?;
            if !is_delta {
                dictionary.parts.clear();
                dictionary.codes.clear();
            }
            // Each row takes bytes of a buffer, so `rows` is bounded by the message's size.
            let from = dictionary.codes.len();
            if rows > 0 {
                dictionary.parts.push(Part { from, nulls, keys });
                dictionary.codes.resize(from + rows, UNKNOWN);
            }
        }
        if known { Ok(()) } else { Err(ReadError::Malformed(format!("No column has dictionary {id}"))) }
    }
}

/// Numbers in their Arrow layout.
pub struct Numbers<'s> {
    pub number: Number,
    pub bytes: Cow<'s, [u8]>,
}

impl Numbers<'_> {
    /// The value of a row as an index.
    fn index(&self, row: usize) -> Option<usize> {
        let bytes = &self.bytes[row * self.number.width()..];
        match self.number {
            Number::I8 => usize::try_from(i8::from_le_bytes(*bytes.first_chunk()?)).ok(),
            Number::I16 => usize::try_from(i16::from_le_bytes(*bytes.first_chunk()?)).ok(),
            Number::I32 => usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok(),
            Number::I64 => usize::try_from(i64::from_le_bytes(*bytes.first_chunk()?)).ok(),
            Number::U8 => Some(bytes[0].into()),
            Number::U16 => Some(u16::from_le_bytes(*bytes.first_chunk()?).into()),
            Number::U32 => usize::try_from(u32::from_le_bytes(*bytes.first_chunk()?)).ok(),
            Number::U64 => usize::try_from(u64::from_le_bytes(*bytes.first_chunk()?)).ok(),
            Number::F32 | Number::F64 => None,
        }
    }
}

/// The data of a column.
enum Data<'s> {
    Keys(Keys<'s>),
    /// Indices into the dictionary of this position.
    Indices {
        indices: Numbers<'s>,
        dictionary: usize,
    },
    Times {
        unit: i64,
        bytes: Cow<'s, [u8]>,
    },
    Numbers(Numbers<'s>),
}

struct Read<'s> {
    role: Role,
    nulls: Nulls<'s>,
    data: Data<'s>,
}

/// The columns of a record batch.
pub struct Columns<'s, 'd> {
    pub rows: usize,
    read: Vec<Read<'s>>,
    dictionaries: &'d mut Dictionaries<'s>,
}

impl<'s, 'd> Columns<'s, 'd> {
    pub fn read(
        schema: &[Column],
        dictionaries: &'d mut Dictionaries<'s>,
        batch: &RecordBatch<'_>,
        rows: usize,
        body: &'s [u8],
        inflate: &mut Inflate,
    ) -> Result<Self> {
        let mut buffers = Buffers::of(batch, rows, body, inflate)?;
        let mut columns = Vec::with_capacity(schema.len());
        let mut dictionary = 0;
        for column in schema {
            let name = column.role.name();
            let nulls = buffers.column(name)?;
            let data = match (column.dictionary, column.layout) {
                (Some(of), _) => {
                    let bytes = buffers.fixed(name, rows, of.index.width())?;
                    dictionary += 1;
                    let indices = Numbers { number: of.index, bytes };
                    Data::Indices { indices, dictionary: dictionary - 1 }
                }
                (None, Layout::Time(unit)) => Data::Times { unit, bytes: buffers.fixed(name, rows, 8)? },
                (None, Layout::Number(number)) => {
                    let bytes = buffers.fixed(name, rows, number.width())?;
                    Data::Numbers(Numbers { number, bytes })
                }
                (None, layout) => Data::Keys(Keys::read(layout, rows, name, &mut buffers)?),
            };
            columns.push(Read { role: column.role, nulls, data });
        }
        Ok(Columns { rows, read: columns, dictionaries })
    }

    pub fn has(&self, role: Role) -> bool {
        self.read.iter().any(|column| column.role == role)
    }

    fn find(&self, role: Role) -> &Read<'s> {
        self.read.iter().find(|column| column.role == role).expect("the schema has it")
    }

    /// The codes of all rows of an id or name column.
    pub fn codes(&mut self, distinct: &mut dyn Distinct) -> Result<Codes> {
        let role = distinct.role();
        let column = self.read.iter().find(|column| column.role == role).expect("the schema has it");
        let mut codes = Vec::with_capacity(self.rows);
        match &column.data {
            Data::Keys(keys) => {
                let mut last: Option<(&[u8], u32)> = None;
                for row in 0..self.rows {
                    if column.nulls.is_null(row) {
                        codes.push(NULL);
                        continue;
                    }
                    // Consecutive rows mostly have the same metric.
                    let code = match (keys.bytes(row), last) {
                        (Some(bytes), Some((before, code))) if bytes == before => code,
                        _ => keys.code(row, distinct)?,
                    };
                    last = keys.bytes(row).map(|bytes| (bytes, code));
                    codes.push(code);
                }
            }
            Data::Indices { indices, dictionary } => {
                let dictionary = &mut self.dictionaries.0[*dictionary];
                for row in 0..self.rows {
                    if column.nulls.is_null(row) {
                        codes.push(NULL);
                        continue;
                    }
                    let index = indices.index(row).unwrap_or(usize::MAX);
                    codes.push(dictionary.code(index, distinct)?);
                }
            }
            Data::Times { .. } | Data::Numbers(_) => unreachable!("the schema has refused it"),
        }
        Ok(Codes { name: role.name(), codes })
    }

    /// The times: nanoseconds per unit, and eight bytes each. Refuses nulls.
    pub fn times(&self) -> Result<(i64, &[u8])> {
        let column = self.find(Role::Timestamp);
        self.refuse_nulls(column)?;
        match &column.data {
            Data::Times { unit, bytes } => Ok((*unit, bytes)),
            _ => unreachable!("the schema has refused it"),
        }
    }

    /// The values. Refuses nulls.
    pub fn values(&self) -> Result<&Numbers<'s>> {
        let column = self.find(Role::Value);
        self.refuse_nulls(column)?;
        match &column.data {
            Data::Numbers(numbers) => Ok(numbers),
            _ => unreachable!("the schema has refused it"),
        }
    }

    fn refuse_nulls(&self, column: &Read<'_>) -> Result<()> {
        column.nulls.first(self.rows).map_or(Ok(()), |row| Err(null(column.role.name(), row)))
    }
}

fn null(name: &str, row: usize) -> ReadError {
    ReadError::Malformed(format!("Column '{name}' is null in row {row} of its record batch"))
}

/// The codes of a column.
pub struct Codes {
    name: &'static str,
    codes: Vec<u32>,
}

impl Codes {
    /// The code of a row.
    #[inline]
    pub fn at(&self, row: usize) -> Result<u32> {
        self.at_or_null(row).ok_or_else(|| null(self.name, row))
    }

    /// The code of a row; `None` if it is null.
    #[inline]
    pub fn at_or_null(&self, row: usize) -> Option<u32> {
        Some(self.codes[row]).filter(|code| *code != NULL)
    }
}
