//! CSV as `OpenStack`'s clients write it: Python's `csv` with a backslash as the escape character.

use clap::ValueEnum;

/// Which fields are quoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Quote {
    All,
    /// Those with commas, quotes or line breaks.
    Minimal,
    /// All but numbers.
    #[default]
    Nonnumeric,
    /// Special characters are escaped instead.
    None,
}

/// A value of a row.
pub struct Field {
    /// Empty if the value is missing.
    pub text: String,
    /// A number or a flag.
    pub is_number: bool,
}

/// A row with its newline.
pub fn row(fields: &[Field], quote: Quote) -> String {
    let is_alone = fields.len() == 1;
    let fields: Vec<String> = fields.iter().map(|field| written(field, is_alone, quote)).collect();
    fields.join(",") + "\n"
}

fn written(field: &Field, is_alone: bool, quote: Quote) -> String {
    let Field { text, is_number } = field;
    // A backslash is escaped in any case; it alone does not call for quotes.
    let escaped = text.replace('\\', "\\\\");
    let is_quoted = match quote {
        Quote::All => true,
        Quote::Nonnumeric => !is_number,
        // A row of an empty text alone would be an empty line.
        Quote::Minimal => text.contains([',', '"', '\n', '\r']) || (is_alone && text.is_empty()),
        Quote::None => false,
    };
    if is_quoted {
        return format!("\"{}\"", escaped.replace('"', "\"\""));
    }
    if quote != Quote::None {
        return escaped;
    }
    let mut out = String::with_capacity(escaped.len());
    for character in escaped.chars() {
        if matches!(character, ',' | '"' | '\n' | '\r') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_as_by_python() {
        let field = |text: &str, is_number| Field { text: text.to_owned(), is_number };
        let fields = [
            field("a\"b,c", false),
            field("", false),
            field("1.5", true),
            field("x\\y", false),
            field("l1\nl2", false),
        ];
        for (quote, expected) in [
            (Quote::All, "\"a\"\"b,c\",\"\",\"1.5\",\"x\\\\y\",\"l1\nl2\"\n"),
            (Quote::Minimal, "\"a\"\"b,c\",,1.5,x\\\\y,\"l1\nl2\"\n"),
            (Quote::Nonnumeric, "\"a\"\"b,c\",\"\",1.5,\"x\\\\y\",\"l1\nl2\"\n"),
            (Quote::None, "a\\\"b\\,c,,1.5,x\\\\y,l1\\\nl2\n"),
        ] {
            assert_eq!(row(&fields, quote), expected, "{quote:?}");
        }
        let alone = [field("", false)];
        assert_eq!(row(&alone, Quote::Minimal), "\"\"\n");
        assert_eq!(row(&alone, Quote::None), "\n");
    }
}
