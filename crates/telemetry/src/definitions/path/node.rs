//! What a path consists of once it is compiled.

use serde_json::Value;

use super::text::{Split, Substitution};
use crate::definitions::pattern::Pattern;

/// A step, or steps that belong together; each makes any number of values of one.
#[derive(Clone, Debug)]
pub enum Node {
    /// `$`
    Root,
    /// `@`
    This,
    /// `` `parent` ``
    Parent,
    /// `a`, or `a,b`
    Fields(Vec<String>),
    /// `*`
    AllFields,
    Index(i64),
    /// `[a:b]` and `[*]`
    Slice(Option<i64>, Option<i64>),
    /// `a.b.c`
    Sequence(Vec<Node>),
    /// `a..b`
    Descendants(Box<Node>, Box<Node>),
    /// `a|b`
    Union(Box<Node>, Box<Node>),
    /// `a where b`
    Where(Box<Node>, Box<Node>),
    /// `a & b`, which has a syntax and no meaning.
    Intersection,
    /// `[?...]`: all of them must hold.
    Filter(Vec<Condition>),
    /// `` `sorted` `` and `[/a,\b]`: by each, and whether descending.
    Sorted(Vec<(Node, bool)>),
    /// `` `len` ``
    Length,
    Substitution(Box<Substitution>),
    Split(Split),
    Operation(Box<Operand>, Arithmetic, Box<Operand>),
}

#[derive(Clone, Debug)]
pub enum Operand {
    Path(Node),
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
}

/// One condition of a filter: that there is something, or that something of it compares so.
#[derive(Clone, Debug)]
pub struct Condition {
    pub target: Node,
    pub test: Option<Test>,
}

#[derive(Clone, Debug)]
pub enum Test {
    Compare(Comparison, Value),
    /// `~`: a regular expression that must match at the beginning.
    Match(Box<Pattern>),
    /// `~` with a number, which is no expression.
    MatchNumber(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Node {
    /// `left.right`, in one row.
    pub fn then(self, right: Node) -> Node {
        let mut steps = match self {
            Node::Sequence(steps) => steps,
            node => vec![node],
        };
        match right {
            Node::Sequence(more) => steps.extend(more),
            node => steps.push(node),
        }
        Node::Sequence(steps)
    }

    /// Whether values must know what they are in: `` `parent` `` asks for it, and `$` anywhere but at the beginning.
    pub fn climbs(&self, at_start: bool) -> bool {
        match self {
            Node::Root => !at_start,
            Node::Parent => true,
            Node::Sequence(steps) => {
                steps.iter().enumerate().any(|(index, step)| step.climbs(at_start && index == 0))
            }
            Node::Descendants(left, right) | Node::Where(left, right) => {
                left.climbs(at_start) || right.climbs(false)
            }
            Node::Union(left, right) => left.climbs(at_start) || right.climbs(at_start),
            // A filter and an order look at each value as if it stood for itself.
            Node::Filter(conditions) => conditions.iter().any(|condition| condition.target.climbs(true)),
            Node::Sorted(orders) => orders.iter().any(|(node, _)| node.climbs(true)),
            Node::Operation(left, _, right) => {
                let climbs = |operand: &Operand| match operand {
                    Operand::Path(node) => node.climbs(at_start),
                    Operand::Constant(_) => false,
                };
                climbs(left) || climbs(right)
            }
            _ => false,
        }
    }
}
