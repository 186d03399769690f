//! A recursive descent parser; `modifier` parses what follows selectors, `length` durations. Chains of operators are
//! parsed iteratively, everything else is limited in depth.

use super::length::number;
use super::lexer::tokens;
use super::token::{Kind, Token};
use super::tree::{Aggregate, Binary, Expr, ExprKind, Matching, Selector, Shift, Span};
use super::{Parsed, fault, literal};
use crate::functions::{Function, Kind as FunctionKind};
use crate::plan::{AggregateOp, BinaryOp, Cardinality, MatchKind, Matcher, RegexStates};
use crate::quoted::quoted;

/// Maximum operators in a query: a chain of them makes a tree as deep as it is long.
const OPERATORS_MAX: usize = 1000;
/// Maximum labels in a list, matchers of a selector, arguments of a call.
const ITEMS_MAX: usize = 250;
/// The precedence of a sign: the same as that of products.
const SIGN_BINDS: u8 = 5;

#[derive(Default)]
pub(super) struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    depth: usize,
    depth_max: usize,
    operators: usize,
    regexes: RegexStates,
    /// Aggregations whose arguments are being read.
    aggregations: usize,
    /// Where a duration is being parsed, and what is valid there.
    pub(super) length_expected: (&'static str, &'static str),
}

/// Whether a keyword is a metric's name where nothing else is valid.
fn is_name(keyword: &str) -> bool {
    matches!(
        keyword,
        "by" | "fill" | "fill_left" | "fill_right" | "offset" | "without" | "anchored" | "smoothed"
    )
}

/// A selector and nothing else.
pub(super) fn parse_selector(text: &str) -> Parsed<Selector> {
    let mut parser = Parser::new(text, 1);
    let selector = parser.selector()?;
    parser.expect(&Kind::End, "", "")?;
    Ok(selector)
}

pub(super) fn parse(query: &str, depth_max: usize) -> Parsed<Expr> {
    let mut parser = Parser::new(query, depth_max);
    if parser.peek().kind == Kind::End {
        return fault(0, "no expression found in input");
    }
    let expr = parser.expr(1)?;
    if parser.peek().kind != Kind::End {
        return Err(parser.unexpected("", ""));
    }
    Ok(expr)
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, depth_max: usize) -> Parser<'t> {
        Parser { tokens: tokens(text), depth_max, ..Parser::default() }
    }

    pub(super) fn peek(&self) -> &Token<'t> {
        // The last one is never passed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn peek_second(&self) -> &Kind {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    pub(super) fn next(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    pub(super) fn back(&mut self) {
        self.at -= 1;
    }

    pub(super) fn accept(&mut self, kind: &Kind) -> bool {
        let accepted = self.peek().kind == *kind;
        self.at += usize::from(accepted);
        accepted
    }

    pub(super) fn expect(&mut self, kind: &Kind, context: &str, expected: &str) -> Parsed<Token<'t>> {
        if self.peek().kind == *kind { Ok(self.next()) } else { Err(self.unexpected(context, expected)) }
    }

    /// The error for an unexpected next token.
    pub(super) fn unexpected(&self, context: &str, expected: &str) -> super::Fault {
        let token = self.peek();
        let mut text = token.described();
        if let Kind::Operator("</" | ">/") = token.kind {
            text = format!("operator {:?} cuts native histograms, which are not supported", token.text);
        } else if !matches!(token.kind, Kind::Fault(_)) {
            text.insert_str(0, "unexpected ");
            let context = if context.is_empty() && self.aggregations > 0 { "aggregation" } else { context };
            if !context.is_empty() {
                text += " in ";
                text += context;
            }
            if !expected.is_empty() {
                text += ", expected ";
                text += expected;
            }
        }
        super::Fault { at: token.start, text }
    }

    /// Refuses a next token that is invalid: Prometheus has read it before it checks what some rules have parsed.
    pub(super) fn check_next(&self) -> Parsed<()> {
        if matches!(self.peek().kind, Kind::Fault(_)) { Err(self.unexpected("", "")) } else { Ok(()) }
    }

    pub(super) fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > self.depth_max {
            return fault(
                self.peek().start,
                format!("expressions are nested deeper than {}", self.depth_max),
            );
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn count_operator(&mut self) -> Parsed<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            return fault(self.peek().start, format!("more than {OPERATORS_MAX} operators"));
        }
        Ok(())
    }

    /// An expression whose operators have at least this precedence.
    fn expr(&mut self, binds: u8) -> Parsed<Expr> {
        self.enter()?;
        let mut left = self.signed()?;
        while let Kind::Operator(name) = self.peek().kind
            && let Some(op) = BinaryOp::by_name(name)
            && op.binds() >= binds
        {
            let op_at = self.next().start;
            self.count_operator()?;
            let (returns_bool, matching) = self.modifiers()?;
            // Powers are right-associative.
            let right = self.expr(if op == BinaryOp::Pow { op.binds() } else { op.binds() + 1 })?;
            let span = Span { start: left.span.start, end: right.span.end };
            let binary = Binary { op, op_at, left, right, returns_bool, matching };
            left = Expr { kind: ExprKind::Binary(Box::new(binary)), span };
        }
        self.leave();
        Ok(left)
    }

    fn signed(&mut self) -> Parsed<Expr> {
        let start = self.peek().start;
        let Some(minus) = self.sign() else { return self.operand() };
        let operand = self.expr(SIGN_BINDS + 1)?;
        let span = Span { start, end: operand.span.end };
        let kind = match operand.kind {
            ExprKind::Number { value, is_duration } => {
                ExprKind::Number { value: if minus { -value } else { value }, is_duration }
            }
            _ => ExprKind::Unary { minus, expr: Box::new(operand) },
        };
        Ok(Expr { kind, span })
    }

    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let token = self.peek().clone();
        let start = token.start;
        let kind = match &token.kind {
            Kind::Number | Kind::Duration => {
                self.next();
                let is_duration = token.kind == Kind::Duration;
                ExprKind::Number { value: number(&token)?, is_duration }
            }
            Kind::Text => ExprKind::Text(self.text()?),
            Kind::LeftParen => {
                self.next();
                let inner = self.expr(1)?;
                self.expect(&Kind::RightParen, "", "")?;
                ExprKind::Paren(Box::new(inner))
            }
            Kind::Aggregator(op) if self.begins_aggregation() => {
                self.next();
                self.aggregation(*op, start)?
            }
            Kind::Identifier | Kind::Time(_) if *self.peek_second() == Kind::LeftParen => {
                self.next();
                self.call(&token)?
            }
            _ => ExprKind::Vector(self.selector()?),
        };
        Ok(Expr { kind, span: Span { start, end: self.closed_at() } })
    }

    /// Where the last token ended.
    pub(super) fn closed_at(&self) -> usize {
        self.tokens[self.at - 1].end()
    }

    fn text(&mut self) -> Parsed<String> {
        let token = self.next();
        literal::unquoted(token.text).or_else(|text| fault(token.start, text))
    }

    fn begins_aggregation(&self) -> bool {
        matches!(self.peek_second(), Kind::LeftParen | Kind::Keyword("by" | "without"))
    }

    fn aggregation(&mut self, op: AggregateOp, start: usize) -> Parsed<ExprKind> {
        let mut grouping = self.grouping()?;
        if self.peek().kind != Kind::LeftParen {
            return Err(self.unexpected("aggregation", ""));
        }
        self.aggregations += 1;
        let mut args = self.arguments()?.into_iter();
        self.aggregations -= 1;
        if grouping.is_none() {
            self.check_next()?;
            grouping = self.grouping()?;
        }
        let (given, wanted) = (args.len(), 1 + usize::from(op.param().is_some()));
        if given != 0 && given != wanted {
            let text = "wrong number of arguments for aggregate expression provided";
            return fault(start, format!("{text}, expected {wanted}, got {given}"));
        }
        let param = op.param().and_then(|_| args.next());
        let (without, grouping) = grouping.unwrap_or_default();
        let Some(expr) = args.next() else {
            return fault(start, "no arguments for aggregate expression provided");
        };
        Ok(ExprKind::Aggregate(Box::new(Aggregate { op, param, expr, without, grouping })))
    }

    /// `by` or `without` with labels: whether it is `without`.
    fn grouping(&mut self) -> Parsed<Option<(bool, Vec<String>)>> {
        let without = self.peek().is_keyword("without");
        if !without && !self.peek().is_keyword("by") {
            return Ok(None);
        }
        self.next();
        Ok(Some((without, self.labels()?)))
    }

    fn labels(&mut self) -> Parsed<Vec<String>> {
        self.expect(&Kind::LeftParen, "grouping opts", "\"(\"")?;
        let mut labels = Vec::new();
        while !self.accept(&Kind::RightParen) {
            let token = self.peek().clone();
            let name = match token.kind {
                Kind::Text => self.text()?,
                Kind::Keyword("without") => return Err(self.unexpected("grouping opts", "label")),
                Kind::Operator("and" | "or" | "unless" | "atan2")
                | Kind::Identifier
                | Kind::MetricIdentifier
                | Kind::Aggregator(_)
                | Kind::Keyword(_)
                | Kind::Time(_) => self.next().text.to_owned(),
                _ => return Err(self.unexpected("grouping opts", "label")),
            };
            if name.is_empty() || token.kind == Kind::MetricIdentifier {
                return fault(token.start, format!("invalid label name for grouping: {name:?}"));
            }
            self.add(&mut labels, name, "labels in a list")?;
            if self.peek().kind != Kind::RightParen {
                self.expect(&Kind::Comma, "grouping opts", "\",\" or \")\"")?;
            }
        }
        Ok(labels)
    }

    fn add<T>(&self, items: &mut Vec<T>, item: T, what: &str) -> Parsed<()> {
        if items.len() >= ITEMS_MAX {
            return fault(self.peek().start, format!("more than {ITEMS_MAX} {what}"));
        }
        items.push(item);
        Ok(())
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect(&Kind::LeftParen, "", "")?;
        let mut args = Vec::new();
        if self.accept(&Kind::RightParen) {
            return Ok(args);
        }
        loop {
            let arg = self.expr(1)?;
            self.add(&mut args, arg, "arguments in a call")?;
            if self.accept(&Kind::RightParen) {
                return Ok(args);
            }
            let comma = self.expect(&Kind::Comma, "", "")?;
            if !self.begins_expression() {
                return fault(comma.start, "trailing commas not allowed in function call args");
            }
        }
    }

    /// Whether an expression may begin with the next token, or why there is none.
    fn begins_expression(&self) -> bool {
        match self.peek().kind {
            Kind::Fault(_)
            | Kind::LeftParen
            | Kind::LeftBrace
            | Kind::Identifier
            | Kind::MetricIdentifier
            | Kind::Number
            | Kind::Duration
            | Kind::Text
            | Kind::Aggregator(_)
            | Kind::Time(_)
            | Kind::Operator("and" | "or" | "unless" | "+" | "-") => true,
            Kind::Keyword(name) => is_name(name),
            _ => false,
        }
    }

    fn call(&mut self, name: &Token<'_>) -> Parsed<ExprKind> {
        let args = self.arguments()?;
        match Function::by_name(name.text) {
            Some(function) => {
                self.count_replaced(function, &args)?;
                Ok(ExprKind::Call { function, args })
            }
            None => fault(name.start, format!("unknown function with name {}", quoted(name.text))),
        }
    }

    /// Counts the regular expression of `label_replace`, its fifth argument.
    fn count_replaced(&mut self, function: &Function, args: &[Expr]) -> Parsed<()> {
        if matches!(function.kind, FunctionKind::LabelReplace)
            && let Some(arg) = args.get(4)
            && let ExprKind::Text(pattern) = &arg.inner().kind
        {
            return self.regexes.add_replaced(pattern).or_else(|error| fault(arg.span.start, error.text));
        }
        Ok(())
    }

    /// `bool`, and how series match.
    fn modifiers(&mut self) -> Parsed<(bool, Matching)> {
        let mut matching = Matching::default();
        let returns_bool = self.accept(&Kind::Keyword("bool"));
        let on = self.peek().is_keyword("on");
        if on || self.peek().is_keyword("ignoring") {
            self.next();
            matching.on = on;
            matching.labels = self.labels()?;
            let left = self.peek().is_keyword("group_left");
            if left || self.peek().is_keyword("group_right") {
                self.next();
                matching.cardinality = if left { Cardinality::ManyToOne } else { Cardinality::OneToMany };
                if self.peek().kind == Kind::LeftParen {
                    matching.include = self.labels()?;
                }
            }
        }
        if self.accept(&Kind::Keyword("fill")) {
            let value = Some(self.fill_value()?);
            (matching.fill_left, matching.fill_right) = (value, value);
        } else if self.accept(&Kind::Keyword("fill_left")) {
            matching.fill_left = Some(self.fill_value()?);
            if self.accept(&Kind::Keyword("fill_right")) {
                matching.fill_right = Some(self.fill_value()?);
            }
        } else if self.accept(&Kind::Keyword("fill_right")) {
            matching.fill_right = Some(self.fill_value()?);
            if self.accept(&Kind::Keyword("fill_left")) {
                matching.fill_left = Some(self.fill_value()?);
            }
        }
        Ok((returns_bool, matching))
    }

    fn fill_value(&mut self) -> Parsed<f64> {
        self.expect(&Kind::LeftParen, "", "")?;
        let value = self.signed_number("", "")?;
        self.expect(&Kind::RightParen, "", "")?;
        Ok(value)
    }

    pub(super) fn signed_number(&mut self, context: &str, expected: &str) -> Parsed<f64> {
        let minus = self.sign() == Some(true);
        if !matches!(self.peek().kind, Kind::Number | Kind::Duration) {
            return Err(self.unexpected(context, expected));
        }
        let token = self.next();
        let value = number(&token)?;
        Ok(if minus { -value } else { value })
    }

    fn selector(&mut self) -> Parsed<Selector> {
        let name = match self.peek().kind {
            Kind::LeftBrace => None,
            // Keywords are names where nothing else is valid.
            Kind::Identifier
            | Kind::MetricIdentifier
            | Kind::Aggregator(_)
            | Kind::Time(_)
            | Kind::Operator("and" | "or" | "unless") => Some(self.next().text.to_owned()),
            Kind::Keyword(name) if is_name(name) => Some(self.next().text.to_owned()),
            _ => return Err(self.unexpected("", "")),
        };
        let mut matchers = Vec::new();
        if self.accept(&Kind::LeftBrace) {
            while !self.accept(&Kind::RightBrace) {
                let matcher = self.matcher()?;
                self.add(&mut matchers, matcher, "matchers in a selector")?;
                if self.peek().kind != Kind::RightBrace {
                    self.expect(&Kind::Comma, "label matching", "\",\" or \"}\"")?;
                }
            }
        }
        Ok(Selector { name, matchers, shift: Shift::default(), extension: None })
    }

    fn matcher(&mut self) -> Parsed<Matcher> {
        let start = self.peek().start;
        let (name, is_quoted) = match self.peek().kind {
            Kind::Text => (self.text()?, true),
            Kind::Identifier => (self.next().text.to_owned(), false),
            _ => return Err(self.unexpected("label matching", "identifier or \"}\"")),
        };
        let kind = match self.peek().kind {
            Kind::Assign => MatchKind::Equal,
            Kind::Operator("!=") => MatchKind::NotEqual,
            Kind::Operator("=~") => MatchKind::Matches,
            Kind::Operator("!~") => MatchKind::NotMatches,
            // A quoted text alone is the metric's name.
            _ if is_quoted => return Ok(Matcher::equal(crate::labels::METRIC_NAME, &name)),
            _ => return Err(self.unexpected("label matching", "label matching operator")),
        };
        self.next();
        if self.peek().kind != Kind::Text {
            return Err(self.unexpected("label matching", "string"));
        }
        let value = self.text()?;
        let matcher = Matcher::new(kind, &name, &value).or_else(|error| fault(start, error.text))?;
        self.regexes.add(&matcher).or_else(|error| fault(start, error.text))?;
        Ok(matcher)
    }
}
