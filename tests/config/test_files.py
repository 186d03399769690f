"""Which configuration files the programs read: the same as real oslo.config finds, in its order."""

import json
import random
import subprocess
import sys

import pytest

from support import gnudi as program, mounts

pytestmark = pytest.mark.skipif(not mounts.possible(), reason="mounting needs root")

# Reads cases as lines of JSON (project, program, words), and answers each with the files that oslo.config opened. RDO, whose packages have
# files of the distribution's own settings, has it look for these first.
OSLO = """
import json, os, sys
from oslo_config import cfg
read = []
found = cfg.find_config_files
def with_distribution(project=None, prog=None, extension=".conf"):
    own = [f"/usr/share/{project}/{name}-dist{extension}" for name in (project, prog)]
    return [path for path in own if os.path.exists(path)] + found(project, prog, extension)
cfg.find_config_files = with_distribution
cfg.ConfigParser._parse_file = staticmethod(lambda path, namespace: read.append(path))
for line in sys.stdin:
    project, name, words = json.loads(line)
    read.clear()
    conf = cfg.ConfigOpts()
    conf(words, project=project, prog=name)
    print(json.dumps(read))
"""
# A program of each project that ends at once, and says what it has read.
ENDS_AT_ONCE = {
    "gnocchi": ("gnocchi-upgrade", ["--skip-index", "--skip-storage", "--skip-incoming"]),
    "ceilometer": ("ceilometer-upgrade", ["--skip-gnocchi-resource-types"]),
}
ROUNDS = 12


def places(project, name):
    """Where files may lie, below the test's directory."""
    for directory in (f"home/.{project}", "home", f"etc/{project}", "etc", f"common/etc/{project}", f"snap/etc/{project}"):
        for stem in (project, name):
            yield f"{directory}/{stem}.conf"
            yield f"{directory}/{stem}.conf.d/b.conf"
            yield f"{directory}/{stem}.conf.d/a.conf"
            yield f"{directory}/{stem}.conf.d/.hidden.conf"
    for stem in (project, name):
        yield f"share/{project}/{stem}-dist.conf"


def lay_out(rng, directory, project, name):
    chance = rng.choice([0, 0.1, 0.3, 0.8])
    for place in places(project, name):
        path = directory / place
        path.unlink(missing_ok=True)
        if path.parent.name.endswith(".d") and path.parent.exists() and not any(path.parent.iterdir()):
            path.parent.rmdir()
        if rng.random() < chance:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")


def words(rng, directory):
    """None, or some files and directories that the command line names, in both forms."""
    named = directory / "named"
    for name in ("one.conf", "two.conf", "d1/x.conf", "d2/z.conf", "d2/y.conf", "d2/other.txt"):
        (named / name).parent.mkdir(parents=True, exist_ok=True)
        (named / name).write_text("")
    options = [("--config-file", named / "one.conf"), ("--config-file", named / "two.conf"),
               ("--config-dir", named / "d1"), ("--config-dir", named / "d2")]
    chosen = rng.sample(options, rng.choice([0, 0, 1, 2, 4]))
    return [word for option, path in chosen
            for word in ([f"{option}={path}"] if rng.random() < 0.5 else [option, str(path)])]


@pytest.mark.parametrize("project", ENDS_AT_ONCE)
def test_the_same_files_as_oslo_config(tmp_path, project):
    rng = random.Random(19)
    name, arguments = ENDS_AT_ONCE[project]
    mounted = mounts.Mounts(tmp_path, has_share=True)
    link = tmp_path / name
    link.symlink_to(program.binary())
    environment = mounted.environment(SNAP_COMMON=str(tmp_path / "common"), SNAP=str(tmp_path / "snap"))
    oslo = subprocess.Popen(mounted.command(sys.executable, "-c", OSLO), env={**environment, "PYTHONUNBUFFERED": "1"},
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with oslo:
        for _ in range(ROUNDS):
            lay_out(rng, tmp_path, project, name)
            line = words(rng, tmp_path)
            oslo.stdin.write(json.dumps([project, name, line]) + "\n")
            oslo.stdin.flush()
            expected = json.loads(oslo.stdout.readline())
            done = subprocess.run(mounted.command(link, *arguments, *line), env=environment, capture_output=True,
                                  text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            found = done.stderr.split("configuration from ")[1].splitlines()[0]
            assert found == (", ".join(expected) or "no file"), line
        oslo.stdin.close()


def test_a_distributions_values_are_overridden(tmp_path):
    """/usr/share/gnocchi/gnocchi-dist.conf has what /etc/gnocchi/gnocchi.conf does not say."""
    mounted = mounts.Mounts(tmp_path, has_share=True)
    for path, text in ((mounted.share / "gnocchi" / "gnocchi-dist.conf", "[api]\nport = 1111\nmax_limit = 7\n"),
                       (mounted.etc / "gnocchi" / "gnocchi.conf", "[api]\nport = 2222\n")):
        path.parent.mkdir()
        path.write_text(text)
    none = tmp_path / "none"
    none.mkdir()
    done = subprocess.run(mounted.command(program.binary(), "config", "--section", "api", "--config-dir", none), env=mounted.environment(), capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert any(line.startswith("port = 2222") for line in shown) and any(line.startswith("max_limit = 7") for line in shown), done.stdout


def test_under_its_own_name_gnudi_has_a_directory_of_its_own(tmp_path):
    mounted = mounts.Mounts(tmp_path)
    (mounted.etc / "gnudi").mkdir()
    (mounted.etc / "gnocchi").mkdir()
    for name in ("gnudi", "gnocchi"):
        (mounted.etc / name / "gnocchi.conf").write_text("")
    words = ["upgrade", "--skip-index", "--skip-storage", "--skip-incoming"]
    done = subprocess.run(mounted.command(program.binary(), *words), env=mounted.environment(), capture_output=True,
                          text=True, timeout=60, check=False)
    assert "configuration from /etc/gnudi/gnocchi.conf\n" in done.stderr, done.stderr
