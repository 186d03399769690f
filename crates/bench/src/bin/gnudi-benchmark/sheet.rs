//! Results as a table and as figures: each column has a heading, the value that it shows of a result, and possibly a name
//! under which this value is also a figure.

use crate::{
    findings::{Findings, Table, Value},
    table::{ABSENT, shown, times},
};

/// The columns of a table with a row per result.
pub struct Sheet<'a, T>(Vec<Column<'a, T>>);

/// What a column shows of a result; `None` if the result lacks it.
type ValueOf<'a, T> = Box<dyn Fn(&T) -> Option<Value> + 'a>;

pub struct Column<'a, T> {
    heading: String,
    value: ValueOf<'a, T>,
    /// The figure's name; empty if the column is not a figure.
    figure: &'static str,
    /// A further column shows how many times better gnudi's value is.
    is_compared: bool,
}

impl<T> Column<'_, T> {
    /// Makes the column a figure with this name, too.
    pub fn figure(&mut self, name: &'static str) -> &mut Self {
        self.figure = name;
        self
    }

    /// Adds a column with the comparison with gnudi's value.
    pub fn compared(&mut self) {
        self.is_compared = true;
    }

    /// The unit of a rate is left out where the heading has it.
    fn cell(&self, result: &T) -> String {
        let Some(value) = (self.value)(result) else { return ABSENT.to_owned() };
        let text = shown(&value);
        match text.strip_suffix("/s") {
            Some(bare) if self.heading.ends_with("/s") => bare.to_owned(),
            _ => text,
        }
    }

    /// Empty where there is nothing to compare.
    fn advantage(&self, result: &T, gnudi: Option<&T>) -> String {
        let gnudi = gnudi.filter(|gnudi| !std::ptr::eq(*gnudi, result));
        let ratio = || (self.value)(gnudi?)?.times_better_than(&(self.value)(result)?);
        ratio().map(times).unwrap_or_default()
    }
}

impl<'a, T> Sheet<'a, T> {
    pub fn new() -> Self {
        Sheet(Vec::new())
    }

    pub fn text(&mut self, heading: &str, text: impl Fn(&T) -> String + 'a) {
        self.value(heading, move |result| Value::Text(text(result)));
    }

    pub fn value<V: Into<Option<Value>>>(
        &mut self,
        heading: &str,
        value: impl Fn(&T) -> V + 'a,
    ) -> &mut Column<'a, T> {
        let value = Box::new(move |result: &T| value(result).into());
        self.0.push(Column { heading: heading.to_owned(), value, figure: "", is_compared: false });
        self.0.last_mut().expect("it was just added")
    }

    /// A row per result; `gnudi` finds the result that one is compared with.
    pub fn table<'t>(
        &self,
        title: impl Into<String>,
        results: impl IntoIterator<Item = &'t T>,
        gnudi: impl Fn(&T) -> Option<&'t T>,
    ) -> Table
    where
        T: 't,
    {
        let mut headings = Vec::new();
        for column in &self.0 {
            headings.push(column.heading.clone());
            headings.extend(column.is_compared.then(|| "gnudi is".to_owned()));
        }
        let row = |result: &T| {
            let mut row = Vec::new();
            for column in &self.0 {
                row.push(column.cell(result));
                row.extend(column.is_compared.then(|| column.advantage(result, gnudi(result))));
            }
            row
        };
        Table { title: title.into(), headings, rows: results.into_iter().map(row).collect() }
    }

    /// Adds a result's figures, whose names begin with its own.
    pub fn add_figures(&self, result: &T, name: &str, findings: &mut Findings) {
        for column in self.0.iter().filter(|column| !column.figure.is_empty()) {
            if let Some(value) = (column.value)(result) {
                findings.compare(format!("{name} {}", column.figure), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_rows_and_figures() {
        let mut sheet = Sheet::<(&str, Option<f64>)>::new();
        sheet.text("", |result| result.0.to_owned());
        sheet
            .value("measures/s", |result| result.1.map(|rate| Value::rate(rate, "measure")))
            .figure("speed")
            .compared();
        let results = [("gnudi", Some(3000.0)), ("gnocchi", Some(20.0)), ("influxdb", None)];
        let table = sheet.table("T", &results, |_| results.first());
        assert_eq!(table.headings, ["", "measures/s", "gnudi is"]);
        assert_eq!(table.rows, [["gnudi", "3.00k", ""], ["gnocchi", "20.0", "150x"], ["influxdb", "-", ""]]);
        let mut findings = Findings::default();
        for result in &results {
            sheet.add_figures(result, result.0, &mut findings);
        }
        let names: Vec<&str> = findings.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["gnudi speed", "gnocchi speed"]);
        assert!(findings.figures[0].better.is_some());
    }
}
