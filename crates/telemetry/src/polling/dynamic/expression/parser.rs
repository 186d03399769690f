//! Parses tokens into a tree, with the precedence of Python's operators.

use gnudi_model::Comparison;
use serde_json::Value;

use super::{
    Result, error, format,
    functions::Function,
    lexer::{Token, tokens},
    methods::Method,
    tree::{Operator, Piece, Relation, Tree},
};

/// Maximum nesting.
const DEPTH_MAX: usize = 64;
/// Maximum tokens of an expression.
const TOKENS_MAX: usize = 500;

type Parsed = Result<Tree>;

pub fn parse(text: &str, names: &[&str]) -> Parsed {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    let tokens = tokens(text)?;
    if tokens.len() > TOKENS_MAX {
        return Err(error(format!("an expression of more than {TOKENS_MAX} words and signs")));
    }
    let mut parser = Parser { tokens, at: 0, names, depth: 0 };
    let tree = parser.expression()?;
    match parser.tokens.get(parser.at) {
        None => Ok(tree),
        Some(token) => Err(error(format!("{} is not expected here", shown(token)))),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// Names in scope; comprehensions add theirs.
    names: Vec<String>,
    depth: usize,
}

/// Left-associative operators of one precedence.
const SUMS: [(&str, Operator); 2] = [("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: [(&str, Operator); 4] = [
    ("*", Operator::Multiply),
    ("/", Operator::Divide),
    ("//", Operator::FloorDivide),
    ("%", Operator::Modulo),
];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const WORDS: [&str; 10] = ["and", "or", "not", "if", "else", "in", "is", "for", "lambda", "await"];

impl Parser {
    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Symbol(next)) if *next == symbol)
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead), Some(Token::Word(next)) if next == word)
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.at += usize::from(found);
        found
    }

    fn needed(&mut self, symbol: &str) -> Result<()> {
        if self.symbol(symbol) {
            return Ok(());
        }
        let instead = self.tokens.get(self.at).map_or_else(|| "the end".to_owned(), shown);
        Err(error(format!("{symbol} is missing before {instead}")))
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(error(format!("more than {DEPTH_MAX} levels")));
        }
        let then = self.either()?;
        let tree = if self.word("if") {
            let condition = Box::new(self.either()?);
            if !self.word("else") {
                return Err(error("else is missing"));
            }
            let otherwise = Box::new(self.expression()?);
            Tree::Choice { condition, then: Box::new(then), otherwise }
        } else {
            then
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn either(&mut self) -> Parsed {
        let mut tree = self.both()?;
        while self.word("or") {
            tree = Tree::Or(Box::new(tree), Box::new(self.both()?));
        }
        Ok(tree)
    }

    fn both(&mut self) -> Parsed {
        let mut tree = self.inverse()?;
        while self.word("and") {
            tree = Tree::And(Box::new(tree), Box::new(self.inverse()?));
        }
        Ok(tree)
    }

    fn inverse(&mut self) -> Parsed {
        let mut nots = 0;
        while self.word("not") {
            nots += 1;
        }
        let tree = self.comparison()?;
        Ok((0..nots).fold(tree, |tree, _| Tree::Not(Box::new(tree))))
    }

    fn comparison(&mut self) -> Parsed {
        let first = self.sum()?;
        let mut others = Vec::new();
        while let Some(relation) = self.relation() {
            others.push((relation, self.sum()?));
        }
        Ok(if others.is_empty() { first } else { Tree::Compare(Box::new(first), others) })
    }

    fn relation(&mut self) -> Option<Relation> {
        if let Some(symbol) = COMPARISONS.into_iter().find(|symbol| self.is_symbol(symbol)) {
            self.at += 1;
            return Comparison::named(symbol).map(Relation::Compare);
        }
        if self.is_word(0, "not") && self.is_word(1, "in") {
            self.at += 2;
            return Some(Relation::NotIn);
        }
        if self.word("in") {
            return Some(Relation::In);
        }
        if !self.word("is") {
            return None;
        }
        Some(if self.word("not") { Relation::IsNot } else { Relation::Is })
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let (_, operator) = operators.iter().find(|(symbol, _)| self.is_symbol(symbol))?;
        self.at += 1;
        Some(*operator)
    }

    fn sum(&mut self) -> Parsed {
        let mut tree = self.product()?;
        while let Some(operator) = self.operator(&SUMS) {
            tree = Tree::Arithmetic(operator, Box::new(tree), Box::new(self.product()?));
        }
        Ok(tree)
    }

    fn product(&mut self) -> Parsed {
        let mut tree = self.signed()?;
        while let Some(operator) = self.operator(&PRODUCTS) {
            tree = match (operator, self.signed()?) {
                (Operator::Modulo, Tree::Tuple(values)) => Tree::Percent(Box::new(tree), values),
                (operator, right) => Tree::Arithmetic(operator, Box::new(tree), Box::new(right)),
            };
        }
        Ok(tree)
    }

    fn signed(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(error(format!("more than {DEPTH_MAX} levels")));
        }
        let tree = if self.symbol("-") {
            Tree::Signed(-1, Box::new(self.signed()?))
        } else if self.symbol("+") {
            Tree::Signed(1, Box::new(self.signed()?))
        } else {
            let base = self.postfixed()?;
            // Binds tighter than a sign before it, and looser than one after.
            if self.symbol("**") {
                Tree::Arithmetic(Operator::Power, Box::new(base), Box::new(self.signed()?))
            } else {
                base
            }
        };
        self.depth -= 1;
        Ok(tree)
    }

    /// A value with its subscripts and calls.
    fn postfixed(&mut self) -> Parsed {
        let mut tree = self.primary()?;
        loop {
            if self.symbol("[") {
                tree = self.subscript(tree)?;
            } else if self.symbol(".") {
                let Some(Token::Word(name)) = self.tokens.get(self.at).cloned() else {
                    return Err(error("a method's name is missing behind the dot"));
                };
                self.at += 1;
                let method = Method::named(&name).filter(|_| self.is_symbol("("));
                let (method, limits) =
                    method.ok_or_else(|| error(format!("there is no method {name} here")))?;
                self.at += 1;
                let arguments = self.arguments(&name, limits)?;
                tree = Tree::Method(Box::new(tree), method, arguments);
            } else if self.is_symbol("(") {
                return Err(error("a value is no function"));
            } else {
                return Ok(tree);
            }
        }
    }

    fn subscript(&mut self, of: Tree) -> Parsed {
        let of = Box::new(of);
        let from = if self.is_symbol(":") { None } else { Some(Box::new(self.expression()?)) };
        let tree = if self.symbol(":") {
            let to = if self.is_symbol("]") { None } else { Some(Box::new(self.expression()?)) };
            Tree::Slice(of, from, to)
        } else {
            Tree::Item(of, from.ok_or_else(|| error("an index is missing"))?)
        };
        if self.is_symbol(":") {
            return Err(error("slices with a step are not supported"));
        }
        self.needed("]")?;
        Ok(tree)
    }

    /// The arguments of a call, after the opening parenthesis.
    fn arguments(&mut self, name: &str, (least, most): (usize, usize)) -> Result<Vec<Tree>> {
        let arguments = self.separated(")", |parser| {
            let argument = parser.item()?;
            if parser.is_symbol("=") {
                return Err(error(format!("{name}: arguments by name are not supported")));
            }
            Ok(argument)
        })?;
        if arguments.len() < least || arguments.len() > most {
            return Err(error(format!("{name}: {} arguments are not supported", arguments.len())));
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.tokens.get(self.at).cloned().ok_or_else(|| error("it ends too early"))?;
        self.at += 1;
        match token {
            Token::Constant(Value::String(mut text)) => {
                // Adjacent texts are joined.
                while let Some(Token::Constant(Value::String(more))) = self.tokens.get(self.at) {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(Tree::Constant(text.into()))
            }
            Token::Constant(value) => Ok(Tree::Constant(value)),
            Token::Formatted(text) => self.formatted(&text),
            Token::Word(word) => self.named(word),
            Token::Symbol("(") => self.bracketed(),
            Token::Symbol("[") => self.list(),
            Token::Symbol("{") => self.map(),
            Token::Symbol(symbol) => Err(error(format!("{symbol} is not expected here"))),
        }
    }

    fn named(&mut self, word: String) -> Parsed {
        match word.as_str() {
            "True" => return Ok(Tree::Constant(true.into())),
            "False" => return Ok(Tree::Constant(false.into())),
            "None" => return Ok(Tree::Constant(Value::Null)),
            word if WORDS.contains(&word) => return Err(error(format!("{word} is not expected here"))),
            _ => {}
        }
        if self.names.contains(&word) {
            return Ok(Tree::Name(word));
        }
        let name = if word == "json" && self.symbol(".") {
            self.word("loads").then(|| "json.loads".to_owned())
        } else {
            Some(word.clone())
        };
        let function = name.as_deref().and_then(Function::named).filter(|_| self.is_symbol("("));
        let (function, limits) = function.ok_or_else(|| error(format!("there is no {word} here")))?;
        self.at += 1;
        Ok(Tree::Call(function, self.arguments(&word, limits)?))
    }

    /// A parenthesised value, or a tuple.
    fn bracketed(&mut self) -> Parsed {
        if self.symbol(")") {
            return Ok(Tree::Tuple(Vec::new()));
        }
        let first = self.item()?;
        if self.symbol(")") {
            return Ok(first);
        }
        self.needed(",")?;
        let mut items = self.separated(")", Self::item)?;
        items.insert(0, first);
        Ok(Tree::Tuple(items))
    }

    /// The items up to the closing bracket, with commas between.
    fn separated<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.symbol(end) {
            items.push(item(self)?);
            if !self.symbol(",") {
                self.needed(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn list(&mut self) -> Parsed {
        let mut items = self.separated("]", Self::item)?;
        let is_comprehension = items.len() == 1 && matches!(items[0], Tree::Each { .. });
        Ok(if is_comprehension { items.remove(0) } else { Tree::List(items) })
    }

    /// An item in brackets, or a comprehension.
    fn item(&mut self) -> Parsed {
        match self.clause() {
            Some(clause) => self.each(clause),
            None => self.expression(),
        }
    }

    /// The position of the `for` that belongs to the item that begins here, if any.
    fn clause(&self) -> Option<usize> {
        let mut open = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token {
                Token::Symbol("(" | "[" | "{") => open += 1,
                Token::Symbol(")" | "]" | "}") => open = open.checked_sub(1)?,
                Token::Symbol(",") if open == 0 => return None,
                Token::Word(word) if open == 0 && word == "for" => return Some(at),
                _ => {}
            }
        }
        None
    }

    /// A comprehension whose `for` is at `clause`. The clause is parsed first, since it introduces the names used in
    /// the item.
    fn each(&mut self, clause: usize) -> Parsed {
        let start = std::mem::replace(&mut self.at, clause + 1);
        let mut names = Vec::new();
        while let Some(Token::Word(name)) = self.tokens.get(self.at).cloned() {
            self.at += 1;
            names.push(name);
            if !self.symbol(",") {
                break;
            }
        }
        if names.is_empty() || !self.word("in") {
            return Err(error("for NAME in ... is expected"));
        }
        let over = Box::new(self.either()?);
        let known = self.names.len();
        self.names.extend(names.iter().cloned());
        let mut conditions = Vec::new();
        while self.word("if") {
            conditions.push(self.either()?);
        }
        if self.is_word(0, "for") {
            return Err(error("one for in a comprehension is supported"));
        }
        let end = std::mem::replace(&mut self.at, start);
        let item = Box::new(self.expression()?);
        if self.at != clause {
            return Err(error("for is not expected here"));
        }
        self.names.truncate(known);
        self.at = end;
        Ok(Tree::Each { item, names, over, conditions })
    }

    /// The pieces of `f"..."`.
    fn formatted(&mut self, text: &str) -> Parsed {
        let mut pieces = Vec::new();
        for (plain, inner) in format::split_at_braces(text)? {
            pieces.push(Piece::Text(plain));
            if let Some(inner) = inner {
                let (inner, digits) = format::digits_of(inner)?;
                let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
                pieces.push(Piece::Value(parse(inner, &names)?, digits));
            }
        }
        Ok(Tree::Pieces(pieces))
    }

    fn map(&mut self) -> Parsed {
        let entries = self.separated("}", |parser| {
            let key = parser.expression()?;
            if !parser.symbol(":") {
                return Err(error("sets are not supported"));
            }
            Ok((key, parser.expression()?))
        })?;
        Ok(Tree::Map(entries))
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Constant(value) => value.to_string(),
        Token::Formatted(text) => format!("f{text:?}"),
        Token::Word(word) => word.clone(),
        Token::Symbol(symbol) => (*symbol).to_owned(),
    }
}
