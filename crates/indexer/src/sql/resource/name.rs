//! Original ids of resources: mostly equal to the id, which then serves the search. The index of names has only the
//! others.

use uuid::Uuid;

use crate::{
    filter::{Comparison, Scalar},
    sql::filter::{Leaf, Query, bind, push_leaf, successor},
};

/// Appends an expression that is true for current resources with such an original id.
pub(in crate::sql) fn push_name(query: &mut Query, leaf: &Leaf<'_>) {
    const NAME: &str = "r.original_resource_id";
    let Some(ids) = Ids::of(leaf) else { return push_leaf(query, NAME, false, leaf, bind) };
    push_leaf(query.push("((r.named = 1 AND "), NAME, false, leaf, bind);
    query.push(")");
    if !ids.is_empty() {
        ids.push(query.push(" OR (r.named = 0 AND "));
        // Listed ids have exactly these texts. Long lists are not repeated, since databases limit the parameters.
        if matches!(ids, Ids::Range(..)) {
            push_leaf(query.push(" AND "), NAME, false, leaf, bind);
        }
        query.push(")");
    }
    query.push(")");
}

/// A superset of the ids whose text passes a comparison.
enum Ids {
    These(Vec<Scalar>),
    /// The first and the last.
    Range(Uuid, Uuid),
}

impl Ids {
    /// `None` if all might match.
    fn of(leaf: &Leaf<'_>) -> Option<Self> {
        let text = |value: &Scalar| match value {
            Scalar::Text(text) => text.clone(),
            _ => unreachable!("names are compared with texts"),
        };
        match leaf {
            Leaf::Compare(Comparison::Equal, value) => Some(Ids::written([text(value)])),
            Leaf::Compare(Comparison::Less | Comparison::LessOrEqual, value) => {
                Some(Ids::between("", Some(&(text(value) + "\0"))))
            }
            Leaf::Compare(Comparison::Greater | Comparison::GreaterOrEqual, value) => {
                Some(Ids::between(&text(value), None))
            }
            Leaf::In(values) => Some(Ids::written(values.iter().map(text))),
            Leaf::Like(pattern) => match (pattern.literal(), pattern.prefix()) {
                (Some(text), _) => Some(Ids::written([text])),
                (None, prefix) if prefix.is_empty() => None,
                (None, prefix) => Some(Ids::between(&prefix, successor(&prefix).as_deref())),
            },
            _ => None,
        }
    }

    fn written(texts: impl IntoIterator<Item = String>) -> Self {
        Ids::These(texts.into_iter().filter_map(|text| id_written(&text)).map(Scalar::Uuid).collect())
    }

    /// Ids whose text is at least the first and, if given, less than the second.
    fn between(from: &str, end: Option<&str>) -> Self {
        let last = match end.and_then(least_id_from) {
            Some(end) => end.as_u128().checked_sub(1).map(Uuid::from_u128),
            None => Some(Uuid::max()),
        };
        match (least_id_from(from), last) {
            (Some(first), Some(last)) if first <= last => Ids::Range(first, last),
            _ => Ids::These(Vec::new()),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Ids::These(ids) if ids.is_empty())
    }

    fn push(&self, query: &mut Query) {
        match self {
            Ids::These(ids) => push_leaf(query, "r.id", false, &Leaf::In(ids), bind),
            Ids::Range(first, last) => {
                bind(query.push("r.id BETWEEN "), &Scalar::Uuid(*first));
                bind(query.push(" AND "), &Scalar::Uuid(*last));
            }
        }
    }
}

/// Whether a resource with this id has another original id.
pub(super) fn is_named(original_resource_id: &str, id: Uuid) -> bool {
    original_resource_id != id.hyphenated().encode_lower(&mut Uuid::encode_buffer())
}

/// The id written like this, with hyphens and in lower case.
fn id_written(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|id| !is_named(text, *id))
}

/// The least id whose text is not less than the text; texts are compared by bytes.
fn least_id_from(text: &str) -> Option<Uuid> {
    let mut written = *b"00000000-0000-0000-0000-000000000000";
    let text = text.as_bytes();
    for (at, &least) in text.iter().enumerate() {
        let fits = written.get(at).and_then(|zero| at_least(least, *zero));
        match fits {
            Some(byte) => {
                written[at] = byte;
                if byte > least {
                    break;
                }
            }
            // Whatever follows is less: take the next id above the prefix.
            None => return above(written, at),
        }
    }
    Some(parse(&written))
}

/// The least valid byte at a position of an id; `zero` is that position of the nil id.
fn at_least(least: u8, zero: u8) -> Option<u8> {
    match zero {
        b'-' => (least <= b'-').then_some(b'-'),
        _ => match least {
            ..=b'0' => Some(b'0'),
            b'1'..=b'9' | b'a'..=b'f' => Some(least),
            b':'..b'a' => Some(b'a'),
            _ => None,
        },
    }
}

/// The least id whose first `length` positions are greater than these, followed by zeros.
fn above(mut written: [u8; 36], length: usize) -> Option<Uuid> {
    for place in written[..length.min(36)].iter_mut().rev() {
        match *place {
            b'-' => {}
            b'f' => *place = b'0',
            b'9' => {
                *place = b'a';
                return Some(parse(&written));
            }
            _ => {
                *place += 1;
                return Some(parse(&written));
            }
        }
    }
    None
}

fn parse(written: &[u8]) -> Uuid {
    Uuid::try_parse_ascii(written).expect("hexadecimal digits and hyphens at their places")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_are_written_in_one_way() {
        let id = Uuid::from_u128(0xabc << 64);
        assert_eq!(id_written(&id.to_string()), Some(id));
        for other in
            [id.simple().to_string(), id.to_string().to_uppercase(), format!("{{{id}}}"), String::new()]
        {
            assert_eq!(id_written(&other), None, "{other}");
            assert!(is_named(&other, id));
        }
        assert!(is_named(&id.to_string(), Uuid::nil()) && !is_named(&id.to_string(), id));
    }

    fn text() -> impl Strategy<Value = String> {
        let characters = prop::sample::select("0019aff-- /:`gG\u{e9}".chars().collect::<Vec<_>>());
        let noise = prop::collection::vec(characters, 0..4).prop_map(String::from_iter);
        (id(), 0..=36usize, noise).prop_map(|(id, kept, noise)| format!("{}{noise}", &id.to_string()[..kept]))
    }

    /// With long runs of the lowest and the highest digit.
    fn id() -> impl Strategy<Value = Uuid> {
        let digits = prop::collection::vec(
            (prop::sample::select("0189aef".chars().collect::<Vec<_>>()), 1..20usize),
            32,
        );
        digits.prop_map(|runs: Vec<(char, usize)>| {
            let digits = runs.into_iter().flat_map(|(digit, count)| std::iter::repeat_n(digit, count));
            Uuid::try_parse(&digits.take(32).collect::<String>()).unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_range_has_the_ids_between(from in text(), end in text(), other in id()) {
            let bounds = [least_id_from(&from), least_id_from(&end)].into_iter().flatten();
            let at_bounds = bounds.flat_map(|id| [Some(id.as_u128()), id.as_u128().checked_sub(1)]).flatten();
            for id in at_bounds.map(Uuid::from_u128).chain([other]) {
                let found = match Ids::between(&from, Some(&end)) {
                    Ids::Range(first, last) => first <= id && id <= last,
                    Ids::These(ids) => !ids.is_empty(),
                };
                let written = id.to_string();
                prop_assert_eq!(found, from <= written && written < end, "{}", id);
            }
        }

        #[test]
        fn the_least_id_splits_the_ids(text in text(), other in id()) {
            match least_id_from(&text) {
                Some(least) => {
                    prop_assert!(*least.to_string() >= *text);
                    prop_assert_eq!(other >= least, *other.to_string() >= *text);
                    if let Some(below) = least.as_u128().checked_sub(1) {
                        prop_assert!(*Uuid::from_u128(below).to_string() < *text);
                    }
                }
                None => prop_assert!(*Uuid::max().to_string() < *text),
            }
        }
    }
}
