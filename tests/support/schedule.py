"""Distributes tests over the workers of pytest-xdist, and orders them: `pytest -n 3 --dist loadfile`."""

from xdist.scheduler import LoadScopeScheduling

# Files that share what takes long to start, a RabbitMQ ten seconds: one worker has them all. Others are each on its own.
GROUPS = {
    "client": ["client/"],
    "differential": ["differential/"],
    "packages": ["packages/"],
    # And the broker of the polling agents, `bus`.
    "keystone": ["auth/test_keystone.py", "auth/test_matrix.py", "auth/test_page.py", "auth/test_tenants.py",
                 "prometheus/test_openstack_clients.py",
                 *(f"telemetry/test_{name}.py" for name in ("central", "exporter", "host_commands", "ipmi", "keystone_access", "names",
                                                           "partition", "polling", "polling_chain", "references", "user_metadata"))],
    "prometheus": ["prometheus/"],
    # That of the notification agents, `node`, which tests restart.
    "rabbitmq": [f"telemetry/test_{name}.py" for name in ("aside", "filter_project", "kill", "messaging", "migration", "notifier", "poison",
                                                           "real_agent", "zaqar")],
}
# The longest come first: none is left for the end, when the other worker has nothing more to do.
FIRST = ["keystone", "rabbitmq", "gnocchi_suite/test_functional_suite.py", "differential", "packages", "prometheus",
         "power_cut/test_power_cut.py", "page/test_views.py", "client", "page/test_page.py", "backup/test_backup.py",
         "backup/test_incremental.py", "openapi/test_document.py", "migration/test_import.py", "migration/test_export.py",
         "telemetry/test_gnocchi_publisher.py", "backup/test_verify.py", "shared/test_faults.py", "limits/test_scaling.py",
         "migration/test_follow.py", "shared/test_processes.py", "profile/test_flamegraph.py", "move/test_move.py"]


def group(nodeid):
    """The name of a group, or of a file."""
    file = nodeid.split("::", 1)[0]
    return next((name for name, starts in GROUPS.items() if file.startswith(tuple(starts))), file)


def place(nodeid):
    """What to sort by."""
    name = group(nodeid)
    return FIRST.index(name) if name in FIRST else len(FIRST)


class Scheduling(LoadScopeScheduling):
    def _split_scope(self, nodeid):
        return group(nodeid)
