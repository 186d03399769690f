"""lintian on both packages, and their version."""

import subprocess

from support import gnudi as program


def test_lintian_is_quiet(built):
    command = ["lintian", "--allow-root", "--no-user-dirs", "--fail-on", "error,warning", *built.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_the_version_is_the_programs(built):
    version = program.run("--version").stdout.split()[1]
    for package in built.values():
        said = subprocess.run(["dpkg-deb", "--field", package, "Version"], capture_output=True, text=True, check=True).stdout
        assert said.strip().rpartition("-")[0] == version
