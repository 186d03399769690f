//! Patterns of `LIKE`, with `PostgreSQL`'s escapes.

use std::fmt::Write;

use gnudi_model::wildcard;

use super::PATTERN_BYTES_MAX;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Token>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Text,
    Character,
    This(char),
}

impl wildcard::Element for Token {
    fn is_any_text(&self) -> bool {
        *self == Token::Text
    }

    fn accepts(&self, character: char) -> bool {
        match self {
            Token::Text | Token::Character => true,
            Token::This(wanted) => *wanted == character,
        }
    }
}

impl Pattern {
    /// `None` if it has more than [`PATTERN_BYTES_MAX`] bytes, or ends with a backslash.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > PATTERN_BYTES_MAX { None } else { Self::parse(text) }
    }

    /// `None` if the pattern ends with a backslash.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut tokens = Vec::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            tokens.push(match character {
                '%' if tokens.last() == Some(&Token::Text) => continue,
                '%' => Token::Text,
                '_' => Token::Character,
                '\\' => Token::This(characters.next()?),
                other => Token::This(other),
            });
        }
        Some(Pattern(tokens))
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        wildcard::matches(text, &self.0)
    }

    /// The common prefix of all matching texts.
    pub(crate) fn prefix(&self) -> String {
        let literal = |token: &Token| match token {
            Token::This(character) => Some(*character),
            Token::Text | Token::Character => None,
        };
        self.0.iter().map_while(literal).collect()
    }

    /// The only matching text, if there is just one.
    pub(crate) fn literal(&self) -> Option<String> {
        let prefix = self.prefix();
        (prefix.chars().count() == self.0.len()).then_some(prefix)
    }

    /// Converts it for `SQLite`'s `GLOB`, which is case-sensitive.
    pub(crate) fn glob(&self) -> String {
        let mut glob = String::new();
        for token in &self.0 {
            match token {
                Token::Text => glob.push('*'),
                Token::Character => glob.push('?'),
                Token::This(special @ ('*' | '?' | '[')) => glob.extend(['[', *special, ']']),
                Token::This(character) => glob.push(*character),
            }
        }
        glob
    }

    /// Whether it has a wildcard for a single character.
    pub(crate) fn has_any_character(&self) -> bool {
        self.0.contains(&Token::Character)
    }

    /// The least number of characters of a matching text.
    pub(crate) fn characters_min(&self) -> usize {
        self.0.iter().filter(|token| **token != Token::Text).count()
    }

    /// Writes it with another escape character.
    pub(crate) fn like(&self, escape: char) -> String {
        let mut like = String::new();
        for token in &self.0 {
            match *token {
                Token::Text => like.push('%'),
                Token::Character => like.push('_'),
                Token::This(special) if special == '%' || special == '_' || special == escape => {
                    like.extend([escape, special]);
                }
                Token::This(character) => like.push(character),
            }
        }
        like
    }

    /// Converts it to a `PostgreSQL` regular expression for texts in the form of `encode(text, 'escape')`: backslashes
    /// doubled, zero and non-ASCII bytes as a backslash and three octal digits.
    pub(crate) fn escaped_regex(&self) -> String {
        const CHARACTER: &str = r"(?:[^\\]|\\(?:\\|000|3[0-7][0-7](?:\\2[0-7][0-7])+))";
        let mut regex = String::from("^");
        for token in &self.0 {
            match token {
                Token::Text => regex.extend([CHARACTER, "*"]),
                Token::Character => regex.push_str(CHARACTER),
                Token::This(character) => {
                    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                        match byte {
                            0 | 0x80.. => write!(regex, r"\\{byte:03o}").expect("a string takes all"),
                            b'\\' => regex.push_str(r"\\\\"),
                            byte if byte.is_ascii_alphanumeric() => regex.push(char::from(byte)),
                            byte => regex.extend(['\\', char::from(byte)]),
                        }
                    }
                }
            }
        }
        regex + "$"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the positions of the text that each token may reach.
    fn model(tokens: &[Token], text: &[char]) -> bool {
        let mut reached = vec![false; text.len() + 1];
        reached[0] = true;
        for token in tokens {
            let is_next = |at: usize| match token {
                Token::Text => reached[..=at].contains(&true),
                Token::Character => at > 0 && reached[at - 1],
                Token::This(character) => at > 0 && reached[at - 1] && text[at - 1] == *character,
            };
            reached = (0..=text.len()).map(is_next).collect();
        }
        reached[text.len()]
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(text in "[ab\u{e9}]{0,8}", pattern in "[ab%_\u{e9}]{0,10}") {
            let parsed = Pattern::parse(&pattern).unwrap();
            prop_assert_eq!(parsed.matches(&text), model(&parsed.0, &text.chars().collect::<Vec<_>>()));
        }
    }

    /// With the model it would take hours.
    #[test]
    fn many_wildcards_take_time_in_proportion() {
        let text = "a".repeat(200_000);
        assert!(Pattern::parse(&"%a".repeat(100_000)).unwrap().matches(&text));
        assert!(!Pattern::parse(&"%ab".repeat(100_000)).unwrap().matches(&text));
    }

    #[test]
    fn patterns_match_as_in_postgresql() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%%", "abc", true),
            ("a%", "abc", true),
            ("a%", "Abc", false),
            ("%c", "abc", true),
            ("a_c", "a\u{e9}c", true),
            ("a_c", "ac", false),
            ("_%_", "ab", true),
            ("_%_", "a", false),
            ("%b%", "abc", true),
            (r"a\%", "a%", true),
            (r"a\%", "ab", false),
            (r"a\_", "a_", true),
            (r"\\", r"\", true),
            (r"\a", "a", true),
            ("*", "abc", false),
            ("%ab%ab", "abab", true),
            ("%ab%ab", "aba", false),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
        assert_eq!(Pattern::parse(r"a\"), None);
        assert_eq!(Pattern::parse(r"a\\"), Pattern::parse(r"a\\"));
    }

    #[test]
    fn parts_of_a_pattern() {
        let pattern = |text| Pattern::parse(text).unwrap();
        assert_eq!(pattern(r"a\%b%c").prefix(), "a%b");
        assert_eq!(pattern(r"a\%b%c").literal(), None);
        assert_eq!(pattern(r"a\%b").literal(), Some("a%b".to_owned()));
        assert_eq!(pattern(r"a\%_%%").characters_min(), 3);
        assert_eq!(pattern("[a]*?_%").glob(), "[[]a][*][?]?*");
        assert_eq!(pattern(r"a\%_|%").like('|'), "a|%_||%");
        assert_eq!(pattern(r"a\%\\").like('\\'), r"a\%\\");
        let expected = r"^a\.\\303\\251\\\\\\000$";
        assert_eq!(pattern("a.\u{e9}\\\\\0").escaped_regex(), expected);
    }
}
