//! The schema: validates the columns and their types.

use arrow_ipc::{DictionaryKind, Endianness, Field, Int, Precision, Schema, TimeUnit, Type};

use super::{ReadError, Result};

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    MetricId,
    ResourceId,
    Metric,
    ArchivePolicyName,
    Unit,
    Timestamp,
    Value,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::MetricId => "metric_id",
            Role::ResourceId => "resource_id",
            Role::Metric => "metric",
            Role::ArchivePolicyName => "archive_policy_name",
            Role::Unit => "unit",
            Role::Timestamp => "timestamp",
            Role::Value => "value",
        }
    }

    fn is_optional(self) -> bool {
        matches!(self, Role::ArchivePolicyName | Role::Unit)
    }

    /// The accepted types, for error texts.
    fn types(self) -> &'static str {
        match self {
            Role::MetricId | Role::ResourceId => "utf8, large_utf8, utf8_view or fixed_size_binary(16)",
            Role::Metric | Role::ArchivePolicyName | Role::Unit => "utf8, large_utf8 or utf8_view",
            Role::Timestamp => "timestamp, of any unit, with or without a time zone",
            Role::Value => "float64, float32 or an integer",
        }
    }
}

/// A numeric type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Number {
    fn of(int: Int<'_>) -> Option<Self> {
        Some(match (int.bitWidth(), int.is_signed()) {
            (8, true) => Number::I8,
            (16, true) => Number::I16,
            (32, true) => Number::I32,
            (64, true) => Number::I64,
            (8, false) => Number::U8,
            (16, false) => Number::U16,
            (32, false) => Number::U32,
            (64, false) => Number::U64,
            _ => return None,
        })
    }

    /// Bytes per number.
    pub fn width(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }
}

/// The memory layout of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Texts with 32-bit offsets.
    Utf8,
    /// Texts with 64-bit offsets.
    LargeUtf8,
    /// Texts as views.
    Utf8View,
    /// UUIDs as 16 bytes.
    Uuid,
    /// Times; holds the nanoseconds per unit.
    Time(i64),
    Number(Number),
}

/// The dictionary of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dictionary {
    pub id: i64,
    pub index: Number,
}

/// A column of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub role: Role,
    /// The layout of the values, in the column or its dictionary.
    pub layout: Layout,
    pub dictionary: Option<Dictionary>,
}

/// The columns in order. `keys` are the columns besides time and value; those that are not optional are
/// required.
pub fn read(schema: &Schema<'_>, keys: &[Role]) -> Result<Vec<Column>> {
    if schema.endianness() != Endianness::Little {
        return Err(ReadError::malformed("The stream is big-endian: write it little-endian"));
    }
    let roles = || keys.iter().copied().chain([Role::Timestamp, Role::Value]);
    let mut columns: Vec<Column> = Vec::new();
    for field in schema.fields().into_iter().flatten() {
        let name = field.name().unwrap_or_default();
        let role = roles().find(|role| role.name() == name).ok_or_else(|| {
            let known: Vec<&str> = roles().map(Role::name).collect();
            let name: String = name.chars().take(100).collect();
            ReadError::Malformed(format!("Unknown column '{name}': the columns are {}", known.join(", ")))
        })?;
        if columns.iter().any(|column| column.role == role) {
            return Err(ReadError::Malformed(format!("There are two columns '{name}'")));
        }
        columns.push(column(&field, role)?);
    }
    for role in roles().filter(|role| !role.is_optional()) {
        if !columns.iter().any(|column| column.role == role) {
            return Err(ReadError::Malformed(format!(
                "There is no column '{}' ({})",
                role.name(),
                role.types()
            )));
        }
    }
    Ok(columns)
}

fn column(field: &Field<'_>, role: Role) -> Result<Column> {
    let refuse = || {
        let kind = match field.type_type().variant_name() {
            Some("Int") if role == Role::Timestamp => "an integer without a unit (cast it to a timestamp)",
            Some(kind) => kind,
            None => "of an unknown type",
        };
        ReadError::Malformed(format!("Column '{}' is {kind}: it must be {}", role.name(), role.types()))
    };
    let layout = layout(field).ok_or_else(refuse)?;
    let is_taken = match role {
        Role::MetricId | Role::ResourceId => {
            matches!(layout, Layout::Utf8 | Layout::LargeUtf8 | Layout::Utf8View | Layout::Uuid)
        }
        Role::Metric | Role::ArchivePolicyName | Role::Unit => {
            matches!(layout, Layout::Utf8 | Layout::LargeUtf8 | Layout::Utf8View)
        }
        Role::Timestamp => matches!(layout, Layout::Time(_)),
        Role::Value => matches!(layout, Layout::Number(_)),
    };
    if !is_taken {
        return Err(refuse());
    }
    let dictionary = match field.dictionary() {
        None => None,
        Some(_) if matches!(role, Role::Timestamp | Role::Value) => {
            return Err(ReadError::Malformed(format!(
                "Column '{}' has a dictionary: only ids and names may have one",
                role.name()
            )));
        }
        Some(encoding) => {
            let index = encoding.indexType().map_or(Some(Number::I32), Number::of);
            let index = index.filter(|_| encoding.dictionaryKind() == DictionaryKind::DenseArray);
            Some(Dictionary { id: encoding.id(), index: index.ok_or_else(refuse)? })
        }
    };
    Ok(Column { role, layout, dictionary })
}

/// `None` for types that no column accepts.
fn layout(field: &Field<'_>) -> Option<Layout> {
    Some(match field.type_type() {
        Type::Utf8 => Layout::Utf8,
        Type::LargeUtf8 => Layout::LargeUtf8,
        Type::Utf8View => Layout::Utf8View,
        Type::FixedSizeBinary if field.type_as_fixed_size_binary()?.byteWidth() == 16 => Layout::Uuid,
        Type::Timestamp => Layout::Time(match field.type_as_timestamp()?.unit() {
            TimeUnit::SECOND => 1_000_000_000,
            TimeUnit::MILLISECOND => 1_000_000,
            TimeUnit::MICROSECOND => 1_000,
            TimeUnit::NANOSECOND => 1,
            _ => return None,
        }),
        Type::Int => Layout::Number(Number::of(field.type_as_int()?)?),
        Type::FloatingPoint => Layout::Number(match field.type_as_floating_point()?.precision() {
            Precision::SINGLE => Number::F32,
            Precision::DOUBLE => Number::F64,
            _ => return None,
        }),
        _ => return None,
    })
}
