"""Runs a unit's command line in a tree, with the unit's user, directories and environment."""

import contextlib
import shlex
import subprocess
import time

from packages import units

UNITS = "/lib/systemd/system"
START_TIMEOUT_S = 60


def unit_of(tree, name):
    """The unit with what all have in common."""
    common = f"{UNITS}/gnudi-.service.d/hardening.conf"
    drop_in = tree.shell(f"cat {UNITS}/{name}.service.d/*.conf 2>/dev/null || true") or tree.shell(f"cat {common}")
    return units.read(drop_in, tree.shell(f"cat {UNITS}/{name}.service"))


@contextlib.contextmanager
def started(tree, name, log_path, before=()):
    """Runs the unit's command line for as long as the block lasts; it must end with 0 on SIGTERM. `before`: words in front of it."""
    unit = unit_of(tree, name)
    service = {key: values[-1] for key, values in unit["Service"].items()}
    user = service["User"]
    for path in unit["Unit"].get("ConditionPathExists", []):
        assert tree.exists(path), path
    for key, above in (("StateDirectory", "/var/lib"), ("LogsDirectory", "/var/log")):
        if key in service:
            place = f"{above}/{service[key]}"
            tree.shell(f"mkdir -p {place} && chown {user}: {place} && chmod {service[key + 'Mode']} {place}")
    variables = {}
    for path in unit["Service"]["EnvironmentFile"]:
        variables |= units.environment(tree.shell(f"cat {path.removeprefix('-')} 2>/dev/null || true"))
    directory = service.get("WorkingDirectory", "/").replace("%S", "/var/lib")
    as_user = ["setpriv", f"--reuid={user}", f"--regid={service['Group']}", "--init-groups", "--no-new-privs", "--bounding-set=-all"]
    words = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *(f"{key}={value}" for key, value in variables.items()),
             *as_user, *before, *units.start_words(unit, variables)]
    with log_path.open("wb") as log:
        process = subprocess.Popen(tree.command("sh", "-c", f"umask {service['UMask']}; echo $$ >/run/{name}.pid; exec {shlex.join(words)}",
                                                directory=directory), stdout=log, stderr=log)
    try:
        yield process
        assert process.poll() is None, log_path.read_text()
    finally:
        # The process has nsenter as its parent, and ends by its number within the tree.
        tree.run("sh", "-c", f"kill $(cat /run/{name}.pid)", check=False)
        status = process.wait(timeout=START_TIMEOUT_S)
    assert status == 0, (status, log_path.read_text())


def wait_for(log_path, text, process):
    """Waits until a log has a text."""
    give_up = time.monotonic() + START_TIMEOUT_S
    while text not in log_path.read_text():
        assert process.poll() is None and time.monotonic() < give_up, log_path.read_text()
        time.sleep(0.05)
