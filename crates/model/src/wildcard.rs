//! Matches texts with patterns of wildcards; what an element means is left to the kind of pattern.

use std::str::Chars;

/// An element of a pattern.
pub trait Element {
    /// Whether it matches any text, also an empty one.
    fn is_any_text(&self) -> bool;

    /// Whether it matches the character; only for elements that match a single one.
    fn accepts(&self, character: char) -> bool;
}

/// Whether the whole text matches. Takes at most text length times pattern length, without allocation.
pub fn matches<E: Element>(text: &str, pattern: &[E]) -> bool {
    let (mut rest, mut next) = (text.chars(), 0);
    // The pattern after the last element for any text, and the rest of the text at that one's last attempt.
    let mut open: Option<(usize, Chars<'_>)> = None;
    loop {
        let mut behind = rest.clone();
        let character = behind.next();
        let is_one = match (pattern.get(next), character) {
            (Some(element), _) if element.is_any_text() => {
                next += 1;
                open = Some((next, rest.clone()));
                continue;
            }
            (Some(element), Some(character)) => element.accepts(character),
            (None, None) => return true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_one {
            (rest, next) = (behind, next + 1);
            continue;
        }
        // Extend the last one by one character; earlier ones need not be tried again.
        let Some((place, taken)) = &mut open else { return false };
        if taken.next().is_none() {
            return false;
        }
        (rest, next) = (taken.clone(), *place);
    }
}
