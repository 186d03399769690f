//! Rows of any of the databases.

use sqlx::{
    Decode, MySql, Postgres, Row as _, Sqlite, Type, mysql::MySqlRow, postgres::PgRow, sqlite::SqliteRow,
};

use crate::buffer::BufferedRow;

#[derive(Debug)]
pub enum Row {
    /// From a reader of `SQLite`.
    Buffered(BufferedRow),
    /// From a connection of sqlx.
    Sqlite(SqliteRow),
    Postgres(PgRow),
    Mysql(MySqlRow),
}

impl Row {
    pub fn try_get<'r, T: Column<'r>>(&'r self, index: usize) -> Result<T, sqlx::Error> {
        T::get(self, index)
    }

    /// A value decoded by sqlx.
    fn raw<'r, T>(&'r self, index: usize) -> Result<T, sqlx::Error>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
        T: Decode<'r, Postgres> + Type<Postgres>,
        T: Decode<'r, MySql> + Type<MySql>,
    {
        match self {
            Row::Buffered(_) => unreachable!("its values are decoded"),
            Row::Sqlite(row) => row.try_get(index),
            Row::Postgres(row) => row.try_get(index),
            Row::Mysql(row) => row.try_get(index),
        }
    }
}

/// Types that a column can be read as.
pub trait Column<'r>: Sized {
    fn get(row: &'r Row, index: usize) -> Result<Self, sqlx::Error>;
}

impl Column<'_> for Option<i64> {
    fn get(row: &Row, index: usize) -> Result<Self, sqlx::Error> {
        if let Row::Buffered(row) = row { row.integer(index) } else { row.raw(index) }
    }
}

impl<'r> Column<'r> for Option<&'r [u8]> {
    fn get(row: &'r Row, index: usize) -> Result<Self, sqlx::Error> {
        if let Row::Buffered(row) = row { row.bytes(index) } else { row.raw(index) }
    }
}

/// Servers store texts as bytes.
impl<'r> Column<'r> for Option<&'r str> {
    fn get(row: &'r Row, index: usize) -> Result<Self, sqlx::Error> {
        match row {
            Row::Buffered(row) => row.text(index),
            Row::Sqlite(row) => row.try_get(index),
            Row::Postgres(_) | Row::Mysql(_) => {
                let bytes: Option<&[u8]> = row.raw(index)?;
                bytes.map(std::str::from_utf8).transpose().map_err(|error| decode(error.into()))
            }
        }
    }
}

impl Column<'_> for i64 {
    fn get(row: &Row, index: usize) -> Result<Self, sqlx::Error> {
        present(row.try_get(index)?, index)
    }
}

impl<'r> Column<'r> for &'r [u8] {
    fn get(row: &'r Row, index: usize) -> Result<Self, sqlx::Error> {
        present(row.try_get(index)?, index)
    }
}

impl<'r> Column<'r> for &'r str {
    fn get(row: &'r Row, index: usize) -> Result<Self, sqlx::Error> {
        present(row.try_get(index)?, index)
    }
}

impl Column<'_> for String {
    fn get(row: &Row, index: usize) -> Result<Self, sqlx::Error> {
        row.try_get::<&str>(index).map(str::to_owned)
    }
}

fn present<T>(value: Option<T>, index: usize) -> Result<T, sqlx::Error> {
    value.ok_or_else(|| decode(format!("column {index} has no value").into()))
}

pub(crate) fn decode(reason: Box<dyn std::error::Error + Send + Sync>) -> sqlx::Error {
    sqlx::Error::Decode(reason)
}
