//! Splits work into groups that fit into memory.

/// Splits items into groups of at most `count_max` items and of at most `weight_max` together, in their order. A heavier
/// item is a group of its own.
pub(crate) fn groups<T>(
    items: &[T],
    count_max: usize,
    weight_max: u64,
    weight: impl Fn(&T) -> u64,
) -> Vec<&[T]> {
    let (mut groups, mut start, mut sum) = (Vec::new(), 0, 0_u64);
    for (index, item) in items.iter().enumerate() {
        let own = weight(item);
        sum = sum.saturating_add(own);
        if index > start && (sum > weight_max || index - start == count_max) {
            groups.push(&items[start..index]);
            (start, sum) = (index, own);
        }
    }
    if start < items.len() {
        groups.push(&items[start..]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_few_and_light_unless_it_is_one() {
        let of = |items: &[u64]| -> Vec<usize> {
            groups(items, 3, 10, |item| *item).iter().map(|group| group.len()).collect()
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[1, 1, 1, 1]), [3, 1]);
        assert_eq!(of(&[4, 6, 1, u64::MAX, u64::MAX, 2, 8]), [2, 1, 1, 1, 2]);
    }
}
