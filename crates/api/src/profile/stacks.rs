//! Sampled stacks, merged to one tree from the threads down to the innermost functions.

use std::collections::BTreeMap;

use super::{
    function::{Function, Origin},
    symbols::Symbols,
};

/// The standard library's function that calls a thread's code. It and its callers are left out.
const START_OF_WORK: &str = "__rust_begin_short_backtrace";

/// All samples of a profile, merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    root: Node,
}

/// A function below one chain of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Samples in the function and its callees.
    pub samples: usize,
    pub children: BTreeMap<Function, Node>,
}

/// One sample: a thread's stack.
#[derive(Clone, Debug)]
pub struct Sample {
    pub thread: String,
    /// The addresses of its functions, innermost first.
    pub addresses: Vec<usize>,
}

impl Stacks {
    /// Adds a stack; addresses without symbols are skipped.
    pub fn add(&mut self, sample: &Sample, symbols: &Symbols) {
        let functions = sample.addresses.iter().filter_map(|address| symbols.get(address)).flatten();
        self.add_functions(&sample.thread, functions.cloned().collect(), 1);
    }

    /// Adds a stack, the innermost function first.
    fn add_functions(&mut self, thread: &str, mut functions: Vec<Function>, count: usize) {
        if count == 0 {
            return;
        }
        let start = functions.iter().position(|function| function.name.contains(START_OF_WORK));
        functions.truncate(start.unwrap_or(functions.len()));
        functions.retain(|function| !(function.is_inlined && function.origin == Origin::Standard));
        let mut node = &mut self.root;
        node.samples += count;
        for function in std::iter::once(Function::thread(thread)).chain(functions.into_iter().rev()) {
            node = node.children.entry(function).or_default();
            node.samples += count;
        }
    }

    /// The root: parent of all threads, with the total of samples.
    pub fn root(&self) -> &Node {
        &self.root
    }
}

impl Node {
    /// The depth below this node, ignoring nodes with fewer samples.
    pub fn depth(&self, samples_min: usize) -> usize {
        let seen = self.children.values().filter(|child| child.samples >= samples_min);
        seen.map(|child| child.depth(samples_min) + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Parses lines such as `thread;outer;inner 3`. A name in parentheses is an inlined function, one with
    /// the prefix `std::` is of the standard library.
    pub fn stacks(lines: &[&str]) -> Stacks {
        let mut stacks = Stacks::default();
        for line in lines {
            let (names, count) = line.rsplit_once(' ').expect("a count");
            let mut names = names.split(';');
            let thread = names.next().expect("a thread");
            let functions = names.rev().map(function).collect();
            stacks.add_functions(thread, functions, count.parse().expect("a number"));
        }
        stacks
    }

    fn function(name: &str) -> Function {
        let inlined = name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
        let name = inlined.unwrap_or(name).to_owned();
        let origin = if name.starts_with("std::") { Origin::Standard } else { Origin::Own };
        Function { name, is_inlined: inlined.is_some(), origin }
    }

    /// The child of this name, in the notation of [`stacks`].
    fn child<'a>(node: &'a Node, name: &str) -> &'a Node {
        let found = node.children.get(&function(name)).or_else(|| node.children.get(&Function::thread(name)));
        found.unwrap_or_else(|| panic!("{name} in {node:?}"))
    }

    #[test]
    fn stacks_are_joined_from_their_threads_down() {
        let stacks =
            stacks(&["api;a;b 2", "api;a;(b) 3", "api;a 1", "api;c 1", "metricd;a;b 4", "api;a;b 5", "x 0"]);
        let root = stacks.root();
        assert_eq!((root.samples, root.children.len()), (16, 2));
        let a = child(child(root, "api"), "a");
        assert_eq!(a.samples, 11);
        assert_eq!((child(a, "b").samples, child(a, "(b)").samples), (7, 3));
        assert_eq!(child(child(child(root, "metricd"), "a"), "b").samples, 4);
        assert_eq!((root.depth(1), root.depth(5), root.depth(12)), (3, 3, 1));
        assert_eq!(Stacks::default().root().depth(1), 0);
    }

    #[test]
    fn what_starts_a_thread_and_what_only_connects_is_left_out() {
        let names = "clone;std::sys::backtrace::__rust_begin_short_backtrace;work;(std::a);std::b;inner";
        let work = stacks(&[&format!("t;{names} 1")]);
        let mut node = work.root();
        for name in ["t", "work", "std::b", "inner"] {
            assert_eq!(node.children.len(), 1);
            node = child(node, name);
        }
        assert!(node.children.is_empty());
    }
}
