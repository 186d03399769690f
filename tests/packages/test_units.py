"""Every unit: its restrictions, and that its command line starts with the package's files."""

import contextlib
import json
import re
import shutil
import subprocess

import pytest

from packages import units
from packages.service import UNITS, started, unit_of, wait_for

EXPOSURE_MAX = 2.0
# libnuma, which libvirt loads, finds out so what the kernel knows; a refusal is an answer.
MAY_BE_REFUSED = {"set_mempolicy"}


@pytest.fixture(scope="module")
def names(unpacked):
    """Of all units of both packages."""
    return sorted(path.stem for path in (unpacked / UNITS.lstrip("/")).glob("*.service"))


def test_units_are_hardened(unpacked, names):
    assert len(names) == 14
    for name in names:
        command = ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--root={unpacked}", f"{name}.service"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
        assert exposure and float(exposure[1]) < EXPOSURE_MAX, (name, done.stdout[-400:], done.stderr)


def test_systemd_understands_units(unpacked, names):
    """Keys that it does not know, programs that are not there."""
    root = shutil.copytree(unpacked / "lib", unpacked / "verified" / "lib", symlinks=True).parent
    shutil.copytree(unpacked / "usr" / "bin", root / "usr" / "bin", symlinks=True)
    for target in ("network-online.target", "multi-user.target", "sysinit.target", "basic.target", "shutdown.target"):
        (root / UNITS.lstrip("/") / target).write_text("[Unit]\n")
    # Of ExecReload.
    (root / "bin").mkdir()
    (root / "bin" / "kill").touch(mode=0o755)
    command = ["systemd-analyze", "verify", "--man=no", f"--root={root}", *(f"{name}.service" for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "gnudi" not in done.stderr and "gnocchi" not in done.stderr, done.stderr


def test_units_in_the_place_of_others_log_where_these_do(unpacked, names):
    """As openstack-pkg-tools starts Debian's: a file named as the unit."""
    found = 0
    for name in names:
        if not name.startswith("gnudi"):
            unit = units.read((unpacked / UNITS.lstrip("/") / f"{name}.service").read_text())
            user, words = unit["Service"]["User"][0], units.start_words(unit, {})
            assert words[-2:] == [f"--config-file=/etc/{user}/{user}.conf", f"--log-file=/var/log/{user}/{name}.log"], words
            assert unit["Service"]["LogsDirectory"] == [user]
            found += 1
    assert found == 7
    rotated = (unpacked / "etc" / "logrotate.d" / "gnudi-gnocchi-compat").read_text()
    for user in ("gnocchi", "ceilometer"):
        block = rotated.split(f"/var/log/{user}/{user}-*.log {{\n")[1].split("}\n")[0]
        assert f"    su {user} {user}\n" in block


def test_what_posts_to_the_server_stops_before_it(unpacked):
    """systemd stops units in the reverse order of their start; without one it stops all at once."""
    for name, servers in [
        ("gnudi-statsd", ["gnudi-serve.service", "gnudi-api.service"]),
        ("gnudi-amqpd", ["gnudi-serve.service", "gnudi-api.service"]),
        ("gnudi-agent-notification", ["gnudi-serve.service", "gnudi-api.service", "rabbitmq-server.service"]),
        ("gnocchi-statsd", ["gnocchi-api.service"]),
        ("ceilometer-agent-notification", ["gnocchi-api.service", "rabbitmq-server.service"]),
    ]:
        unit = units.read((unpacked / UNITS.lstrip("/") / f"{name}.service").read_text())
        assert unit["Unit"]["After"][-1].split() == servers, name


def test_starts_end_when_the_programs_say_so(unpacked, names):
    for name in names:
        folder = unpacked / UNITS.lstrip("/")
        own = folder / f"{name}.service.d"
        shared = next((own if own.exists() else folder / "gnudi-.service.d").glob("*.conf"))
        service = units.read(shared.read_text(), (folder / f"{name}.service").read_text())["Service"]
        assert (service["Type"], service["TimeoutStartSec"]) == (["notify"], ["infinity"]), name


def filtered_calls(filters):
    """The calls that `SystemCallFilter=` lines let through, and all others that systemd knows."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True).stdout
    sets, current = {}, None
    for line in listed.splitlines():
        if line.startswith("@"):
            current = sets.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            current.append(line.strip())

    def expand(name):
        return {name} if not name.startswith("@") else set().union(*map(expand, sets[name]))

    allowed = set()
    for line in filters:
        for name in line.lstrip("~").split():
            allowed = allowed - expand(name) if line.startswith("~") else allowed | expand(name)
    return allowed, set().union(*map(expand, sets)) - allowed


def test_all_work_and_make_no_call_that_is_filtered(tree, built, tmp_path):
    """With the configuration as it comes, and the store of its example: where no broker answers, agents wait for one."""
    tree.install(built["gnudi"])
    tree.shell(r"sed -i 's/^# \(auth_type\|endpoint\) =/\1 =/' /etc/gnudi/ceilometer.conf")
    allowed, refused = filtered_calls(unit_of(tree, "gnudi-serve")["Service"]["SystemCallFilter"])
    refuse = "inject=" + ",".join(f"?{call}" for call in sorted(refused)) + ":error=EPERM"
    with contextlib.ExitStack() as stack:
        for name, ready in [
            ("gnudi-serve", "serving HTTP"),
            ("gnudi-statsd", "receiving statsd's datagrams"),
            ("gnudi-amqpd", "not connected to the broker"),
            ("gnudi-agent-notification", "not connected to the broker"),
            ("gnudi-agent-polling", "no service is polled"),
        ]:
            log = tmp_path / f"{name}.log"
            trace = ["strace", "-D", "-f", "-qq", "-e", "signal=none", "-e", refuse, "-o", f"/tmp/{name}.trace"]
            wait_for(log, ready, stack.enter_context(started(tree, name, log, before=trace)))
        metric = tree.shell("GNOCCHI_USER=admin gnudi metric create -a low room -f json")
        metric = json.loads(metric)["id"]
        tree.shell(f"GNOCCHI_USER=admin gnudi measures add -m now@1 {metric} && GNOCCHI_USER=admin gnudi measures show --refresh {metric}")
        tree.shell("GNOCCHI_USER=admin gnudi profile --seconds 1 -o /tmp/profile.svg && grep -q gnudi /tmp/profile.svg")
    families = unit_of(tree, "gnudi-serve")["Service"]["RestrictAddressFamilies"][0].split()
    for name in tree.shell("ls /tmp").split():
        if not name.endswith(".trace"):
            continue
        trace = tree.shell(f"cat /tmp/{name}")
        called = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", trace, re.MULTILINE))
        assert len(called) > 20 and called <= allowed | MAY_BE_REFUSED, (name, called - allowed)
        assert set(re.findall(r"socket\((AF_\w+)", trace)) <= set(families), name
        assert not re.search(r"(mmap|mprotect)\([^)]*PROT_WRITE\|PROT_EXEC", trace), name
