//! Go's classes of characters. They are narrower than Rust's: letters have no marks or numerals among them, digits no
//! powers or fractions.

use std::sync::LazyLock;

use regex::Regex;

static LETTER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\A\p{L}\z").expect("a valid expression"));
static DIGIT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\A\p{Nd}\z").expect("a valid expression"));

pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in(&LETTER, c) }
}

pub(crate) fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { is_in(&DIGIT, c) }
}

fn is_in(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        assert!(['a', 'é', '温', 'ª'].into_iter().all(is_letter));
        // A numeral, a vowel sign, a circled letter, a digit.
        assert!(!['\u{2167}', '\u{93f}', 'Ⓐ', '1'].into_iter().any(is_letter));
        assert!(['1', '\u{661}'].into_iter().all(is_digit));
        assert!(!['²', '½', 'a'].into_iter().any(is_digit));
    }
}
