"""File names in the data directory are durable before any request is answered: each directory is synced after a name was created in it,
even if the process that created it was killed before it could sync."""

import os
import stat

import pytest

from support.gnudi import START_TIMEOUT_S, binary
from support.http import Client
from support.process import Process, free_port, wait_until
from support.strace import STRACE, kill, not_durable, traced

pytestmark = pytest.mark.skipif(STRACE is None, reason="strace is not installed")

# The calls of fsync of a first start, about: the process is killed at each.
SYNCS_OF_A_START = 12


@pytest.fixture
def start(tmp_path):
    """Starts the server under strace in a working directory of its own, and waits until it is healthy or has ended; answers the
    file that strace wrote and whether it was healthy."""
    config = tmp_path / "gnocchi.conf"
    config.write_text("")
    processes = []

    def start(*arguments, inject=None):
        port, output = free_port(), tmp_path / f"strace-{len(processes)}"
        command = [binary(), "serve", "--config-file", config, "--listen", f"127.0.0.1:{port}", "--without", "host"]
        process = Process(traced([*command, *arguments], output, inject), tmp_path / "log", cwd=tmp_path)
        processes.append(process)
        client = Client("127.0.0.1", port, timeout_s=5)
        wait_until(lambda: not process.running() or client.answers(), START_TIMEOUT_S, "an answer")
        is_healthy = process.running()
        if is_healthy:
            kill(process)
        return output, is_healthy

    yield start
    for process in processes:
        process.kill()


def everything(path):
    """The path, those above it that the test has made, and all that is below it."""
    return [path, path.parent, *path.rglob("*")]


@pytest.mark.parametrize("given", ["{tmp_path}/new/levels/data", "new/levels/data", "./data", None])
def test_what_a_first_start_makes(start, tmp_path, given):
    """None: the default, a relative name without a slash."""
    given = given and given.format(tmp_path=tmp_path)
    output, is_healthy = start(*(["--data-dir", given] if given else []))
    assert is_healthy, (tmp_path / "log").read_text()
    data_dir = tmp_path / (given or "gnudi-data")
    assert not_durable(output, data_dir, tmp_path) == []
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert (data_dir / "aggregates" / "runs").is_dir(), "the paths that strace tells are not those that the test knows"


def test_what_a_start_finds(start, tmp_path):
    """The process before was killed at any of its syncs; the next one makes good what it has left undone."""
    for sync in range(1, SYNCS_OF_A_START + 1):
        data_dir = tmp_path / f"above-{sync}" / "data"
        _, is_healthy = start("--data-dir", data_dir, inject=f"fsync:signal=KILL:when={sync}")
        assert not is_healthy or sync > 8, sync
        found = everything(data_dir)
        output, is_healthy = start("--data-dir", data_dir)
        assert is_healthy, (tmp_path / "log").read_text()
        assert not_durable(output, data_dir, tmp_path, found) == [], f"killed at sync {sync}"


def test_a_directory_that_is_there_is_left_as_it_is(start, tmp_path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    os.chmod(data_dir, 0o755)
    _, is_healthy = start("--data-dir", "data")
    assert is_healthy
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o755
