//! Sections of Gnocchi's Python libraries, without effect here.

use super::{Spec, WSGI};

pub const OPTIONS: &[Spec] = &options! {
    [healthcheck]
    idle detailed("false", WSGI);
    idle backends("", WSGI);
    idle allowed_source_ranges("", WSGI);
    idle ignore_proxied_requests("false", WSGI);
    idle disable_by_file_path("", WSGI);
    idle disable_by_file_paths("", WSGI);
    idle enable_by_file_paths("", WSGI);
};
