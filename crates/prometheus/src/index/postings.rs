//! A posting list: the ascending numbers of the series that have a pair of a label and a value.
//!
//! Most pairs have one series or a few, which are stored as plain numbers. Long lists are roaring bitmaps.

use std::mem;

use roaring::RoaringBitmap;

/// Longer lists become bitmaps. A bitmap has an overhead of some hundred bytes.
const FEW_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) enum Postings {
    #[default]
    None,
    One(u32),
    Few(Vec<u32>),
    Many(Box<RoaringBitmap>),
}

impl Postings {
    /// Appends a number, which must be greater than all others.
    pub(super) fn push(&mut self, number: u32) {
        match self {
            Postings::None => *self = Postings::One(number),
            Postings::One(first) => *self = Postings::Few(vec![*first, number]),
            Postings::Few(numbers) if numbers.len() < FEW_MAX => numbers.push(number),
            Postings::Few(numbers) => {
                let bitmap: RoaringBitmap = numbers.iter().copied().chain([number]).collect();
                *self = Postings::Many(Box::new(bitmap));
            }
            Postings::Many(bitmap) => drop(bitmap.insert(number)),
        }
    }

    /// Removes numbers, which must be ascending and in the list.
    pub(super) fn remove(&mut self, removed: &[u32]) {
        let is_kept = |number: &u32| removed.binary_search(number).is_err();
        *self = match mem::take(self) {
            Postings::Many(mut bitmap) => {
                for number in removed {
                    bitmap.remove(*number);
                }
                if bitmap.len() as usize > FEW_MAX {
                    Postings::Many(bitmap)
                } else {
                    Postings::of_few(bitmap.into_iter().collect())
                }
            }
            Postings::Few(mut numbers) => {
                numbers.retain(is_kept);
                Postings::of_few(numbers)
            }
            Postings::One(number) if is_kept(&number) => Postings::One(number),
            Postings::One(_) | Postings::None => Postings::None,
        };
    }

    fn of_few(numbers: Vec<u32>) -> Self {
        match numbers[..] {
            [] => Postings::None,
            [one] => Postings::One(one),
            _ => Postings::Few(numbers),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Postings::None => 0,
            Postings::One(_) => 1,
            Postings::Few(numbers) => numbers.len(),
            Postings::Many(bitmap) => bitmap.len() as usize,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Postings::None)
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        match self {
            Postings::None => false,
            Postings::One(one) => *one == number,
            Postings::Few(numbers) => numbers.binary_search(&number).is_ok(),
            Postings::Many(bitmap) => bitmap.contains(number),
        }
    }

    /// Appends the numbers of the list to `numbers`.
    pub(super) fn append_to(&self, numbers: &mut Vec<u32>) {
        match self {
            Postings::None => {}
            Postings::One(one) => numbers.push(*one),
            Postings::Few(few) => numbers.extend_from_slice(few),
            Postings::Many(bitmap) => numbers.extend(bitmap.iter()),
        }
    }

    /// Frees spare capacity.
    pub(super) fn shrink(&mut self) {
        if let Postings::Few(numbers) = self {
            numbers.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(postings: &Postings) -> Vec<u32> {
        let mut numbers = Vec::new();
        postings.append_to(&mut numbers);
        numbers
    }

    proptest! {
        #[test]
        fn postings_are_a_sorted_set(
            rounds in prop::collection::vec((prop::collection::vec(1..400u32, 0..300), 0..4u32), 1..6)
        ) {
            let (mut postings, mut model) = (Postings::default(), BTreeSet::new());
            let mut last = 0;
            for (steps, kept) in rounds {
                for step in steps {
                    last += step;
                    postings.push(last);
                    model.insert(last);
                }
                let removed: Vec<u32> = model.iter().copied().filter(|number| number % 4 >= kept).collect();
                postings.remove(&removed);
                model.retain(|number| number % 4 < kept);
                prop_assert_eq!(numbers(&postings), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!((postings.len(), postings.is_empty()), (model.len(), model.is_empty()));
                for number in model.iter().chain(&removed).take(500) {
                    prop_assert_eq!(postings.contains(*number), model.contains(number));
                }
            }
        }
    }
}
