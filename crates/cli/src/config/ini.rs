//! Parses oslo.config's INI dialect: sections, `key = value` or `key: value`, `#` and `;` comments, values continued on
//! indented lines (indented comments included) up to an empty line or a comment. Does not know the options; errors
//! repeat no value, which may be a password.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// One setting, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub section: String,
    /// With `_` for `-`: oslo.config accepts both.
    pub key: String,
    pub value: String,
    pub line: usize,
}

/// All settings of a file, in order.
pub fn read(path: &Path) -> Result<Vec<Setting>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    parse(&text).with_context(|| format!("{}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Setting>> {
    let mut settings: Vec<Setting> = Vec::new();
    let mut section = None;
    // Whether an indented line continues the last value.
    let mut is_open = false;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let content = raw.trim();
        let is_indented = raw.starts_with([' ', '\t']);
        // Within a value oslo.config reads an indented comment as a part of it.
        let is_continued = is_indented && is_open && !content.is_empty();
        if content.is_empty() || content.starts_with(['#', ';']) && !is_continued {
            is_open = false;
            continue;
        }
        if is_indented {
            let Some(last) = settings.last_mut().filter(|_| is_open) else {
                bail!(
                    "line {line}: a continued value, but no option right before it: write it without the blanks at its beginning"
                );
            };
            last.value = format!("{}\n{content}", last.value);
        } else if let Some(name) = content.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']') else {
                bail!("line {line}: a section name without a closing bracket");
            };
            section = Some(name.trim().to_owned());
            is_open = false;
        } else {
            let Some((key, value)) = content.split_once(['=', ':']) else {
                bail!("line {line}: neither a section, nor `option = value`, nor a comment");
            };
            let Some(section) = &section else {
                bail!("line {line}: `{}` stands before the first section", key.trim());
            };
            let value = value.trim();
            let quoted = ['"', '\''].iter().find_map(|quote| {
                let rest = value.strip_prefix(*quote)?;
                // A quote alone is both the first and the last one.
                if rest.is_empty() { Some(rest) } else { rest.strip_suffix(*quote) }
            });
            settings.push(Setting {
                section: section.clone(),
                key: key.trim().replace('-', "_"),
                value: quoted.unwrap_or(value).to_owned(),
                line,
            });
            is_open = true;
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sections_comments_and_continued_values() {
        let text = "# c\n[api]\nport = 80\nmax-limit: 7\n; c\n[cors]\nallowed_origin = http://a,\n  http://b\nx = \"q\"\n";
        let settings = parse(text).unwrap();
        let values: Vec<_> =
            settings.iter().map(|s| (s.section.as_str(), s.key.as_str(), s.value.as_str(), s.line)).collect();
        assert_eq!(
            values,
            [
                ("api", "port", "80", 3),
                ("api", "max_limit", "7", 4),
                ("cors", "allowed_origin", "http://a,\nhttp://b", 7),
                ("cors", "x", "q", 9),
            ]
        );
    }

    #[test]
    fn names_the_line_that_is_wrong() {
        for (text, line) in [("x = 1", 1), ("[a\n", 1), ("[a]\n\nword\n", 3), ("  x\n", 1)] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}:")), "{error}");
        }
    }

    /// It would become a part of the option before it.
    #[test]
    fn an_indented_option_is_refused() {
        for (text, line) in [
            ("[a]\nx = 1\n[b]\n  y = 2\n", 4),
            ("[a]\nx = 1\n\n  y = 2\n", 4),
            ("[a]\nx = 1\n# c\n  y = 2\n", 4),
            ("[a]\nx = 1\n  \n\ty = 2\n", 4),
            ("[a]\n  y = 2\n", 2),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}: a continued value")), "{error}");
        }
    }

    #[test]
    fn values_are_those_of_oslo_config() {
        for (text, value) in [
            ("x = 1,\n  # c\n  2\n", "1,\n# c\n2"),
            ("x = '\n", ""),
            ("x = \"\"\n", ""),
            ("x = 'a\n", "'a"),
            ("  ; c\nx = 1\n", "1"),
        ] {
            let settings = parse(&format!("[a]\n{text}")).unwrap();
            assert_eq!((settings.len(), settings[0].value.as_str()), (1, value), "{text}");
        }
    }
}
