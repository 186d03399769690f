//! Sections of Gnocchi that its Python libraries read, and that have no effect here.

use super::{Spec, WSGI, idle};

pub const OPTIONS: &[Spec] = &[
    idle("healthcheck", "detailed", "false", WSGI),
    idle("healthcheck", "backends", "", WSGI),
    idle("healthcheck", "allowed_source_ranges", "", WSGI),
    idle("healthcheck", "ignore_proxied_requests", "false", WSGI),
    idle("healthcheck", "disable_by_file_path", "", WSGI),
    idle("healthcheck", "disable_by_file_paths", "", WSGI),
    idle("healthcheck", "enable_by_file_paths", "", WSGI),
];
