"""Several processes on PostgreSQL and Redis: changes by one are seen by the others."""

import json
import subprocess
import time

import pytest

from support import gnudi as program
from support.cloud import Metricd
from support.engines import COMBINATIONS, USUAL, parameters, sections
from support.http import create_metric, create_policy, figure, get_patiently
from support.process import wait_until
from support.redis import Redis

ENGINES = "postgresql+redis+redis"
SOON_S = 60
POINTS = [["2026-11-21T10:00:00+00:00", 60.0, 21.0], ["2026-11-21T10:01:00+00:00", 60.0, 23.0]]


def post(client, metric, offset=0):
    body = [{"timestamp": "2026-11-21T10:00:00", "value": 21 + offset},
            {"timestamp": "2026-11-21T10:01:00", "value": 23 + offset}]
    client.post(f"/v1/metric/{metric}/measures", body).expect(202)


def minutes(client, metric, refresh):
    path = f"/v1/metric/{metric}/measures?granularity=60&refresh={refresh}"
    return get_patiently(client, path)


@pytest.mark.parametrize("engines", parameters([ENGINES, *COMBINATIONS, "postgresql+ceph+s3", "mariadb+file+file"], [ENGINES, USUAL]))
def test_what_one_process_takes_another_gives(cloud, request, engines):
    made = cloud(sections(request, engines), apis=2, workers=2)
    one, other = made.client(0), made.client(1)
    create_policy(one, "minutes", [("1 minute", 100)])
    metric = create_metric(other, "minutes", name="m")
    post(one, metric)
    assert minutes(other, metric, "true") == POINTS
    wait_until(lambda: minutes(one, metric, "false") == POINTS, SOON_S, "the workers")
    one.delete(f"/v1/metric/{metric}").expect(204)
    wait_until(lambda: other.get(f"/v1/metric/{metric}").status == 404, SOON_S, "the other's cache")
    wait_until(lambda: other.post(f"/v1/metric/{metric}/measures", []).status == 404, SOON_S, "its hot path")


@pytest.mark.parametrize("engine", parameters(["redis", "etcd", "mariadb"], ["redis", "etcd"]))
def test_another_engine_coordinates(cloud, request, engine):
    """Who owns what lies in another engine than the index; a worker that dies is followed by the other."""
    server = request.getfixturevalue(engine)
    url = server.create_database("coordination") if engine == "mariadb" else server.url
    lease_s = 2
    text = f"[DEFAULT]\ncoordination_url = {url}\n[metricd]\nlease_seconds = {lease_s}\n"
    made = cloud(text + sections(request, ENGINES), apis=1, workers=2)
    client = made.client()
    create_policy(client, "minutes", [("1 minute", 100)])
    metrics = [create_metric(client, "minutes") for _ in range(20)]
    for metric in metrics:
        post(client, metric)
        assert minutes(client, metric, "true") == POINTS
    made.workers[0].kill()
    for metric in metrics:
        post(client, metric)
    done = lambda: client.get("/v1/status?details=false").json()["storage"]["summary"]["measures"] == 0
    wait_until(done, SOON_S, "the other worker")


def test_serve_is_both(tmp_path, request):
    config = tmp_path / "gnocchi.conf"
    config.write_text(sections(request, ENGINES))
    server = Serve(tmp_path / "serve", config.read_text())
    with server:
        client = server.client()
        create_policy(client, "minutes", [("1 minute", 100)])
        metric = create_metric(client, "minutes")
        post(client, metric)
        assert minutes(client, metric, "true") == POINTS
        # Nobody has run `gnudi upgrade`: what was missing is made, and told.
        assert "index schema upgraded" in server.log(), server.log()
    assert server.process.child.returncode == 0


class Serve(program.Gnudi):
    """`gnudi serve` on shared engines."""

    def command(self):
        return [program.binary(), "serve", "--config-file", self.config_path, "--listen", f"127.0.0.1:{self.port}",
                "--without", "host"]


@pytest.mark.parametrize("engines, figures", [
    ("postgresql+file+redis", {"incoming_appends": 1, "incoming_objects": 1, "incoming_damaged": 0, "aggregates_commands": 1}),
    ("postgresql+redis+file", {"incoming_trips": 1, "aggregates_requests": 2, "aggregates_written_bytes": 100, "aggregates_damaged": 0}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_metrics_show_the_work_on_shared_stores(tmp_path, request, engines, figures):
    with Serve(tmp_path / "serve", sections(request, engines)) as server:
        client = server.client()
        create_policy(client, "minutes", [("1 minute", 100)])
        metric = create_metric(client, "minutes")
        post(client, metric)
        assert minutes(client, metric, "true") == POINTS
        for name, least in figures.items():
            wait_until(lambda: figure(client, f"gnudi_{name}_total") >= least, SOON_S, name)


def test_status_shows_all(cloud, request):
    made = cloud(sections(request, ENGINES), apis=2, workers=2, upgrade=["--sacks-number", "16"])

    def whole():
        status = json.loads(made.run("status", "--format", "json").stdout)
        owned = {unit["owner"] for unit in status["units"]}
        kinds = sorted(process["kind"] for process in status["processes"])
        leases = sum(process["leases"] for process in status["processes"])
        is_whole = kinds == ["api", "api", "metricd", "metricd"] and None not in owned and len(owned) == 2 and leases == 16
        return status if is_whole else None

    status = wait_until(whole, SOON_S, "all processes")
    assert status["sacks"] == 16 and status["split"] is None
    names = [process["name"] for process in status["processes"]]

    def table_has_all():
        table = made.run("status").stdout
        return all(name in table for name in names)

    wait_until(table_has_all, SOON_S, "all processes in the table")
    over_http = program.run("status", "--endpoint", f"http://127.0.0.1:{made.port}", "--format", "json")
    assert json.loads(over_http.stdout)["sacks"] == 16, over_http.stderr
    named = lambda: sorted(made.client().get("/v1/status").json()["metricd"]["processors"])
    expected = sorted(process["name"] for process in status["processes"] if process["kind"] == "metricd")
    wait_until(lambda: named() == expected, SOON_S, "the workers of the status")


def test_status_fails_where_nobody_processes(cloud, request):
    made = cloud(sections(request, ENGINES), apis=1, workers=0)
    for arguments in ([], ["--endpoint", f"http://127.0.0.1:{made.port}"]):
        done = made.run("status", *arguments)
        assert done.returncode == 1 and "no process processes measures" in done.stderr, (arguments, done.stderr)
        assert "128 sacks" in done.stdout
    made.workers = [Metricd(made.directory / "metricd", made.config).start()]
    wait_until(lambda: made.run("status").returncode == 0, SOON_S, "the worker")


def test_status_watches_until_it_is_told_to_stop(cloud, request):
    made = cloud(sections(request, ENGINES), apis=0, workers=1)
    command = [program.binary(), "status", "--config-file", made.config_path, "--format", "json", "--watch", "--interval", "1"]
    watching = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        lines = [json.loads(watching.stdout.readline()) for _ in range(2)]
        assert all(line["sacks"] == 128 for line in lines)
        watching.terminate()
        assert watching.wait(SOON_S) == 0
    finally:
        watching.kill()
        watching.wait()


def test_sacks_are_split_under_writes(cloud, request):
    made = cloud(sections(request, ENGINES), apis=2, workers=2, upgrade=["--sacks-number", "8"])
    client = made.client()
    create_policy(client, "minutes", [("1 minute", 100)])
    metrics = [create_metric(client, "minutes") for _ in range(40)]
    for round_number, size in enumerate((16, 64)):
        for metric in metrics:
            post(client, metric, round_number)
        # A number that is none is refused, and says which would do.
        refused = made.run("change-sack-size", str(size + 1))
        assert refused.returncode not in (0, None) and str(size) in refused.stderr, refused.stderr
        done = made.run("split-sacks") if size == 16 else made.run("change-sack-size", "--sacks-number", str(size))
        assert done.returncode == 0, done.stderr
        assert f"done: the old sacks are empty, {size} sacks" in done.stdout, done.stdout
        assert made.sacks() == size
    other = made.client(1)
    # The last minute may still be overwritten, the one before is final: the policy has no back window.
    expected = [POINTS[0], ["2026-11-21T10:01:00+00:00", 60.0, 24.0]]
    for metric in metrics:
        assert minutes(other, metric, "true") == expected


def test_a_change_of_the_number_of_sacks_that_was_killed_is_completed(cloud, request):
    made = cloud(sections(request, ENGINES), apis=1, workers=0, upgrade=["--sacks-number", "8"])
    create_policy(made.client(), "minutes", [("1 minute", 100)])
    metric = create_metric(made.client(), "minutes")
    post(made.client(), metric)
    command = [program.binary(), "change-sack-size", "--config-file", made.config_path, "32"]
    # Without a worker the measures wait in an old sack. So the first run is killed in the first of two splits.
    for line in ("16 sacks: new measures go to them now\n", "going on with a split that has begun: 16 sacks\n"):
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        try:
            assert running.stdout.readline() == line
            if line.startswith("going on"):
                made.workers = [Metricd(made.directory / "metricd", made.config).start()]
                said, _ = running.communicate(timeout=120)
                assert running.returncode == 0 and "done: the old sacks are empty, 32 sacks" in said, said
        finally:
            running.kill()
            running.wait()
    assert made.sacks() == 32
    assert minutes(made.client(), metric, "true") == POINTS


def test_an_embedded_store_is_not_split(tmp_path, gnudi):
    server = gnudi()
    config = tmp_path / "gnocchi.conf"
    config.write_text(f"[storage]\nfile_basepath = {server.data_dir}\n")
    for command in (["split-sacks"], ["change-sack-size", "256"]):
        done = program.run(*command, "--config-file", config)
        assert done.returncode not in (0, None)
        assert "embedded" in done.stderr and str(server.data_dir) in done.stderr, done.stderr
    status = program.run("status", "--endpoint", f"http://127.0.0.1:{server.port}")
    assert status.returncode == 0, status.stderr
    assert "128 sacks" in status.stdout and "one process has the store to itself" in status.stdout


def test_workers_stop_once_nothing_waits(cloud, request):
    made = cloud(sections(request, ENGINES), apis=1, workers=0)
    client = made.client()
    create_policy(client, "minutes", [("1 minute", 100)])
    metric = create_metric(client, "minutes")
    post(client, metric)
    started = time.monotonic()
    done = made.run("metricd", "--stop-after-processing-metrics")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < SOON_S
    assert minutes(client, metric, "false") == POINTS


def test_upgrade_from_two_places_at_once(tmp_path, request):
    config = tmp_path / "gnocchi.conf"
    config.write_text(sections(request, ENGINES))
    command = [str(program.binary()), "upgrade", "--config-file", str(config), "--sacks-number", "32"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
    again = program.run("upgrade", "--config-file", config, "--sacks-number", "64", timeout_s=60)
    assert again.returncode == 0 and "--sacks-number 64 has no effect" in again.stderr, again.stderr
    status = json.loads(program.run("status", "--config-file", config, "--format", "json").stdout)
    assert status["sacks"] == 32, "there were sacks already"


def test_two_clusters_on_one_place_are_refused(tmp_path, request):
    one, two = sections(request, ENGINES), sections(request, ENGINES)
    index = one.split("[incoming]")[0]
    stores = two.split("[incoming]")[1]
    for name, text in (("one", one), ("two", two), ("mixed", f"{index}[incoming]{stores}")):
        (tmp_path / f"{name}.conf").write_text(text)
    for name in ("one", "two"):
        done = program.run("upgrade", "--config-file", tmp_path / f"{name}.conf", timeout_s=60)
        assert done.returncode == 0, done.stderr
    done = program.run("upgrade", "--config-file", tmp_path / "mixed.conf", timeout_s=60)
    assert done.returncode not in (0, None)
    assert "belongs to another cluster" in done.stderr, done.stderr


def test_a_store_that_goes_down_is_told_and_comes_back(cloud, postgres, shared_dir):
    """503 with Retry-After while it is away; nothing is restarted but Redis itself."""
    redis = Redis(shared_dir / f"down{time.monotonic_ns()}").start()
    try:
        made = cloud(f"[indexer]\nurl = {postgres.create_database('goesdown')}\n"
                     f"[storage]\ndriver = redis\nredis_url = {redis.url}\nengine_timeout = 1\n")
        client = made.client()
        create_policy(client, "minutes", [("1 minute", 100)])
        metric = create_metric(client, "minutes")
        post(client, metric)
        redis.kill()
        for path, body in ((f"/v1/metric/{metric}/measures", [{"timestamp": "2026-11-21T10:02:00", "value": 1}]),):
            refused = client.post(path, body).expect(503)
            assert int(refused.headers["retry-after"]) > 0
        refused = client.get(f"/v1/metric/{metric}/measures").expect(503)
        assert int(refused.headers["retry-after"]) > 0
        # What needs no Redis goes on.
        client.get(f"/v1/metric/{metric}").expect(200)
        redis.start()
        wait_until(lambda: client.post(f"/v1/metric/{metric}/measures", []).status == 202, SOON_S, "Redis")
        # Measures and aggregates have connections of their own.
        wait_until(lambda: client.get(f"/v1/metric/{metric}/measures").status == 200, SOON_S, "Redis")
        wait_until(lambda: minutes(client, metric, "true")[:2] == POINTS, SOON_S, "the workers")
    finally:
        redis.kill()
