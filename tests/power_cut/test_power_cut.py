"""Power cuts on the real server: acknowledged data survives each; and the tool detects missing syncs.

30 images, or `--rounds` (`make power-cut`: 20,000). A disk that ignores a kind of sync, and a server configured not to sync,
must lose data: otherwise the images prove nothing.
"""

import re

import pytest

from power_cut import run
from power_cut.recording import record

pytestmark = pytest.mark.slow

ROUNDS = 30
FIRST_START_IMAGES = 30
BLIND_IMAGES = 60
RECORDINGS_MAX = 3
# What the store does: it flushes runs and merges them, begins segments, uses old ones again, trims; and folds SQLite's log.
WORK = [
    ("rename", r"\.run"), ("unlink", r"\.run"), ("rename", r"\.log\.spare"), ("rename", "trimmed"),
    ("write", r".*/incoming/00000002\.log"), ("write", r".*/indexer\.sqlite-wal"), ("write", r".*/indexer\.sqlite"),
]


def has(recording, kind, name):
    """Whether a recording has an operation of the kind on a file whose name ends so."""
    return any(o.kind == kind and re.fullmatch(rf".*{name}", o.name) for o in recording.operations)


@pytest.fixture(scope="module")
def recorded(module_path):
    """A recording that tests share, and its directory: its seed need not be that of the images. It is made again if the machine stood
    still while the store should do what it does at intervals."""
    for number in range(RECORDINGS_MAX):
        directory = module_path / str(number)
        found = record(directory / "run", 1, "disk", False, run.REQUESTS)
        if all(has(found, *work) for work in WORK):
            break
    found.save(directory / "recording")
    return found, directory


@pytest.mark.parametrize("kind, name", WORK)
def test_the_workload_goes_through_all_that_the_store_does(recorded, kind, name):
    assert has(recorded[0], kind, name)


def test_acknowledged_requests_survive_a_power_cut(recorded, seed, rounds):
    report = run.power_cuts(seed, images=rounds, recording=recorded[1])
    print(report)
    assert report.tried >= rounds * 9 // 10
    assert not report.faults, report


def test_a_power_cut_during_the_first_start(seed):
    """The server makes its directory and the one above."""
    report = run.power_cuts(seed, images=FIRST_START_IMAGES, fresh=True)
    print(report)
    assert not report.faults, report


@pytest.mark.long
@pytest.mark.parametrize("kind", ["dirsync", "wal", "datasync"])
def test_a_disk_that_ignores_syncs_is_found_out(recorded, kind):
    report = run.power_cuts(1, images=BLIND_IMAGES, recording=recorded[1], ignore=[kind], faults_max=1)
    assert report.faults, "these syncs are needed, and nobody missed them"
    case, _ = report.faults[0]
    again = run.power_cuts(1, only=case.name, recording=recorded[1], ignore=[kind])
    assert [found.name for found, _ in again.faults] == [case.name], "recording, seed and number repeat an image"


@pytest.mark.long
def test_a_server_that_does_not_sync_measures_is_found_out(tmp_path):
    report = run.power_cuts(1, images=BLIND_IMAGES, durability="os", faults_max=1, keep=tmp_path)
    assert report.faults
    assert "measures lost" in report.faults[0][1], report
