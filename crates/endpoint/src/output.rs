//! Prints results in the formats of `OpenStack`'s clients: table, JSON, CSV or bare values.
//!
//! Compatible with scripts for Gnocchi's client. The order of columns does not depend on the order of `--column`.
//! Tables are never wrapped, so ids stay whole.

use std::{
    cmp::Ordering,
    fmt::Write as _,
    io::{ErrorKind, Write as _},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use gnudi_model::python;
use serde_json::Value;

use crate::{
    bordered::{self, Alignment},
    csv::{self, Field, Quote},
};

/// The heading of these options in `--help`.
const HEADING: &str = "Output";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Value,
    Csv,
}

/// Output options.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of OpenStack's clients")]
pub struct Output {
    /// Output format.
    #[arg(short, long, help_heading = HEADING, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Only this column; can be repeated.
    #[arg(short, long = "column", help_heading = HEADING, value_name = "NAME")]
    pub columns: Vec<String>,
    /// Listings: sort by this column; can be repeated, the first one counts most.
    #[arg(long = "sort-column", help_heading = HEADING, value_name = "NAME", hide_short_help = true)]
    sort_columns: Vec<String>,
    /// With --sort-column: the least value first (the default).
    #[arg(long, help_heading = HEADING, overrides_with = "sort_descending", hide_short_help = true)]
    sort_ascending: bool,
    /// With --sort-column: the greatest value first.
    #[arg(long, help_heading = HEADING, overrides_with = "sort_ascending", hide_short_help = true)]
    sort_descending: bool,
    /// CSV: which fields are quoted.
    #[arg(long, help_heading = HEADING, value_enum, default_value_t, hide_short_help = true)]
    quote: Quote,
    /// JSON: on one line.
    #[arg(long, help_heading = HEADING, hide_short_help = true)]
    noindent: bool,
    /// Table: print the headings of an empty listing.
    #[arg(long, help_heading = HEADING, hide_short_help = true)]
    print_empty: bool,
    /// No effect: tables are never wrapped.
    #[arg(long, hide = true, value_name = "N", allow_negative_numbers = true)]
    max_width: Option<i64>,
    /// No effect: tables are never wrapped.
    #[arg(long, hide = true)]
    fit_width: bool,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Json(Value),
    /// May be NaN or infinite, which JSON cannot represent.
    Float(f64),
}

impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        Cell::Json(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Json(text.into())
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Cell::Json(number.into())
    }
}

impl Cell {
    /// As Python's `str` formats it, like Gnocchi's client.
    pub fn text(&self) -> String {
        match self {
            Cell::Json(Value::String(text)) => text.clone(),
            Cell::Json(value) => repr(value),
            Cell::Float(number) => python::text_of_float(*number),
        }
    }

    /// As Python's `json` formats it: NaN and infinities are bare words. `indent` precedes all lines but the first.
    pub fn json(&self, indent: &str) -> String {
        match self {
            Cell::Float(number) if number.is_nan() => "NaN".to_owned(),
            Cell::Float(number) if number.is_infinite() && *number > 0.0 => "Infinity".to_owned(),
            Cell::Float(number) if number.is_infinite() => "-Infinity".to_owned(),
            Cell::Float(number) => python::text_of_float(*number),
            Cell::Json(number @ Value::Number(_)) => repr(number),
            Cell::Json(value) => format!("{value:#}").replace('\n', &format!("\n{indent}")),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Cell::Float(_) | Cell::Json(Value::Number(_)))
    }

    /// The same on one line, with Python's blanks.
    fn json_on_a_line(&self) -> String {
        match self {
            Cell::Float(_) => self.json(""),
            Cell::Json(value) => on_a_line(value),
        }
    }

    /// A missing value is an empty text.
    fn field(&self) -> Field {
        match self {
            Cell::Json(Value::Null) => Field { text: String::new(), is_number: false },
            cell => {
                let is_number = cell.is_number() || matches!(cell, Cell::Json(Value::Bool(_)));
                Field { text: cell.text(), is_number }
            }
        }
    }

    /// A number or a flag, which Python compares as a number.
    fn number(&self) -> Option<f64> {
        let number = match self {
            Cell::Float(number) => Some(*number),
            Cell::Json(Value::Number(number)) => number.as_f64(),
            Cell::Json(Value::Bool(is)) => Some(f64::from(u8::from(*is))),
            Cell::Json(_) => None,
        };
        // Both zeros are equal.
        number.map(|number| number + 0.0)
    }

    fn as_str(&self) -> Option<&str> {
        match self {
            Cell::Json(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Cell::Json(Value::Null))
    }

    /// Missing values come last; `None`: the values cannot be compared.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (self.is_null(), other.is_null()) {
            (false, false) => {}
            (one, other) => return Some(one.cmp(&other)),
        }
        match (self.number(), other.number()) {
            (Some(one), Some(other)) => Some(one.total_cmp(&other)),
            (None, None) => Some(self.as_str()?.cmp(other.as_str()?)),
            _ => None,
        }
    }
}

fn on_a_line(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(on_a_line).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(name, value)| (name.as_str(), on_a_line(value)));
            object_on_a_line(entries)
        }
        Value::Number(_) => repr(value),
        other => other.to_string(),
    }
}

fn object_on_a_line<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<String> =
        entries.map(|(name, value)| format!("{}: {value}", Value::from(name))).collect();
    format!("{{{}}}", entries.join(", "))
}

/// Python's `repr` of a JSON value.
fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => python::repr_str(text),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => python::text_of_float(float),
            None => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(name, value)| format!("{}: {}", python::repr_str(name), repr(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Rows with the same columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

/// One item: field names and values.
pub type Record = Vec<(String, Cell)>;

impl Output {
    /// All columns in this format.
    pub fn of(format: Format) -> Self {
        Output { format, ..Output::default() }
    }

    pub fn print_listing(&self, listing: Listing) -> Result<()> {
        put(&self.listing(listing)?)
    }

    pub fn print_record(&self, record: Record) -> Result<()> {
        put(&self.record(record)?)
    }

    /// The listing as text, with a final newline.
    pub fn listing(&self, listing: Listing) -> Result<String> {
        let Listing { columns, rows } = self.select(self.sorted(listing))?;
        Ok(match self.format {
            // Gnocchi's client prints an empty line for an empty listing.
            Format::Table if rows.is_empty() && !self.print_empty => "\n".to_owned(),
            Format::Table => table(&columns, &rows),
            Format::Json if rows.is_empty() => "[]\n".to_owned(),
            Format::Json if self.noindent => {
                let rows: Vec<String> = rows.iter().map(|row| row_on_a_line(&columns, row)).collect();
                ascii(format!("[{}]\n", rows.join(", ")))
            }
            Format::Json => {
                let rows: Vec<String> =
                    rows.iter().map(|row| format!("  {}", object(&columns, row, "  "))).collect();
                ascii(format!("[\n{}\n]\n", rows.join(",\n")))
            }
            Format::Csv => {
                let heads: Vec<Cell> = columns.iter().map(|column| Cell::from(column.as_str())).collect();
                self.csv(&heads) + &rows.iter().map(|row| self.csv(row)).collect::<String>()
            }
            Format::Value => {
                let line = |row: &Vec<Cell>| row.iter().map(Cell::text).collect::<Vec<_>>().join(" ") + "\n";
                rows.iter().map(line).collect()
            }
        })
    }

    /// The record as text, with a final newline.
    pub fn record(&self, record: Record) -> Result<String> {
        let (columns, row): (Vec<String>, Vec<Cell>) = record.into_iter().unzip();
        let Listing { columns, mut rows } = self.select(Listing { columns, rows: vec![row] })?;
        let row = rows.pop().unwrap_or_default();
        let fields = || {
            let fields = columns.iter().zip(&row);
            fields.map(|(name, value)| vec![Cell::from(name.as_str()), value.clone()]).collect::<Vec<_>>()
        };
        Ok(match self.format {
            Format::Table => {
                let cells: Vec<Vec<String>> =
                    fields().iter().map(|row| row.iter().map(shown).collect()).collect();
                bordered::draw(&["Field", "Value"].map(str::to_owned), &cells, &[Alignment::Left; 2])
            }
            Format::Json if self.noindent => ascii(row_on_a_line(&columns, &row) + "\n"),
            Format::Json => ascii(object(&columns, &row, "") + "\n"),
            Format::Csv => {
                let heads = ["Field", "Value"].map(Cell::from);
                self.csv(&heads) + &fields().iter().map(|row| self.csv(row)).collect::<String>()
            }
            Format::Value => row.iter().map(|cell| cell.text() + "\n").collect(),
        })
    }

    fn csv(&self, row: &[Cell]) -> String {
        let fields: Vec<Field> = row.iter().map(Cell::field).collect();
        csv::row(&fields, self.quote)
    }

    /// Sorted by the columns of `--sort-column`. As with the clients, columns that the listing does not have, and those
    /// whose values cannot be compared, are left out.
    fn sorted(&self, mut listing: Listing) -> Listing {
        for name in self.sort_columns.iter().rev() {
            let columns = &listing.columns;
            let place = columns.iter().position(|column| column == name);
            let place = place.or_else(|| columns.iter().position(|column| normal(column) == normal(name)));
            let Some(place) = place else { continue };
            // Texts can be compared with texts, and numbers with numbers: it is enough to look at neighbours.
            let known = || listing.rows.iter().map(move |row| &row[place]).filter(|cell| !cell.is_null());
            if known().zip(known().skip(1)).any(|(one, next)| one.order(next).is_none()) {
                let column = &listing.columns[place];
                // `eprintln` panics if that fails.
                let _ = writeln!(std::io::stderr(), "not sorted by {column}: its values cannot be compared");
                continue;
            }
            let order = |a: &Vec<Cell>, b: &Vec<Cell>| a[place].order(&b[place]).unwrap_or(Ordering::Equal);
            // Rows with the same value keep their order, also in the reverse one.
            if self.sort_descending {
                listing.rows.sort_by(|a, b| order(b, a));
            } else {
                listing.rows.sort_by(order);
            }
        }
        listing
    }

    fn select(&self, listing: Listing) -> Result<Listing> {
        let names: Vec<&str> = listing.columns.iter().map(String::as_str).collect();
        let chosen = chosen(&names, &self.columns)?;
        let columns = kept(listing.columns, &chosen);
        let rows = listing.rows.into_iter().map(|row| kept(row, &chosen)).collect();
        Ok(Listing { columns, rows })
    }
}

/// Which columns the names select, one result each; all without names. Case and the difference of blanks and underscores
/// are ignored.
pub fn chosen(columns: &[&str], names: &[String]) -> Result<Vec<bool>> {
    let wanted: Vec<String> = names.iter().map(|name| normal(name)).collect();
    let chosen: Vec<bool> =
        columns.iter().map(|column| names.is_empty() || wanted.contains(&normal(column))).collect();
    let found = names.is_empty() || chosen.contains(&true);
    ensure!(found, "No recognized column names in {names:?}. Recognized columns are {columns:?}.");
    Ok(chosen)
}

fn normal(name: &str) -> String {
    name.trim().to_lowercase().replace(' ', "_")
}

fn kept<T>(items: Vec<T>, chosen: &[bool]) -> Vec<T> {
    items.into_iter().zip(chosen).filter(|(_, is_chosen)| **is_chosen).map(|(item, _)| item).collect()
}

/// A table cell. Names come from other users, so control characters are escaped.
fn shown(cell: &Cell) -> String {
    let text = cell.text().replace("\r\n", "\n");
    if text.chars().any(|character| character.is_control() && character != '\n') {
        let escape = |character: char| match character {
            '\n' => "\n".to_owned(),
            character if character.is_control() => character.escape_default().to_string(),
            character => character.to_string(),
        };
        return text.chars().map(escape).collect();
    }
    text
}

/// Columns whose first value is a number are right-aligned.
fn table(columns: &[String], rows: &[Vec<Cell>]) -> String {
    let side = |cell: &Cell| if cell.is_number() { Alignment::Right } else { Alignment::Left };
    let alignments: Vec<Alignment> = match rows.first() {
        Some(row) => row.iter().map(side).collect(),
        None => vec![Alignment::Left; columns.len()],
    };
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    bordered::draw(columns, &cells, &alignments)
}

fn row_on_a_line(columns: &[String], row: &[Cell]) -> String {
    object_on_a_line(columns.iter().map(String::as_str).zip(row.iter().map(Cell::json_on_a_line)))
}

fn object(columns: &[String], row: &[Cell], indent: &str) -> String {
    let inner = format!("{indent}  ");
    let entries: Vec<String> = columns
        .iter()
        .zip(row)
        .map(|(name, cell)| format!("{inner}{}: {}", Value::from(name.as_str()), cell.json(&inner)))
        .collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n{indent}}}", entries.join(",\n")) }
}

/// Escapes other characters of a JSON text, as Python does: a terminal or a pipe may have any encoding.
fn ascii(json: String) -> String {
    let is_plain = |character: char| character.is_ascii() && character != '\x7f';
    if json.chars().all(is_plain) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if is_plain(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Writes to standard output. A closed pipe (as with `head`) is not an error.
pub fn put(text: &str) -> Result<()> {
    put_if_read(text).map(drop)
}

/// The same; whether somebody still reads the output.
pub fn put_if_read(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("writing to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(format: Format, columns: &[&str]) -> Output {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Output { format, columns, ..Output::default() }
    }

    fn listing() -> Listing {
        Listing {
            columns: ["id", "unit", "value", "metrics"].map(str::to_owned).to_vec(),
            rows: vec![
                vec!["a\"b".into(), Value::Null.into(), Cell::Float(1.5), json!({"cpu": "x"}).into()],
                vec!["c\x1b[2J".into(), true.into(), Cell::Float(f64::NAN), json!([1, 2.0]).into()],
            ],
        }
    }

    impl From<bool> for Cell {
        fn from(is: bool) -> Self {
            Cell::Json(is.into())
        }
    }

    #[test]
    fn listings_in_every_format() {
        let text = |format| output(format, &[]).listing(listing()).unwrap();
        assert_eq!(
            text(Format::Table),
            "+------------+------+-------+--------------+\n\
             | id         | unit | value | metrics      |\n\
             +------------+------+-------+--------------+\n\
             | a\"b        | None |   1.5 | {'cpu': 'x'} |\n\
             | c\\u{1b}[2J | True |   nan | [1, 2.0]     |\n\
             +------------+------+-------+--------------+\n"
        );
        let json = text(Format::Json);
        assert!(json.contains("\"value\": NaN"), "{json}");
        let value: Value = serde_json::from_str(&json.replace("NaN", "7")).unwrap();
        assert_eq!(value[0], json!({"id": "a\"b", "unit": null, "value": 1.5, "metrics": {"cpu": "x"}}));
        assert_eq!(
            text(Format::Csv),
            "\"id\",\"unit\",\"value\",\"metrics\"\n\"a\"\"b\",\"\",1.5,\"{'cpu': 'x'}\"\n\"c\x1b[2J\",True,nan,\"[1, 2.0]\"\n"
        );
        assert_eq!(text(Format::Value), "a\"b None 1.5 {'cpu': 'x'}\nc\x1b[2J True nan [1, 2.0]\n");
    }

    #[test]
    fn nothing_in_every_format() {
        let nothing = || Listing { rows: Vec::new(), ..listing() };
        for (format, expected) in [
            (Format::Table, "\n"),
            (Format::Json, "[]\n"),
            (Format::Csv, "\"id\",\"unit\",\"value\",\"metrics\"\n"),
            (Format::Value, ""),
        ] {
            assert_eq!(output(format, &[]).listing(nothing()).unwrap(), expected);
        }
    }

    #[test]
    fn backslashes_are_escaped_in_csv_only() {
        let listing = || Listing {
            columns: vec!["a\\b".to_owned()],
            rows: vec![vec![r#"\\host\"x""#.into()], vec![json!(["\\"]).into()]],
        };
        let text = |format| output(format, &[]).listing(listing()).unwrap();
        assert_eq!(
            text(Format::Csv),
            concat!(r#""a\\b""#, "\n", r#""\\\\host\\""x""""#, "\n", r#""['\\\\']""#, "\n")
        );
        assert_eq!(text(Format::Value), concat!(r#"\\host\"x""#, "\n", r"['\\']", "\n"));
    }

    #[test]
    fn columns_are_chosen_in_their_own_order() {
        assert_eq!(
            output(Format::Value, &["value", "ID"]).listing(listing()).unwrap(),
            "a\"b 1.5\nc\x1b[2J nan\n"
        );
        let error = output(Format::Value, &["name"]).listing(listing()).unwrap_err().to_string();
        assert!(error.contains("Recognized columns are"), "{error}");
    }

    #[test]
    fn listings_are_sorted_as_by_the_clients() {
        let rows = [
            (json!("b"), json!(2)),
            (json!("a"), json!(10)),
            (Value::Null, json!(2.0)),
            (json!("a"), json!(-1)),
        ];
        let listing = || Listing {
            columns: ["Name", "n", "odd"].map(str::to_owned).to_vec(),
            rows: rows
                .iter()
                .map(|(name, n)| vec![name.clone().into(), n.clone().into(), name.clone().into()])
                .collect(),
        };
        let sorted = |columns: &[&str], sort_descending| {
            let sort_columns = columns.iter().map(|&name| name.to_owned()).collect();
            let output = Output { sort_columns, sort_descending, ..output(Format::Value, &["name", "n"]) };
            output.listing(listing()).unwrap().replace('\n', "; ")
        };
        assert_eq!(sorted(&["name"], false), "a 10; a -1; b 2; None 2.0; ");
        assert_eq!(sorted(&["name", "n"], false), "a -1; a 10; b 2; None 2.0; ");
        assert_eq!(sorted(&["n"], true), "a 10; b 2; None 2.0; a -1; ", "the same value in the same order");
        assert_eq!(sorted(&["name"], true), "None 2.0; b 2; a 10; a -1; ");
        assert_eq!(sorted(&["colour"], false), "b 2; a 10; None 2.0; a -1; ");
        let mut mixed = listing();
        mixed.rows[1][0] = Cell::from(7);
        let output = Output { sort_columns: vec!["name".to_owned()], ..output(Format::Value, &["n"]) };
        assert_eq!(
            output.listing(mixed).unwrap(),
            "2\n10\n2.0\n-1\n",
            "texts and numbers cannot be compared"
        );
    }

    #[test]
    fn further_options_of_the_formats() {
        let output = |format| Output {
            quote: Quote::Minimal,
            noindent: true,
            print_empty: true,
            ..output(format, &["unit", "metrics"])
        };
        let text = |format| output(format).listing(listing()).unwrap();
        assert_eq!(text(Format::Csv), "unit,metrics\n,{'cpu': 'x'}\nTrue,\"[1, 2.0]\"\n");
        assert_eq!(
            text(Format::Json),
            r#"[{"unit": null, "metrics": {"cpu": "x"}}, {"unit": true, "metrics": [1, 2.0]}]"#.to_owned()
                + "\n"
        );
        let nothing = Listing { rows: Vec::new(), ..listing() };
        assert_eq!(
            output(Format::Table).listing(nothing).unwrap(),
            "+------+---------+\n| unit | metrics |\n+------+---------+\n+------+---------+\n"
        );
        let record =
            vec![("unit".to_owned(), Cell::from("x")), ("metrics".to_owned(), Cell::Float(f64::NAN))];
        assert_eq!(output(Format::Json).record(record).unwrap(), "{\"unit\": \"x\", \"metrics\": NaN}\n");
    }

    #[test]
    fn json_is_ascii() {
        let record = || vec![("t\u{fc}r".to_owned(), Cell::from("\u{6e29} \u{1f600}\x7f\n"))];
        assert_eq!(
            output(Format::Json, &[]).record(record()).unwrap(),
            "{\n  \"t\\u00fcr\": \"\\u6e29 \\ud83d\\ude00\\u007f\\n\"\n}\n"
        );
        assert_eq!(output(Format::Value, &[]).record(record()).unwrap(), "\u{6e29} \u{1f600}\x7f\n\n");
    }

    #[test]
    fn records_in_every_format() {
        let record = || vec![("id".to_owned(), Cell::from("x")), ("n".to_owned(), Cell::from(7))];
        let text = |format| output(format, &[]).record(record()).unwrap();
        assert_eq!(
            text(Format::Table),
            "+-------+-------+\n| Field | Value |\n+-------+-------+\n| id    | x     |\n| n     | 7     |\n+-------+-------+\n"
        );
        assert_eq!(text(Format::Json), "{\n  \"id\": \"x\",\n  \"n\": 7\n}\n");
        assert_eq!(text(Format::Csv), "\"Field\",\"Value\"\n\"id\",\"x\"\n\"n\",7\n");
        assert_eq!(text(Format::Value), "x\n7\n");
        assert_eq!(output(Format::Value, &["n"]).record(record()).unwrap(), "7\n");
    }
}
