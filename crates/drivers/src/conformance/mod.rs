//! What every driver must do, as suites that any driver can be put through.
