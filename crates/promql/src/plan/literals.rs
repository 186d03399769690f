//! The values that a matcher can match, as far as its text shows, so that an index can skip all others.

use regex_syntax::{
    ParserBuilder,
    hir::{
        Hir,
        literal::{ExtractKind, Extractor, Seq},
    },
};

use super::{MatchOp, Matcher};

/// Longer alternations are treated like any other regular expression.
const VALUES_MAX: usize = 4096;

impl Matcher {
    /// All values that match, if they can be listed: for `=`, and for regular expressions like `a|b|c`.
    pub fn values(&self) -> Option<Vec<String>> {
        match &self.op {
            MatchOp::Equal => Some(vec![self.value.clone()]),
            MatchOp::Matches(_) => {
                let hir = self.hir()?;
                // An assertion counts as an empty text.
                let is_plain = hir.properties().look_set().is_empty();
                let found = prefixes(&hir);
                let literals = found.literals().filter(|_| is_plain && found.is_exact())?;
                literals.iter().map(|value| String::from_utf8(value.as_bytes().to_vec()).ok()).collect()
            }
            MatchOp::NotEqual | MatchOp::NotMatches(_) => None,
        }
    }

    /// The common prefix of all values that match `=~`, possibly empty.
    pub fn prefix(&self) -> String {
        let MatchOp::Matches(_) = self.op else { return String::new() };
        let found = self.hir().map(|hir| prefixes(&hir));
        let common = found.as_ref().and_then(Seq::longest_common_prefix).unwrap_or_default();
        let whole = match std::str::from_utf8(common) {
            Ok(whole) => whole,
            Err(cut) => std::str::from_utf8(&common[..cut.valid_up_to()]).unwrap_or_default(),
        };
        whole.to_owned()
    }

    fn hir(&self) -> Option<Hir> {
        ParserBuilder::new().dot_matches_new_line(true).build().parse(&self.value).ok()
    }
}

fn prefixes(hir: &Hir) -> Seq {
    Extractor::new().kind(ExtractKind::Prefix).limit_total(VALUES_MAX).extract(hir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, QueryTimes, parse};

    fn with_matcher<T>(text: &str, ask: impl Fn(&Matcher) -> T) -> T {
        let query = format!("{{x{text}, y=\"1\"}}");
        let plan = parse(&query, QueryTimes::instant(0), &Limits::default()).unwrap();
        ask(&plan.selections(0)[0].matchers[0])
    }

    #[test]
    fn values_that_can_be_listed_are() {
        for (text, expected) in [
            ("=\"a.b\"", Some(vec!["a.b"])),
            ("=\"\"", Some(vec![""])),
            ("=~\"a\"", Some(vec!["a"])),
            ("=~\"a|b|cd\"", Some(vec!["a", "b", "cd"])),
            ("=~\"(?:a|b)c[12]\"", Some(vec!["ac1", "ac2", "bc1", "bc2"])),
            ("=~\"a\\\\.b|é\"", Some(vec!["a.b", "é"])),
            ("=~\"a?\"", Some(vec!["a", ""])),
            ("=~\"\"", Some(vec![""])),
            ("=~\"a.*\"", None),
            ("=~\"a+\"", None),
            ("=~\"a$|b\"", None),
            ("=~\"a.b\"", None),
            ("!=\"a\"", None),
            ("!~\"a|b\"", None),
        ] {
            let expected = expected.map(|values| values.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(with_matcher(text, Matcher::values), expected, "{text}");
        }
        let many = (0..1000).map(|number| format!("host{number}")).collect::<Vec<_>>().join("|");
        let found = with_matcher(&format!("=~\"{many}\""), Matcher::values);
        assert_eq!(found.map(|values| values.len()), Some(1000));
    }

    #[test]
    fn what_all_values_begin_with() {
        for (text, expected) in [
            ("=~\"node_.*\"", "node_"),
            ("=~\"node_(cpu|memory).+\"", "node_"),
            ("=~\".*a\"", ""),
            ("=~\"(?i)a.*\"", ""),
            ("=~\"(é|è).*\"", ""),
            ("!~\"a.*\"", ""),
        ] {
            assert_eq!(with_matcher(text, Matcher::prefix), expected, "{text}");
        }
    }
}
