//! Sacks and their tokens as a short text: runs of consecutive sacks with consecutive tokens.

use std::num::NonZeroU16;

use gnudi_model::{Sack, SackCount, SackId};

/// `count.first.length.token`, separated by spaces.
pub(super) fn encode(mut owned: Vec<(Sack, u64)>) -> String {
    owned.sort_unstable();
    let mut runs: Vec<(Sack, u64, u64)> = Vec::new();
    for (sack, token) in owned {
        match runs.last_mut() {
            Some((first, length, from))
                if first.count == sack.count
                    && u64::from(first.id.0) + *length == u64::from(sack.id.0)
                    && *from + *length == token =>
            {
                *length += 1;
            }
            _ => runs.push((sack, 1, token)),
        }
    }
    let shown = |(first, length, token): &(Sack, u64, u64)| {
        format!("{}.{}.{length}.{token}", first.count.get(), first.id.0)
    };
    runs.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Skips invalid runs.
pub(super) fn decode(text: &str) -> Vec<(Sack, u64)> {
    let run = |text: &str| {
        let parts: Vec<u64> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [count, first, length, token] = parts[..] else { return None };
        let count = SackCount(NonZeroU16::new(u16::try_from(count).ok()?)?);
        let last = u16::try_from(first.checked_add(length)?).ok()?;
        let ids = (u16::try_from(first).ok()?..last).map(SackId);
        Some(ids.zip(token..).map(move |(id, token)| (Sack { count, id }, token)).collect::<Vec<_>>())
    };
    text.split(' ').filter_map(run).flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(owned in proptest::collection::btree_map((1_u16..5, 0_u16..40), 0_u64..60, 0..60)) {
            let owned: Vec<(Sack, u64)> = owned
                .into_iter()
                .map(|((count, id), token)| (Sack { count: SackCount(NonZeroU16::new(count).unwrap()), id: SackId(id) }, token))
                .collect();
            prop_assert_eq!(decode(&encode(owned.clone())), owned);
        }
    }

    #[test]
    fn neighbours_are_one_run() {
        let owned: Vec<_> = SackCount::DEFAULT.sacks().zip(1000..).collect();
        assert_eq!(encode(owned.clone()), "128.0.128.1000");
        assert_eq!(decode("128.0.128.1000"), owned);
        assert_eq!(decode(""), []);
        assert_eq!(decode("1.2 x.1.1.1 128.65530.10.1"), []);
    }
}
