//! Tables with borders, like those of `OpenStack`'s clients.

use unicode_width::UnicodeWidthStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    Left,
    Right,
}

/// A table with a final newline. Every row has a cell per heading, and a cell may have several lines.
pub fn draw(headings: &[String], rows: &[Vec<String>], alignments: &[Alignment]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let longest = cell.split('\n').map(UnicodeWidthStr::width).max();
            *width = longest.unwrap_or_default().max(*width);
        }
    }
    let border: String = widths.iter().map(|width| "+".to_owned() + &"-".repeat(width + 2)).collect();
    let border = border + "+\n";
    let mut text = border.clone();
    put_row(headings, &widths, alignments, &mut text);
    text += &border;
    for row in rows {
        put_row(row, &widths, alignments, &mut text);
    }
    text + &border
}

fn put_row(row: &[String], widths: &[usize], alignments: &[Alignment], text: &mut String) {
    let cells: Vec<Vec<&str>> = row.iter().map(|cell| cell.split('\n').collect()).collect();
    for line in 0..cells.iter().map(Vec::len).max().unwrap_or_default() {
        for ((cell, width), alignment) in cells.iter().zip(widths).zip(alignments) {
            let content = cell.get(line).copied().unwrap_or_default();
            // The padding of `format!` counts characters; some take two columns of a terminal, others none.
            let padding = " ".repeat(width - content.width());
            let (before, after) = match alignment {
                Alignment::Left => ("", padding.as_str()),
                Alignment::Right => (padding.as_str(), ""),
            };
            for part in ["| ", before, content, after, " "] {
                *text += part;
            }
        }
        *text += "|\n";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_sides_and_lines() {
        let headings = ["name", "n"].map(str::to_owned);
        let rows = [["a\nbcdef", "7"], ["é", "12"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "\
+-------+----+
| name  |  n |
+-------+----+
| a     |  7 |
| bcdef |    |
| é     | 12 |
+-------+----+
";
        assert_eq!(draw(&headings, &rows, &[Alignment::Left, Alignment::Right]), expected);
    }

    #[test]
    fn columns_are_as_wide_as_on_the_terminal() {
        let headings = ["name", "n"].map(str::to_owned);
        // The last one has a combining accent.
        let rows =
            [["温度計", "7"], ["ab", "12"], ["cafe\u{301}", "3"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "\
+--------+----+
| name   |  n |
+--------+----+
| 温度計 |  7 |
| ab     | 12 |
| cafe\u{301}   |  3 |
+--------+----+
";
        assert_eq!(draw(&headings, &rows, &[Alignment::Left, Alignment::Right]), expected);
    }
}
