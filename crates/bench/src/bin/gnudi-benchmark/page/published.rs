//! The published tables that the report repeats, with their sources: `published.json`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::findings::Table;

#[derive(Deserialize)]
pub struct Published {
    /// Its name on the page: `R1`.
    pub table: String,
    pub title: String,
    /// Where it was published, and the machine.
    pub source: String,
    /// Single figures, each beside a row of ours.
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
    /// The rows that repeat them, by first word.
    pub rows: String,
}

#[derive(Deserialize)]
pub struct Figure {
    pub operation: String,
    pub details: String,
    /// Per second.
    pub rate: f64,
    /// The corresponding row of ours.
    pub row: String,
    #[serde(default)]
    pub per_processor: bool,
}

static ALL: LazyLock<Vec<Published>> =
    LazyLock::new(|| serde_json::from_str(include_str!("published.json")).expect("it is a list of tables"));

pub fn all() -> &'static [Published] {
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_row_of_ours() {
        for figure in all().iter().flat_map(|published| &published.figures) {
            assert!(crate::rows::all().any(|row| row.key == figure.row), "{}", figure.row);
        }
    }
}
