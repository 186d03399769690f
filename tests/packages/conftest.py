"""The packages, built once for all tests of this directory."""

import shutil
import subprocess

import pytest

from packages import build
from packages.tree import fresh, of_this_host


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The packages: {name: file}."""
    return build.build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="session")
def unpacked(built, tmp_path_factory):
    """A directory with the files of both packages."""
    directory = tmp_path_factory.mktemp("unpacked")
    for package in built.values():
        subprocess.run(["dpkg-deb", "--extract", package, directory], check=True)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def tree(tmp_path):
    """A system like this machine's."""
    with of_this_host(tmp_path / "system") as made:
        yield made


@pytest.fixture
def fresh_tree(tmp_path):
    """Debian's smallest system."""
    with fresh(tmp_path / "system") as made:
        yield made
