//! A field of a definition: one or several paths, or a constant, with an optional plug-in applied to the values found.

use std::borrow::Cow;

use serde_json::Value;

use super::{DefinitionError, JsonPath, LookupError, plugins::Plugin, python};

/// A compiled field. In files: a string (a path), a list of strings (alternative paths; the matches of all, in order),
/// an integer (a constant), or an object with `fields` and optionally `plugin`.
#[derive(Clone, Debug)]
pub struct Field {
    source: FieldSource,
    plugin: Option<Plugin>,
}

#[derive(Clone, Debug)]
enum FieldSource {
    Constant(Value),
    Path(JsonPath),
}

impl Field {
    /// Compiles a definition; `name` is for errors.
    pub fn parse(name: &str, definition: &Value) -> Result<Self, DefinitionError> {
        Field::read(definition).map_err(|DefinitionError(error)| DefinitionError(format!("{name}: {error}")))
    }

    fn read(definition: &Value) -> Result<Self, DefinitionError> {
        let Value::Object(entries) = definition else {
            return Ok(Field { source: FieldSource::read(definition)?, plugin: None });
        };
        let fields =
            entries.get("fields").ok_or_else(|| DefinitionError("`fields` is missing".to_owned()))?;
        let plugin = entries.get("plugin").map(Plugin::parse).transpose()?;
        Ok(Field { source: FieldSource::read(fields)?, plugin })
    }

    /// The first value that exists and is not `null`; with a plug-in, the first of its results.
    pub fn first<'a>(&self, document: &'a Value) -> Result<Option<Cow<'a, Value>>, LookupError> {
        let path = match &self.source {
            // Plug-ins do not apply to constants.
            FieldSource::Constant(value) => return Ok(Some(Cow::Owned(value.clone()))),
            FieldSource::Path(path) => path,
        };
        let Some(plugin) = &self.plugin else { return path.first(document) };
        let mut found = plugin.find(path, document)?;
        found.retain(|(_, value)| !value.is_null());
        let values = plugin.values(&found)?;
        Ok(values.into_iter().flatten().find(|value| !value.is_null()).map(Cow::Owned))
    }

    /// All values, `null` included; with a plug-in that works value by value, its results.
    pub fn all<'a>(&self, document: &'a Value) -> Result<Vec<Cow<'a, Value>>, LookupError> {
        let path = match &self.source {
            FieldSource::Constant(value) => return Ok(vec![Cow::Owned(value.clone())]),
            FieldSource::Path(path) => path,
        };
        let Some(plugin) = &self.plugin else { return path.find(document) };
        if !plugin.makes_one_of_each() {
            return Err(LookupError(format!("the plug-in {} makes one value of many", plugin.name())));
        }
        let values = plugin.values(&plugin.find(path, document)?)?;
        Ok(values.into_iter().flatten().map(Cow::Owned).collect())
    }
}

impl FieldSource {
    fn read(fields: &Value) -> Result<Self, DefinitionError> {
        let fields = match fields {
            Value::Array(fields) if fields.len() == 1 => &fields[0],
            Value::Array(fields) => {
                let alternatives: Vec<String> =
                    fields.iter().map(|field| format!("({})", python::text(field))).collect();
                return JsonPath::parse(&alternatives.join("|")).map(FieldSource::Path);
            }
            field => field,
        };
        match fields {
            Value::Bool(_) => Ok(FieldSource::Constant(fields.clone())),
            Value::Number(number) if !number.is_f64() => Ok(FieldSource::Constant(fields.clone())),
            Value::String(path) => JsonPath::parse(path).map(FieldSource::Path),
            other => Err(DefinitionError(format!("{other} is neither a path nor an integer"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(definition: &Value, document: &Value) -> Option<Value> {
        Field::parse("x", definition).unwrap().first(document).unwrap().map(Cow::into_owned)
    }

    #[test]
    fn all_forms_are_read() {
        let document = json!({"a": null, "b": {"c": 2}, "d": [1, null, 3], "t": "x.y"});
        for (definition, value) in [
            (json!("b.c"), json!(2)),
            (json!(["a", "$.b.c"]), json!(2)),
            (json!(["b.c"]), json!(2)),
            (json!(7), json!(7)),
            (json!({"fields": ["a", "d[2]"]}), json!(3)),
            (json!({"fields": "t", "plugin": {"name": "split", "parameters": {"segment": 1}}}), json!("y")),
            (json!("a"), Value::Null),
        ] {
            assert_eq!(first(&definition, &document).unwrap_or_default(), value, "{definition}");
        }
        let all = Field::parse("x", &json!("d[*]")).unwrap();
        let all: Vec<Value> = all.all(&document).unwrap().into_iter().map(Cow::into_owned).collect();
        assert_eq!(all, [json!(1), json!(null), json!(3)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (definition, error) in [
            (json!({"plugin": "split"}), "x: `fields` is missing"),
            (json!({"fields": "a", "plugin": "nope"}), "x: there is no plug-in nope"),
            (json!(1.5), "x: 1.5 is neither a path nor an integer"),
            (json!("a b"), "x: the path \"a b\": word 2: unexpected Name(\"b\")"),
            (json!([]), "x: the path \"\": it ends too early"),
        ] {
            assert_eq!(Field::parse("x", &definition).unwrap_err().to_string(), error);
        }
    }
}
