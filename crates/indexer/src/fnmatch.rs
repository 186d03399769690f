//! Python's `fnmatch` for texts: `*`, `?`, `[seq]`, `[!seq]`, by characters, upper and lower case apart.
//!
//! What Python makes of odd patterns holds here too: a `[` without its `]` is a character, `]` in the first place is one
//! of the sequence, an empty range such as `z-a` matches nothing.

/// Whether the whole text matches the pattern. Takes text length times pattern length at most.
pub fn fnmatch(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut at, mut in_pattern) = (0, 0);
    // Where the last star stands, and how far the text was when it took nothing more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(in_pattern) == Some(&'*') {
            star = Some((in_pattern, at));
            in_pattern += 1;
            continue;
        }
        if at == text.len() && in_pattern == pattern.len() {
            return true;
        }
        if at < text.len()
            && let Some(behind) = match_one(text[at], &pattern, in_pattern)
        {
            (at, in_pattern) = (at + 1, behind);
            continue;
        }
        // The last star takes one more character; earlier ones need not be tried again.
        match star {
            Some((star_at, taken)) if taken < text.len() => {
                star = Some((star_at, taken + 1));
                (at, in_pattern) = (taken + 1, star_at + 1);
            }
            _ => return false,
        }
    }
}

/// Where the pattern goes on if its next element matches the character.
fn match_one(character: char, pattern: &[char], at: usize) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => match end_of_sequence(pattern, at + 1) {
            Some(end) => is_in_sequence(character, &pattern[at + 1..end]).then_some(end + 1),
            None => (character == '[').then_some(at + 1),
        },
        literal => (character == *literal).then_some(at + 1),
    }
}

/// The place of the `]` that ends the sequence that starts at `start`.
fn end_of_sequence(pattern: &[char], start: usize) -> Option<usize> {
    let mut end = start;
    if pattern.get(end) == Some(&'!') {
        end += 1;
    }
    if pattern.get(end) == Some(&']') {
        end += 1;
    }
    pattern[end.min(pattern.len())..].iter().position(|c| *c == ']').map(|offset| end + offset)
}

fn is_in_sequence(character: char, sequence: &[char]) -> bool {
    let (negated, sequence) = match sequence {
        ['!', rest @ ..] => (true, rest),
        _ => (false, sequence),
    };
    let mut found = false;
    let mut rest = sequence;
    while let [first, tail @ ..] = rest {
        if let ['-', last, behind @ ..] = tail {
            found |= (*first..=*last).contains(&character);
            rest = behind;
        } else {
            found |= character == *first;
            rest = tail;
        }
    }
    found != negated
}
