//! A function in a flame graph: its name and source file. The file tells functions apart, since names of
//! inlined functions lack their module.

use std::path::Path;

/// Longer names (of nested generic types) are truncated.
const NAME_CHARS_MAX: usize = 400;

/// A function, or a thread at the bottom of the graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// `name (crate/src/file.rs)`, if the file is known.
    pub name: String,
    /// Whether the compiler inlined it into its caller.
    pub is_inlined: bool,
    pub origin: Origin,
}

/// Where a function's code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Not a function.
    Thread,
    /// gnudi.
    Own,
    /// The standard library.
    Standard,
    /// Another crate, including its C code.
    Dependency,
    /// Unknown: mostly the C library.
    Unknown,
}

impl Function {
    /// `file`: the source file, from the debug information.
    pub fn new(name: &str, file: Option<&Path>, is_inlined: bool) -> Self {
        let (origin, file) = file.map_or((Origin::Unknown, None), |file| source(&file.to_string_lossy()));
        let name = shortened(name);
        let name = file.map_or(name.clone(), |file| format!("{name} ({file})"));
        Function { name, is_inlined, origin }
    }

    pub fn thread(name: &str) -> Self {
        Function { name: shortened(name), is_inlined: false, origin: Origin::Thread }
    }
}

/// The origin of a file, and its path from the crate's name on.
fn source(path: &str) -> (Origin, Option<String>) {
    // `/registry/src/<index>/<crate>/...`
    if let Some((_, path)) = path.split_once("/registry/src/") {
        return (Origin::Dependency, path.split_once('/').map(|(_, path)| path.to_owned()));
    }
    if let Some((_, path)) = path.split_once("/library/").filter(|(before, _)| before.contains("rust")) {
        return (Origin::Standard, Some(path.to_owned()));
    }
    // The standard library's own dependencies.
    if let Some((_, path)) = path.split_once("/rust/deps/") {
        return (Origin::Standard, Some(path.to_owned()));
    }
    match path.rsplit_once("crates/").filter(|(before, _)| before.is_empty() || before.ends_with('/')) {
        Some((_, path)) => (Origin::Own, Some(path.to_owned())),
        None => (Origin::Unknown, path.rsplit('/').next().map(str::to_owned)),
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_determines_the_origin() {
        let of = |path: &str| {
            let function = Function::new("f", Some(Path::new(path)), true);
            (function.origin, function.name)
        };
        let registry = "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        for (path, origin, name) in [
            ("/home/u/gnudi/crates/api/src/measures/scan.rs", Origin::Own, "f (api/src/measures/scan.rs)"),
            ("crates/api/src/app.rs", Origin::Own, "f (api/src/app.rs)"),
            (
                &format!("{registry}/hyper-1.12.0/src/proto/mod.rs"),
                Origin::Dependency,
                "f (hyper-1.12.0/src/proto/mod.rs)",
            ),
            (&format!("{registry}/x-1/crates/y/lib.rs"), Origin::Dependency, "f (x-1/crates/y/lib.rs)"),
            ("/rustc/598/library/core/src/ops/function.rs", Origin::Standard, "f (core/src/ops/function.rs)"),
            ("/h/.rustup/t/lib/rustlib/src/rust/library/std/src/x.rs", Origin::Standard, "f (std/src/x.rs)"),
            ("/rust/deps/hashbrown-0.16.1/src/map.rs", Origin::Standard, "f (hashbrown-0.16.1/src/map.rs)"),
            ("./nptl/pthread_mutex_lock.c", Origin::Unknown, "f (pthread_mutex_lock.c)"),
        ] {
            assert_eq!(of(path), (origin, name.to_owned()), "{path}");
        }
        let unknown = Function { name: "f".to_owned(), is_inlined: false, origin: Origin::Unknown };
        assert_eq!(Function::new("f", None, false), unknown);
    }

    #[test]
    fn a_name_of_many_types_is_cut_between_characters() {
        let long = "\u{e9}".repeat(NAME_CHARS_MAX + 1);
        let cut = format!("{}...", "\u{e9}".repeat(NAME_CHARS_MAX));
        assert_eq!(Function::new(&long, None, false).name, cut);
        assert_eq!(Function::new(&long[2..], None, false).name, long[2..]);
    }
}
