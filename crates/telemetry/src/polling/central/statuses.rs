//! Statuses as numbers.

use serde_json::Value;

pub(super) type Statuses = &'static [(&'static str, i64)];

pub(super) const NETWORK: Statuses = &[
    ("inactive", 0),
    ("active", 1),
    ("pending_create", 2),
    ("down", 3),
    ("created", 4),
    ("pending_update", 5),
    ("pending_delete", 6),
    ("error", 7),
];

pub(super) const OPERATING: Statuses =
    &[("online", 1), ("draining", 2), ("offline", 3), ("degraded", 4), ("error", 5), ("no_monitor", 6)];

pub(super) const PROVISIONING: Statuses = &[
    ("active", 1),
    ("deleted", 2),
    ("error", 3),
    ("pending_create", 4),
    ("pending_update", 5),
    ("pending_delete", 6),
];

pub(super) const ZONE: Statuses = &[("active", 1), ("pending", 2), ("error", 3), ("deleted", 4)];

pub(super) const SHARE: Statuses = &[
    ("available", 1),
    ("creating", 2),
    ("deleting", 3),
    ("error", 4),
    ("error_deleting", 5),
    ("migrating", 6),
    ("extending", 7),
    ("shrinking", 8),
    ("reverting", 9),
    ("inactive", 10),
    ("manage_starting", 11),
    ("manage_error", 12),
    ("unmanage_starting", 13),
    ("unmanage_error", 14),
    ("unmanaged", 15),
    ("extending_error", 16),
    ("shrinking_error", 17),
    ("reverting_error", 18),
    ("awaiting_transfer", 19),
    ("backup_creating", 20),
    ("backup_restoring", 21),
    ("backup_restoring_error", 22),
    ("creating_from_snapshot", 23),
    ("shrinking_possible_data_loss_error", 24),
    ("migrating_to", 25),
    ("replication_change", 26),
];

/// -1 for a status that is not known, and for none; the caller tells.
pub(super) fn number(statuses: Statuses, status: &Value) -> i64 {
    let status = status.as_str().unwrap_or_default().to_lowercase();
    statuses.iter().find(|(name, _)| *name == status).map_or(-1, |(_, number)| *number)
}
