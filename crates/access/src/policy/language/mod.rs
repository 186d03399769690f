//! oslo.policy's language: named rules of checks on a caller and a target.
//!
//! [`compile`] compiles texts to one flat program, which [`Program::allows`] runs. Only `rule:` recurses, to
//! a limited depth, and each rule is evaluated at most once per query, so a query takes time linear in the
//! size of the rules. Callers and targets are abstract: [`Facts`].
//!
//! oslo.policy logs an invalid rule and denies, or fails at the first query. Here invalid rules, `http:`
//! checks (calls to an external server) and cycles of `rule:` are refused at compile time.

mod check;
mod parse;
mod program;
mod template;

pub use program::{Facts, Program, Refused, Source, compile};

/// The maximum length of a rule.
pub const TEXT_BYTES_MAX: usize = 16_384;
/// The maximum nesting of parentheses, `not`s and chains of `rule:`.
pub const DEPTH_MAX: usize = 64;
/// The maximum number of rules.
pub const RULES_MAX: usize = 512;
