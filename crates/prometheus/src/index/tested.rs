//! Values of labels, tested by regular expressions while the index is unlocked: an expression may take long, and nobody
//! must wait for it.

use std::{collections::HashMap, sync::Arc};

use gnudi_promql::Matcher;
use roaring::RoaringBitmap;

use super::{SearchError, Stops, poll, texts::address};

/// Values of a label, each once.
#[derive(Debug, Default)]
pub struct LabelValues {
    values: Vec<Arc<str>>,
    /// The index of each value in `values`, by address. `values` keeps the texts alive, so an address stays that of its text.
    places: HashMap<usize, u32>,
}

impl LabelValues {
    pub(super) fn add(&mut self, value: &Arc<str>) {
        let LabelValues { values, places } = self;
        places.entry(address(value)).or_insert_with(|| {
            values.push(value.clone());
            u32::try_from(values.len() - 1).expect("values fit into memory")
        });
    }
}

/// Which of these values match a regular expression.
#[derive(Debug)]
pub struct Tested {
    values: Arc<LabelValues>,
    /// The indexes of the values that match.
    matching: RoaringBitmap,
}

impl Tested {
    /// Tests all values.
    ///
    /// # Errors
    /// A value is too long, or `stops` was true.
    pub fn new(matcher: &Matcher, values: Arc<LabelValues>, stops: Stops<'_>) -> Result<Self, SearchError> {
        let prefix = matcher.prefix();
        let mut matching = RoaringBitmap::new();
        for (place, value) in (0..).zip(&values.values) {
            poll(stops)?;
            if !value.starts_with(prefix) {
                continue;
            }
            if matcher.takes_long(value) {
                return Err(SearchError::TooLong);
            }
            if matcher.matches(value) {
                matching.insert(place);
            }
        }
        Ok(Tested { values, matching })
    }

    /// Whether an interned value matches; `None` if it was not tested.
    pub(super) fn get(&self, value: &Arc<str>) -> Option<bool> {
        let place = self.values.places.get(&address(value))?;
        Some(self.matching.contains(*place))
    }
}
