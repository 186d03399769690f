//! Which names a source or an event definition accepts, by Ceilometer's rules: names excluded with `!` are out, then
//! named ones are in; a list of exclusions only accepts all others.

use gnudi_model::python::fnmatch::Pattern;

/// A compiled list of names with wildcards.
#[derive(Clone, Debug)]
pub struct Selection {
    excluded: Vec<Pattern>,
    included: Vec<Pattern>,
}

/// Why a list is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("names nothing; write [\"*\"] to take everything")]
    Empty,
    #[error("has an empty name in it")]
    EmptyName,
    #[error("both includes and excludes by name; keep one of the two, or write \"*\" beside the exclusions")]
    Mixed,
    #[error("has names beside \"*\", which includes them; leave one of the two out")]
    BesideEverything,
}

impl Selection {
    /// A source's list, which must be free of contradictions.
    pub fn new<T: AsRef<str>>(names: &[T]) -> Result<Self, SelectionError> {
        let has = |is_such: fn(&str) -> bool| names.iter().any(|name| is_such(name.as_ref()));
        // A leading `*` counts as a wildcard, which may be combined with anything.
        let has_names = has(|name| !name.starts_with(['!', '*']));
        match () {
            () if names.is_empty() => Err(SelectionError::Empty),
            () if has(str::is_empty) => Err(SelectionError::EmptyName),
            () if has_names && has(|name| name.starts_with('!')) => Err(SelectionError::Mixed),
            () if has_names && has(|name| name == "*") => Err(SelectionError::BesideEverything),
            () => Ok(Selection::of(names)),
        }
    }

    /// Any list; an empty one accepts nothing.
    pub fn of<T: AsRef<str>>(names: &[T]) -> Self {
        let (mut excluded, mut included) = (Vec::new(), Vec::new());
        for name in names {
            match name.as_ref().strip_prefix('!') {
                Some(name) => excluded.push(Pattern::new(name)),
                None => included.push(Pattern::new(name.as_ref())),
            }
        }
        if included.is_empty() && !excluded.is_empty() {
            included.push(Pattern::new("*"));
        }
        Selection { excluded, included }
    }

    /// Accepts every name.
    pub fn everything() -> Self {
        Selection::of(&["*"])
    }

    pub fn is_everything(&self) -> bool {
        self.excluded.is_empty() && self.included.iter().any(Pattern::is_everything)
    }

    /// Whether a name is accepted.
    pub fn matches(&self, name: &str) -> bool {
        let fits = |pattern: &Pattern| pattern.matches(name);
        !self.excluded.iter().any(fits) && self.included.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_go_first_and_alone_take_the_rest() {
        let accepts = |names: &[&str], name| Selection::new(names).unwrap().matches(name);
        assert!(accepts(&["*"], "cpu"));
        assert!(accepts(&["cpu", "disk.*"], "disk.read"));
        assert!(!accepts(&["cpu", "disk.*"], "memory"));
        assert!(accepts(&["!disk.*"], "cpu"));
        assert!(!accepts(&["!disk.*"], "disk.read"));
        assert!(!accepts(&["*", "!disk.*"], "disk.read"));
        assert!(accepts(&["*.bytes", "!disk.*"], "net.bytes"));
        assert!(!accepts(&["*.bytes", "!disk.*"], "net.packets"));
        assert!(Selection::everything().is_everything());
        assert!(!Selection::new(&["*", "!x"]).unwrap().is_everything());
    }

    #[test]
    fn contradictions_are_refused() {
        let error = |names: &[&str]| Selection::new(names).unwrap_err();
        assert_eq!(error(&[]), SelectionError::Empty);
        assert_eq!(error(&["cpu", ""]), SelectionError::EmptyName);
        assert_eq!(error(&["cpu", "!disk"]), SelectionError::Mixed);
        assert_eq!(error(&["*", "cpu"]), SelectionError::BesideEverything);
    }
}
