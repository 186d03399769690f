//! The web page, embedded in the binary: `ui/` built by `make`, each file with its compressed forms.
//!
//! Independent of HTTP: `api` serves the files.

/// A file of the page. Its name contains a hash of its content, so it can be cached forever.
#[derive(Clone, Copy, Debug)]
pub struct File {
    pub name: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
    pub brotli: &'static [u8],
}

impl File {
    /// The value of `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("txt") => "text/plain; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

// From `build.rs`: `INDEX`, the HTML of the page; `IS_BUILT`, false if it only says that `make` has not built it; and
// `FILES`, the files that it refers to.
include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The placeholder in [`INDEX`] for the server's settings: JSON, escaped for an attribute.
pub const SETTINGS: &str = "@SETTINGS@";

/// The file with this name.
pub fn file(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_settings_and_names_its_files() {
        assert_eq!(INDEX.matches(SETTINGS).count(), usize::from(IS_BUILT));
        for file in FILES {
            assert!(INDEX.contains(file.name), "{}: nothing refers to it", file.name);
            assert_ne!(file.content_type(), "application/octet-stream", "{}", file.name);
            assert!(
                file.plain.len() > file.gzip.len() && file.gzip.len() > file.brotli.len(),
                "{}",
                file.name
            );
        }
    }
}
