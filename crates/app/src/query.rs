//! The query string: decoded `name=value` pairs, in order.

use gnudi_model::{
    Timespan, Timestamp,
    python::{bool_of_text, unquote_plus},
};

use crate::{
    error::{ApiError, Result},
    json::Value,
    python,
};

/// The arguments of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// An argument; one given several times is a list, as in Gnocchi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    One(&'a str),
    Several(Vec<&'a str>),
}

impl Argument<'_> {
    /// The argument as a timespan.
    ///
    /// # Errors
    /// The reason if it is not a timespan.
    pub fn timespan(&self) -> Result<Timespan, &'static str> {
        match self {
            Argument::One(text) => python::timespan(&Value::from(*text)),
            Argument::Several(_) => Err("Unable to parse timespan"),
        }
    }
}

impl FromIterator<(String, String)> for Query {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Query(pairs.into_iter().collect())
    }
}

impl Query {
    /// Decodes `a=1&b=2`. Invalid UTF-8 becomes replacement characters, which fail the argument's own
    /// validation.
    pub fn parse(text: Option<&str>) -> Self {
        Query::split(text, &['&'])
    }

    /// As [`Query::parse`], of a URL's query as Gnocchi takes it: a semicolon separates arguments, too, as HTML 4
    /// recommends. Forms have no such separator.
    pub fn of_url(text: Option<&str>) -> Self {
        Query::split(text, &['&', ';'])
    }

    fn split(text: Option<&str>, separators: &[char]) -> Self {
        let pairs = text.unwrap_or_default().split(separators).filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unquote_plus(name), unquote_plus(value))
        });
        Query(decoded.collect())
    }

    pub fn get(&self, name: &str) -> Option<Argument<'_>> {
        let mut values: Vec<&str> = self.values(name).collect();
        match values.len() {
            0 => None,
            1 => values.pop().map(Argument::One),
            _ => Some(Argument::Several(values)),
        }
    }

    /// All values of an argument, in order.
    pub fn values<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// An argument that may be given only once.
    ///
    /// # Errors
    /// `otherwise` if it is given several times.
    pub fn single(&self, name: &str, otherwise: impl FnOnce() -> ApiError) -> Result<Option<&str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Argument::One(value)) => Ok(Some(value)),
            Some(Argument::Several(_)) => Err(otherwise()),
        }
    }

    /// All values of an argument; none if it is only given empty.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Some(Argument::One("")) => Vec::new(),
            _ => self.values(name).map(str::to_owned).collect(),
        }
    }

    /// A time; `None` if absent.
    ///
    /// # Errors
    /// 400 if it is not a time, or given several times.
    pub fn time(&self, name: &str, now: Timestamp) -> Result<Option<Timestamp>> {
        let refuse = || ApiError::argument(name, "Must be a datetime or a timestamp");
        let text = self.single(name, refuse)?;
        text.map(|text| python::timestamp(text, now).map_err(|_| refuse())).transpose()
    }

    /// A boolean argument; `default` if absent.
    ///
    /// # Errors
    /// 400 if it is not a boolean.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Argument::One(text)) => flag(name, text),
            Some(Argument::Several(values)) => flag(name, &Value::from(values).repr()),
        }
    }

    /// The distinct names, in the order of their first appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in &self.0 {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

/// Parses the boolean argument `name` as oslo.utils does.
///
/// # Errors
/// 400 if it is not a boolean.
pub fn flag(name: &str, text: &str) -> Result<bool> {
    bool_of_text(text).ok_or_else(|| {
        ApiError::bad_request(format!(
            "Unable to parse `{name}': Unrecognized value '{text}', acceptable values are: '0', '1', 'f', 'false', \
             'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded() {
        let query = Query::parse(Some("a=1&b=x%20y+z&a=2&c&d=%zz%4&=e&%C3%A9=%E2%82%AC"));
        assert_eq!(query.get("a"), Some(Argument::Several(vec!["1", "2"])));
        assert_eq!(query.get("b"), Some(Argument::One("x y z")));
        assert_eq!(query.get("c"), Some(Argument::One("")));
        assert_eq!(query.get("d"), Some(Argument::One("%zz%4")));
        assert_eq!(query.get("é"), Some(Argument::One("€")));
        assert_eq!(query.get("x"), None);
        assert_eq!(query.names(), ["a", "b", "c", "d", "", "é"]);
        assert_eq!(Query::parse(Some("a=%ff")).get("a"), Some(Argument::One("\u{fffd}")));
        assert_eq!(Query::parse(None), Query::default());
    }

    #[test]
    fn semicolons_separate_arguments_of_a_url_only() {
        let text = Some("a=1;b=2&;c=x%3By;a=3");
        let query = Query::of_url(text);
        assert_eq!(query.get("a"), Some(Argument::Several(vec!["1", "3"])));
        assert_eq!(query.get("b"), Some(Argument::One("2")));
        assert_eq!(query.get("c"), Some(Argument::One("x;y")));
        assert_eq!(query.names(), ["a", "b", "c"]);
        assert_eq!(Query::parse(text).get("a"), Some(Argument::One("1;b=2")));
    }

    #[test]
    fn switches_are_true_or_false() {
        let flag = |text: &str| Query::parse(Some(text)).flag("refresh", false);
        for text in ["refresh=true", "refresh=1", "refresh=+Yes+"] {
            assert_eq!(flag(text), Ok(true), "{text}");
        }
        for text in ["", "refresh=off", "refresh=F"] {
            assert_eq!(flag(text), Ok(false), "{text}");
        }
        let detail = flag("refresh=foo").unwrap_err().detail;
        assert_eq!(
            detail,
            Value::from(
                "Unable to parse `refresh': Unrecognized value 'foo', acceptable values are: '0', '1', 'f', 'false', 'n', \
                 'no', 'off', 'on', 't', 'true', 'y', 'yes'"
            )
        );
        assert!(flag("refresh=1&refresh=1").is_err());
    }
}
