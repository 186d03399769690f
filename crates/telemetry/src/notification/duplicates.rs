//! Ids of the last acknowledged messages, to detect duplicates: an unsure sender sends again.

use std::collections::VecDeque;

/// As many as oslo.messaging keeps.
const REMEMBERED: usize = 16;

#[derive(Debug, Default)]
pub struct Duplicates(VecDeque<String>);

impl Duplicates {
    pub fn contains(&self, id: &str) -> bool {
        self.0.iter().any(|known| known == id)
    }

    pub fn insert(&mut self, id: String) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixteen_are_known() {
        let mut duplicates = Duplicates::default();
        for number in 0..20 {
            duplicates.insert(number.to_string());
        }
        assert!(!duplicates.contains("3") && duplicates.contains("4") && duplicates.contains("19"));
    }
}
