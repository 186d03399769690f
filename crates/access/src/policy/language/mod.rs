//! The language of policies, as oslo.policy has it: rules by name, made of checks of a caller and of what is asked for.
//!
//! [`compile`] reads texts into one flat program, which [`Program::allows`] runs: without recursion but for `rule:`, whose
//! depth is limited, and each rule at most once for each question, so that an answer takes time linear in the size of the
//! rules. What a rule is asked about is [`Facts`]; what callers and things are is not known here.
//!
//! Where oslo.policy writes a line into the log and denies, or fails at the first question, a text is refused here: what is
//! not understood, `http:` (which would ask another server), cycles of `rule:`.

mod check;
mod parse;
mod program;
mod template;

pub use program::{Facts, Program, Refused, Source, compile};

/// How long the text of a rule may be.
pub const TEXT_BYTES_MAX: usize = 16_384;
/// How deep parentheses, `not`s and chains of `rule:` may go.
pub const DEPTH_MAX: usize = 64;
/// How many rules there may be.
pub const RULES_MAX: usize = 512;
