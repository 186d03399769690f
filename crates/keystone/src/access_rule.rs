//! Access rules: the requests that an application credential is restricted to.

use serde::Deserialize;

/// A request that an application credential may make.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct AccessRule {
    /// The service's type, such as `metric`.
    pub service: String,
    pub method: String,
    /// `*` and `{name}` match one non-empty segment, `**` anything.
    pub path: String,
}

/// A part of a pattern that matches bytes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matcher {
    Byte(u8),
    /// At least one byte, none of them a slash.
    Segment,
    /// Any number of bytes.
    Anything,
}

impl AccessRule {
    /// Whether the rule allows a request to a service. `path` is the whole path as the client sent it, decoded where
    /// encoding was not needed.
    pub fn allows(&self, service: &str, method: &str, path: &str) -> bool {
        self.service == service && self.method == method && matches(&parts(&self.path), path.as_bytes())
    }
}

/// The parts of a pattern. An unbalanced brace is ignored, as in keystonemiddleware. There, however, the rest is a
/// regular expression; here it is literal.
fn parts(pattern: &str) -> Vec<Matcher> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut rest = pattern.as_bytes();
    while let Some((byte, others)) = rest.split_first() {
        rest = others;
        match byte {
            b'*' if rest.first() == Some(&b'*') => {
                rest = &rest[1..];
                parts.push(Matcher::Anything);
            }
            b'*' => parts.push(Matcher::Segment),
            b'{' => {
                if let Some(end) = rest.iter().position(|byte| *byte == b'}') {
                    rest = &rest[end + 1..];
                    parts.push(Matcher::Segment);
                }
            }
            b'}' => {}
            byte => parts.push(Matcher::Byte(*byte)),
        }
    }
    parts
}

/// Linear in pattern length times path length for any pattern: tracks all positions of the pattern that the bytes so
/// far may have reached.
fn matches(parts: &[Matcher], path: &[u8]) -> bool {
    // Whether the parts before this index may match all bytes so far.
    let mut reached = vec![false; parts.len() + 1];
    let mut next = reached.clone();
    reached[0] = true;
    pass_over_anything(parts, &mut reached);
    for byte in path {
        next.fill(false);
        for (index, part) in parts.iter().enumerate().filter(|(index, _)| reached[*index]) {
            match part {
                Matcher::Byte(expected) => next[index + 1] |= expected == byte,
                Matcher::Anything => next[index] = true,
                Matcher::Segment => {
                    let is_inside = *byte != b'/';
                    next[index] |= is_inside;
                    next[index + 1] |= is_inside;
                }
            }
        }
        pass_over_anything(parts, &mut next);
        std::mem::swap(&mut reached, &mut next);
    }
    reached[parts.len()]
}

/// `**` may match nothing.
fn pass_over_anything(parts: &[Matcher], reached: &mut [bool]) {
    for (index, part) in parts.iter().enumerate() {
        if *part == Matcher::Anything && reached[index] {
            reached[index + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, path: &str) -> bool {
        matches(&parts(pattern), path.as_bytes())
    }

    #[test]
    fn wildcards_take_what_keystonemiddleware_lets_them_take() {
        for (pattern, path, expected) in [
            ("/v1/metric", "/v1/metric", true),
            ("/v1/metric", "/v1/metric/", false),
            ("/v1/metric", "/v1/metri", false),
            ("/v1/metric/*", "/v1/metric/x", true),
            ("/v1/metric/*", "/v1/metric/", false),
            ("/v1/metric/*", "/v1/metric/x/measures", false),
            ("/v1/metric/{id}", "/v1/metric/x", true),
            ("/v1/metric/{id}/measures", "/v1/metric/x/measures", true),
            ("/v1/metric/{id}/measures", "/v1/metric//measures", false),
            ("/v1/**", "/v1/metric/x/measures", true),
            ("/v1/**", "/v1/", true),
            ("/v1/**", "/v1", false),
            ("**", "", true),
            ("**", "/", true),
            ("*", "", false),
            ("/v1/**/measures", "/v1/metric/x/measures", true),
            ("/v1/**/measures", "/v1/measures", false),
            ("/v1/***", "/v1/x", true),
            ("/v1/***", "/v1/", false),
            ("/v1/a*c", "/v1/abc", true),
            ("/v1/a*c", "/v1/ac", false),
            ("/v1/{a", "/v1/a", true),
            ("/v1/a}", "/v1/a", true),
            ("/v1/{}", "/v1/a", true),
            ("/v1/a.b", "/v1/a.b", true),
            ("/v1/a.b", "/v1/axb", false),
            ("/v1/(a+)+", "/v1/aaaa", false),
            ("", "", true),
        ] {
            assert_eq!(allows(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn service_and_method_must_be_the_same() {
        let rule = AccessRule { service: "metric".into(), method: "GET".into(), path: "/v1/metric/*".into() };
        assert!(rule.allows("metric", "GET", "/v1/metric/x"));
        assert!(!rule.allows("metric", "HEAD", "/v1/metric/x"));
        assert!(!rule.allows("metric", "get", "/v1/metric/x"));
        assert!(!rule.allows("compute", "GET", "/v1/metric/x"));
    }

    /// A pattern that would take exponential time with backtracking.
    #[test]
    fn no_pattern_takes_long() {
        let pattern = "**a".repeat(1000);
        assert!(!allows(&pattern, &"a".repeat(2000).replace('a', "ab")));
    }
}
