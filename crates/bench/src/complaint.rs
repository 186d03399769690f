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
    use std::io;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn each_cause_is_told_once() {
        let denied = anyhow!(io::Error::from_raw_os_error(13));
        assert_eq!(of(&denied), "Permission denied (os error 13)");
        let told = denied.context("/data: Permission denied (os error 13)");
        assert_eq!(of(&told), "/data: Permission denied (os error 13)");
        let named = told.context("the store").context("opening");
        assert_eq!(of(&named), "opening: the store: /data: Permission denied (os error 13)");
    }
}
