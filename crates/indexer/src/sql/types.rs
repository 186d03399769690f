//! The resource types as stored: with the numbers of their attributes, and fill values for resources without a value.
//!
//! They are read again when their version has changed, in this process or in another.

use std::{collections::BTreeMap, collections::HashMap, sync::Arc};

use gnudi_model::{Attribute, AttributeKind, AttributeValue, ResourceType, Text};
use parking_lot::RwLock;

use super::{Connection, Row, attribute};
use crate::{IndexerError, Result};

/// All resource types at one version.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) version: i64,
    by_name: BTreeMap<Text, Arc<StoredType>>,
    by_number: HashMap<i64, Arc<StoredType>>,
}

#[derive(Debug)]
pub(super) struct StoredType {
    pub(super) number: i64,
    pub(super) resource_type: Arc<ResourceType>,
    pub(super) attributes: BTreeMap<Text, StoredAttribute>,
    /// Kinds of attributes, by number.
    pub(super) kinds: HashMap<i64, AttributeKind>,
}

#[derive(Clone, Debug)]
pub(super) struct StoredAttribute {
    pub(super) number: i64,
    pub(super) kind: AttributeKind,
    pub(super) required: bool,
    /// In the order of their versions.
    pub(super) fills: Vec<Fill>,
}

/// The fill value of older nulls.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fill {
    pub(super) version: i64,
    pub(super) value: AttributeValue,
}

impl Types {
    pub(super) fn named(&self, name: &str) -> Result<&Arc<StoredType>> {
        self.by_name.get(name).ok_or_else(|| IndexerError::NoSuchResourceType(name.to_owned()))
    }

    pub(super) fn numbered(&self, number: i64) -> Option<&Arc<StoredType>> {
        self.by_number.get(&number)
    }

    /// In the order of their names.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<StoredType>> {
        self.by_name.values()
    }

    fn new(version: i64, types: Vec<StoredType>) -> Self {
        let types: Vec<_> = types.into_iter().map(Arc::new).collect();
        Types {
            version,
            by_name: types.iter().map(|stored| (stored.resource_type.name.clone(), stored.clone())).collect(),
            by_number: types.iter().map(|stored| (stored.number, stored.clone())).collect(),
        }
    }
}

impl StoredType {
    fn new(number: i64, name: Text, attributes: BTreeMap<Text, StoredAttribute>) -> Self {
        let shown = attributes.iter().map(|(name, stored)| (name.clone(), stored.shown())).collect();
        StoredType {
            number,
            resource_type: Arc::new(ResourceType { name, attributes: shown }),
            kinds: attributes.values().map(|stored| (stored.number, stored.kind)).collect(),
            attributes,
        }
    }
}

impl StoredAttribute {
    /// What a row with this version shows without a value.
    pub(super) fn fill(&self, row_version: i64) -> &AttributeValue {
        let fill = self.fills.iter().find(|fill| fill.version > row_version);
        fill.map_or(&AttributeValue::Null, |fill| &fill.value)
    }

    fn shown(&self) -> Attribute {
        Attribute { kind: self.kind, required: self.required, fill: None }
    }
}

/// Caches the latest types.
#[derive(Debug, Default)]
pub(super) struct TypeCache {
    types: RwLock<Option<Arc<Types>>>,
}

impl TypeCache {
    /// The types at this version, if cached.
    pub(super) fn at(&self, version: i64) -> Option<Arc<Types>> {
        self.types.read().clone().filter(|types| types.version == version)
    }

    /// The cached types, which may be outdated.
    pub(super) fn latest(&self) -> Option<Arc<Types>> {
        self.types.read().clone()
    }

    pub(super) fn keep(&self, types: &Arc<Types>) {
        let mut kept = self.types.write();
        if kept.as_ref().is_none_or(|kept| kept.version < types.version) {
            *kept = Some(types.clone());
        }
    }

    pub(super) fn forget(&self) {
        *self.types.write() = None;
    }
}

pub(super) const SELECT_VERSION: &str = "SELECT version FROM resource_type_version";
/// All types, in one consistent statement.
pub(super) const SELECT_ALL: &str = "SELECT version, t.number, t.name, a.number, a.name, a.definition \
    FROM resource_type_version CROSS JOIN resource_type t LEFT JOIN resource_attribute a ON a.type_number = t.number \
    ORDER BY t.number";

pub(super) async fn version(connection: &mut Connection) -> Result<i64> {
    Ok(connection.fetch_one(connection.statement(SELECT_VERSION)).await?.try_get(0)?)
}

pub(super) async fn load(connection: &mut Connection) -> Result<Arc<Types>> {
    decode(&connection.fetch_all(connection.statement(SELECT_ALL)).await?)
}

/// Decodes the rows of [`SELECT_ALL`].
pub(super) fn decode(rows: &[Row]) -> Result<Arc<Types>> {
    let mut types: Vec<(i64, Text, BTreeMap<Text, StoredAttribute>)> = Vec::new();
    let mut version = 0;
    for row in rows {
        version = row.try_get(0)?;
        let number: i64 = row.try_get(1)?;
        if types.last().is_none_or(|(last, ..)| *last != number) {
            types.push((number, Text::from(row.try_get::<&str>(2)?), BTreeMap::new()));
        }
        if let Some(attribute_number) = row.try_get::<Option<i64>>(3)? {
            let name = Text::from(row.try_get::<&str>(4)?);
            let stored = attribute::decode(attribute_number, row.try_get(5)?)?;
            types.last_mut().expect("each row has a type").2.insert(name, stored);
        }
    }
    let types = types.into_iter().map(|(number, name, attributes)| StoredType::new(number, name, attributes));
    Ok(Arc::new(Types::new(version, types.collect())))
}
