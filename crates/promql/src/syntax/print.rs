//! Prints a tree on one line, or in the layout of Prometheus' formatter.

use std::fmt::{self, Write};

use super::literal::duration_text;
use super::tree::{Aggregate, Binary, Expr, ExprKind, Length, LengthKind, Selector, Shift};
use crate::labels::{METRIC_NAME, is_plain_name};
use crate::numbers::{general, plain};
use crate::plan::{At, Cardinality, Extension, LengthOp, Matcher};
use crate::quoted::quoted;

/// Longer expressions are split into several lines.
const LINE_BYTES_MAX: usize = 100;

/// A line with a length limit.
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LINE_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// An expression in the formatter's layout; `level` is its indentation, 0 for the continuation of a line.
pub(super) fn pretty(expr: &Expr, level: usize) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = lay_out(expr, level, &mut out);
    out
}

fn lay_out(expr: &Expr, level: usize, out: &mut String) -> fmt::Result {
    let indent = "  ".repeat(level);
    let mut line = Line(String::new());
    let fits = write_line(expr, &mut line).is_ok();
    // Prometheus does not indent subqueries that fit.
    if fits && matches!(expr.kind, ExprKind::Subquery(_)) {
        return out.write_str(&line.0);
    }
    if fits {
        return write!(out, "{indent}{}", line.0);
    }
    match &expr.kind {
        ExprKind::Paren(inner) => {
            writeln!(out, "{indent}(")?;
            lay_out(inner, level + 1, out)?;
            write!(out, "\n{indent})")
        }
        ExprKind::Subquery(subquery) => {
            lay_out(&subquery.expr, level, out)?;
            out.write_str(&brackets(&subquery.range, subquery.step.as_ref(), &subquery.shift))
        }
        ExprKind::Unary { minus, expr } => {
            write!(out, "{indent}{}{}", sign(*minus), pretty(expr, level).trim())
        }
        ExprKind::Binary(binary) => {
            lay_out(&binary.left, level + 1, out)?;
            writeln!(out, "\n{indent}{}", operator(binary))?;
            lay_out(&binary.right, level + 1, out)
        }
        ExprKind::Aggregate(aggregate) => {
            writeln!(out, "{indent}{}(", aggregation(aggregate))?;
            if let Some(param) = &aggregate.param {
                lay_out(param, level + 1, out)?;
                out.write_str(",\n")?;
            }
            lay_out(&aggregate.expr, level + 1, out)?;
            write!(out, "\n{indent})")
        }
        ExprKind::Call { function, args } => {
            writeln!(out, "{indent}{}(", function.name)?;
            for (place, arg) in args.iter().enumerate() {
                out.write_str(if place > 0 { ",\n" } else { "" })?;
                lay_out(arg, level + 1, out)?;
            }
            write!(out, "\n{indent})")
        }
        ExprKind::Number { .. } | ExprKind::Text(_) | ExprKind::Vector(_) | ExprKind::Range { .. } => {
            out.write_str(&indent)?;
            write_line(expr, out)
        }
    }
}

/// An expression on one line.
fn write_line(expr: &Expr, out: &mut impl Write) -> fmt::Result {
    match &expr.kind {
        ExprKind::Number { value, is_duration: true } => {
            out.write_str(&duration_text((value * 1e9) as i64 / 1_000_000))
        }
        ExprKind::Number { value, is_duration: false } => out.write_str(&plain(*value)),
        ExprKind::Text(text) => out.write_str(&literal(text)),
        ExprKind::Paren(inner) => {
            out.write_char('(')?;
            write_line(inner, out)?;
            out.write_char(')')
        }
        ExprKind::Vector(selector) => {
            let (at, offset) = (at(selector.shift.at), offset(&selector.shift));
            write!(out, "{}{at}{}{offset}", selected(selector), extension(selector))
        }
        ExprKind::Range { selector, range } => {
            let (at, offset) = (at(selector.shift.at), offset(&selector.shift));
            write!(out, "{}[{}]{}{at}{offset}", selected(selector), length(range), extension(selector))
        }
        ExprKind::Subquery(subquery) => {
            write_line(&subquery.expr, out)?;
            out.write_str(&brackets(&subquery.range, subquery.step.as_ref(), &subquery.shift))
        }
        ExprKind::Unary { minus, expr } => {
            out.write_str(sign(*minus))?;
            write_line(expr, out)
        }
        ExprKind::Binary(binary) => {
            write_line(&binary.left, out)?;
            write!(out, " {} ", operator(binary))?;
            write_line(&binary.right, out)
        }
        ExprKind::Aggregate(aggregate) => {
            write!(out, "{}(", aggregation(aggregate))?;
            if let Some(param) = &aggregate.param {
                write_line(param, out)?;
                out.write_str(", ")?;
            }
            write_line(&aggregate.expr, out)?;
            out.write_char(')')
        }
        ExprKind::Call { function, args } => {
            write!(out, "{}(", function.name)?;
            for (place, arg) in args.iter().enumerate() {
                out.write_str(if place > 0 { ", " } else { "" })?;
                write_line(arg, out)?;
            }
            out.write_char(')')
        }
    }
}

fn sign(minus: bool) -> &'static str {
    if minus { "-" } else { "+" }
}

fn selected(selector: &Selector) -> String {
    let name = selector.name.clone().unwrap_or_default();
    let mut texts: Vec<String> = selector.matchers.iter().map(matcher).collect();
    if texts.is_empty() {
        return name;
    }
    texts.sort();
    format!("{name}{{{}}}", texts.join(","))
}

fn matcher(matcher: &Matcher) -> String {
    format!("{}{}{}", label(&matcher.name), matcher.operator(), literal(&matcher.value))
}

fn label(name: &str) -> String {
    if name == METRIC_NAME || is_plain_name(name) { name.to_owned() } else { literal(name) }
}

/// A text in quotes. The character that stands for invalid bytes is valid only as an escape.
fn literal(text: &str) -> String {
    quoted(text).replace(char::REPLACEMENT_CHARACTER, "\\ufffd")
}

fn labels(names: &[String]) -> String {
    // The only name that needs quotes as a label.
    let text = |name: &String| if name == "without" { quoted(name) } else { label(name) };
    names.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn at(at: Option<At>) -> String {
    match at {
        None => String::new(),
        Some(At::Start) => " @ start()".to_owned(),
        Some(At::End) => " @ end()".to_owned(),
        Some(At::Time(time)) => format!(" @ {:.3}", time as f64 / 1000.0),
    }
}

fn extension(selector: &Selector) -> &'static str {
    match selector.extension {
        None => "",
        Some(Extension::Anchored) => " anchored",
        Some(Extension::Smoothed) => " smoothed",
    }
}

fn offset(shift: &Shift) -> String {
    match &shift.offset {
        Some(offset) if offset.literal_seconds() != Some(0.0) => format!(" offset {}", length(offset)),
        _ => String::new(),
    }
}

fn brackets(range: &Length, step: Option<&Length>, shift: &Shift) -> String {
    let step = step.map(length).unwrap_or_default();
    format!("[{}:{step}]{}{}", length(range), at(shift.at), offset(shift))
}

/// A literal that is a whole duration is printed with units.
fn length(length: &Length) -> String {
    match length.kind {
        // Below a millisecond there is no unit.
        LengthKind::Seconds { value, .. } if length.literal_ms() == 0 => plain(value),
        LengthKind::Seconds { .. } => duration_text(length.literal_ms()),
        _ => arithmetic(length),
    }
}

fn arithmetic(length: &Length) -> String {
    let text = match &length.kind {
        LengthKind::Seconds { is_duration: true, .. } => duration_text(length.literal_ms()),
        LengthKind::Seconds { value, .. } => plain(*value),
        LengthKind::Step => "step()".to_owned(),
        LengthKind::Range => "range()".to_owned(),
        LengthKind::Unary { minus, length } => {
            format!("{}{}", if *minus { "-" } else { "" }, arithmetic(length))
        }
        LengthKind::Binary { op: op @ (LengthOp::MinOf | LengthOp::MaxOf), left, right } => {
            format!("{}({}, {})", op.name(), arithmetic(left), arithmetic(right))
        }
        LengthKind::Binary { op, left, right } => {
            format!("{} {} {}", arithmetic(left), op.name(), arithmetic(right))
        }
    };
    if length.wrapped { format!("({text})") } else { text }
}

/// An operator with its modifiers.
fn operator(binary: &Binary) -> String {
    let matching = &binary.matching;
    let mut texts = vec![binary.op.name().to_owned()];
    if binary.returns_bool {
        texts.push(" bool".to_owned());
    }
    let grouped = matching.cardinality != Cardinality::OneToOne;
    if !matching.labels.is_empty() || matching.on || grouped {
        let how = if matching.on { "on" } else { "ignoring" };
        texts.push(format!(" {how} ({})", labels(&matching.labels)));
    }
    if grouped {
        let side = if matching.cardinality == Cardinality::ManyToOne { "left" } else { "right" };
        texts.push(format!(" group_{side} ({})", labels(&matching.include)));
    }
    match (matching.fill_left, matching.fill_right) {
        (Some(left), Some(right)) if left == right => texts.push(format!(" fill ({})", general(left))),
        (left, right) => {
            texts.extend(left.map(|value| format!(" fill_left ({})", general(value))));
            texts.extend(right.map(|value| format!(" fill_right ({})", general(value))));
        }
    }
    texts.concat()
}

fn aggregation(aggregate: &Aggregate) -> String {
    let name = aggregate.op.name();
    match (aggregate.without, aggregate.grouping.is_empty()) {
        (true, _) => format!("{name} without ({}) ", labels(&aggregate.grouping)),
        (false, false) => format!("{name} by ({}) ", labels(&aggregate.grouping)),
        (false, true) => name.to_owned(),
    }
}
