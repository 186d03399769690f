//! What may follow an expression: a range, a subquery, `offset`, `@`, `anchored` and `smoothed`.

use super::parser::Parser;
use super::token::Kind;
use super::tree::{Expr, ExprKind, Shift, Span, Subquery};
use super::{Parsed, fault};
use crate::numbers::plain;
use crate::plan::{At, Extension};

/// Beyond it, sums of a few times would overflow.
const AT_MAX_SECONDS: f64 = 9_223_372_036_854_775.0 / 16.0;

impl Parser<'_> {
    /// An expression without operators, with what follows selectors.
    pub(super) fn operand(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        loop {
            let token = self.peek();
            if token.kind == Kind::LeftBracket {
                expr = self.bracket(expr)?;
            } else if token.is_keyword("offset") {
                self.next();
                let length = self.offset_length()?;
                self.shift(&mut expr, "offset", "offset", |shift| {
                    shift.offset.replace(length).is_some_and(|before| !before.is_zero())
                })?;
            } else if token.is_operator("@") {
                self.next();
                self.at_modifier(&mut expr)?;
            } else if token.is_keyword("anchored") {
                self.next();
                extend(&mut expr, Extension::Anchored, "anchored")?;
            } else if token.is_keyword("smoothed") {
                self.next();
                extend(&mut expr, Extension::Smoothed, "smoothed")?;
            } else {
                return Ok(expr);
            }
        }
    }

    /// A range or a subquery.
    fn bracket(&mut self, expr: Expr) -> Parsed<Expr> {
        let bracket = self.next().start;
        let range =
            self.positive_length("subquery or range selector", "number, duration, step(), or range()")?;
        if self.accept(&Kind::Colon) {
            let step = match self.peek().kind {
                Kind::RightBracket => None,
                _ => Some(
                    self.positive_length("subquery selector", "number, duration, step(), range(), or \"]\"")?,
                ),
            };
            self.expect(&Kind::RightBracket, "subquery selector", "\"]\"")?;
            // Rejected here already: since this is a loop, ranges around ranges could nest without limit.
            if matches!(expr.kind, ExprKind::Range { .. } | ExprKind::Subquery(_)) {
                let text = "subquery is only allowed on instant vector, got matrix instead";
                return fault(expr.span.start, text);
            }
            let span = Span { start: expr.span.start, end: self.closed_at() };
            let subquery = Subquery { expr, range, step, shift: Shift::default() };
            return Ok(Expr { kind: ExprKind::Subquery(Box::new(subquery)), span });
        }
        self.expect(&Kind::RightBracket, "subquery or range", "\":\" or \"]\"")?;
        let span = Span { start: expr.span.start, end: self.closed_at() };
        let ExprKind::Vector(selector) = expr.kind else {
            return fault(bracket, "ranges only allowed for vector selectors");
        };
        if selector.shift.offset.as_ref().is_some_and(|offset| !offset.is_zero()) {
            return fault(bracket, "no offset modifiers allowed before range");
        }
        if selector.shift.at.is_some() {
            return fault(bracket, "no @ modifiers allowed before range");
        }
        Ok(Expr { kind: ExprKind::Range { selector, range }, span })
    }

    fn at_modifier(&mut self, expr: &mut Expr) -> Parsed<()> {
        let at = if let Kind::Time(name @ ("start" | "end")) = self.peek().kind {
            self.next();
            self.expect(&Kind::LeftParen, "@", "timestamp")?;
            self.expect(&Kind::RightParen, "@", "timestamp")?;
            if name == "start" { At::Start } else { At::End }
        } else {
            let seconds = self.signed_number("@", "timestamp")?;
            if !seconds.is_finite() || seconds.abs() >= AT_MAX_SECONDS {
                let printed = if seconds.is_finite() { format!("{seconds:.6}") } else { plain(seconds) };
                let text = format!("timestamp out of bounds for @ modifier: {printed}");
                return fault(expr.span.start, text);
            }
            At::Time((seconds * 1000.0).round() as i64)
        };
        self.shift(expr, "@", "@ <timestamp>", |shift| shift.at.replace(at).is_some())
    }

    /// Shifts what precedes a modifier. `set` answers whether it was set before.
    fn shift(
        &self,
        expr: &mut Expr,
        modifier: &str,
        name: &str,
        set: impl FnOnce(&mut Shift) -> bool,
    ) -> Parsed<()> {
        let start = expr.span.start;
        let Some(shift) = shift_of(expr) else {
            return fault(
                start,
                format!(
                    "{modifier} modifier must be preceded by an instant vector selector or range vector selector or a subquery"
                ),
            );
        };
        if set(shift) {
            return fault(start, format!("{name} may not be set multiple times"));
        }
        expr.span.end = self.closed_at();
        Ok(())
    }
}

fn shift_of(expr: &mut Expr) -> Option<&mut Shift> {
    match &mut expr.kind {
        ExprKind::Vector(selector) | ExprKind::Range { selector, .. } => Some(&mut selector.shift),
        ExprKind::Subquery(subquery) => Some(&mut subquery.shift),
        _ => None,
    }
}

fn extend(expr: &mut Expr, extension: Extension, name: &str) -> Parsed<()> {
    match &mut expr.kind {
        ExprKind::Vector(selector) | ExprKind::Range { selector, .. } => {
            if selector.extension.is_some_and(|known| known != extension) {
                return fault(expr.span.start, "anchored and smoothed modifiers cannot be used together");
            }
            selector.extension = Some(extension);
            Ok(())
        }
        ExprKind::Subquery(_) => {
            fault(expr.span.start, format!("{name} modifier is not supported for subqueries"))
        }
        _ => fault(expr.span.start, format!("{name} modifier not implemented")),
    }
}
