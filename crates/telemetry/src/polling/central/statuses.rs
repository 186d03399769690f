//! Maps statuses to numbers.

use serde_json::Value;

/// The number of the first status, and all statuses in order.
#[derive(Clone, Copy)]
pub(super) struct Statuses(i64, &'static str);

pub(super) const NETWORK: Statuses =
    Statuses(0, "inactive active pending_create down created pending_update pending_delete error");

pub(super) const OPERATING: Statuses = Statuses(1, "online draining offline degraded error no_monitor");

pub(super) const PROVISIONING: Statuses =
    Statuses(1, "active deleted error pending_create pending_update pending_delete");

pub(super) const ZONE: Statuses = Statuses(1, "active pending error deleted");

pub(super) const SHARE: Statuses = Statuses(
    1,
    "available creating deleting error error_deleting migrating extending shrinking reverting \
     inactive manage_starting manage_error unmanage_starting unmanage_error unmanaged extending_error \
     shrinking_error reverting_error awaiting_transfer backup_creating backup_restoring \
     backup_restoring_error creating_from_snapshot shrinking_possible_data_loss_error migrating_to \
     replication_change",
);

/// -1 for an unknown or missing status; the caller logs it.
pub(super) fn number(Statuses(first, names): Statuses, status: &Value) -> i64 {
    let status = status.as_str().unwrap_or_default().to_lowercase();
    names.split(' ').zip(first..).find(|(name, _)| *name == status).map_or(-1, |(_, number)| number)
}
