//! The nodes of an expression.

use gnudi_model::Comparison;
use serde_json::Value;

use super::{functions::Function, methods::Method};

#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Constant(Value),
    Name(String),
    List(Vec<Tree>),
    /// A list, and the operand that `%` unpacks.
    Tuple(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    /// `f"..."`
    Pieces(Vec<Piece>),
    /// A number with a sign before it: 1 or -1.
    Signed(i64, Box<Tree>),
    Not(Box<Tree>),
    Arithmetic(Operator, Box<Tree>, Box<Tree>),
    /// `text % (one, other)`
    Percent(Box<Tree>, Vec<Tree>),
    /// `first < second <= third`
    Compare(Box<Tree>, Vec<(Relation, Tree)>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    /// `then if condition else otherwise`
    Choice {
        condition: Box<Tree>,
        then: Box<Tree>,
        otherwise: Box<Tree>,
    },
    Item(Box<Tree>, Box<Tree>),
    Slice(Box<Tree>, Option<Box<Tree>>, Option<Box<Tree>>),
    Call(Function, Vec<Tree>),
    Method(Box<Tree>, Method, Vec<Tree>),
    /// `item for names in over if conditions`
    Each {
        item: Box<Tree>,
        /// Several names unpack an item.
        names: Vec<String>,
        over: Box<Tree>,
        conditions: Vec<Tree>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text(String),
    /// A value, with its number of decimal places.
    Value(Tree, Option<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Compare(Comparison),
    In,
    NotIn,
    Is,
    IsNot,
}
