//! Analyses the regular expression of a matcher: which values it can match, so that an index can skip all others, how many
//! states it has, and where its groups are.

use std::{ops::Range, sync::Arc};

use regex_syntax::{
    ParserBuilder,
    ast::{Ast, GroupKind, RepetitionKind, parse::Parser},
    hir::{
        Class, Hir, HirKind,
        literal::{ExtractKind, Extractor, Literal},
    },
};

use super::{MatchOp, Matcher, anchored};

/// Longer alternations are treated like any other regular expression.
const VALUES_MAX: usize = 4096;

/// The values that a regular expression matches. Finding thousands of them takes a tenth of a second.
#[derive(Debug, Clone, Default)]
pub(super) struct Literals {
    /// All of them, if they can be listed.
    values: Option<Arc<[String]>>,
    /// Their common prefix, possibly empty.
    prefix: Arc<str>,
}

impl Literals {
    pub(super) fn of(hir: &Hir) -> Literals {
        let found = Extractor::new().kind(ExtractKind::Prefix).limit_total(VALUES_MAX).extract(hir);
        // An assertion counts as an empty text.
        let is_plain = hir.properties().look_set().is_empty();
        let listed = found.literals().filter(|_| is_plain && found.is_exact());
        let text = |literal: &Literal| String::from_utf8(literal.as_bytes().to_vec()).ok();
        let values: Option<Arc<[String]>> = listed.and_then(|literals| literals.iter().map(text).collect());
        let common = found.longest_common_prefix().unwrap_or_default();
        let prefix = match std::str::from_utf8(common) {
            Ok(whole) => whole,
            Err(cut) => std::str::from_utf8(&common[..cut.valid_up_to()]).unwrap_or_default(),
        };
        Literals { values, prefix: prefix.into() }
    }
}

impl Matcher {
    /// All values that match, if they can be listed: for `=`, and for regular expressions like `a|b|c`.
    pub fn values(&self) -> Option<&[String]> {
        match &self.op {
            MatchOp::Equal => Some(std::slice::from_ref(&self.value)),
            MatchOp::Matches(_) => self.literals.values.as_deref(),
            MatchOp::NotEqual | MatchOp::NotMatches(_) => None,
        }
    }

    /// The common prefix of all values that match `=~`, possibly empty.
    pub fn prefix(&self) -> &str {
        &self.literals.prefix
    }
}

/// Parses a regular expression in the syntax of `regex`.
pub(super) fn hir(text: &str) -> Result<Hir, String> {
    let mut parser = ParserBuilder::new().dot_matches_new_line(true).build();
    parser.parse(text).map_err(|error| error.to_string())
}

/// About how many states an automaton of a regular expression (in the syntax of `regex`) has, times one more than the number
/// of its groups: a search may store the position of each group for each state. 0 if the expression is invalid.
pub(crate) fn expression_states(text: &str) -> usize {
    hir(text).map_or(0, |hir| {
        let groups = hir.properties().explicit_captures_len();
        states(&hir).saturating_mul(groups.saturating_add(1))
    })
}

/// The expression (in the syntax of `regex`) for a test of whole values. All groups are made non-capturing, so that a search stores no
/// positions of groups. `.*` at an end is left out together with the anchor: what remains is often a literal, which needs no automaton. An
/// invalid expression is only anchored.
pub(super) fn of_test(text: &str) -> String {
    let Ok(ast) = Parser::new().parse(text) else { return anchored(text) };
    let (is_open_before, is_open_behind) = open_ends(&ast);
    let mut openings = Vec::new();
    push_openings(&ast, &mut openings);
    let (mut plain, mut copied) = (String::with_capacity(text.len() + 2 * openings.len()), 0);
    for opening in openings {
        plain.push_str(&text[copied..opening.start]);
        plain.push_str("(?:");
        copied = opening.end;
    }
    plain.push_str(&text[copied..]);
    let (before, from) = if is_open_before { ("", ANY.len()) } else { ("^", 0) };
    let (behind, to) = if is_open_behind { ("", plain.len() - ANY.len()) } else { ("$", plain.len()) };
    format!("{before}(?s:{}){behind}", &plain[from..to])
}

/// Matches all that may precede or follow.
const ANY: &str = ".*";

/// Whether an expression begins and ends with [`ANY`], each in a place of its own. Flags may change what a dot matches.
fn open_ends(ast: &Ast) -> (bool, bool) {
    let parts = if let Ast::Concat(concat) = ast { &concat.asts[..] } else { std::slice::from_ref(ast) };
    let has_flags = parts.iter().any(|part| matches!(part, Ast::Flags(_)));
    let is_any = |part: &Ast| {
        matches!(part, Ast::Repetition(repetition)
            if repetition.greedy
                && matches!(repetition.op.kind, RepetitionKind::ZeroOrMore)
                && matches!(*repetition.ast, Ast::Dot(_)))
    };
    let is_open = |part: Option<&Ast>| !has_flags && part.is_some_and(is_any);
    (is_open(parts.first()), parts.len() > 1 && is_open(parts.last()))
}

/// Appends the range of bytes that opens each capturing group, in order. The parser limits the depth.
fn push_openings(ast: &Ast, openings: &mut Vec<Range<usize>>) {
    match ast {
        Ast::Group(group) => {
            let start = group.span.start.offset;
            match &group.kind {
                GroupKind::CaptureIndex(_) => openings.push(start..start + 1),
                GroupKind::CaptureName { name, .. } => openings.push(start..name.span.end.offset + 1),
                GroupKind::NonCapturing(_) => {}
            }
            push_openings(&group.ast, openings);
        }
        Ast::Repetition(repetition) => push_openings(&repetition.ast, openings),
        Ast::Alternation(parts) => parts.asts.iter().for_each(|part| push_openings(part, openings)),
        Ast::Concat(parts) => parts.asts.iter().for_each(|part| push_openings(part, openings)),
        Ast::Empty(_)
        | Ast::Flags(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::Assertion(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_) => {}
    }
}

/// About how many states an automaton of an expression has, without the factor for groups of [`expression_states`]: a test that only asks
/// whether a value matches stores no positions. The depth is limited by the parser.
pub(super) fn states(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() * char::MAX.len_utf8(),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            states(&repetition.sub).saturating_mul(times as usize)
        }
        HirKind::Capture(capture) => states(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(states).fold(1, usize::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, MatchKind, QueryTimes, parse};

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
            ("=~\"/{a}|/b\"", Some(vec!["/{a}", "/b"])),
            ("=~\"\"", Some(vec![""])),
            ("=~\"a.*\"", None),
            ("=~\"a+\"", None),
            ("=~\"a$|b\"", None),
            ("=~\"a.b\"", None),
            ("!=\"a\"", None),
            ("!~\"a|b\"", None),
        ] {
            let expected = expected.map(|values| values.into_iter().map(str::to_owned).collect::<Vec<_>>());
            let found = with_matcher(text, |matcher| matcher.values().map(<[String]>::to_vec));
            assert_eq!(found, expected, "{text}");
        }
        let many = (0..1000).map(|number| format!("host{number}")).collect::<Vec<_>>().join("|");
        let found = with_matcher(&format!("=~\"{many}\""), |matcher| matcher.values().map(<[String]>::len));
        assert_eq!(found, Some(1000));
    }

    #[test]
    fn what_all_values_begin_with() {
        for (text, expected) in [
            ("=~\"node_.*\"", "node_"),
            ("=~\"node_(cpu|memory).+\"", "node_"),
            ("=~\"/{a}/.*\"", "/{a}/"),
            ("=~\".*a\"", ""),
            ("=~\"(?i)a.*\"", ""),
            ("=~\"(é|è).*\"", ""),
            ("!~\"a.*\"", ""),
        ] {
            assert_eq!(with_matcher(text, |matcher| matcher.prefix().to_owned()), expected, "{text}");
        }
    }

    #[test]
    fn large_expressions_are_refused() {
        let parsed = |expressions: &[&str]| {
            let matchers: Vec<String> = expressions.iter().map(|text| format!("x=~`{text}`")).collect();
            let query = format!("{{{}, y=\"1\"}}", matchers.join(", "));
            parse(&query, QueryTimes::instant(0), &Limits::default()).map(drop)
        };
        for expression in [
            r"[\pL\pN]{40}",
            "(?i)(a|b){1,1000}",
            &"host-0123456789|".repeat(2_000),
            // A test stores no positions of groups.
            &"()".repeat(2_000),
            &"(a|b)".repeat(1_000),
        ] {
            assert_eq!(parsed(&[expression]), Ok(()));
        }
        let error = parsed(&[r"[\pL\pN]{40}"; 20]).unwrap_err();
        assert!(error.text.ends_with("the regular expressions are too large"), "{error}");
        // Inside the group that is put around it, this would be valid.
        assert!(parsed(&["a)|(?:b"]).is_err());
    }

    #[test]
    fn what_matches_all_at_an_end_is_not_tested() {
        for (text, expected) in [
            (".*a(b).*", "(?s:a(?:b))"),
            (".*a", "(?s:a)$"),
            ("a.*", "^(?s:a)"),
            (".*", "(?s:)$"),
            ("a|.*b.*", "^(?s:a|.*b.*)$"),
            (".*?a.+", "^(?s:.*?a.+)$"),
            ("(?i).*a.*", "^(?s:(?i).*a.*)$"),
        ] {
            assert_eq!(of_test(text), expected, "{text}");
        }
    }

    #[test]
    fn groups_that_capture_nothing_replace_others() {
        for (text, expected) in [
            ("a", "a"),
            ("(a)", "(?:a)"),
            ("((é)|x)*?y(b)", "(?:(?:é)|x)*?y(?:b)"),
            ("(?P<x>a)(?<y>(b))", "(?:a)(?:(?:b))"),
            ("(?i:(a))(?s)(b)", "(?i:(?:a))(?s)(?:b)"),
            (r"\((a|[(])+\)", r"\((?:a|[(])+\)"),
            ("(?x)( a ) # (b", "(?x)(?: a ) # (b"),
            ("a)(b", "a)(b"),
            ("(a", "(a"),
        ] {
            assert_eq!(of_test(text), format!("^(?s:{expected})$"), "{text}");
        }
        // Whether a value matches does not depend on what the groups capture.
        for (text, value, expected) in [("=~\"(a)(b|c)+\"", "abcb", true), ("!~\"(?P<x>a|b)\"", "b", false)] {
            assert_eq!(with_matcher(text, |matcher| matcher.matches(value)), expected, "{text}");
        }
        // An error shows the expression as it was written.
        let error = Matcher::new(MatchKind::Matches, "x", r"(\p{Nope})").unwrap_err();
        assert!(error.text.contains(r"(\p{Nope})") && !error.text.contains("(?:"), "{error}");
    }
}
