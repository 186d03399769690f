//! What a pollster looks at.

use std::sync::Arc;

use serde_json::Value;

/// One instance, image, volume, project, endpoint ...
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// By which it is known again, and by which agents share the work: it does not change while the resource's state does.
    pub id: Arc<str>,
    /// All that its discovery tells: an object, or a text.
    pub body: Arc<Value>,
}

impl Resource {
    pub fn new(id: impl Into<Arc<str>>, body: Value) -> Self {
        Resource { id: id.into(), body: Arc::new(body) }
    }

    /// One that is no more than its name: an endpoint's address, a line of a polling file.
    pub fn named(name: &str) -> Self {
        Resource::new(name, Value::from(name))
    }

    /// A text of the body; `None` where it has none of that name.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key)?.as_str()
    }
}
