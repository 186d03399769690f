//! Parses a rule, from its text or the old list form, to a tree.
//!
//! Precedence from high to low: `not`, `and`, `or`; keywords ignore case. A check ends at white space;
//! parentheses at its start and end are not part of it.

use super::{DEPTH_MAX, TEXT_BYTES_MAX, check::Check};

/// A parsed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    Allow,
    Deny,
    Check(Check),
    Not(Box<Expression>),
    /// Never empty.
    All(Vec<Expression>),
    /// Never empty.
    Any(Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Open,
    Close,
    And,
    Or,
    Not,
    Check(&'t str),
}

/// Parses a text; an empty one allows everything.
pub fn text(text: &str) -> Result<Expression, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("a rule has at most {TEXT_BYTES_MAX} bytes"));
    }
    if text.is_empty() {
        return Ok(Expression::Allow);
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let expression = parser.any(0)?;
    match parser.peek() {
        None => Ok(expression),
        Some(Token::Close) => Err("there is a `)` too many".to_owned()),
        Some(token) => Err(format!("`and` or `or` is missing before {}", shown(token))),
    }
}

/// Parses the old form: an `or` over lists, each an `and` over checks.
pub fn lists(lists: &[Vec<String>]) -> Result<Expression, String> {
    if lists.is_empty() {
        return Ok(Expression::Allow);
    }
    let mut any = Vec::new();
    for list in lists.iter().filter(|list| !list.is_empty()) {
        let all = list.iter().map(|text| check(text)).collect::<Result<Vec<_>, _>>()?;
        any.push(joined(all, Expression::All));
    }
    Ok(if any.is_empty() { Expression::Deny } else { joined(any, Expression::Any) })
}

fn check(text: &str) -> Result<Expression, String> {
    match text {
        "@" => Ok(Expression::Allow),
        "!" => Ok(Expression::Deny),
        _ => Check::read(text).map(Expression::Check),
    }
}

/// White space as in Python's regular expressions.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        let clean = word.trim_start_matches('(');
        tokens.extend(std::iter::repeat_n(Token::Open, word.len() - clean.len()));
        let word = clean;
        let clean = word.trim_end_matches(')');
        if !clean.is_empty() {
            tokens.push(match clean.to_lowercase().as_str() {
                "and" => Token::And,
                "or" => Token::Or,
                "not" => Token::Not,
                _ if word.len() >= 2
                    && [('\'', '\''), ('"', '"')]
                        .iter()
                        .any(|(first, last)| word.starts_with(*first) && word.ends_with(*last)) =>
                {
                    return Err(format!("{word} is a text, where a check is expected"));
                }
                _ => Token::Check(clean),
            });
        }
        tokens.extend(std::iter::repeat_n(Token::Close, word.len() - clean.len()));
    }
    Ok(tokens)
}

struct Parser<'p> {
    tokens: &'p [Token<'p>],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<Token<'_>> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self, token: Token<'_>) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self, depth: usize) -> Result<Expression, String> {
        let mut any = vec![self.all(depth)?];
        while self.take(Token::Or) {
            any.push(self.all(depth)?);
        }
        Ok(joined(any, Expression::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expression, String> {
        let mut all = vec![self.one(depth)?];
        while self.take(Token::And) {
            all.push(self.one(depth)?);
        }
        Ok(joined(all, Expression::All))
    }

    fn one(&mut self, depth: usize) -> Result<Expression, String> {
        if depth >= DEPTH_MAX {
            return Err(format!("a rule is nested at most {DEPTH_MAX} levels deep"));
        }
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        match token {
            Some(Token::Check(text)) => check(text),
            Some(Token::Not) => Ok(Expression::Not(Box::new(self.one(depth + 1)?))),
            Some(Token::Open) => {
                let inner = self.any(depth + 1)?;
                if self.take(Token::Close) { Ok(inner) } else { Err("a `)` is missing".to_owned()) }
            }
            Some(token) => Err(format!("a check is missing before {}", shown(token))),
            None => Err("a check is missing at the end".to_owned()),
        }
    }
}

/// A single expression stays as it is.
fn joined(mut parts: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}

fn shown(token: Token<'_>) -> String {
    match token {
        Token::Open => "`(`".to_owned(),
        Token::Close => "`)`".to_owned(),
        Token::And => "`and`".to_owned(),
        Token::Or => "`or`".to_owned(),
        Token::Not => "`not`".to_owned(),
        Token::Check(text) => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(expression: &Expression) -> String {
        let all = |expressions: &[Expression], by: &str| {
            format!("({})", expressions.iter().map(shape).collect::<Vec<_>>().join(by))
        };
        match expression {
            Expression::Allow => "@".to_owned(),
            Expression::Deny => "!".to_owned(),
            Expression::Check(Check::Rule(name)) => name.clone(),
            Expression::Check(check) => format!("{check:?}"),
            Expression::Not(inner) => format!("-{}", shape(inner)),
            Expression::All(inner) => all(inner, " "),
            Expression::Any(inner) => all(inner, " | "),
        }
    }

    #[test]
    fn not_binds_closer_than_and_closer_than_or() {
        for (read, expected) in [
            ("", "@"),
            ("@", "@"),
            ("!", "!"),
            ("rule:a or rule:b and rule:c", "(a | (b c))"),
            ("rule:a and rule:b or rule:c and rule:d", "((a b) | (c d))"),
            ("not rule:a and rule:b", "(-a b)"),
            ("NOT (rule:a OR\trule:b)", "-(a | b)"),
            ("not not rule:a", "--a"),
            ("((rule:a))", "a"),
            ("( rule:a or rule:b ) and not rule:c", "((a | b) -c)"),
        ] {
            assert_eq!(text(read).map(|read| shape(&read)), Ok(expected.to_owned()), "{read}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (read, expected) in [
            (" ", "a check is missing at the end"),
            ("()", "a check is missing before `)`"),
            ("rule:a rule:b", "`and` or `or` is missing before `rule:b`"),
            ("rule:a or", "a check is missing at the end"),
            ("or rule:a", "a check is missing before `or`"),
            ("(rule:a", "a `)` is missing"),
            ("rule:a)", "there is a `)` too many"),
            ("admin", "`admin` is no check: it has no colon"),
            ("'a:b'", "'a:b' is a text, where a check is expected"),
        ] {
            assert_eq!(text(read), Err(expected.to_owned()), "{read}");
        }
        assert!(text("http://example.org/%(id)s").unwrap_err().contains("calls an external server"));
        let deep = |levels: usize| format!("{}rule:a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(text(&deep(DEPTH_MAX - 1)).is_ok());
        assert!(text(&deep(DEPTH_MAX)).unwrap_err().contains("levels"));
        assert!(text(&"not ".repeat(2000)).is_err());
        assert!(text(&"x".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn lists_are_joined_by_or_and_their_items_by_and() {
        let read = |items: &[&[&str]]| {
            let items: Vec<Vec<String>> =
                items.iter().map(|list| list.iter().map(|item| (*item).to_owned()).collect()).collect();
            lists(&items).map(|read| shape(&read))
        };
        assert_eq!(read(&[]), Ok("@".to_owned()));
        assert_eq!(read(&[&[]]), Ok("!".to_owned()));
        assert_eq!(read(&[&["rule:get metric"]]), Ok("get metric".to_owned()));
        assert_eq!(read(&[&["rule:a", "rule:b"], &["@"]]), Ok("((a b) | @)".to_owned()));
    }
}
