//! Merges two listings sorted by id, with a page of each in memory.

use std::{cmp::Ordering, collections::VecDeque};

/// A paginated listing.
pub trait Rows {
    type Row;
    type Id: Ord;
    type Error;

    /// The next rows; none at the end.
    async fn page(&mut self) -> Result<Vec<Self::Row>, Self::Error>;

    fn id(row: &Self::Row) -> Self::Id;
}

/// A listing with a look-ahead of one row.
pub struct Listing<R: Rows> {
    rows: R,
    page: VecDeque<R::Row>,
    has_ended: bool,
}

impl<R: Rows> Listing<R> {
    pub fn new(rows: R) -> Self {
        Self { rows, page: VecDeque::new(), has_ended: false }
    }

    async fn next_id(&mut self) -> Result<Option<R::Id>, R::Error> {
        if self.page.is_empty() && !self.has_ended {
            self.page = self.rows.page().await?.into();
            self.has_ended = self.page.is_empty();
        }
        Ok(self.page.front().map(R::id))
    }
}

/// The next row of either listing, or of both if the ids are equal; neither at the end.
pub async fn next<A, B>(
    left: &mut Listing<A>,
    right: &mut Listing<B>,
) -> Result<(Option<A::Row>, Option<B::Row>), A::Error>
where
    A: Rows,
    B: Rows<Id = A::Id, Error = A::Error>,
{
    let (left_id, right_id) = tokio::try_join!(left.next_id(), right.next_id())?;
    let Some((is_left, is_right)) = turn(left_id, right_id) else { return Ok((None, None)) };
    let left = if is_left { left.page.pop_front() } else { None };
    let right = if is_right { right.page.pop_front() } else { None };
    Ok((left, right))
}

/// Whether it is the turn of the left one of two sorted lists, and of the right one, by their next keys; both if these are
/// equal. `None` at the end of both.
pub fn turn<K: Ord>(left: Option<K>, right: Option<K>) -> Option<(bool, bool)> {
    let order = match (left, right) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => return None,
    };
    Some((order.is_le(), order.is_ge()))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, convert::Infallible};

    use proptest::prelude::*;

    use super::*;

    struct Numbers {
        left: VecDeque<u8>,
        at_once: usize,
    }

    impl Rows for Numbers {
        type Row = u8;
        type Id = u8;
        type Error = Infallible;

        async fn page(&mut self) -> Result<Vec<u8>, Infallible> {
            let count = self.at_once.min(self.left.len());
            Ok(self.left.drain(..count).collect())
        }

        fn id(row: &u8) -> u8 {
            *row
        }
    }

    async fn merged(
        left: &BTreeSet<u8>,
        right: &BTreeSet<u8>,
        sizes: (usize, usize),
    ) -> Vec<(Option<u8>, Option<u8>)> {
        let listing = |numbers: &BTreeSet<u8>, at_once| {
            Listing::new(Numbers { left: numbers.iter().copied().collect(), at_once })
        };
        let (mut left, mut right) = (listing(left, sizes.0), listing(right, sizes.1));
        let mut pairs = Vec::new();
        loop {
            match next(&mut left, &mut right).await {
                Ok((None, None)) => return pairs,
                Ok(pair) => pairs.push(pair),
                Err(never) => match never {},
            }
        }
    }

    proptest! {
        #[test]
        fn each_row_comes_once_beside_its_like(
            left in prop::collection::btree_set(any::<u8>(), 0..60),
            right in prop::collection::btree_set(any::<u8>(), 0..60),
            sizes in (1_usize..9, 1_usize..9),
        ) {
            let of = |id: &u8, numbers: &BTreeSet<u8>| numbers.get(id).copied();
            let expected: Vec<_> = left.union(&right).map(|id| (of(id, &left), of(id, &right))).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            prop_assert_eq!(runtime.block_on(merged(&left, &right, sizes)), expected);
        }
    }
}
