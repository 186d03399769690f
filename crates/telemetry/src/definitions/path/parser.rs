//! The grammar of paths. Ambiguities are resolved as in the parse tables of jsonpath-rw-ext.
//!
//! From loose to tight: arithmetic (one level, right associative), `..`, `.`, `|`, `&`, `where`. An alternative binds
//! tighter than a dot: `a.b|c.d` is `a.(b|c).d`. Brackets apply to everything back to the last arithmetic sign:
//! `a|b[0]` is `(a|b)[0]`.

use gnudi_model::Comparison;
use serde_json::Value;

use super::{
    lexer::PathToken,
    node::{Arithmetic, Condition, Operand, PathNode, Test},
    text::{Split, Substitution},
};
use crate::definitions::{DefinitionError, pattern::Pattern};

/// Maximum nesting of parentheses and brackets.
const DEPTH_MAX: usize = 64;

/// Maximum number of nodes in a path.
const NODES_MAX: usize = 500;

type Result<T> = std::result::Result<T, DefinitionError>;

/// Precedence of the binary operators that are not arithmetic.
const DESCENDANTS: u8 = 1;
const CHILD: u8 = 2;
const UNION: u8 = 3;
const INTERSECTION: u8 = 4;
const WHERE: u8 = 5;

/// A condition or a path: both may begin at the same place.
enum Item {
    Path(PathNode),
    Conditions(Vec<Condition>),
}

pub fn parse(tokens: &[PathToken]) -> Result<PathNode> {
    let mut parser = Parser { tokens, at: 0, depth: 0, nodes: 0 };
    let node = parser.sum(None)?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    tokens: &'a [PathToken],
    at: usize,
    depth: usize,
    nodes: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a PathToken> {
        self.tokens.get(self.at)
    }

    fn is_sign(&self, sign: char) -> bool {
        self.peek() == Some(&PathToken::Sign(sign))
    }

    fn skip_sign(&mut self, sign: char) -> bool {
        let is_sign = self.is_sign(sign);
        self.at += usize::from(is_sign);
        is_sign
    }

    fn expect_sign(&mut self, sign: char) -> Result<()> {
        if self.skip_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> DefinitionError {
        match self.peek() {
            Some(token) => DefinitionError(format!("word {}: unexpected {token:?}", self.at + 1)),
            None => DefinitionError("it ends too early".to_owned()),
        }
    }

    fn count(&mut self, node: PathNode) -> Result<PathNode> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(DefinitionError(format!("more than {NODES_MAX} steps")));
        }
        Ok(node)
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(DefinitionError(format!("more than {DEPTH_MAX} levels")));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn arithmetic(&mut self) -> Option<Arithmetic> {
        let arithmetic = match self.peek()? {
            PathToken::Sign('+') => Arithmetic::Add,
            PathToken::Sign('-') => Arithmetic::Subtract,
            PathToken::Sign('*') => Arithmetic::Multiply,
            _ => return None,
        };
        self.at += 1;
        Some(arithmetic)
    }

    /// A whole path. `first` is its first operand, if already read.
    fn sum(&mut self, first: Option<PathNode>) -> Result<PathNode> {
        let mut left = match first {
            Some(first) => self.rest(first, 0)?,
            None => self.operand(0)?,
        };
        while let Some(operator) = self.arithmetic() {
            let (node, is_closed) = self.operation(operand_of(left), operator, false)?;
            if !is_closed {
                return Ok(node);
            }
            // A number ends the operation: what follows applies to the result.
            left = self.rest(node, 0)?;
        }
        Ok(left)
    }

    /// The right side of an operation, and whether it is a bare number. After a number, only a number of the same kind
    /// may be bare.
    fn operation(
        &mut self,
        left: Operand,
        operator: Arithmetic,
        after_number: bool,
    ) -> Result<(PathNode, bool)> {
        let next = self.tokens.get(self.at + 1);
        if let Some(constant) = self.constant()
            && !matches!(next, Some(PathToken::Sign('+' | '-' | '*')))
        {
            if after_number
                && let Operand::Constant(left) = &left
                && left.is_f64() != constant.is_f64()
            {
                return Err(self.unexpected());
            }
            self.at += 1;
            let node = PathNode::Operation(Box::new(left), operator, Box::new(Operand::Constant(constant)));
            return Ok((self.count(node)?, true));
        }
        let right = operand_of(self.deeper(|parser| parser.sum(None))?);
        let node = self.count(PathNode::Operation(Box::new(left), operator, Box::new(right)))?;
        Ok((node, false))
    }

    /// The number that is next, if it is one.
    fn constant(&self) -> Option<Value> {
        match self.peek()? {
            PathToken::Integer(number) => Some(Value::from(*number)),
            PathToken::Float(number) => Some(Value::from(*number)),
            _ => None,
        }
    }

    fn operand(&mut self, tightness: u8) -> Result<PathNode> {
        let first = self.primary()?;
        self.rest(first, tightness)
    }

    /// Parses operators that bind at least as tightly as `tightness`, with `left` as the first operand.
    fn rest(&mut self, mut left: PathNode, tightness: u8) -> Result<PathNode> {
        loop {
            let operator = match self.peek() {
                Some(PathToken::DoubleDot) => DESCENDANTS,
                Some(PathToken::Sign('.')) => CHILD,
                Some(PathToken::Sign('|')) => UNION,
                Some(PathToken::Sign('&')) => INTERSECTION,
                Some(PathToken::Where) => WHERE,
                Some(PathToken::Sign('[')) if tightness == 0 => {
                    self.at += 1;
                    let right = self.deeper(|parser| parser.brackets(true))?;
                    left = left.then(right);
                    continue;
                }
                _ => return Ok(left),
            };
            if operator < tightness {
                return Ok(left);
            }
            self.at += 1;
            let right = self.deeper(|parser| parser.operand(operator + 1))?;
            left = self.count(match operator {
                DESCENDANTS => PathNode::Descendants(Box::new(left), Box::new(right)),
                CHILD => left.then(right),
                UNION => PathNode::Union(Box::new(left), Box::new(right)),
                INTERSECTION => PathNode::Intersection,
                _ => PathNode::Where(Box::new(left), Box::new(right)),
            })?;
        }
    }

    fn primary(&mut self) -> Result<PathNode> {
        let token = self.peek().ok_or_else(|| self.unexpected())?;
        let node = match token {
            PathToken::Name(_) => PathNode::Fields(self.names()?),
            PathToken::Integer(_) | PathToken::Float(_) => return self.number(),
            PathToken::Operator(text) => {
                self.at += 1;
                named(text)?
            }
            PathToken::Sign(sign @ ('*' | '$' | '@')) => {
                self.at += 1;
                match sign {
                    '*' => PathNode::AllFields,
                    '$' => PathNode::Root,
                    _ => PathNode::This,
                }
            }
            PathToken::Sign('[') => {
                self.at += 1;
                self.deeper(|parser| parser.brackets(false))?
            }
            PathToken::Sign('(') => {
                self.at += 1;
                let inner = self.deeper(|parser| parser.sum(None))?;
                self.expect_sign(')')?;
                inner
            }
            _ => return Err(self.unexpected()),
        };
        self.count(fields(node))
    }

    /// An operation that begins with a number; it extends as far as possible.
    fn number(&mut self) -> Result<PathNode> {
        let constant = self.constant().ok_or_else(|| self.unexpected())?;
        self.at += 1;
        let operator = self.arithmetic().ok_or_else(|| self.unexpected())?;
        Ok(self.operation(Operand::Constant(constant), operator, true)?.0)
    }

    /// `a,b,c`
    fn names(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            let Some(PathToken::Name(name)) = self.peek() else { return Err(self.unexpected()) };
            names.push(name.clone());
            self.at += 1;
            if !self.skip_sign(',') {
                return Ok(names);
            }
        }
    }

    /// The content of brackets and the closing bracket. Filters and sort keys need an operand before them.
    fn brackets(&mut self, is_after: bool) -> Result<PathNode> {
        let node = match self.peek() {
            Some(PathToken::Name(_)) => fields(PathNode::Fields(self.names()?)),
            Some(PathToken::Sign('*')) => {
                self.at += 1;
                PathNode::Slice(None, None)
            }
            Some(PathToken::Integer(_) | PathToken::Sign(':')) => {
                let start = self.integer();
                match (start, self.skip_sign(':')) {
                    (Some(index), false) => PathNode::Index(index),
                    (None, false) => return Err(self.unexpected()),
                    (start, true) => PathNode::Slice(start, self.integer()),
                }
            }
            Some(PathToken::Sign('?')) if is_after => {
                self.at += 1;
                PathNode::Filter(conditions_of(self.conditions()?))
            }
            Some(PathToken::Sort { .. }) if is_after => {
                let mut orders = Vec::new();
                while let Some(PathToken::Sort { descending }) = self.peek() {
                    self.at += 1;
                    orders.push((self.sum(None)?, *descending));
                }
                PathNode::Sorted(orders)
            }
            _ => return Err(self.unexpected()),
        };
        self.expect_sign(']')?;
        self.count(node)
    }

    fn integer(&mut self) -> Option<i64> {
        let Some(PathToken::Integer(number)) = self.peek() else { return None };
        self.at += 1;
        Some(*number)
    }

    /// Conditions joined by `&`; a single path is returned as such.
    fn conditions(&mut self) -> Result<Item> {
        let first = self.condition()?;
        if !self.is_sign('&') {
            return Ok(first);
        }
        let mut all = conditions_of(first);
        while self.skip_sign('&') {
            let next = self.condition()?;
            all.extend(conditions_of(next));
        }
        Ok(Item::Conditions(all))
    }

    fn condition(&mut self) -> Result<Item> {
        let target = if self.skip_sign('(') {
            let inner = self.deeper(Self::conditions)?;
            self.expect_sign(')')?;
            match inner {
                Item::Conditions(_) => return Ok(inner),
                Item::Path(node) => self.sum(Some(node))?,
            }
        } else {
            self.sum(None)?
        };
        let Some(PathToken::Comparison(sign)) = self.peek() else { return Ok(Item::Path(target)) };
        self.at += 1;
        let constant = match self.peek() {
            Some(PathToken::Name(text)) => Value::from(text.as_str()),
            Some(PathToken::Bool(value)) => Value::from(*value),
            _ => self.constant().ok_or_else(|| self.unexpected())?,
        };
        self.at += 1;
        Ok(Item::Conditions(vec![Condition { target, test: Some(test(sign, constant)?) }]))
    }
}

fn conditions_of(item: Item) -> Vec<Condition> {
    match item {
        Item::Conditions(conditions) => conditions,
        Item::Path(target) => vec![Condition { target, test: None }],
    }
}

fn test(sign: &str, constant: Value) -> Result<Test> {
    match (Comparison::named(sign), constant.as_str()) {
        (Some(comparison), _) => Ok(Test::Compare(comparison, constant)),
        // `~`
        (None, Some(pattern)) => Ok(Test::Match(Box::new(Pattern::parse(pattern)?))),
        (None, None) => Ok(Test::MatchNumber(constant)),
    }
}

fn fields(node: PathNode) -> PathNode {
    match node {
        PathNode::Fields(names) if names == ["*"] => PathNode::AllFields,
        node => node,
    }
}

/// A single name as an operand is a text: a field needs a dot.
fn operand_of(node: PathNode) -> Operand {
    match node {
        PathNode::AllFields => Operand::Constant(Value::from("*")),
        PathNode::Fields(mut names) if names.len() == 1 => Operand::Constant(Value::from(names.remove(0))),
        node => Operand::Path(node),
    }
}

fn named(text: &str) -> Result<PathNode> {
    match text {
        "this" => Ok(PathNode::This),
        "parent" => Ok(PathNode::Parent),
        "len" => Ok(PathNode::Length),
        "sorted" => Ok(PathNode::Sorted(Vec::new())),
        _ if text.starts_with("split(") => Split::parse(text).map(PathNode::Split),
        _ if text.starts_with("sub(") => {
            Substitution::parse(text).map(|substitution| PathNode::Substitution(Box::new(substitution)))
        }
        _ => Err(DefinitionError(format!("an unknown operator `{text}`"))),
    }
}
