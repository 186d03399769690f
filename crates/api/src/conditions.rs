//! Conditional requests: versions in `ETag` and `Last-Modified`, and the preconditions in `If-Match` and
//! related headers.
//!
//! Preconditions are evaluated in RFC 9110's order; headers are parsed as `WebOb` parses them.

use gnudi_app::{ApiError, Result, http_date};
use gnudi_model::{Resource, Timestamp};
use gnudi_server::Response;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{
        ETAG, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
        LAST_MODIFIED,
    },
    http::request::Parts,
};

/// A version of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Without quotes.
    tag: String,
    /// When this version began.
    since: Timestamp,
}

/// The result of the preconditions, if none failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Proceed,
    /// The client has this version (304).
    NotModified,
}

impl Version {
    /// The version of a resource; the tag is Gnocchi's hash of its id and revision start.
    pub fn of(resource: &Resource) -> Self {
        let mut text = Vec::with_capacity(72);
        text.extend_from_slice(
            resource.id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).as_bytes(),
        );
        resource.revision_start.write_iso_micros(&mut text);
        Version { tag: sha1_smol::Sha1::from(text).digest().to_string(), since: resource.revision_start }
    }

    /// Adds `ETag` and `Last-Modified`.
    pub fn show(&self, response: &mut Response) {
        let headers = response.headers_mut();
        let value = |text: String| HeaderValue::try_from(text).expect("ASCII without control characters");
        headers.insert(ETAG, value(format!("\"{}\"", self.tag)));
        headers.insert(LAST_MODIFIED, value(http_date::write(self.since)));
    }

    /// Evaluates a request's preconditions.
    ///
    /// # Errors
    /// 412 if one fails.
    pub fn check(&self, request: &Parts) -> Result<Verdict> {
        let headers = &request.headers;
        let failed = || Err(ApiError::new(StatusCode::PRECONDITION_FAILED, ""));
        let reads = request.method == Method::GET || request.method == Method::HEAD;
        let time = |name| text(headers, name).and_then(|text| http_date::parse(&text));
        let holds = match text(headers, IF_MATCH) {
            Some(tags) => names(&tags, &self.tag, Weak::Refused),
            None => time(IF_UNMODIFIED_SINCE).is_none_or(|time| time >= self.since.secs()),
        };
        if !holds {
            return failed();
        }
        let is_known = match text(headers, IF_NONE_MATCH) {
            Some(tags) => names(&tags, &self.tag, Weak::Taken),
            None => reads && time(IF_MODIFIED_SINCE).is_some_and(|time| time >= self.since.secs()),
        };
        match (is_known, reads) {
            (false, _) => Ok(Verdict::Proceed),
            (true, true) => Ok(Verdict::NotModified),
            (true, false) => failed(),
        }
    }

    /// The start of this version, if it must still be current when the change is made: a later one may fail the
    /// preconditions. Not for `If-None-Match`: the versions that it names never become current again.
    pub fn required_by(&self, request: &Parts) -> Option<Timestamp> {
        let headers = &request.headers;
        let is_required = match text(headers, IF_MATCH) {
            Some(tags) => tags != "*",
            None => text(headers, IF_UNMODIFIED_SINCE).is_some_and(|text| http_date::parse(&text).is_some()),
        };
        is_required.then_some(self.since)
    }
}

/// A non-empty header; repeated headers are joined to a list.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut text = values.next()?.into_owned();
    for value in values {
        text.extend([", ", &value]);
    }
    Some(text).filter(|text| !text.is_empty())
}

/// How to treat weak tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    Taken,
    Refused,
}

/// Whether a list of tags contains this one. Malformed lists are treated as one unquoted tag.
fn names(list: &str, tag: &str, weak: Weak) -> bool {
    if list == "*" {
        return true;
    }
    let mut any = false;
    let mut rest = list;
    let mut at_word = true;
    while let Some(character) = rest.chars().next() {
        if at_word && let Some((is_weak, found, behind)) = leading_tag(rest) {
            any = true;
            if found == tag && (weak == Weak::Taken || !is_weak) {
                return true;
            }
            rest = behind;
            at_word = false;
            continue;
        }
        at_word = character.is_whitespace();
        rest = &rest[character.len_utf8()..];
    }
    !any && list == tag
}

/// Parses a leading tag: whether it is weak, its text, and the rest.
fn leading_tag(text: &str) -> Option<(bool, &str, &str)> {
    let strong = text.strip_prefix("W/");
    let quoted = strong.unwrap_or(text).strip_prefix('"')?;
    let ends = |(index, _): &(usize, &str)| !quoted[..*index].ends_with('\\');
    let (end, _) = quoted.match_indices('"').find(ends)?;
    Some((strong.is_some(), &quoted[..end], &quoted[end + 1..]))
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use uuid::Uuid;

    use super::*;
    use gnudi_server::reply;

    /// From a real Gnocchi.
    fn version() -> Version {
        let id = Uuid::try_parse("775832c9-5ea8-5a32-a960-d0c077215071").unwrap();
        // 2026-11-21T12:02:18.818469+00:00
        let revision_start = Timestamp(1_795_262_538_818_469_000);
        Version::of(&Resource { revision_start, ..Resource::new(id, "inst") })
    }

    const TAG: &str = "4ceca2c975f5c1615b116c233ed061b728b8ae55";

    fn check(method: &str, headers: &[(&str, &str)]) -> Option<Verdict> {
        let mut request = Request::builder().method(method).header("host", "h");
        for (name, value) in headers {
            request = request.header(*name, value.replace("TAG", TAG));
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        version().check(&parts).ok()
    }

    #[test]
    fn a_version_is_gnocchis() {
        let mut response = reply::no_content();
        version().show(&mut response);
        assert_eq!(response.headers()[ETAG], format!("\"{TAG}\""));
        assert_eq!(response.headers()[LAST_MODIFIED], "Sat, 21 Nov 2026 12:02:18 GMT");
    }

    #[test]
    fn tags_are_looked_for() {
        let (proceed, same) = (Some(Verdict::Proceed), Some(Verdict::NotModified));
        for (list, if_match, if_none_match) in [
            ("", proceed, proceed),
            ("*", proceed, same),
            ("TAG", proceed, same),
            (r#""TAG""#, proceed, same),
            (r#"W/"TAG""#, None, same),
            (r#""x", "TAG""#, proceed, same),
            (r#""x", W/"TAG", "y""#, None, same),
            (r#""\"x", "TAG""#, proceed, same),
            // WebOb requires a space between tags.
            (r#""x","TAG""#, None, proceed),
            (r#""TAG"#, None, proceed),
            (r#"TAG, "x""#, None, proceed),
            ("x", None, proceed),
            (r#""*""#, None, proceed),
        ] {
            assert_eq!(check("GET", &[("if-match", list)]), if_match, "If-Match: {list}");
            assert_eq!(check("GET", &[("if-none-match", list)]), if_none_match, "If-None-Match: {list}");
            let patch = if if_none_match == same { None } else { proceed };
            assert_eq!(check("PATCH", &[("if-none-match", list)]), patch, "If-None-Match: {list}");
        }
        assert_eq!(check("GET", &[("if-match", "\"x\""), ("if-match", "\"TAG\"")]), proceed);
        assert_eq!(check("GET", &[]), proceed);
    }

    #[test]
    fn what_a_later_version_may_not_fulfil_is_required() {
        let requires = |headers: &[(&str, &str)]| {
            let mut request = Request::patch("/");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            version().required_by(&parts)
        };
        let since = Some(version().since);
        let time = "Sat, 21 Nov 2026 12:02:18 GMT";
        for (headers, expected) in [
            (vec![], None),
            (vec![("if-match", "\"x\"")], since),
            (vec![("if-match", "*")], None),
            (vec![("if-match", "*"), ("if-unmodified-since", time)], None),
            (vec![("if-unmodified-since", time)], since),
            (vec![("if-unmodified-since", "foo")], None),
            (vec![("if-none-match", "\"x\"")], None),
        ] {
            assert_eq!(requires(&headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn times_count_where_there_are_no_tags() {
        let (proceed, same) = (Some(Verdict::Proceed), Some(Verdict::NotModified));
        let (before, at) = ("Sat, 21 Nov 2026 12:02:17 GMT", "Sat, 21 Nov 2026 12:02:18 GMT");
        let (modified, unmodified) = ("if-modified-since", "if-unmodified-since");
        for (headers, read, write) in [
            (vec![(modified, before)], proceed, proceed),
            (vec![(modified, at)], same, proceed),
            (vec![(modified, "foo")], proceed, proceed),
            (vec![(unmodified, before)], None, None),
            (vec![(unmodified, at)], proceed, proceed),
            (vec![(unmodified, "foo")], proceed, proceed),
            (vec![(unmodified, before), ("if-match", "\"TAG\"")], proceed, proceed),
            (vec![(modified, at), ("if-none-match", "\"x\"")], proceed, proceed),
            (vec![(modified, at), ("if-none-match", "")], same, proceed),
            (vec![("if-match", "*"), ("if-none-match", "*")], same, None),
        ] {
            assert_eq!(check("GET", &headers), read, "{headers:?}");
            assert_eq!(check("DELETE", &headers), write, "{headers:?}");
        }
    }
}
