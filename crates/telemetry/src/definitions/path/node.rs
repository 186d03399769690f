//! The nodes of a compiled path.

use gnudi_model::Comparison;
use serde_json::Value;

use super::text::{Split, Substitution};
use crate::definitions::pattern::Pattern;

/// A step, or a combination of steps. Each maps one value to any number of values.
#[derive(Clone, Debug)]
pub enum PathNode {
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
    Sequence(Vec<PathNode>),
    /// `a..b`
    Descendants(Box<PathNode>, Box<PathNode>),
    /// `a|b`
    Union(Box<PathNode>, Box<PathNode>),
    /// `a where b`
    Where(Box<PathNode>, Box<PathNode>),
    /// `a & b`: parsed, but without meaning.
    Intersection,
    /// `[?...]`: all conditions must hold.
    Filter(Vec<Condition>),
    /// `` `sorted` `` and `[/a,\b]`: sort keys, each with whether it descends.
    Sorted(Vec<(PathNode, bool)>),
    /// `` `len` ``
    Length,
    Substitution(Box<Substitution>),
    Split(Split),
    Operation(Box<Operand>, Arithmetic, Box<Operand>),
}

#[derive(Clone, Debug)]
pub enum Operand {
    Path(PathNode),
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
}

/// A condition of a filter: a match exists, or a match passes the comparison.
#[derive(Clone, Debug)]
pub struct Condition {
    pub target: PathNode,
    pub test: Option<Test>,
}

#[derive(Clone, Debug)]
pub enum Test {
    Compare(Comparison, Value),
    /// `~`: a regular expression, anchored at the beginning.
    Match(Box<Pattern>),
    /// `~` with a number, which is not an expression.
    MatchNumber(Value),
}

impl PathNode {
    /// `left.right`, flattened into one sequence.
    pub fn then(self, right: PathNode) -> PathNode {
        let mut steps = match self {
            PathNode::Sequence(steps) => steps,
            node => vec![node],
        };
        match right {
            PathNode::Sequence(more) => steps.extend(more),
            node => steps.push(node),
        }
        PathNode::Sequence(steps)
    }

    /// Whether evaluation needs parent links: for `` `parent` ``, and for `$` anywhere but at the beginning.
    pub fn climbs(&self, at_start: bool) -> bool {
        match self {
            PathNode::Root => !at_start,
            PathNode::Parent => true,
            PathNode::Sequence(steps) => {
                steps.iter().enumerate().any(|(index, step)| step.climbs(at_start && index == 0))
            }
            PathNode::Descendants(left, right) | PathNode::Where(left, right) => {
                left.climbs(at_start) || right.climbs(false)
            }
            PathNode::Union(left, right) => left.climbs(at_start) || right.climbs(at_start),
            // Filters and sort keys treat each value as a document of its own.
            PathNode::Filter(conditions) => conditions.iter().any(|condition| condition.target.climbs(true)),
            PathNode::Sorted(orders) => orders.iter().any(|(node, _)| node.climbs(true)),
            PathNode::Operation(left, _, right) => {
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
