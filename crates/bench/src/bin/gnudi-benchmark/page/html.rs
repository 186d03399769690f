//! The HTML elements of the page. All external text must be passed through `escape`.

use crate::findings::Table;

/// Escapes text for HTML and SVG. Control characters, which are invalid there, become spaces.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// An element with text.
pub fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>\n", escape(text))
}

/// A highlighted paragraph: its first words, and the rest.
pub fn warning(first: &str, rest: &str) -> String {
    format!("<p class=\"warn\"><strong>{}</strong> {}</p>\n", escape(first), escape(rest))
}

pub fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| element("li", item)).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// Collapsed details, with a summary line.
pub fn folded(summary: &str, content: &str) -> String {
    format!("<details><summary>{}</summary>\n{content}</details>\n", escape(summary))
}

/// Commands to repeat something.
pub fn commands(lines: &[&str]) -> String {
    format!("<pre>{}</pre>\n", escape(&lines.join("\n")))
}

/// A cell of a table.
pub enum Cell {
    Text(String),
    /// Right-aligned.
    Figure(String),
    /// A share of the table's maximum, in the colour of a style; `None` if not comparable.
    Bar(Option<f64>, usize),
}

/// A row, and whether it is gnudi's.
pub struct Line {
    pub cells: Vec<Cell>,
    pub ours: bool,
}

/// A table; its first line determines which columns are text.
pub fn table(caption: &str, headings: &[&str], lines: &[Line]) -> String {
    // Not a caption element, which wraps at the width of a narrow table.
    let mut out = match caption {
        "" => String::from("<div class=\"scroll\"><table>\n"),
        caption => {
            let caption = escape(caption);
            format!(
                "<p class=\"caption\">{caption}</p>\n<div class=\"scroll\"><table aria-label=\"{caption}\">\n"
            )
        }
    };
    out += "<thead><tr>";
    out.extend(headings.iter().enumerate().map(|(column, heading)| {
        let text = lines.first().and_then(|line| line.cells.get(column));
        let class = match text {
            Some(Cell::Text(_) | Cell::Bar(..)) => " class=\"text\"",
            _ => "",
        };
        format!("<th scope=\"col\"{class}>{}</th>", escape(heading))
    }));
    out += "</tr></thead>\n<tbody>\n";
    for line in lines {
        out += if line.ours { "<tr class=\"ours\">" } else { "<tr>" };
        out.extend(line.cells.iter().map(cell_element));
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

fn cell_element(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => format!("<td class=\"text\">{}</td>", escape(text)),
        Cell::Figure(text) => format!("<td>{}</td>", escape(text)),
        Cell::Bar(None, _) => "<td class=\"bar\"></td>".to_owned(),
        Cell::Bar(Some(share), style) => {
            let percent = if share.is_finite() { 100.0 * share.clamp(0.0, 1.0) } else { 0.0 };
            format!(
                "<td class=\"bar\"><span style=\"width:{percent:.2}%;background:var(--line-{style})\"></span></td>"
            )
        }
    }
}

/// A table of texts in findings: columns of figures are right-aligned.
pub fn plain_table(Table { title, headings, rows }: &Table) -> String {
    let is_figure = |text: &str| {
        let text = text.trim_start_matches(['-', '+', '~', '<', '>', ' ']);
        // Two words: a number with its unit.
        text.is_empty()
            || text.starts_with(|first: char| first.is_ascii_digit()) && text.split(' ').count() <= 2
    };
    let figures: Vec<bool> = (0..headings.len())
        .map(|column| column > 0 && rows.iter().all(|row| row.get(column).is_none_or(|text| is_figure(text))))
        .collect();
    let line = |row: &Vec<String>| Line {
        cells: row
            .iter()
            .enumerate()
            .map(|(column, text)| match figures.get(column) {
                Some(true) => Cell::Figure(text.clone()),
                _ => Cell::Text(text.clone()),
            })
            .collect(),
        ours: row.first().is_some_and(|name| name == "gnudi"),
    };
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    table(title, &headings, &rows.iter().map(line).collect::<Vec<_>>())
}

/// Checks that a page or a fragment is well-formed XML.
#[cfg(test)]
pub(crate) fn well_formed(text: &str) -> Result<(), roxmltree::Error> {
    let content = text.strip_prefix("<!doctype html>").unwrap_or(text);
    roxmltree::Document::parse(&format!("<page>{content}</page>")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_escaped() {
        let nasty = "</td><script>alert(\"1\" & '2')</script>\u{0}";
        assert_eq!(escape("a\u{1}<b>"), "a &lt;b&gt;");
        let row = vec![nasty.to_owned(), "1.5k".to_owned()];
        for html in [
            element("p", nasty),
            warning(nasty, nasty),
            list(&[nasty.to_owned()]),
            commands(&[nasty]),
            plain_table(&Table::new(nasty, &format!("{nasty} | n"), [row])),
            table(nasty, &[nasty], &[Line { cells: vec![Cell::Text(nasty.to_owned())], ours: true }]),
            folded(nasty, ""),
        ] {
            well_formed(&html).unwrap_or_else(|error| panic!("{error}: {html}"));
            assert!(!html.contains("<script"), "{html}");
        }
    }

    #[test]
    fn figures_stand_right_and_bars_have_a_share() {
        let rows = [["gnudi", "1.5k/s", "7 batches of 1"], ["gnocchi", "-", "9 batches of 1"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let html = plain_table(&Table::new("", "server | rate | word", rows));
        assert!(html.contains("<td>1.5k/s</td><td class=\"text\">7 batches of 1</td>"), "{html}");
        assert!(html.contains("<tr class=\"ours\"><td class=\"text\">gnudi</td>"), "{html}");
        let bar = |share| table("", &["bar"], &[Line { cells: vec![Cell::Bar(share, 3)], ours: false }]);
        assert!(bar(Some(0.5)).contains("width:50.00%;background:var(--line-3)"), "{}", bar(Some(0.5)));
        assert!(bar(Some(f64::NAN)).contains("width:0.00%") && bar(Some(7.0)).contains("width:100.00%"));
        assert!(bar(None).contains("<td class=\"bar\"></td>"), "{}", bar(None));
    }
}
