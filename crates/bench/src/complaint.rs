//! Formats errors for users: what was tried, and why it failed.

use std::fmt::Write as _;

/// The error and its causes in order. Many errors include their source's text in their own; each cause is printed once.
pub fn of(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use anyhow::{Context as _, anyhow};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{path}: {source}")]
    struct TellsItsCause {
        path: &'static str,
        source: io::Error,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the store")]
    struct NamesItsCause(#[source] TellsItsCause);

    fn denied() -> io::Error {
        io::Error::from_raw_os_error(13)
    }

    #[test]
    fn each_cause_is_told_once() {
        let told = TellsItsCause { path: "/data", source: denied() };
        assert_eq!(of(&anyhow!(told)), "/data: Permission denied (os error 13)");
        let named = NamesItsCause(TellsItsCause { path: "/data", source: denied() });
        assert_eq!(
            of(&anyhow!(named).context("opening")),
            "opening: the store: /data: Permission denied (os error 13)"
        );
        let none = Err::<(), _>(denied()).with_context(|| Path::new("/x").display().to_string());
        assert_eq!(of(&none.unwrap_err()), "/x: Permission denied (os error 13)");
        assert_eq!(of(&anyhow!("only this")), "only this");
    }
}
