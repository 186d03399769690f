"""When `gnudi import gnocchi` refuses, what it leaves out, and imports that are killed and repeated."""

import contextlib
import json
import random
import signal
import subprocess
import time

import psycopg2
import pytest

from migration.world import World, check_same, metadata, ordered, series
from support import gnudi as program
from support.gnocchi import Gnocchi
from support.http import create_policy
from support.process import free_port, wait_until

REQUESTS = 4
KILLS = 8


@pytest.fixture(scope="module")
def world(module_path, postgres):
    """A filled Gnocchi, which no test changes."""
    with Gnocchi(module_path, postgres) as server:
        made = World(server.client(), random.Random("faults"))
        made.make()
        made.post([server.client()], made.requests(REQUESTS))
        made.server = server
        yield made


def imported(conf, data_dir, timeout_s=60):
    return program.run("import", "gnocchi", "--config-file", conf, "--data-dir", data_dir, timeout_s=timeout_s)


def changed(world, tmp_path, *replacements):
    """Gnocchi's configuration file with other texts."""
    text = (world.server.directory / "gnocchi.conf").read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    conf = tmp_path / "gnocchi.conf"
    conf.write_text(text, encoding="utf-8")
    return conf


def database(world):
    text = (world.server.directory / "gnocchi.conf").read_text(encoding="utf-8")
    return next(line.removeprefix("url = ") for line in text.splitlines() if line.startswith("url = "))


def test_what_cannot_be_imported_is_refused_and_leaves_nothing(world, tmp_path, postgres):
    url = database(world)
    empty, newer = postgres.create_database("import_empty"), postgres.create_database("import_newer")
    connection = psycopg2.connect(newer)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE alembic_version (version_num VARCHAR(32)); INSERT INTO alembic_version VALUES ('deadbeef0000')")
    connection.close()
    nobody = f"postgresql://postgres@127.0.0.1:{free_port()}/gnocchi"
    cases = [
        ([("driver = file", f"driver = redis\nredis_url = redis://127.0.0.1:{free_port()}")], "refused"),
        ([(url, empty)], "no index of Gnocchi: there is no table alembic_version"),
        ([(url, newer)], "the schema deadbeef0000 is none that Gnocchi 4.3 to 4.7 has: upgrade Gnocchi first"),
        ([(url, nobody)], "refused"),
        ([(f"file_basepath = {world.server.directory}/store", "file_basepath = /nonexistent/store")], "/nonexistent/store"),
        ([(f"file_basepath = {world.server.directory}/store", f"file_basepath = {tmp_path}")], "no storage of Gnocchi: there is no folder tmp in it"),
    ]
    for replacements, text in cases:
        conf = changed(world, tmp_path, *replacements)
        done = imported(conf, tmp_path / "data")
        assert (done.returncode, done.stdout) == (1, ""), replacements
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"gnudi: {conf}:") and text in line, line
        assert not (tmp_path / "data").exists(), replacements


def test_another_policy_of_the_same_name_is_refused(world, gnudi, tmp_path):
    server = gnudi(data_dir=tmp_path / "data")
    create_policy(server.client(), "plain", [("7s", None)])
    assert server.stop() == 0
    done = imported(world.server.directory / "gnocchi.conf", tmp_path / "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "gnudi: the archive policy plain is there already, and is another one: import into an empty store\n"


def test_a_store_that_no_import_wrote_is_refused(world, gnudi, tmp_path):
    server = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"])
    create_policy(server.client(), "own", [("7s", None)])
    metric = server.client().post("/v1/metric", {"archive_policy_name": "own"}).expect(201).json()["id"]
    assert server.stop() == 0
    done = imported(world.server.directory / "gnocchi.conf", tmp_path / "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("gnudi: the store has resources or metrics that no import wrote, or a server has used it since: import into "
                           "an empty one\n")
    server.start()
    assert [found["id"] for found in server.client().get("/v1/metric").json()] == [metric]
    assert [found["name"] for found in server.client().get("/v1/archive_policy").json()] == ["own"]


def test_an_import_of_another_gnocchi_is_refused(world, tmp_path):
    assert imported(world.server.directory / "gnocchi.conf", tmp_path / "data").returncode == 0
    url = database(world)
    other = changed(world, tmp_path, (url, url.replace("127.0.0.1", "localhost")))
    done = imported(other, tmp_path / "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert "gnudi: the store is an import of another Gnocchi, postgresql://" in done.stderr, done.stderr


def test_a_storage_without_any_series_is_reported(world, tmp_path):
    """That of another Gnocchi, which has the same index and incoming by mistake."""
    (tmp_path / "other" / "tmp").mkdir(parents=True)
    store = f"file_basepath = {world.server.directory}/store"
    conf = changed(world, tmp_path, (store, f"file_basepath = {tmp_path}/other\n[incoming]\ndriver = file\n{store}"))
    done = imported(conf, tmp_path / "data")
    assert done.returncode == 0, done.stderr
    # Said at the start, too.
    assert f"the first metrics have no points in Gnocchi's storage, there is no {tmp_path}/other/" in done.stderr, done.stderr
    assert "no metric has points in Gnocchi's storage" in done.stdout and f"there is no {tmp_path}/other/" in done.stdout, done.stdout
    again = imported(world.server.directory / "gnocchi.conf", tmp_path / "data")
    assert (again.returncode, again.stderr) == (0, "") and "no metric has points" not in again.stdout, again.stdout + again.stderr


def test_damaged_files_are_named_and_left_out(world, gnudi, tmp_path):
    store = tmp_path / "store"
    subprocess.run(["cp", "-a", world.server.directory / "store", store], check=True)
    conf = changed(world, tmp_path, (f"{world.server.directory}/store", str(store)))
    splits = sorted(path for path in store.rglob("*_v3") if path.parent.name == "agg_mean")
    points = sorted(store.rglob("none_v3"))
    damaged = [splits[0], splits[-1], points[len(points) // 2]]
    damaged[0].write_bytes(damaged[0].read_bytes()[:-3])
    damaged[1].write_bytes(b"c" + bytes(40))
    damaged[2].write_bytes(b"")
    done = imported(conf, tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    left_out = [line.strip() for line in done.stdout.splitlines() if str(store) in line]
    assert sorted(line.split(": ")[0] for line in left_out) == sorted(map(str, damaged)), done.stdout
    hit = {path.parent.parent.name if path.parent.name == "agg_mean" else path.parent.name for path in damaged}
    whole = {metric: policy for metric, policy in world.metrics.items() if metric not in hit}
    assert len(whole) >= len(world.metrics) - len(damaged)
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"])
    check_same(series(ours.client(), whole), series(world.client, whole), "series")
    # What lacks its points has its buckets all the same.
    without_points = damaged[2].parent.name
    found = series(ours.client(), {without_points: world.metrics[without_points]})
    check_same(found, series(world.client, {without_points: world.metrics[without_points]}), "series without points")


@contextlib.contextmanager
def unreadable(path, away):
    """A folder in place of a file, or the reverse, stands for an engine that does not respond."""
    make, remove = (path.mkdir, path.rmdir) if path.is_file() else (path.touch, path.unlink)
    if path.exists():
        path.rename(away)
    make()
    yield
    remove()
    if away.exists():
        away.rename(path)


def test_outages_in_the_first_and_in_the_last_round_are_waited_for(world, tmp_path, request):
    store, log, away = tmp_path / "store", tmp_path / "log", tmp_path / "away"
    subprocess.run(["cp", "-a", world.server.directory / "store", store], check=True)
    conf = changed(world, tmp_path, (f"{world.server.directory}/store", str(store)))
    points = max(store.rglob("none_v3"), key=lambda path: path.parent.name)
    sack = store / f"incoming{json.loads((store / 'tmp' / 'gnocchi-config').read_text())['sacks']}-0"
    command = [program.binary(), "import", "gnocchi", "--config-file", conf, "--data-dir", tmp_path / "data", "--follow"]

    def wait_for(text, count=1):
        wait_until(lambda: log.read_text(encoding="utf-8").count(text) >= count or process.poll() is not None, 60, text)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        return log.read_text(encoding="utf-8").count("trying again")

    with log.open("wb") as out, unreadable(points, away):
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT)
        # If a wait fails: it would try for ever.
        request.addfinalizer(process.kill)
        wait_for("trying again")
    wait_for("following Gnocchi")
    with unreadable(sack, away):
        process.send_signal(signal.SIGINT)
        noticed = wait_for("import: the last round")
        wait_for("trying again", noticed + 1)
    assert process.wait(60) == 0, log.read_text(encoding="utf-8")
    assert "0 left out" in log.read_text(encoding="utf-8").splitlines()[-1]


def test_times_that_are_moved_are_named_by_each_import(world, tmp_path):
    resource = min(world.resources)
    connection = psycopg2.connect(database(world))

    def set_end(end):
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT ended_at FROM resource WHERE id = %s", [resource])
            (before,) = cursor.fetchone()
            cursor.execute("UPDATE resource SET ended_at = %s WHERE id = %s", [end, resource])
        return before

    before = set_end("2500-01-01")
    try:
        # The second time all resources are there already, as after a kill.
        for _ in range(2):
            done = imported(world.server.directory / "gnocchi.conf", tmp_path / "data")
            assert (done.returncode, done.stderr) == (0, "")
            assert f"resource {resource}: its ended_at is not between 1677 and 2262" in done.stdout, done.stdout
    finally:
        set_end(before)
        connection.close()


def test_an_import_that_is_killed_is_run_again(world, gnudi, tmp_path):
    conf, rng = world.server.directory / "gnocchi.conf", random.Random("kills")
    command = [program.binary(), "import", "gnocchi", "--config-file", conf, "--data-dir", tmp_path / "data"]
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.01, 0.25))
        process.kill()
        process.wait()
    done = imported(conf, tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"])
    check_same(series(ours.client(), world.metrics), series(world.client, world.metrics), "series")
    check_same(ordered(metadata(ours.client(), world)), ordered(metadata(world.client, world)), "metadata")
