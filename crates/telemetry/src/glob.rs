//! Names with wildcards as Python's `fnmatch` reads them on Linux: `*`, `?`, `[abc]`, `[a-z]`, `[!abc]`, by case.
//!
//! A pattern is compiled once; one without wildcards is a comparison.

use std::iter::Peekable;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Any number of characters, none too.
    Many,
    One,
    Literal(char),
    Set(Set),
}

/// Characters between brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    is_negated: bool,
    /// First and last of each range.
    ranges: Vec<(char, char)>,
}

impl Set {
    fn has(&self, character: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != self.is_negated
    }
}

impl Step {
    fn takes(&self, character: char) -> bool {
        match self {
            Step::Many => false,
            Step::One => true,
            Step::Literal(literal) => *literal == character,
            Step::Set(set) => set.has(character),
        }
    }
}

impl Glob {
    /// Any text is a pattern: a bracket that is never closed stands for itself.
    pub fn new(pattern: &str) -> Self {
        let characters: Vec<char> = pattern.chars().collect();
        let mut steps = Vec::with_capacity(characters.len());
        let mut at = 0;
        while at < characters.len() {
            let step = match characters[at] {
                '*' => Step::Many,
                '?' => Step::One,
                '[' => match set_end(&characters, at + 1) {
                    Some(end) => {
                        let set = set(&characters[at + 1..end]);
                        at = end;
                        Step::Set(set)
                    }
                    None => Step::Literal('['),
                },
                character => Step::Literal(character),
            };
            if step != Step::Many || steps.last() != Some(&Step::Many) {
                steps.push(step);
            }
            at += 1;
        }
        Glob { steps }
    }

    /// Whether any name at all fits.
    pub fn is_everything(&self) -> bool {
        self.steps == [Step::Many]
    }

    /// Whether the whole name fits.
    pub fn matches(&self, name: &str) -> bool {
        let mut rest = name.chars().peekable();
        let mut step = 0;
        // Where to go on when a step fails: behind the last `*`, one character further on.
        let mut again: Option<(usize, Peekable<std::str::Chars<'_>>)> = None;
        loop {
            if self.steps.get(step) == Some(&Step::Many) {
                step += 1;
                again = Some((step, rest.clone()));
                continue;
            }
            match (self.steps.get(step), rest.peek()) {
                (None, None) => return true,
                (Some(wanted), Some(character)) if wanted.takes(*character) => {
                    step += 1;
                    rest.next();
                }
                _ => {
                    let Some((behind, from)) = &mut again else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    step = *behind;
                    rest = from.clone();
                }
            }
        }
    }
}

/// Where the bracket is that closes a set; the first character of the set may be one that does not.
fn set_end(characters: &[char], start: usize) -> Option<usize> {
    let mut from = start;
    if characters.get(from) == Some(&'!') {
        from += 1;
    }
    if characters.get(from) == Some(&']') {
        from += 1;
    }
    (from..characters.len()).find(|at| characters[*at] == ']')
}

/// What stands between brackets. Hyphens make ranges as `fnmatch` in Python 3.11 cuts them; ranges that run backwards are
/// empty.
fn set(inner: &[char]) -> Set {
    let is_negated = inner.first() == Some(&'!');
    let inner = if is_negated { &inner[1..] } else { inner };
    let mut chunks: Vec<Vec<char>> = Vec::new();
    let (mut start, mut from) = (0, 1);
    while let Some(hyphen) = (from..inner.len()).find(|at| inner[*at] == '-') {
        chunks.push(inner[start..hyphen].to_vec());
        start = hyphen + 1;
        from = hyphen + 3;
    }
    match chunks.last_mut() {
        Some(last) if start == inner.len() => last.push('-'),
        _ => chunks.push(inner[start..].to_vec()),
    }
    for at in (1..chunks.len()).rev() {
        if chunks[at - 1].last() > chunks[at].first() {
            let behind = chunks.remove(at);
            chunks[at - 1].pop();
            chunks[at - 1].extend(&behind[1..]);
        }
    }
    let mut ranges: Vec<(char, char)> =
        chunks.iter().flatten().map(|character| (*character, *character)).collect();
    for pair in chunks.windows(2) {
        if let (Some(first), Some(last)) = (pair[0].last(), pair[1].first()) {
            ranges.push((*first, *last));
        }
    }
    Set { is_negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_fit_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "anything.at.all", true),
            ("cpu", "cpu", true),
            ("cpu", "cpu.util", false),
            ("disk.*", "disk.read.bytes", true),
            ("disk.*", "disk", false),
            ("*.bytes", "disk.read.bytes", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?pu", "cpu", true),
            ("?pu", "pu", false),
            ("[a-c]pu", "bpu", true),
            ("[!a-c]pu", "bpu", false),
            ("[]]", "]", true),
            ("[", "[", true),
            ("[c-a]", "b", false),
            ("[!]", "[!]", true),
            ("CPU", "cpu", false),
            ("a\n*", "a\nb", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern:?} {name:?}");
        }
        assert!(Glob::new("**").is_everything());
    }
}
