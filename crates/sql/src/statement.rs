//! A statement: its text, with a question mark for each value, and the values.
//!
//! Callers write the differences between databases with `dialect.rs`; question marks are converted when the statement
//! is sent.

use std::{fmt::Display, fmt::Write, sync::Arc};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use uuid::Uuid;

use crate::Dialect;

/// A value of a statement. NULLs are typed, since `PostgreSQL` needs the type.
#[derive(Clone, Debug)]
pub enum Value {
    Integer(Option<i64>),
    /// `SQLite` only, in JSON arrays of values.
    Real(f64),
    Text(Option<Arc<str>>),
    Bytes(Option<Vec<u8>>),
    /// Columns of many rows, for `PostgreSQL`.
    IntegerColumn(Vec<Option<i64>>),
    BytesColumn(Vec<Option<Vec<u8>>>),
}

macro_rules! values {
    ($($type:ty: $given:ident => $value:expr;)*) => {
        $(
            impl From<$type> for Value {
                fn from($given: $type) -> Self {
                    $value
                }
            }
        )*
    };
}

values! {
    i64: number => Value::Integer(Some(number));
    Option<i64>: number => Value::Integer(number);
    f64: number => Value::Real(number);
    &str: text => Value::Text(Some(text.into()));
    Option<&str>: text => Value::Text(text.map(Into::into));
    String: text => Value::Text(Some(text.into()));
    &String: text => text.as_str().into();
    Vec<u8>: bytes => Value::Bytes(Some(bytes));
    Uuid: id => Value::Bytes(Some(id.as_bytes().to_vec()));
    Option<Uuid>: id => Value::Bytes(id.map(|id| id.as_bytes().to_vec()));
}

#[derive(Clone, Debug)]
enum Sql {
    Owned(String),
    Shared(Arc<str>),
    Static(&'static str),
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub dialect: Dialect,
    sql: Sql,
    pub values: Vec<Value>,
    /// Whether connections cache it as prepared.
    pub(crate) is_kept: bool,
    /// Whether it may read many rows, and so must leave a connection to look-ups.
    pub(crate) is_search: bool,
}

impl Statement {
    /// A statement whose text is rarely reused: it is not cached as prepared.
    pub fn once(dialect: Dialect, sql: impl Into<String>) -> Self {
        Statement { is_kept: false, ..Self::new(dialect, sql) }
    }

    /// An extensible statement.
    pub fn new(dialect: Dialect, sql: impl Into<String>) -> Self {
        Self::of(dialect, Sql::Owned(sql.into()))
    }

    /// A complete statement, without values.
    pub fn whole(dialect: Dialect, sql: &'static str) -> Self {
        Self::of(dialect, Sql::Static(sql))
    }

    /// A complete statement, without values.
    pub fn shared(dialect: Dialect, sql: Arc<str>) -> Self {
        Self::of(dialect, Sql::Shared(sql))
    }

    fn of(dialect: Dialect, sql: Sql) -> Self {
        Statement { dialect, sql, values: Vec::new(), is_kept: true, is_search: false }
    }

    /// For one that may read many rows: as many at once as there are connections would let look-ups wait.
    pub fn for_search(self) -> Self {
        Statement { is_search: true, ..self }
    }

    pub fn push(&mut self, sql: impl Display) -> &mut Self {
        write!(self.text(), "{sql}").expect("a string takes all");
        self
    }

    /// Appends a placeholder and its value.
    pub fn push_bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.text().push('?');
        self.values.push(value.into());
        self
    }

    /// The value of the next placeholder in the text.
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Appends a test whether an expression is one of the ids, in few different shapes, so that prepared statements are
    /// reused.
    pub fn push_among(&mut self, ids: impl ExactSizeIterator<Item = Uuid> + Clone) {
        if self.dialect == Dialect::Postgres {
            let ids = ids.map(|id| Some(id.as_bytes().to_vec())).collect();
            self.push(" = ANY(").push_bind(Value::BytesColumn(ids)).push(")");
            return;
        }
        let count = ids.len().next_power_of_two();
        let last = ids.clone().last().into_iter().cycle();
        let mut before = " IN (";
        for id in ids.chain(last).take(count) {
            self.push(before).push_bind(id);
            before = ", ";
        }
        // No ids: nothing is equal to NULL.
        self.push(if before == ", " { ")" } else { " IN (NULL)" });
    }

    pub fn sql(&self) -> &str {
        match &self.sql {
            Sql::Owned(sql) => sql,
            Sql::Shared(sql) => sql,
            Sql::Static(sql) => sql,
        }
    }

    pub(crate) fn into_parts(self) -> (SqlStr, Vec<Value>) {
        let sql = match self.sql {
            Sql::Shared(sql) => AssertSqlSafe(sql).into_sql_str(),
            Sql::Owned(sql) => AssertSqlSafe(sql).into_sql_str(),
            Sql::Static(sql) => sql.into_sql_str(),
        };
        (sql, self.values)
    }

    /// Appends the INSERT of rows: each with as many values as there are columns.
    pub fn push_insert<T>(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[T],
        push_row: impl Fn(&mut Vec<Value>, &T),
    ) {
        self.push(format_args!("INSERT INTO {table} ({}) ", columns.join(", ")));
        match self.dialect {
            Dialect::Sqlite => self.push_rows_filled_up(columns.len(), rows, push_row),
            Dialect::Postgres => self.push_columns(columns.len(), rows, push_row),
            Dialect::Mysql => {
                for row in rows {
                    push_row(&mut self.values, row);
                }
                self.push("VALUES ");
                self.push_marks(columns.len(), rows.len());
            }
        }
    }

    /// Padded to a power of two with rows whose first column is NULL, which are filtered out.
    fn push_rows_filled_up<T>(
        &mut self,
        columns_count: usize,
        rows: &[T],
        push_row: impl Fn(&mut Vec<Value>, &T),
    ) {
        let rows_filled_up = rows.len().next_power_of_two();
        for row in rows {
            push_row(&mut self.values, row);
        }
        self.values
            .resize(self.values.len() + (rows_filled_up - rows.len()) * columns_count, Value::Integer(None));
        self.push("SELECT * FROM (VALUES ");
        self.push_marks(columns_count, rows_filled_up);
        self.push(") WHERE column1 IS NOT NULL; ");
    }

    fn push_marks(&mut self, columns_count: usize, rows: usize) {
        let text = self.text();
        for row in 0..rows {
            text.push_str(if row > 0 { ", (" } else { "(" });
            for column in 0..columns_count {
                text.push_str(if column > 0 { ", ?" } else { "?" });
            }
            text.push(')');
        }
    }

    /// One statement for any number of rows.
    fn push_columns<T>(&mut self, columns_count: usize, rows: &[T], push_row: impl Fn(&mut Vec<Value>, &T)) {
        let mut values = Vec::with_capacity(rows.len() * columns_count);
        for row in rows {
            push_row(&mut values, row);
        }
        let mut columns: Vec<Value> = Vec::with_capacity(columns_count);
        for (at, value) in values.into_iter().enumerate() {
            if at < columns_count {
                columns.push(match value {
                    Value::Integer(number) => Value::IntegerColumn(vec![number]),
                    value => Value::BytesColumn(vec![value.into_bytes()]),
                });
                continue;
            }
            match (&mut columns[at % columns_count], value) {
                (Value::IntegerColumn(column), Value::Integer(number)) => column.push(number),
                (Value::BytesColumn(column), value) => column.push(value.into_bytes()),
                (column, value) => panic!("a column has values of one type: {column:?}, {value:?}"),
            }
        }
        self.push("SELECT * FROM UNNEST(");
        self.push(vec!["?"; columns_count].join(", ")).push(")");
        self.values.append(&mut columns);
    }

    fn text(&mut self) -> &mut String {
        if !matches!(self.sql, Sql::Owned(_)) {
            self.sql = Sql::Owned(self.sql().to_owned());
        }
        match &mut self.sql {
            Sql::Owned(sql) => sql,
            _ => unreachable!("made so above"),
        }
    }
}

impl Value {
    /// From a text or bytes.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Value::Text(text) => text.map(|text| text.as_bytes().to_vec()),
            Value::Bytes(bytes) => bytes,
            other => panic!("not bytes: {other:?}"),
        }
    }
}
