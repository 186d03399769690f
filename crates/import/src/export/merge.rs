//! Merges two listings sorted by id, with a page of each in memory.

use std::{cmp::Ordering, collections::VecDeque};

use async_trait::async_trait;
use uuid::Uuid;

use super::ExportError;

/// A paginated listing.
#[async_trait]
pub trait Rows: Send {
    type Row: Send;

    /// The next rows; none at the end.
    async fn page(&mut self) -> Result<Vec<Self::Row>, ExportError>;

    fn id(row: &Self::Row) -> Uuid;
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

    async fn next_id(&mut self) -> Result<Option<Uuid>, ExportError> {
        if self.page.is_empty() && !self.has_ended {
            self.page = self.rows.page().await?.into();
            self.has_ended = self.page.is_empty();
        }
        Ok(self.page.front().map(R::id))
    }
}

/// The next row of either listing, or of both if the ids are equal; neither at the end.
pub async fn next<A: Rows, B: Rows>(
    left: &mut Listing<A>,
    right: &mut Listing<B>,
) -> Result<(Option<A::Row>, Option<B::Row>), ExportError> {
    let order = match (left.next_id().await?, right.next_id().await?) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => return Ok((None, None)),
    };
    let left = if order.is_le() { left.page.pop_front() } else { None };
    let right = if order.is_ge() { right.page.pop_front() } else { None };
    Ok((left, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(Vec<Vec<u128>>);

    #[async_trait]
    impl Rows for Numbers {
        type Row = u128;

        async fn page(&mut self) -> Result<Vec<u128>, ExportError> {
            Ok(if self.0.is_empty() { Vec::new() } else { self.0.remove(0) })
        }

        fn id(row: &u128) -> Uuid {
            Uuid::from_u128(*row)
        }
    }

    #[tokio::test]
    async fn each_row_comes_once_beside_its_like() {
        let mut left = Listing::new(Numbers(vec![vec![1, 2], vec![5], vec![9]]));
        let mut right = Listing::new(Numbers(vec![vec![2], vec![3, 9, 10]]));
        let mut pairs = Vec::new();
        loop {
            match next(&mut left, &mut right).await.unwrap() {
                (None, None) => break,
                pair => pairs.push(pair),
            }
        }
        let expected = [
            (Some(1), None),
            (Some(2), Some(2)),
            (None, Some(3)),
            (Some(5), None),
            (Some(9), Some(9)),
            (None, Some(10)),
        ];
        assert_eq!(pairs, expected);
    }
}
