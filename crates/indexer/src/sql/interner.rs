//! Interns texts that many metrics share.

use std::collections::HashSet;

use gnudi_model::Text;
use parking_lot::RwLock;

/// Creators, policies and units are few; names may be unique per metric.
const TEXTS_MAX: usize = 65_536;

/// Keeps up to [`TEXTS_MAX`] texts, and is cleared when full: texts in use stay alive, and frequent ones are soon
/// shared again.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: RwLock<HashSet<Text>>,
}

impl Interner {
    pub(super) fn intern(&self, text: &str) -> Text {
        if let Some(known) = self.texts.read().get(text) {
            return known.clone();
        }
        let mut texts = self.texts.write();
        if let Some(known) = texts.get(text) {
            return known.clone();
        }
        if texts.len() >= TEXTS_MAX {
            texts.clear();
        }
        let text = Text::from(text);
        texts.insert(text.clone());
        text
    }
}

/// The interned texts of an index.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Creators, users, projects, units, names of policies.
    pub(super) labels: Interner,
    /// Names of metrics.
    pub(super) names: Interner,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_their_number_is_bounded() {
        let interner = Interner::default();
        let first = interner.intern("cpu");
        assert!(Text::ptr_eq(&first, &interner.intern("cpu")));
        for number in 0..TEXTS_MAX + 10 {
            interner.intern(&number.to_string());
            assert!(interner.texts.read().len() <= TEXTS_MAX);
        }
        assert_eq!(interner.intern("cpu"), "cpu");
    }
}
