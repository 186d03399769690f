"""gnudi-gnocchi-compat replaces Debian's packages: their programs, units, users and files; and the way back."""

import re

import pytest

from packages import build
from packages.service import START_TIMEOUT_S, started
from support.process import wait_until

CONFIG = """[storage]
driver = file
file_basepath = /var/lib/gnocchi
[api]
port = 8043
"""
LOG = "/var/log/gnocchi/gnocchi-api.log"
# Where Debian's packages of 2026 have their programs and units; the contents do not matter here.
DEBIAN = {
    "python3-gnocchi": ("", ["amqpd", "api", "change-sack-size", "config-generator", "injector", "metricd", "statsd", "upgrade"]),
    "ceilometer-common": ("", ["polling", "upgrade"]),
    "ceilometer-agent-notification": ("ceilometer-common", ["agent-notification"]),
    "gnocchi-api": ("python3-gnocchi", []),
    "gnocchi-metricd": ("python3-gnocchi", []),
    "gnocchi-statsd": ("python3-gnocchi", []),
    "ceilometer-polling": ("ceilometer-common", []),
    "ceilometer-agent-compute": ("ceilometer-common", []),
    "ceilometer-agent-central": ("ceilometer-common", []),
}
UNITS = [name for name in DEBIAN if name not in ("python3-gnocchi", "ceilometer-common")]


def programs():
    """The links that gnudi-gnocchi-compat has, and which command each is: {name: [word]}."""
    lines = (build.ROOT / "deploy" / "program-names").read_text().splitlines()
    return {name: words for name, *words in map(str.split, lines)}


@pytest.fixture
def debian(tmp_path):
    """Packages that have what Debian's have: [file]."""
    made = []
    for name, (depends, names) in DEBIAN.items():
        project = "gnocchi" if "gnocchi" in name else "ceilometer"
        files = {f"/usr/bin/{project}-{program}": "#!/bin/sh\n" for program in names}
        if name in UNITS:
            files[f"/lib/systemd/system/{name}.service"] = f"[Service]\nExecStart=/etc/init.d/{name} systemd-start\n"
        made.append(build.made_up(tmp_path / "debian", name, files, depends))
    return made


def test_debians_packages_make_room_and_come_back(tree, built, debian, tmp_path):
    tree.install(*debian)
    tree.shell("adduser --quiet --system --group --home /var/lib/gnocchi --no-create-home gnocchi")
    tree.write("/etc/gnocchi/gnocchi.conf", CONFIG, mode=0o640)
    tree.shell("chgrp gnocchi /etc/gnocchi/gnocchi.conf")
    tree.shell("ln -s /lib/systemd/system/gnocchi-api.service /etc/systemd/system/multi-user.target.wants/")

    tree.install(*built.values())
    listed = tree.shell("dpkg-query --show --showformat '${Package} ${db:Status-Status}\n'")
    for name in DEBIAN:
        assert f"\n{name} installed" not in listed, name
    for program, words in programs().items():
        assert tree.shell(f"readlink -f /usr/bin/{program}").strip() == "/usr/bin/gnudi", program
        # The page of the very command.
        assert f".TH {'-'.join(['gnudi', *words])} 1" in tree.shell(f"gzip -dc /usr/share/man/man1/{program}.1.gz"), program
    for unit in UNITS:
        assert "ExecStart=/usr/bin/" in tree.shell(f"cat /lib/systemd/system/{unit}.service"), unit
    # What was enabled stays so, what was not is not.
    enabled = tree.shell("ls /etc/systemd/system/multi-user.target.wants")
    assert "gnocchi-api" in enabled and "ceilometer" not in enabled
    assert tree.shell("getent passwd ceilometer")

    journal = tmp_path / "journal"
    with started(tree, "gnocchi-api", journal) as process:
        wait_until(lambda: process.poll() is not None or "127.0.0.1:8043" in tree.shell(f"cat {LOG} || true"), START_TIMEOUT_S, LOG)
        assert "room" in tree.shell("GNOCCHI_ENDPOINT=http://127.0.0.1:8043 GNOCCHI_USER=admin gnudi metric create room")
    assert tree.owner("/var/lib/gnocchi/indexer.sqlite") == "gnocchi:gnocchi 600"
    assert "stopped" in tree.shell(f"cat {LOG}") and journal.read_text() == ""

    tree.run("apt-get", "purge", "--yes", "gnudi-gnocchi-compat")
    assert tree.exists("/etc/gnocchi/gnocchi.conf") and tree.exists("/var/lib/gnocchi/indexer.sqlite")
    tree.install(*debian)
    for program in programs():
        assert tree.shell(f"readlink -f /usr/bin/{program}").strip() == f"/usr/bin/{program}", program
    assert "init.d" in tree.shell("cat /lib/systemd/system/gnocchi-api.service")


def test_the_program_knows_the_same_names():
    """The table in its source, with the same commands."""
    table = (build.ROOT / "crates" / "cli" / "src" / "command_line.rs").read_text()
    known = re.findall(r'^    \("((?:gnocchi|ceilometer)-[a-z-]+)", &\[(.*)\]\),$', table, re.MULTILINE)
    assert {name: re.findall('"(.*?)"', words) for name, words in known} == programs()
