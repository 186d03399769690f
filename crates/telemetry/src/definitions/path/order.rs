//! Sorts by Python's algorithm. Where elements are incomparable (a field is missing, for example) the result depends on
//! the algorithm.

/// Lists up to this length are sorted as Python does; longer ones by merging such runs.
const PIECE_LENGTH_MAX: usize = 63;

/// Stable sort with a comparison that may fail.
pub fn sort<T: Clone, E>(
    items: &mut [T],
    is_less: &mut impl FnMut(&T, &T) -> Result<bool, E>,
) -> Result<(), E> {
    if items.len() <= PIECE_LENGTH_MAX {
        return sort_piece(items, is_less);
    }
    let middle = items.len() / 2;
    sort(&mut items[..middle], is_less)?;
    sort(&mut items[middle..], is_less)?;
    let (mut left, mut right) = (items[..middle].iter().peekable(), items[middle..].iter().peekable());
    let mut merged = Vec::with_capacity(items.len());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if is_less(second, first)? { right.next() } else { left.next() };
        merged.extend(next.cloned());
    }
    merged.extend(left.chain(right).cloned());
    items.clone_from_slice(&merged);
    Ok(())
}

/// Binary insertion sort: takes the initial run, reversed if it descends, and inserts each further element.
fn sort_piece<T, E>(items: &mut [T], is_less: &mut impl FnMut(&T, &T) -> Result<bool, E>) -> Result<(), E> {
    if items.len() < 2 {
        return Ok(());
    }
    let descends = is_less(&items[1], &items[0])?;
    let mut run = 2;
    while run < items.len() && is_less(&items[run], &items[run - 1])? == descends {
        run += 1;
    }
    if descends {
        items[..run].reverse();
    }
    for at in run..items.len() {
        let (mut low, mut high) = (0, at);
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_less(&items[at], &items[middle])? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        items[low..=at].rotate_right(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_order_of_equals_stays() {
        let mut items: Vec<(u32, usize)> = (0..500).map(|at| ((at * 7919 % 13) as u32, at)).collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        sort(&mut items, &mut |left, right| Ok::<_, Infallible>(left.0 < right.0)).unwrap();
        assert_eq!(items, expected);
    }
}
