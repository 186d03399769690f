//! Natural order of texts: digits are compared as numbers.

use std::cmp::Ordering;

/// The text's parts: digits only, or no digit.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let digits = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

fn compare_parts(a: &str, b: &str) -> Ordering {
    if !(a.as_bytes()[0].is_ascii_digit() && b.as_bytes()[0].is_ascii_digit()) {
        return a.cmp(b);
    }
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (parts(a), parts(b));
    loop {
        let order = match (left.next(), right.next()) {
            (Some(a), Some(b)) => compare_parts(a, b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (None, None) => return a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers() {
        let mut names = ["v10", "v9", "v1a", "v", "10", "9", "v09b"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["9", "10", "v", "v1a", "v9", "v09b", "v10"]);
    }
}
