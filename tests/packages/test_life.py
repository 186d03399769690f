"""A package's life on a fresh Debian: installed, started by its unit's command line, upgraded, rolled back, removed, purged; and the files
that remain each time. The tree takes a minute to fetch: `test_page` tests most of this on this machine's system.
"""

import pytest

from packages import build
from packages.service import started, unit_of, wait_for

OTHERS = ["gnudi-api", "gnudi-metricd", "gnudi-statsd", "gnudi-amqpd", "gnudi-agent-notification", "gnudi-agent-polling"]
WANTED_BY = "/etc/systemd/system/multi-user.target.wants"
KEEP = ["-o", "Dpkg::Options::=--force-confold", "-o", "Dpkg::Options::=--force-confdef"]
CONFIG = "/etc/gnudi/gnocchi.conf"


def version(tree):
    return tree.shell("dpkg-query --showformat='${Version}' --show gnudi")


def serve(tree, tmp_path, *lines, port=8041):
    """The server by its unit; runs lines of shell that ask it, and answers what each printed."""
    log = tmp_path / "serve.log"
    with started(tree, "gnudi-serve", log) as process:
        wait_for(log, f"serving HTTP address=127.0.0.1:{port}", process)
        return [tree.shell(f"export GNOCCHI_ENDPOINT=http://127.0.0.1:{port} GNOCCHI_USER=admin; {line}") for line in lines]


def check_installed(tree):
    name, _, _, _, _, home, shell = tree.shell("getent passwd gnudi").strip().split(":")
    assert (name, home, shell) == ("gnudi", "/var/lib/gnudi", "/usr/sbin/nologin")
    assert tree.owner("/var/lib/gnudi") == "gnudi:gnudi 700"
    assert tree.owner("/etc/gnudi") == "root:gnudi 750"
    assert tree.exists(f"{WANTED_BY}/gnudi-serve.service")
    for unit in OTHERS:
        assert not tree.exists(f"{WANTED_BY}/{unit}.service"), unit
        page = tree.shell(f"gzip -dc /usr/share/man/man1/{unit}.1.gz")
        assert unit_of(tree, unit)["Unit"]["Documentation"] == [f"man:{unit}(1)"] and ".TH" in page
    # The command of the page on authentication, after which the server can read what root writes.
    (create,) = [line for line in (build.ROOT / "docs" / "auth.md").read_text().splitlines() if line.startswith("    install -o gnudi ")]
    tree.shell(f"set -eo pipefail; {create}; echo secret | gnudi passwd /etc/gnudi/passwords admin; "
               "runuser -u gnudi -- grep -q ^admin: /etc/gnudi/passwords; rm /etc/gnudi/passwords")
    assert "complete" in tree.shell("source /usr/share/bash-completion/completions/gnudi; complete -p gnudi")
    assert tree.shell("gnudi --version").startswith("gnudi ")


def test_a_purge_empties_a_disk_of_its_own(tree, built):
    """The mount point itself cannot be removed."""
    tree.shell("mkdir -p /var/lib/gnudi; mount -t tmpfs tmpfs /var/lib/gnudi")
    tree.install(built["gnudi"])
    tree.write("/var/lib/gnudi/aggregates/run", "")
    tree.shell("echo gnudi gnudi/purge-data boolean true | debconf-set-selections")
    tree.run("apt-get", "purge", "--yes", "gnudi")
    assert tree.shell("ls -A /var/lib/gnudi") == ""


@pytest.mark.long
def test_a_package_lives_on_a_fresh_debian(fresh_tree, built, tmp_path):
    tree = fresh_tree
    package = built["gnudi"]
    old = build.older(package, tmp_path)

    tree.install(old)
    assert version(tree) == "0.0.9-1"
    check_installed(tree)
    metric = serve(tree, tmp_path, "gnudi metric create -a low room -f value -c id")[0].strip()
    show = f"gnudi measures show --refresh {metric} -f csv"
    shown = serve(tree, tmp_path, f"gnudi measures add -m 2026-11-21T10:00@21.5 {metric}", show)[1]
    assert "21.5" in shown
    assert tree.owner("/var/lib/gnudi/indexer.sqlite") == "gnudi:gnudi 600"

    # A file that nobody has edited is the newer version's.
    tree.install(package)
    assert version(tree) != "0.0.9-1" and "older version" not in tree.shell(f"cat {CONFIG}")
    # Back, and one that was edited stays as it is: the next server listens where it says.
    tree.install(old, options=["--allow-downgrades"])
    tree.shell(f"sed -i 's/^port = 8041/port = 8055/' {CONFIG}; chmod 640 {CONFIG}; chgrp gnudi {CONFIG}")
    tree.install(package, options=KEEP)
    assert "port = 8055" in tree.shell(f"cat {CONFIG}") and tree.owner(CONFIG) == "root:gnudi 640"
    assert serve(tree, tmp_path, show, port=8055) == [shown]

    tree.run("apt-get", "remove", "--yes", "gnudi")
    assert not tree.exists("/usr/bin/gnudi") and not tree.exists("/lib/systemd/system/gnudi-.service.d")
    assert tree.exists(CONFIG) and tree.exists("/var/lib/gnudi/indexer.sqlite") and tree.shell("getent passwd gnudi")
    tree.install(package, options=KEEP)
    assert serve(tree, tmp_path, show, port=8055) == [shown]

    # The question of a purge has the answer no.
    tree.write("/etc/gnudi/passwords", "")
    tree.run("apt-get", "purge", "--yes", "gnudi")
    assert not tree.exists(CONFIG) and not tree.exists("/etc/default/gnudi") and not tree.exists(f"{WANTED_BY}/gnudi-serve.service")
    assert tree.exists("/etc/gnudi/passwords") and tree.exists("/var/lib/gnudi/indexer.sqlite")
    tree.shell("rm /etc/gnudi/passwords")
    tree.install(package)
    tree.shell("echo gnudi gnudi/purge-data boolean true | debconf-set-selections")
    tree.run("apt-get", "purge", "--yes", "gnudi")
    assert not tree.exists("/etc/gnudi") and not tree.exists("/var/lib/gnudi")
    assert tree.shell("find /etc /usr /lib /var -name '*gnudi*' -not -path '/var/cache/*.deb' -not -path '/var/log/*'") == ""
