//! indexer
