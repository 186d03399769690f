"""A repair is killed at any of its changes. Another run has the result of one that was not interrupted."""

import os
import re

import pytest

from backup import filled
from support.damage import flip, used_length
from support.strace import STRACE

pytestmark = pytest.mark.slow

# Calls by which a repair changes something.
CHANGES = "write,pwrite64,pwritev,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,fsync,fdatasync"
# Where it is killed, evenly over all of its changes.
KILLS = 8


def wound(store):
    """Damage in each part: in the entries and around those of a run, in both logs, in small files."""
    largest = max((store.data_dir / "aggregates" / "runs").glob("*.run"), key=used_length)
    log = max((store.data_dir / "incoming").glob("*.log"), key=used_length)
    for path, offset in [(largest, largest.stat().st_size // 2), (largest, largest.stat().st_size - 40),
                         (log, used_length(log) // 2), (store.data_dir / "aggregates" / "followed-log", 20)]:
        flip(path, offset, 8)
    (store.data_dir / "index-id").write_text("rubbish")
    return store


def traced(store, output, inject=()):
    return filled.start_repair(store, [STRACE, "-f", "-qq", "-o", output, "-e", f"trace={CHANGES}", *inject])


def complete(counts):
    return {id for id, count in counts.items() if count == filled.SECONDS}


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_a_repair_that_is_killed_is_run_again(copy, tmp_path):
    store = wound(copy())
    output = tmp_path / "strace"
    assert traced(store, output).wait(filled.TIMEOUT_S) == 0
    assert filled.verify(store)[:2] == (0, [])
    expected = complete(filled.read(store))
    changes = len(re.findall(r"^\d+ +\w+\(", output.read_text(), re.MULTILINE))
    assert changes > 2 * KILLS, changes
    for number in range(KILLS):
        store = wound(copy())
        # The calls are counted one kind at a time, so one kind is chosen with its place.
        kind = ["rename", "linkat,link", "fsync,fdatasync", "pwritev,pwrite64", "unlink,unlinkat"][number % 5]
        when = 1 + number // 5 * 2 + number % 2
        killed = traced(store, tmp_path / "killed", ["-e", f"inject={kind}:signal=KILL:when={when}"])
        killed.wait(filled.TIMEOUT_S)
        status, _, text = filled.verify(store, "--repair")
        assert status == 0, (kind, when, text)
        status, findings, text = filled.verify(store)
        assert (status, findings) == (0, []), (kind, when, text)
        assert complete(filled.read(store)) == expected, (kind, when)
    assert os.path.exists(tmp_path / "killed")
