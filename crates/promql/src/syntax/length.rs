//! Arithmetic in durations. Brackets accept any expression; `offset` only a number, a call, or an expression in
//! parentheses.

use super::parser::Parser;
use super::token::{Kind, Token};
use super::tree::{Length, LengthKind, Span};
use super::{Parsed, fault, literal};
use crate::plan::LengthOp;

/// Seconds of the longest duration: 64 bits of nanoseconds.
const SECONDS_MAX: f64 = 9_223_372_036.854_776;
/// Binds tighter than products.
const UNARY_BINDS: u8 = 2;

/// The operator, its precedence, and the precedence of its right operand.
fn operator(kind: &Kind) -> Option<(LengthOp, u8, u8)> {
    let Kind::Operator(name) = kind else { return None };
    let op = LengthOp::by_name(name)?;
    match op {
        LengthOp::Add | LengthOp::Sub => Some((op, 1, 2)),
        LengthOp::Mul | LengthOp::Div | LengthOp::Mod => Some((op, 2, 3)),
        LengthOp::Pow => Some((op, 3, 3)),
        LengthOp::MinOf | LengthOp::MaxOf => None,
    }
}

fn unary(minus: bool, start: usize, length: Length) -> Length {
    let span = Span { start, end: length.span.end };
    match length.kind {
        LengthKind::Seconds { value, is_duration } => {
            let value = if minus { -value } else { value };
            Length { kind: LengthKind::Seconds { value, is_duration }, span, wrapped: false }
        }
        _ if minus => {
            Length { kind: LengthKind::Unary { minus, length: Box::new(length) }, span, wrapped: false }
        }
        _ => length,
    }
}

impl Parser<'_> {
    /// A range or a step within brackets.
    pub(super) fn positive_length(
        &mut self,
        context: &'static str,
        expected: &'static str,
    ) -> Parsed<Length> {
        self.length_expected = (context, expected);
        let length = self.length(1)?;
        self.check_next()?;
        if length.literal_seconds().is_some_and(|seconds| seconds <= 0.0) {
            return fault(length.span.start, "duration must be greater than 0");
        }
        Ok(length)
    }

    /// What follows `offset`.
    pub(super) fn offset_length(&mut self) -> Parsed<Length> {
        self.length_expected = ("offset", "number, duration, step(), or range()");
        let start = self.peek().start;
        match self.sign() {
            Some(minus) => {
                if self.peek().kind == Kind::Number && number(self.peek())?.abs() > SECONDS_MAX {
                    // Prometheus reports it at the sign here, and at the number elsewhere.
                    return fault(start, "duration out of range");
                }
                let operand = self.length_operand()?;
                if !minus && !operand.wrapped && operand.literal_seconds().is_none() {
                    // Here, Prometheus' tree keeps the sign of a call.
                    let span = Span { start, end: operand.span.end };
                    let kind = LengthKind::Unary { minus, length: Box::new(operand) };
                    return Ok(Length { kind, span, wrapped: false });
                }
                Ok(unary(minus, start, operand))
            }
            // Arithmetic goes on behind parentheses.
            None if self.peek().kind == Kind::LeftParen => self.length(1),
            None => self.length_operand(),
        }
    }

    /// The next token, which must be of this kind within a duration.
    fn expect_of_length(&mut self, kind: &Kind) -> Parsed<Token<'_>> {
        let (context, expected) = self.length_expected;
        self.expect(kind, context, expected)
    }

    /// Consumes a sign, if there is one: `Some(true)` for a minus.
    pub(super) fn sign(&mut self) -> Option<bool> {
        let minus = self.peek().is_operator("-");
        (minus || self.peek().is_operator("+")).then(|| {
            self.next();
            minus
        })
    }

    fn length(&mut self, binds: u8) -> Parsed<Length> {
        self.enter()?;
        let start = self.peek().start;
        let mut left = match self.sign() {
            Some(minus) => {
                let operand = self.length(UNARY_BINDS + 1)?;
                unary(minus, start, operand)
            }
            None => self.length_operand()?,
        };
        while let Some((op, own, of_right)) = operator(&self.peek().kind)
            && own >= binds
        {
            let op_at = self.next().start;
            self.count_operator()?;
            let right = self.length(of_right)?;
            if right.literal_seconds() == Some(0.0) && matches!(op, LengthOp::Div | LengthOp::Mod) {
                self.check_next()?;
                let what = if op == LengthOp::Div { "division" } else { "modulo" };
                return fault(op_at, format!("{what} by zero"));
            }
            let span = Span { start: left.span.start, end: right.span.end };
            let kind = LengthKind::Binary { op, left: Box::new(left), right: Box::new(right) };
            left = Length { kind, span, wrapped: false };
        }
        self.leave();
        Ok(left)
    }

    fn length_operand(&mut self) -> Parsed<Length> {
        let token = self.next();
        let start = token.start;
        let whole = |end| Span { start, end };
        match token.kind {
            Kind::Number | Kind::Duration => {
                let is_duration = token.kind == Kind::Duration;
                let value = number(&token)?;
                if value.abs() > SECONDS_MAX {
                    return fault(start, "duration out of range");
                }
                let kind = LengthKind::Seconds { value, is_duration };
                Ok(Length { kind, span: whole(token.end()), wrapped: false })
            }
            Kind::Time(name @ ("step" | "range")) => {
                self.expect_of_length(&Kind::LeftParen)?;
                let end = self.expect_of_length(&Kind::RightParen)?.end();
                let kind = if name == "step" { LengthKind::Step } else { LengthKind::Range };
                Ok(Length { kind, span: whole(end), wrapped: false })
            }
            Kind::Time(name @ ("min_of" | "max_of")) => {
                self.expect_of_length(&Kind::LeftParen)?;
                let left = Box::new(self.length(1)?);
                self.expect_of_length(&Kind::Comma)?;
                let right = Box::new(self.length(1)?);
                let end = self.expect_of_length(&Kind::RightParen)?.end();
                let op = if name == "min_of" { LengthOp::MinOf } else { LengthOp::MaxOf };
                Ok(Length { kind: LengthKind::Binary { op, left, right }, span: whole(end), wrapped: false })
            }
            Kind::LeftParen => {
                let inner = self.length(1)?;
                self.expect_of_length(&Kind::RightParen)?;
                if inner.literal_seconds().is_some() {
                    // In Prometheus' errors it ends before the parenthesis.
                    let span = whole(inner.span.end);
                    let kind = LengthKind::Unary { minus: false, length: Box::new(inner) };
                    return Ok(Length { kind, span, wrapped: true });
                }
                Ok(Length { wrapped: true, ..inner })
            }
            _ => {
                self.back();
                let (context, expected) = self.length_expected;
                Err(self.unexpected(context, expected))
            }
        }
    }
}

/// A number, or the seconds of a duration.
pub(super) fn number(token: &Token<'_>) -> Parsed<f64> {
    let number = match token.kind {
        Kind::Duration => literal::duration_ms(token.text).map(|milliseconds| milliseconds as f64 / 1000.0),
        _ => literal::number(token.text),
    };
    number.or_else(|text| fault(token.start, text))
}
