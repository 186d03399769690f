//! The end of pyparsing's error texts: what it has found, and where.

/// How much of a word is quoted.
const WORD_MAX: usize = 16;

/// The word that a text begins with, or else its first character.
pub fn word(text: &str) -> Option<String> {
    let word: String =
        text.chars().take(WORD_MAX).take_while(|character| character.is_alphanumeric()).collect();
    if word.is_empty() { text.chars().next().map(String::from) } else { Some(word) }
}

/// The place behind a text: the offset in characters, and line and column, which count from 1.
pub fn place(before: &str) -> String {
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.matches('\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    format!("(at char {}), (line:{line}, col:{column})", before.chars().count())
}
