//! JSON patches (RFC 6902) of a resource type: `add` and `remove` below `/attributes`. Error texts are those
//! of voluptuous and of Python's `jsonpatch`.

use gnudi_app::{
    ApiError, Result,
    json::Value,
    schema::{Checked, Invalid, entries, list},
};

use super::pointer::{LastStep, Pointer};

/// The maximum number of operations in a patch.
const OPERATIONS_MAX: usize = 1_000;

/// An operation that may be incomplete.
#[derive(Clone, Debug, Default, PartialEq)]
struct PartialOperation {
    op: Option<Op>,
    path: Option<String>,
    value: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Remove,
}

/// Applies the patch in `body` to a document.
///
/// # Errors
/// 400 if the patch is invalid or cannot be applied.
pub fn apply(body: &Value, document: &mut Value) -> Result<()> {
    let operations = list(body, check)?;
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::bad_request(format!("There are more than {OPERATIONS_MAX} operations")));
    }
    run(operations, document).map_err(ApiError::bad_request)
}

fn check(value: &Value) -> Checked<PartialOperation> {
    let mut given = PartialOperation::default();
    for (key, value) in entries(value)? {
        let wrong = |message: &str| Invalid::new(message).in_key(key);
        match (key.as_str(), value) {
            ("op", Value::Str(op)) if op == "add" => given.op = Some(Op::Add),
            ("op", Value::Str(op)) if op == "remove" => given.op = Some(Op::Remove),
            ("path", Value::Str(path)) if path.starts_with("/attributes") => given.path = Some(path.clone()),
            ("op" | "path", _) => return Err(wrong("not a valid value")),
            ("value", Value::Object(_)) => given.value = Some(value.clone()),
            ("value", _) => return Err(wrong("expected dict")),
            _ => return Err(Invalid::extra_key(key)),
        }
    }
    Ok(given)
}

/// Validates all operations, then applies them.
fn run(operations: Vec<PartialOperation>, document: &mut Value) -> Result<(), String> {
    let mut checked = Vec::with_capacity(operations.len());
    for given in operations {
        let op = given.op.ok_or("Operation does not contain 'op' member")?;
        let path = given.path.ok_or("Operation must have a 'path' member")?;
        checked.push((op, Pointer::parse(&path)?, path, given.value));
    }
    for (op, pointer, path, value) in checked {
        match op {
            Op::Add => {
                let value = value.ok_or("The operation does not contain a 'value' member")?;
                add(&pointer, &path, value, document)?;
            }
            Op::Remove => remove(&pointer, document)?,
        }
    }
    Ok(())
}

fn add(pointer: &Pointer, path: &str, value: Value, document: &mut Value) -> Result<(), String> {
    match pointer.to_last(document)? {
        (Value::Object(entries), LastStep::Key(key)) => {
            match entries.iter_mut().find(|(name, _)| name == key) {
                Some((_, place)) => *place = value,
                None => entries.push((key.to_owned(), value)),
            }
        }
        (Value::Array(items), LastStep::Index(index)) if index <= items.len() => items.insert(index, value),
        (Value::Array(_), LastStep::Index(_)) => return Err("can't insert outside of list".to_owned()),
        (Value::Array(items), LastStep::End) => items.push(value),
        (_, _) => return Err(format!("unable to fully resolve json pointer {path}")),
    }
    Ok(())
}

fn remove(pointer: &Pointer, document: &mut Value) -> Result<(), String> {
    let missing = |name: &str| format!("can't remove a non-existent object '{name}'");
    match pointer.to_last(document)? {
        (Value::Object(entries), LastStep::Key(key)) => {
            let index = entries.iter().position(|(name, _)| name == key).ok_or_else(|| missing(key))?;
            entries.remove(index);
        }
        (Value::Array(items), LastStep::Index(index)) if index < items.len() => drop(items.remove(index)),
        (_, LastStep::Index(index)) => return Err(missing(&index.to_string())),
        (_, LastStep::End | LastStep::Key(_)) => return Err("invalid array index '-'".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnudi_app::json;

    fn patched(patch: &str) -> Result<String, String> {
        let document =
            r#"{"name": "x", "attributes": {"a": {"type": "string", "required": true, "l": [1, 2]}}}"#;
        let mut document = json::parse(document.as_bytes()).unwrap();
        match apply(&json::parse(patch.as_bytes()).unwrap(), &mut document) {
            Ok(()) => Ok(document.get("attributes").map_or("none".to_owned(), Value::to_json)),
            Err(error) => Err(match &error.detail {
                Value::Str(text) => text.clone(),
                detail => detail.get("reason").unwrap().repr(),
            }),
        }
    }

    /// Expected results are those of Python's jsonpatch.
    #[test]
    fn attributes_are_added_and_removed() {
        for (patch, attributes) in [
            (r"[]", r#"{"a": {"type": "string", "required": true, "l": [1, 2]}}"#),
            (
                r#"[{"op": "add", "path": "/attributes/b", "value": {"type": "bool"}}]"#,
                r#"{"a": {"type": "string", "required": true, "l": [1, 2]}, "b": {"type": "bool"}}"#,
            ),
            (r#"[{"op": "remove", "path": "/attributes/a"}]"#, "{}"),
            (r#"[{"op": "remove", "path": "/attributes"}]"#, "none"),
            (r#"[{"op": "add", "path": "/attributes", "value": {"b": 1}}]"#, r#"{"b": 1}"#),
            (
                r#"[{"op": "remove", "path": "/attributes/a"}, {"op": "add", "path": "/attributes/", "value": {}}]"#,
                r#"{"": {}}"#,
            ),
            (
                r#"[{"op": "add", "path": "/attributes/a~1b~01", "value": {}}, {"op": "remove", "path": "/attributes/a"}]"#,
                r#"{"a/b~1": {}}"#,
            ),
            (
                r#"[{"op": "add", "path": "/attributes/a/l/-", "value": {}}, {"op": "remove", "path": "/attributes/a/l/0"}]"#,
                r#"{"a": {"type": "string", "required": true, "l": [2, {}]}}"#,
            ),
            (
                r#"[{"op": "add", "path": "/attributes/a/l/1", "value": {}}, {"op": "remove", "path": "/attributes/a/type"}]"#,
                r#"{"a": {"required": true, "l": [1, {}, 2]}}"#,
            ),
        ] {
            assert_eq!(patched(patch), Ok(attributes.to_owned()), "{patch}");
        }
    }

    /// Error texts of Python's jsonpatch and voluptuous.
    #[test]
    fn what_cannot_be_done_is_refused() {
        for (patch, reason) in [
            (r#"[{"op": "remove", "path": "/attributes/b"}]"#, "can't remove a non-existent object 'b'"),
            (
                r#"[{"op": "add", "path": "/attributes/b"}]"#,
                "The operation does not contain a 'value' member",
            ),
            (r#"[{"path": "/attributes/b"}]"#, "Operation does not contain 'op' member"),
            (r#"[{"op": "remove"}]"#, "Operation must have a 'path' member"),
            (r#"[{"op": "add", "path": "/attributes/b/c", "value": {}}]"#, "member 'b' not found"),
            (
                r#"[{"op": "add", "path": "/attributes/a/type/x", "value": {}}]"#,
                "Cannot apply token 'x' to non-container type <class 'str'>",
            ),
            (
                r#"[{"op": "remove", "path": "/attributes/a/required/x"}]"#,
                "Document '<class 'bool'>' does not support indexing, must be mapping/sequence or support __getitem__",
            ),
            (r#"[{"op": "add", "path": "/attributes/a~2", "value": {}}]"#, "Found invalid escape ~2"),
            (r#"[{"op": "add", "path": "/attributes/a~", "value": {}}]"#, "Found invalid escape ~"),
            (r#"[{"op": "add", "path": "/attributes/a/l/3", "value": {}}]"#, "can't insert outside of list"),
            (r#"[{"op": "remove", "path": "/attributes/a/l/01"}]"#, "'01' is not a valid sequence index"),
            (r#"[{"op": "remove", "path": "/attributes/a/l/2"}]"#, "can't remove a non-existent object '2'"),
            (r#"[{"op": "remove", "path": "/attributes/a/l/-"}]"#, "invalid array index '-'"),
            (r#"[{"op": "remove", "path": "/attributes/a/l/5/x"}]"#, "index '5' is out of bounds"),
            (
                r#"[{"op": "remove", "path": "/attributes/b"}, {"op": "foo", "path": "/attributes/b"}]"#,
                r#""not a valid value for dictionary value @ data[1]['op']""#,
            ),
            (
                r#"[{"op": "remove", "path": "/name"}]"#,
                r#""not a valid value for dictionary value @ data[0]['path']""#,
            ),
            (
                r#"[{"op": "remove", "path": 5}]"#,
                r#""not a valid value for dictionary value @ data[0]['path']""#,
            ),
            (
                r#"[{"op": "add", "path": "/attributes", "value": 5}]"#,
                r#""expected dict for dictionary value @ data[0]['value']""#,
            ),
            (r#"[{"from": "x"}]"#, r#""extra keys not allowed @ data[0]['from']""#),
            (r"[5]", "'expected a dictionary @ data[0]'"),
            (r"{}", "'expected a list'"),
        ] {
            assert_eq!(patched(patch), Err(reason.to_owned()), "{patch}");
        }
    }

    #[test]
    fn a_path_is_of_limited_depth() {
        let remove = |steps: usize| {
            patched(&format!(r#"[{{"op": "remove", "path": "/attributes{}"}}]"#, "/x".repeat(steps - 1)))
        };
        assert_eq!(remove(json::DEPTH_MAX).unwrap_err(), "member 'x' not found");
        assert!(remove(json::DEPTH_MAX + 1).unwrap_err().ends_with("levels deep"));
    }

    #[test]
    fn a_patch_is_of_limited_length() {
        let operation = r#"{"op": "add", "path": "/attributes/b", "value": {}}"#;
        let patch = |operations: usize| format!("[{}]", vec![operation; operations].join(", "));
        assert!(patched(&patch(OPERATIONS_MAX)).is_ok());
        assert!(patched(&patch(OPERATIONS_MAX + 1)).unwrap_err().contains("more than"));
    }
}
