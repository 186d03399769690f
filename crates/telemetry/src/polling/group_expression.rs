//! `group_id_coordination_expression` of a polling file: the supported subset of Python.
//!
//! Ceilometer evaluates any Python expression there: `p` is the source, `self.conf` the configuration.

/// Evaluates texts, `self.conf.host` and `p.name` joined with `+`, or an integer; `source` and `host` are the variables'
/// values. `Err` says what is not supported.
pub fn value(expression: &str, source: &str, host: &str) -> Result<String, String> {
    let trimmed = expression.trim();
    if let Ok(number) = trimmed.parse::<i64>() {
        return Ok(number.to_string());
    }
    let mut value = String::new();
    let mut rest = trimmed;
    loop {
        let (text, behind) = term(rest, source, host).ok_or_else(|| unknown(rest))?;
        value.push_str(text);
        let behind = behind.trim_start();
        if behind.is_empty() {
            return Ok(value);
        }
        rest = behind.strip_prefix('+').ok_or_else(|| unknown(behind))?.trim_start();
    }
}

fn unknown(rest: &str) -> String {
    let rest: String = rest.chars().take(40).collect();
    format!(
        "Python that is not understood at {rest:?}; texts, self.conf.host and p.name with + between them, or a whole number, are"
    )
}

/// The value of the first term, and the rest of the text.
fn term<'a>(rest: &'a str, source: &'a str, host: &'a str) -> Option<(&'a str, &'a str)> {
    for quote in ['\'', '"'] {
        if let Some(text) = rest.strip_prefix(quote) {
            let (text, behind) = text.split_once(quote)?;
            // Escapes and triple quotes are not supported.
            return (!text.contains('\\') && !behind.starts_with(quote)).then_some((text, behind));
        }
    }
    let end = rest.find(|character: char| character == '+' || character.is_whitespace());
    let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
    let value = match name {
        "self.conf.host" => host,
        "p.name" | "group_prefix" => source,
        _ => return None,
    };
    Some((value, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_python_is_understood() {
        let value = |expression| value(expression, "s", "cmp1");
        for (expression, expected) in [
            ("self.conf.host", "cmp1"),
            (" 'az-' + self.conf.host+\"/x\" ", "az-cmp1/x"),
            ("p.name + group_prefix", "ss"),
            ("''", ""),
            ("42", "42"),
        ] {
            assert_eq!(value(expression).as_deref(), Ok(expected), "{expression}");
        }
        for expression in [
            "",
            "1+1",
            "'a' 'b'",
            "'a",
            "'a\\n'",
            "'''a'''",
            "open('/etc/passwd').read()",
            "'a' +",
            "self.conf",
        ] {
            assert!(value(expression).is_err(), "{expression}");
        }
    }
}
