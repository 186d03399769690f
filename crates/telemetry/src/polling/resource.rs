//! A resource to poll.

use std::sync::Arc;

use serde_json::Value;

/// One instance, image, volume, project, endpoint ...
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Identifies it, and is its partitioning key: it does not change with the resource's state.
    pub id: Arc<str>,
    /// What its discovery returned: an object, or a text.
    pub body: Arc<Value>,
}

impl Resource {
    pub fn new(id: impl Into<Arc<str>>, body: Value) -> Self {
        Resource { id: id.into(), body: Arc::new(body) }
    }

    /// A resource that is just a name: an endpoint's URL, a line of a polling file.
    pub fn named(name: &str) -> Self {
        Resource::new(name, Value::from(name))
    }

    /// A text of the body; `None` if it has no such member.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key)?.as_str()
    }
}
