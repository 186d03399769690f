"""Fixtures that several test directories share: servers under test, the engines that they use, a directory that other users can read."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import pytest

from support import schedule
from support.ceph import Ceph
from support.cloud import Cloud
from support.engines import USUAL, parameters, sections
from support.etcd import Etcd
from support.gnudi import Gnudi
from support.gnocchi import Gnocchi
from support.keystone import Keystone
from support.mariadb import Mariadb
from support.postgres import Postgres
from support.process import each_made, running
from support.radosgw import Radosgw
from support.redis import Redis


# Fixtures that start engines and other servers beside gnudi, which takes seconds.
ENGINES = {"postgres", "mariadb", "redis", "etcd", "ceph", "radosgw", "keystone", "prometheus", "rabbitmq", "bus", "broker", "gnocchi",
           "theirs", "cloud", "built"}
MEMORY = "/dev/shm"
ROOM_BYTES = 6 << 30


def pytest_make_parametrize_id(config, val, argname):
    """Workers must name each test alike, and compressed bytes hold the time: such bytes are named by their length."""
    if isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable()):
        return f"{argname}-{len(val)}-bytes"
    return None


def pytest_addoption(parser):
    parser.addoption("--rounds", type=int, default=None, help="rounds of the random tests")
    parser.addoption("--times", type=int, default=1, help="how many times as many rounds as usual; --rounds says how many")
    parser.addoption("--seed", type=int, default=None, help="seed of the random tests; printed when absent")
    parser.addoption("--update", action="store_true", help="write the answers of this run into docs/api.md")
    parser.addoption("--oracle", action="store_true", help="run the functional suite against real Gnocchi instead")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if not ENGINES.isdisjoint(item.fixturenames):
            item.add_marker("slow")
        if "rounds" in item.fixturenames:
            item.add_marker("random")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: schedule.place(item.nodeid))


def pytest_xdist_make_scheduler(config, log):
    return schedule.Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def has_room(directory):
    return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free > ROOM_BYTES


@pytest.fixture(scope="session")
def shared_dir():
    """A short-named directory that other users (PostgreSQL's) may enter; gone at the end. It is in memory where there is room:
    no engine is asked to outlive the machine, and a slow disk must not make one late."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="gnudi-test-", dir=MEMORY if has_room(MEMORY) else "/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def shared_server(make):
    """A fixture: the server that `make` makes in a directory, for all tests of the run."""
    @pytest.fixture(scope="session")
    def server(shared_dir):
        yield from running(make(shared_dir))

    return server


postgres = shared_server(lambda directory: Postgres(directory / "pg"))
mariadb = shared_server(lambda directory: Mariadb(directory / "my"))
# Gnocchi's uses have a database each, by number.
redis = shared_server(lambda directory: Redis(directory / "redis", "--databases", "256"))
etcd = shared_server(lambda directory: Etcd(directory / "etcd"))
ceph = shared_server(lambda directory: Ceph(directory / "ceph"))
# A test that stops it must start it again.
keystone = shared_server(lambda directory: Keystone(directory / "keystone"))


@pytest.fixture(scope="session")
def radosgw(shared_dir, ceph):
    yield from running(Radosgw(shared_dir / "rgw", ceph))


@pytest.fixture(scope="module")
def module_path(tmp_path_factory, request):
    """A directory for what the tests of a module share. It is gone with the module, since each server lays out 200 MB, unless one
    of its tests failed. (pytest removes what `mktemp` made only when the whole run is over.)"""
    failed_before = request.session.testsfailed
    path = tmp_path_factory.mktemp(request.module.__name__.rsplit(".", 1)[-1])
    yield path
    if request.session.testsfailed == failed_before:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def seed(pytestconfig):
    """Of a random test; that of a failure is told, so that `--seed` repeats it."""
    given = pytestconfig.getoption("seed")
    seed = random.randrange(2**32) if given is None else given
    print(f"seed {seed}")
    return seed


@pytest.fixture
def rounds(request):
    """How many rounds a random test has: `--rounds`, or as many as its module says, `--times` so often. In `make test` it may have
    fewer than those."""
    times = request.config.getoption("times")
    usual = request.module.ROUNDS if times > 1 else getattr(request.module, "TEST_ROUNDS", request.module.ROUNDS)
    return request.config.getoption("rounds") or usual * times


@pytest.fixture
def gnudi(tmp_path):
    """Makes servers: `gnudi(config=..., ...)` answers a started one; all end with the test."""
    yield from each_made(lambda number, **kwargs: Gnudi(tmp_path / f"gnudi-{number}", **kwargs), Gnudi.end)


@pytest.fixture(scope="module")
def server(module_path):
    """A server with the usual configuration for all tests of a module, unless it or its directory has another of this name."""
    with Gnudi(module_path / "gnudi") as server:
        yield server


@pytest.fixture
def small_disk(tmp_path, request):
    """The directory of a file system in memory of its own, of as many bytes as its module says in `DISK_BYTES`."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.module.DISK_BYTES}", "gnudi-test", path],
                             capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no right to mount a file system: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


@pytest.fixture
def cloud(tmp_path):
    """Makes clouds: `cloud(config, apis=..., workers=...)` answers a started one; all end with the test."""
    yield from each_made(lambda number, *args, **kwargs: Cloud(tmp_path / f"cloud-{number}", *args, **kwargs), Cloud.stop)


@pytest.fixture
def gnocchi(tmp_path, postgres):
    """As `gnudi`, for the real Gnocchi; on PostgreSQL unless told."""
    def make(number, databases=postgres, **kwargs):
        return Gnocchi(tmp_path / f"gnocchi-{number}", databases, **kwargs)

    yield from each_made(make, Gnocchi.stop)


@pytest.fixture(params=parameters(["embedded", "mariadb+redis+redis", USUAL], ["embedded", USUAL]))
def servers(request, gnudi, cloud):
    """A client, and what kills the server and starts it again on the same data."""
    if request.param == "embedded":
        server = gnudi()

        def restart():
            server.kill()
            server.start()
            return server.client()

        return server.client(), restart
    # A worker that is killed keeps its sacks until its lease ends.
    made = cloud(f"[metricd]\nlease_seconds = 2\n{sections(request, request.param)}", apis=1, workers=1)

    def restart():
        made.workers[0].kill()
        made.workers[0].start()
        return made.client()

    return made.client(), restart
