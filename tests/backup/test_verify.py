"""`gnudi verify` reports each kind of damage, and `--repair` sets it aside. After one repair nothing more is found: undamaged data is
read, and no wrong data."""

import fcntl
import json
import os
import re
import shutil
import sqlite3
import subprocess
import uuid

import pytest

from backup import filled
from backup.copies import back_up
from crash import load
from support.damage import flip, used_length
from support.gnudi import run
from support.http import create_metric
from support.process import wait_until

pytestmark = pytest.mark.slow

KILLS = 3
REQUESTS_BEFORE_KILL = 400
PIECE_BYTES = 4096

# A file that cannot be read from some place on.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t pread64(int fd, void *bytes, size_t length, off64_t offset) {
    ssize_t (*real)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    struct stat file;
    if (fstat(fd, &file) == 0 && file.st_ino == strtoull(getenv("BAD_INODE"), NULL, 10)
        && offset + length > strtoull(getenv("BAD_FROM"), NULL, 10)) {
        errno = EIO;
        return -1;
    }
    return real(fd, bytes, length, offset);
}
"""


def everything(store):
    return {id: filled.SECONDS for id in store.metrics}


def content(store):
    """All files with their bytes."""
    return {path: path.read_bytes() for path in sorted(store.data_dir.rglob("*")) if path.is_file()}


def largest(paths):
    return max(paths, key=used_length)


def runs(store):
    return sorted((store.data_dir / "aggregates" / "runs").glob("*.run"))


def check_repaired(store, lost_max=0):
    """One repair is enough; at most so many metrics are refused or have lost something. Answers how many."""
    status, _, text = filled.verify(store, "--repair")
    assert status == 0, text
    text = filled.check_whole(store)
    counts = filled.read(store)
    lost = [id for id, count in counts.items() if count != filled.SECONDS]
    assert len(lost) <= lost_max, (lost, text)
    # The server has changed the store: what it wrote is whole.
    filled.check_whole(store)
    return len(lost)


def test_a_whole_store(copy):
    store = copy()
    before = content(store)
    text = filled.check_whole(store)
    summary = text.splitlines()[-1]
    assert summary.startswith("0 damaged, 0 left over: ") and f"{filled.METRICS} states" in summary, summary
    assert content(store) == before, "a verification changes nothing"
    assert filled.verify(store, "--repair")[0] == 0
    assert content(store) == before, "where nothing is damaged, a repair changes nothing"
    assert filled.read(store) == everything(store)


def test_a_store_that_was_killed(copy):
    """What waits in the log, an unfinished write and an index with a log of its own are no damage."""
    store = copy()
    server = store.start()
    client = server.client()
    client.post("/v1/archive_policy", {"name": "late", "definition": [{"granularity": "1s"}]}).expect(201)
    for second in range(30):
        body = [{"timestamp": filled.START_S + filled.SECONDS + second, "value": 1}]
        client.post(f"/v1/metric/{store.metrics[0]}/measures", body).expect(202)
    server.kill()
    assert (store.data_dir / "indexer.sqlite-wal").stat().st_size > 0
    before = content(store)
    filled.check_whole(store)
    assert content(store) == before


def test_a_store_that_was_killed_under_load(gnudi):
    """Whatever a flush, a merge or a pass was doing: what a crash leaves is no damage."""
    server = gnudi(config=filled.CONFIG)
    load.make_policy(server.client())
    store = filled.Filled(server.data_dir, [])
    for round in range(KILLS):
        metrics = [load.Metric(create_metric(server.client(), load.POLICY)) for _ in range(4)]
        writer = load.Writer(server.client(), metrics, round)
        writer.start()
        wait_until(lambda: writer.requests >= REQUESTS_BEFORE_KILL, filled.TIMEOUT_S, "requests")
        server.kill()
        writer.join(filled.TIMEOUT_S)
        filled.check_whole(store)
        server.start()
        for metric in metrics:
            load.check(server.client(), metric)


def test_a_store_in_use_is_refused(copy):
    store = copy()
    server = store.start()
    try:
        for arguments in [(), ("--repair",)]:
            status, _, text = filled.verify(store, *arguments)
            assert status == 2 and "in use by another process" in text, text
    finally:
        assert server.stop() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_repair_by_root_leaves_the_store_to_its_user(copy):
    """Else the server, which is not root, could not open it."""
    store, nobody = copy(), 65534
    for path in [store.data_dir, *store.data_dir.rglob("*")]:
        os.chown(path, nobody, nobody)
    run_file = largest(runs(store))
    before = run_file.stat().st_ino
    flip(run_file, used_length(run_file) // 2)
    status, _, text = filled.verify(store, "--repair")
    assert status == 0, text
    assert not run_file.exists() or run_file.stat().st_ino != before, "it is rewritten"
    found = {str(path): path.lstat().st_uid for path in store.data_dir.rglob("*")}
    assert found and set(found.values()) == {nobody}, found


def test_a_repair_and_a_backup_exclude_each_other(copy, tmp_path):
    """Each holds a lock on the directory, which is held here in its place."""
    store, place = copy(), tmp_path / "backups"
    directory = os.open(store.data_dir, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_SH)
        status, _, text = filled.verify(store, "--repair")
        assert status == 2 and "in use" in text, text
        back_up(store, place)
        fcntl.flock(directory, fcntl.LOCK_EX)
        done = run("backup", place, "--data-dir", store.data_dir)
        assert done.returncode == 1 and "in use" in done.stderr, done.stderr
    finally:
        os.close(directory)
    assert filled.verify(store, "--repair")[0] == 0


def test_what_is_no_store(tmp_path):
    done = run("verify", "--data-dir", tmp_path)
    assert done.returncode == 2 and "no data directory" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_backup(copy, tmp_path):
    store = copy()
    done = run("backup", tmp_path / "backups", "--data-dir", store.data_dir, timeout_s=filled.TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    (path,) = [path for path in (tmp_path / "backups").iterdir() if path.is_dir()]
    backup = filled.Filled(path, store.metrics)
    filled.check_whole(backup)
    copied = largest((path / "incoming").glob("*.log"))
    flip(copied, used_length(copied) // 2)
    status, findings, text = filled.verify(backup)
    assert status == 1 and any(copied.name in line for line in findings), text
    status, _, text = filled.verify(backup, "--repair")
    assert status == 2 and "restore it" in text, text


def test_damage_in_the_log_of_measures(copy):
    store = copy()
    path = largest((store.data_dir / "incoming").glob("*.log"))
    offset = used_length(path) // 2
    flip(path, offset)
    status, findings, text = filled.verify(store)
    assert status == 1, text
    (line,) = findings
    match = re.search(r"^(\S+) at (\d+): ", line)
    assert match and match[1] == str(path) and abs(int(match[2]) - offset) < 20_000, line
    # All of it is in the aggregates.
    check_repaired(store)
    kept = list((store.data_dir / "incoming" / "quarantine").iterdir())
    assert [path.name for path in kept] == [f"{path.name}.{match[2]}"], kept


def test_damage_in_measures_that_wait(copy):
    """One request is lost, and told; the others are applied."""
    store = copy()
    server = store.start(filled.LAZY)
    for number, id in enumerate(store.metrics):
        body = [{"timestamp": filled.START_S + filled.SECONDS, "value": filled.value(number, filled.SECONDS)}]
        server.client().post(f"/v1/metric/{id}/measures", body).expect(202)
    server.kill()
    assert filled.verify(store)[:2] == (0, [])
    path = max((store.data_dir / "incoming").glob("*.log"), key=lambda path: path.name)
    hurt = store.metrics[7]
    flip(path, path.read_bytes().rindex(uuid.UUID(hurt).bytes))
    status, findings, text = filled.verify(store)
    assert status == 1 and len(findings) == 1 and findings[0].startswith(f"{path} at "), text
    assert filled.verify(store, "--repair")[0] == 0
    assert filled.verify(store)[:2] == (0, [])
    assert filled.read(store) == {id: filled.SECONDS + (id != hurt) for id in store.metrics}


@pytest.mark.parametrize("place", [0.3, 0.8])
def test_damage_in_a_run(copy, place):
    store = copy()
    path = largest(runs(store))
    offset = int(path.stat().st_size * place)
    flip(path, offset)
    status, findings, text = filled.verify(store)
    assert status == 1, text
    assert any(line.startswith(f"{path} at ") for line in findings), text
    assert any(re.search(r"metric [0-9a-f-]{36}|metrics from ", line) for line in findings), text
    check_repaired(store, lost_max=3)
    kept = list((store.data_dir / "aggregates" / "quarantine").iterdir())
    assert any(copy.name.startswith(path.name) for copy in kept), kept


@pytest.mark.parametrize("part", ["header", "index", "filter", "footer"])
def test_damage_around_the_entries_of_a_run_loses_nothing(copy, part):
    store = copy()
    path = largest(runs(store))
    bytes = path.read_bytes()
    footer = bytes[-64:]
    entries_end, index_bytes = (int.from_bytes(footer[at:at + 8], "little") for at in (8, 16))
    offset = {"header": 8, "index": entries_end + 20, "filter": entries_end + index_bytes + 3,
              "footer": len(bytes) - 60}[part]
    flip(path, offset)
    status, findings, text = filled.verify(store)
    assert status == 1 and any(str(path) in line for line in findings), text
    check_repaired(store)


def test_a_run_that_is_cut_or_missing(copy):
    store = copy()
    path = largest(runs(store))
    os.truncate(path, path.stat().st_size // 2)
    status, findings, text = filled.verify(store)
    assert status == 1 and any(line.startswith(f"{path} at ") for line in findings), text
    check_repaired(store, lost_max=filled.METRICS)
    store = copy()
    (runs(store)[0]).unlink()
    status, findings, text = filled.verify(store)
    if len(runs(store)) > 0:
        assert status == 1 and "a run is missing" in text, text
        check_repaired(store, lost_max=filled.METRICS)


def test_damage_in_the_log_of_aggregates(copy):
    store = copy()
    hurt = store.metrics[3]
    # Files that are used again have what they had before behind their end.
    for spare in (store.data_dir / "aggregates" / "log").glob("*.spare"):
        spare.unlink()
    server = store.start()
    body = [{"timestamp": filled.START_S + filled.SECONDS, "value": filled.value(3, filled.SECONDS)}]
    server.client().post(f"/v1/metric/{hurt}/measures", body).expect(202)
    server.client().get(f"/v1/metric/{hurt}/measures?refresh=true&aggregation=sum").expect(200)
    assert server.stop() == 0
    path = max((store.data_dir / "aggregates" / "log").glob("*.log"), key=lambda path: path.name)
    # The last place that names the metric is its head.
    flip(path, path.read_bytes().rindex(uuid.UUID(hurt).bytes) + 60, 4)
    status, findings, text = filled.verify(store)
    assert status == 1 and any(line.startswith(f"{path} at ") for line in findings), text
    assert any(f"metric {hurt}: " in line for line in findings), text
    check_repaired(store, lost_max=1)


def test_the_small_files(copy, whole):
    id = (whole.data_dir / "index-id").read_text()
    for name, text in [("format-version", "x\n"), ("index-id", "rubbish"), ("index-id", f"{uuid.uuid4()}\n"),
                       ("incoming/identity", "rubbish"), ("incoming/trimmed", None),
                       ("aggregates/followed-log", None)]:
        store = copy()
        path = store.data_dir / name
        if text is None:
            flip(path, 20, 1)
        else:
            path.write_text(text)
        status, findings, printed = filled.verify(store)
        assert status == 1 and len(findings) == 1 and findings[0].startswith(str(path)), (name, printed)
        check_repaired(store)
        assert (store.data_dir / "index-id").read_text() == id


def test_a_store_of_a_newer_program_is_not_changed(copy):
    store = copy()
    (store.data_dir / "format-version").write_text("2\n")
    # What a repair would rebuild.
    index = store.data_dir / "indexer.sqlite"
    flip(index, index.stat().st_size // 2, 64)
    before = content(store)
    for command in [["verify", "--repair"], ["verify"], ["backup", store.data_dir.parent / "backups"]]:
        refused = run(*command, "--data-dir", store.data_dir, timeout_s=filled.TIMEOUT_S)
        assert refused.returncode != 0 and "has format version 2" in refused.stdout + refused.stderr, (command, refused)
    assert content(store) == before


def test_a_log_that_lost_its_end(copy):
    store = copy()
    path = largest((store.data_dir / "incoming").glob("*.log"))
    os.truncate(path, used_length(path) // 2)
    status, findings, text = filled.verify(store)
    assert status == 1 and "its end is lost" in text, text
    check_repaired(store)


def test_an_end_of_the_log_that_cannot_be_read(copy, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.fail("there is no C compiler (cc)")
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    store = copy()
    path = largest((store.data_dir / "incoming").glob("*.log"))
    inode = path.stat().st_ino
    bad_from = max(used_length(path) // 2 // PIECE_BYTES, 1) * PIECE_BYTES
    bad = {"LD_PRELOAD": os.fspath(library), "BAD_INODE": str(inode), "BAD_FROM": str(bad_from)}
    found = run("verify", "--data-dir", store.data_dir, env=bad, timeout_s=filled.TIMEOUT_S)
    assert found.returncode == 1 and re.search(rf"{path.name} at {bad_from}: \d+ bytes cannot be read", found.stdout), found
    repaired = run("verify", "--repair", "--data-dir", store.data_dir, env=bad, timeout_s=filled.TIMEOUT_S)
    assert repaired.returncode == 0, repaired
    kept = store.data_dir / "incoming" / "quarantine" / f"{path.name}.whole-0"
    assert kept.stat().st_ino == inode
    filled.check_whole(store)
    assert filled.read(store) == everything(store)


def test_an_index_that_is_damaged(copy):
    store = copy()
    index = store.data_dir / "indexer.sqlite"
    # A page of an index of the database: what it says is in its table as well.
    with sqlite3.connect(index) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'metric' AND rootpage > 0").fetchone()
    connection.close()
    flip(index, (page - 1) * 4096 + 4000, 96)
    status, findings, text = filled.verify(store)
    assert status == 1 and all(line.startswith(str(index)) for line in findings), text
    check_repaired(store)
    # Beyond repair: it says so, and changes nothing.
    store = copy()
    index = store.data_dir / "indexer.sqlite"
    flip(index, 0, 100)
    before = content(store)
    status, _, text = filled.verify(store, "--repair")
    assert status == 2 and "restore it from a backup" in text, text
    assert content(store) == before


def test_states_of_metrics_that_the_index_does_not_know(copy):
    """What a power cut may leave of a deletion: it takes room, and is deleted."""
    store = copy()
    with sqlite3.connect(store.data_dir / "indexer.sqlite") as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM metric WHERE id = ?", (uuid.UUID(store.metrics[5]).bytes,))
    connection.close()
    status, findings, text = filled.verify(store)
    assert status == 0 and len(findings) == 1 and store.metrics[5] in findings[0], text
    assert "0 damaged, 1 left over" in text
    assert filled.verify(store, "--repair")[0] == 0
    filled.check_whole(store)


def test_a_state_that_is_missing_though_its_measures_were_processed(copy):
    """Aggregates that are gone are found by what the log of measures says; as long as it has everything, it is applied again."""
    store = copy()
    shutil.rmtree(store.data_dir / "aggregates")
    status, findings, text = filled.verify(store)
    assert status == 1 and len(findings) >= filled.METRICS, text
    assert all(any(id in line for line in findings) for id in store.metrics), text
    check_repaired(store)


def test_findings_as_json(copy):
    store = copy()
    path = largest(runs(store))
    flip(path, path.stat().st_size // 2)
    done = run("verify", "--json", "--data-dir", store.data_dir, timeout_s=filled.TIMEOUT_S)
    assert done.returncode == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(finding["file"] == str(path) and finding["offset"] > 0 and finding["what"] for finding in found), found
    assert " damaged, " in done.stderr
