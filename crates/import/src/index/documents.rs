//! JSON documents in Gnocchi's index: definitions of archive policies, and attributes of resource types.

use gnudi_model::{AggregationMethod, ArchivePolicy, ArchivePolicyItem, Attribute, AttributeKind, Timespan};
use serde::Deserialize;

#[derive(Deserialize)]
struct ItemDocument {
    granularity: f64,
    points: Option<u64>,
    timespan: Option<f64>,
}

pub(crate) fn archive_policy(
    name: &str,
    back_window: i64,
    definition: &str,
    methods: &str,
) -> Result<ArchivePolicy, String> {
    let items: Vec<ItemDocument> = serde_json::from_str(definition).map_err(|error| error.to_string())?;
    let item = |item: ItemDocument| {
        let span =
            |seconds| Timespan::from_secs_f64(seconds).ok_or_else(|| format!("{seconds} s is no timespan"));
        let timespan = item.timespan.map(span).transpose()?;
        ArchivePolicyItem::new(Some(span(item.granularity)?), item.points, timespan)
            .map_err(|error| error.to_string())
    };
    let items = items.into_iter().map(item).collect::<Result<_, String>>()?;
    let methods: Vec<String> = serde_json::from_str(methods).map_err(|error| error.to_string())?;
    let method = |name: &String| name.parse::<AggregationMethod>().map_err(|error| error.to_string());
    let methods = methods.iter().map(method).collect::<Result<_, String>>()?;
    let back_window = u64::try_from(back_window).map_err(|error| error.to_string())?;
    ArchivePolicy::new(name.to_owned(), back_window, items, methods).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
pub(crate) struct AttributeDocument {
    r#type: String,
    #[serde(default)]
    required: bool,
    min_length: Option<u32>,
    max_length: Option<u32>,
    min: Option<f64>,
    max: Option<f64>,
}

impl AttributeDocument {
    pub(crate) fn attribute(self) -> Result<Attribute, String> {
        const LENGTH_MAX: u32 = 255;
        let kind = match self.r#type.as_str() {
            "string" => AttributeKind::String {
                min_length: self.min_length.unwrap_or(0),
                max_length: self.max_length.unwrap_or(LENGTH_MAX),
            },
            "uuid" => AttributeKind::Uuid,
            "number" => AttributeKind::Number { min: self.min, max: self.max },
            "bool" => AttributeKind::Bool,
            "datetime" => AttributeKind::Datetime,
            other => return Err(format!("{other} is no type of an attribute")),
        };
        Ok(Attribute { kind, required: self.required, fill: None })
    }
}
