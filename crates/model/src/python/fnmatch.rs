//! Python's `fnmatch`: `*`, `?`, `[seq]`, `[!seq]`; by characters, case-sensitive.
//!
//! Edge cases are Python's: a `[` without `]` is literal, a leading `]` is a member of the sequence, an empty range
//! such as `z-a` matches nothing, and `!` negates the sequence also if only empty ranges precede it.

use crate::wildcard;

/// Whether the whole text matches the pattern.
pub fn fnmatch(text: &str, pattern: &str) -> bool {
    Pattern::new(pattern).matches(text)
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Element>);

impl Pattern {
    /// Linear in the pattern's length.
    pub fn new(pattern: &str) -> Self {
        Pattern(parse(&pattern.chars().collect::<Vec<_>>()))
    }

    /// Whether it matches every text.
    pub fn is_everything(&self) -> bool {
        self.0 == [Element::Star]
    }

    /// Whether the whole text matches. Takes at most text length times pattern length, without allocation.
    pub fn matches(&self, text: &str) -> bool {
        wildcard::matches(text, &self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Star,
    Any,
    Literal(char),
    /// Ranges are inclusive.
    Sequence {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl wildcard::Element for Element {
    fn is_any_text(&self) -> bool {
        *self == Element::Star
    }

    fn accepts(&self, character: char) -> bool {
        match self {
            Element::Star | Element::Any => true,
            Element::Literal(literal) => character == *literal,
            Element::Sequence { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *negated
            }
        }
    }
}

fn parse(pattern: &[char]) -> Vec<Element> {
    let mut elements = Vec::with_capacity(pattern.len());
    let mut rest = pattern;
    // Once one sequence has no end, later ones have none either.
    let mut may_end = true;
    while let [first, behind @ ..] = rest {
        rest = behind;
        elements.push(match first {
            '*' if matches!(elements.last(), Some(Element::Star)) => continue,
            '*' => Element::Star,
            '?' => Element::Any,
            '[' => {
                if let Some(len) = may_end.then(|| sequence_len(behind)).flatten() {
                    rest = &behind[len + 1..];
                    sequence(&behind[..len])
                } else {
                    may_end = false;
                    Element::Literal('[')
                }
            }
            literal => Element::Literal(*literal),
        });
    }
    elements
}

/// Number of characters before the `]` that ends the sequence.
fn sequence_len(pattern: &[char]) -> Option<usize> {
    let mut start = usize::from(pattern.first() == Some(&'!'));
    start += usize::from(pattern.get(start) == Some(&']'));
    pattern[start..].iter().position(|c| *c == ']').map(|offset| start + offset)
}

fn sequence(characters: &[char]) -> Element {
    let (mut negated, mut rest) = match characters {
        ['!', rest @ ..] => (true, rest),
        _ => (false, characters),
    };
    let mut ranges = Vec::new();
    loop {
        let is_first = ranges.is_empty() && !negated;
        match rest {
            [first, '-', last, behind @ ..] => {
                rest = behind;
                match (first, last) {
                    (first, last) if first > last => {}
                    ('!', last) if is_first => {
                        negated = true;
                        ranges.extend([('-', '-'), (*last, *last)]);
                    }
                    (first, last) => ranges.push((*first, *last)),
                }
            }
            ['!', behind @ ..] if is_first => (negated, rest) = (true, behind),
            [literal, behind @ ..] => {
                ranges.push((*literal, *literal));
                rest = behind;
            }
            [] => return Element::Sequence { negated, ranges },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_as_python_does() {
        for (text, pattern, matches) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("a", "", false),
            ("cpu.util", "cpu.*", true),
            ("CPU", "cpu", false),
            ("disk.sda.read", "disk.*.read", true),
            ("disk.sda.read.x", "disk.*.read", false),
            ("ñ", "?", true),
            ("a\nb", "a*b", true),
            ("a\nb", "a?b", true),
            ("b", "[abc]", true),
            ("d", "[!abc]", true),
            ("b", "[!abc]", false),
            ("^", "[^a]", true),
            ("b", "[^a]", false),
            ("]", "[]]", true),
            ("]", "[!]]", false),
            ("a", "[!]]", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("[!]", "[!]", true),
            ("[]", "[]", true),
            ("b", "[a-c]", true),
            ("-", "[a-c]", false),
            ("-", "[-a]", true),
            ("-", "[a-]", true),
            ("b", "[c-a]", false),
            ("b", "[!c-a]", true),
            ("-", "[a-c-e]", true),
            ("d", "[a-c-e]", false),
            ("3", "[--5]", true),
            ("\\", "[\\]", true),
            ("a]", "[a]]", true),
            ("c", "[c-a!z]", true),
            ("z", "[c-a!z]", false),
            ("x", "[c-a!]", true),
            ("z", "[c-a!-z]", false),
            ("b", "[c-a!-z]", true),
            ("b", "[!c-a!-z]", false),
            ("aXbYbZc", "a*b*c", true),
            ("aXbYbZ", "a*b*c", false),
            ("disk", "disk.*", false),
        ] {
            assert_eq!(fnmatch(text, pattern), matches, "{text:?} {pattern:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let text = "a".repeat(2_000);
        assert!(!fnmatch(&text, &("*a".repeat(30) + "b")));
        assert!(fnmatch(&text, &"*a".repeat(1_000)));
    }

    #[test]
    fn a_pattern_of_stars_takes_everything() {
        for (pattern, is_everything) in
            [("*", true), ("**", true), ("", false), ("*?", false), ("[*]", false)]
        {
            assert_eq!(Pattern::new(pattern).is_everything(), is_everything, "{pattern}");
        }
    }

    /// Searching the end of each sequence again would take 10^12 steps: hours.
    #[test]
    fn a_pattern_is_read_in_proportion_to_its_length() {
        let brackets = "[".repeat(1_000_000);
        assert!(fnmatch(&brackets, &brackets));
        assert!(fnmatch("", &"*".repeat(1_000_000)));
        assert!(
            fnmatch("[a]", "[[]a]") && fnmatch("[[a", "[[a") && fnmatch("a[", "[a][") && fnmatch("]", "[]]")
        );
    }

    /// By exhaustive search.
    fn model(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|taken| model(&text[taken..], rest)),
            _ => {
                let Some(character) = text.first() else { return false };
                (1..=pattern.len()).any(|end| {
                    element(&pattern[..end]).is_some_and(|accepts| accepts(*character))
                        && is_first_element(pattern, end)
                        && model(&text[1..], &pattern[end..])
                })
            }
        }
    }

    /// What an element matches.
    fn element(element: &[char]) -> Option<Box<dyn Fn(char) -> bool + '_>> {
        match element {
            ['?'] => Some(Box::new(|_| true)),
            [literal] => Some(Box::new(|c| c == *literal)),
            ['[', '!', inner @ .., ']'] => {
                Some(Box::new(|c| !items(inner).iter().any(|item| is_in(item, c))))
            }
            ['[', inner @ .., ']'] => Some(Box::new(|c| {
                let items = items(inner);
                // Python removes empty ranges before it checks for the exclamation mark.
                match items.first().copied() {
                    Some(['!']) => !items[1..].iter().any(|item| is_in(item, c)),
                    Some(['!', '-', last]) => {
                        c != '-' && c != *last && !items[1..].iter().any(|item| is_in(item, c))
                    }
                    _ => items.iter().any(|item| is_in(item, c)),
                }
            })),
            _ => None,
        }
    }

    /// Characters and ranges, without empty ones.
    fn items(inner: &[char]) -> Vec<&[char]> {
        let mut items = Vec::new();
        let mut at = 0;
        while at < inner.len() {
            let is_range = inner.get(at + 1) == Some(&'-') && at + 2 < inner.len();
            let len = if is_range { 3 } else { 1 };
            items.push(&inner[at..at + len]);
            at += len;
        }
        items.retain(|item| item.len() == 1 || item[0] <= item[2]);
        items
    }

    fn is_in(item: &[char], character: char) -> bool {
        (item[0]..=*item.last().unwrap()).contains(&character)
    }

    /// An element that starts with `[` is the shortest closed one; without one it is that character.
    fn is_first_element(pattern: &[char], end: usize) -> bool {
        let closed = |end: usize| {
            let inner = &pattern[1..end];
            let inner = inner.strip_prefix(&['!']).unwrap_or(inner);
            inner.len() >= 2 && inner.ends_with(&[']'])
        };
        match pattern {
            ['[', ..] => match (2..=pattern.len()).find(|end| closed(*end)) {
                Some(shortest) => end == shortest,
                None => end == 1,
            },
            _ => end == 1,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(text in "[ab\\[\\]!-]{0,8}", pattern in "[ab*?\\[\\]!-]{0,10}") {
            let (text_chars, pattern_chars): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
            prop_assert_eq!(fnmatch(&text, &pattern), model(&text_chars, &pattern_chars));
        }
    }
}
