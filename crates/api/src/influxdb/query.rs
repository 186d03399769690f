//! The part of InfluxDB's query language that Gnocchi supports: `CREATE DATABASE name`. The rest of the query
//! is ignored.

use super::line::quoted;

/// The name of the database to create; `None` for any other query.
pub fn database_to_create(query: &str) -> Option<String> {
    let rest = keyword(query.trim_start(), "create")?.trim_start();
    let rest = keyword(rest, "database")?;
    let name = rest.trim_start();
    if name.len() == rest.len() {
        return None;
    }
    if let Some((name, _)) = quoted(name) {
        return Some(name.into_owned()).filter(|name| !name.is_empty());
    }
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let end = name.find(|character| !is_word(character)).unwrap_or(name.len());
    let word = &name[..end];
    (!word.is_empty() && !word.starts_with(|first: char| first.is_ascii_digit())).then(|| word.to_owned())
}

fn keyword<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let start = text.get(..keyword.len())?;
    start.eq_ignore_ascii_case(keyword).then(|| &text[keyword.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_name_of_a_new_database() {
        for (query, name) in [
            ("create database influxdbtest", Some("influxdbtest")),
            ("CREATE DATABASE \"my db\";", Some("my db")),
            (" Create  Database _x1 WITH DURATION 3d", Some("_x1")),
            ("createdatabase x", Some("x")),
            ("create database a-b", Some("a")),
            ("create databasex", None),
            ("create database", None),
            ("create database 1x", None),
            ("create database \"\"", None),
            ("create database 'x'", None),
            ("select metrics plz", None),
            ("", None),
            ("créate database x", None),
        ] {
            assert_eq!(database_to_create(query).as_deref(), name, "{query}");
        }
    }
}
