//! Builds escaped paths and query strings.

use gnudi_model::python::quote;

/// `prefix` followed by the escaped `segment`.
pub fn path(prefix: &str, segment: &str) -> String {
    format!("{prefix}{}", quote(segment, ""))
}

/// A path with its query string, to which parameters are appended.
pub struct Query {
    text: String,
    separator: char,
}

impl Query {
    pub fn new(path: &str) -> Self {
        Query { text: path.to_owned(), separator: '?' }
    }

    pub fn add(&mut self, name: &str, value: &str) {
        self.text.push(self.separator);
        self.separator = '&';
        self.text.push_str(name);
        self.text.push('=');
        self.text.push_str(&quote(value, ""));
    }

    pub fn add_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_would_change_the_url() {
        assert_eq!(path("/v1/archive_policy/", "a/b ?é"), "/v1/archive_policy/a%2Fb%20%3F%C3%A9");
        let mut query = Query::new("/v1/metric");
        query.add_some("name", None);
        query.add("name", "cpu&load=1");
        query.add("limit", "7");
        assert_eq!(query.finish(), "/v1/metric?name=cpu%26load%3D1&limit=7");
    }
}
