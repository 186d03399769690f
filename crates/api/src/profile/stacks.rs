//! Sampled stacks, joined into one tree from the threads down to the innermost functions.

use std::collections::BTreeMap;

use pprof::Frames;

/// Below this function of the standard library a thread does its work; it and what leads to it is left out.
const START_OF_WORK: &str = "__rust_begin_short_backtrace";

/// How the functions of the sampler begin, which are left out where they are innermost.
const SAMPLER: [&str; 3] = ["backtrace::", "pprof::", "perf_signal_handler"];

/// Longer names, which types within types make, are cut.
const NAME_CHARS_MAX: usize = 400;

/// All samples of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    root: Node,
}

/// A function, as it was called by one chain of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Samples in the function or in what it calls.
    pub samples: usize,
    /// By their names; whether the compiler has made the function part of its caller.
    pub children: BTreeMap<(String, Inlined), Node>,
}

/// Whether the compiler has made a function part of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inlined(pub bool);

impl Stacks {
    /// Adds a stack that was seen `count` times.
    pub fn add(&mut self, frames: &Frames, count: usize) {
        let mut names = Vec::new();
        // Innermost first, here as in each frame, whose last symbol is the function proper.
        for symbols in &frames.frames {
            for (position, symbol) in symbols.iter().enumerate() {
                names.push((symbol.name(), Inlined(position + 1 < symbols.len())));
            }
        }
        self.add_names(&frames.thread_name_or_id(), names, count);
    }

    /// Adds a stack by its names, the innermost first.
    fn add_names(&mut self, thread: &str, mut names: Vec<(String, Inlined)>, count: usize) {
        if count == 0 {
            return;
        }
        let own = names.iter().take_while(|(name, _)| SAMPLER.iter().any(|start| name.starts_with(start)));
        names.drain(..own.count());
        let start = names.iter().position(|(name, _)| name.contains(START_OF_WORK));
        names.truncate(start.unwrap_or(names.len()));
        let mut node = &mut self.root;
        node.samples += count;
        for (name, inlined) in
            std::iter::once((thread.to_owned(), Inlined(false))).chain(names.into_iter().rev())
        {
            node = node.children.entry((shortened(name), inlined)).or_default();
            node.samples += count;
        }
    }

    /// What all threads have in common: nothing but their samples.
    pub fn root(&self) -> &Node {
        &self.root
    }
}

impl Node {
    /// How many functions call each other at most, this one not counted, where those of fewer samples do not count.
    pub fn depth(&self, samples_min: usize) -> usize {
        let seen = self.children.values().filter(|child| child.samples >= samples_min);
        seen.map(|child| child.depth(samples_min) + 1).max().unwrap_or(0)
    }
}

fn shortened(name: String) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Of lines such as `thread;outer;inner 3`; a name in parentheses is an inlined function.
    pub fn stacks(lines: &[&str]) -> Stacks {
        let mut stacks = Stacks::default();
        for line in lines {
            let (names, count) = line.rsplit_once(' ').expect("a count");
            let mut names = names.split(';');
            let thread = names.next().expect("a thread");
            let names = names.rev().map(|name| {
                let inlined = name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
                (inlined.unwrap_or(name).to_owned(), Inlined(inlined.is_some()))
            });
            stacks.add_names(thread, names.collect(), count.parse().expect("a number"));
        }
        stacks
    }

    fn child<'a>(node: &'a Node, name: &str, inlined: bool) -> &'a Node {
        node.children
            .get(&(name.to_owned(), Inlined(inlined)))
            .unwrap_or_else(|| panic!("{name} in {node:?}"))
    }

    #[test]
    fn stacks_are_joined_from_their_threads_down() {
        let stacks =
            stacks(&["api;a;b 2", "api;a;(b) 3", "api;a 1", "api;c 1", "metricd;a;b 4", "api;a;b 5", "x 0"]);
        let root = stacks.root();
        assert_eq!((root.samples, root.children.len()), (16, 2));
        let a = child(child(root, "api", false), "a", false);
        assert_eq!(a.samples, 11);
        assert_eq!((child(a, "b", false).samples, child(a, "b", true).samples), (7, 3));
        assert_eq!(child(child(child(root, "metricd", false), "a", false), "b", false).samples, 4);
        assert_eq!((root.depth(1), root.depth(5), root.depth(12)), (3, 3, 1));
        assert_eq!(Stacks::default().root().depth(1), 0);
    }

    #[test]
    fn what_starts_a_thread_and_what_samples_is_left_out() {
        let names =
            ["clone", "std::sys::backtrace::__rust_begin_short_backtrace", "work", "pprof::a", "inner"];
        let line = format!("t;{};perf_signal_handler;backtrace::trace 1", names.join(";"));
        let work = stacks(&[&line]);
        let path = ["t", "work", "pprof::a", "inner"];
        let mut node = work.root();
        for name in path {
            assert_eq!(node.children.len(), 1);
            node = child(node, name, false);
        }
        assert!(node.children.is_empty());
    }

    #[test]
    fn a_name_of_many_types_is_cut_between_characters() {
        let long = "\u{e9}".repeat(NAME_CHARS_MAX + 1);
        let stacks = stacks(&[&format!("t;{long} 1")]);
        let thread = child(stacks.root(), "t", false);
        assert_eq!(
            thread.children.keys().next().unwrap().0,
            format!("{}...", "\u{e9}".repeat(NAME_CHARS_MAX))
        );
    }
}
