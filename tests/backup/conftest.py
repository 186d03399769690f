"""A store that many tests copy and damage; servers on restored backups."""

import itertools

import pytest

from backup import filled
from backup.copies import CONFIG, TIMEOUT_S
from support.gnudi import Gnudi, run


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Not to be changed."""
    return filled.fill(tmp_path_factory.mktemp("filled"))


@pytest.fixture
def copy(whole, tmp_path):
    """Makes copies of it."""
    numbers = itertools.count()
    return lambda: whole.copy(tmp_path / f"copy-{next(numbers)}")


@pytest.fixture
def restored(tmp_path):
    """Restores a backup and starts a server on it."""
    servers = []

    def start(backup):
        server = Gnudi(tmp_path / f"restored-{len(servers)}", config=CONFIG)
        servers.append(server)
        done = run("restore", backup, "--data-dir", server.data_dir, timeout_s=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        return server.start()

    yield start
    for server in servers:
        server.end()
