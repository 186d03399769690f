"""Damaged files: the server starts, reports file and offset, and undamaged data stays readable."""

import os
import re
import sqlite3
import uuid

import pytest

from inputs.remote_write import label, sample, series, snappy
from inputs.stored import metrics_of, values
from prometheus.messages import VERSION_1, VERSION_2, exemplar, request_2
from support.damage import copy_store, flip, used_length
from support.gnudi import Gnudi
from support.http import create_metric, create_policy, create_policy_with_rule
from support.process import wait_until

pytestmark = pytest.mark.slow

METRICS = 20
PUSHES = 30
# Measures wait in the log until they are read with refresh=true.
LAZY = "[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
START_S = 1_600_000_000


def fill(server, **policy):
    """Pushes to every metric in turn, one request each; answers the metrics' ids."""
    client = server.client()
    create_policy(client, "damage", [("1s", None)], aggregation_methods=["count", "sum"], **policy)
    metrics = [create_metric(client, "damage") for _ in range(METRICS)]
    for second in range(PUSHES):
        for number, metric in enumerate(metrics):
            measure = {"timestamp": START_S + second, "value": number * 1000.5 + second}
            client.post(f"/v1/metric/{metric}/measures", [measure]).expect(202)
    return metrics


def largest_file(directory):
    """The file with the most content below a directory."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files, f"no files in {directory}"
    return max(files, key=used_length)


def read_all(server, metrics):
    """(right points, metrics that answered with an error) over all metrics."""
    client, right, errors = server.client(), 0, []
    for number, metric in enumerate(metrics):
        answer = client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum")
        if answer.status != 200:
            errors.append(answer)
            continue
        points = answer.json()
        for text, _, value in points:
            second = int(text[17:19]) + 60 * int(text[14:16]) - (26 * 60 + 40)
            assert value == number * 1000.5 + second, f"a wrong value is worse than none: {text} {value}"
        right += len(points)
    return right, errors


def reported(server, path):
    """Whether the log names the file and an offset in it."""
    lines = [line for line in server.log().splitlines() if path.name in line]
    return any("offset" in line for line in lines)


def records_of(path, metric):
    """Where the metric's id stands in the log: once in each of its requests."""
    content, wanted = path.read_bytes(), uuid.UUID(metric).bytes
    found = [match.start() for match in re.finditer(re.escape(wanted), content)]
    assert len(found) >= PUSHES, "ids are not in the log as they are: look for records another way"
    return found[:PUSHES]


def new_server(directory, config=""):
    return Gnudi(directory, config=config, arguments=["--skip-archive-policies-creation"])


@pytest.fixture(scope="module")
def with_a_log(module_path):
    """A killed server whose log has all requests, and its metrics; for copies."""
    server = new_server(module_path / "log", LAZY).start()
    metrics = fill(server)
    server.kill()
    return server, metrics


@pytest.fixture(scope="module")
def with_aggregates(module_path):
    """The same of one that was stopped when all was processed."""
    server = new_server(module_path / "aggregates").start()
    metrics = fill(server)
    assert read_all(server, metrics) == (METRICS * PUSHES, [])
    assert server.stop() == 0
    return server, metrics


@pytest.fixture
def copied(tmp_path):
    """Makes a server that is not started yet, with the data and the configuration of another."""
    servers = []

    def copy(server):
        servers.append(new_server(tmp_path / "copy", server.config_path.read_text()))
        copy_store(server.data_dir, servers[-1].data_dir)
        return servers[-1]

    yield copy
    for server in servers:
        server.end()


@pytest.fixture
def killed(with_a_log, copied):
    """A killed server, its metrics, and the file of its log with all their requests."""
    server, metrics = with_a_log
    server = copied(server)
    return server, metrics, largest_file(server.data_dir / "incoming")


@pytest.mark.parametrize("request_number", [0, PUSHES // 2, PUSHES - 2])
def test_damage_in_the_log(killed, request_number):
    """One request in the log is hit: it is reported and lost, all others are there."""
    server, metrics, path = killed
    flip(path, records_of(path, metrics[7])[request_number])
    server.start()
    assert read_all(server, metrics) == (METRICS * PUSHES - 1, [])
    assert reported(server, path), server.log()[-3000:]
    # Once it is known, nothing changes any more.
    server.kill()
    server.start()
    assert read_all(server, metrics) == (METRICS * PUSHES - 1, [])


def test_damage_between_the_requests_in_the_log_loses_nothing(killed):
    server, metrics, path = killed
    # Any sixteen bytes belong to two requests at most.
    flip(path, used_length(path) // 2)
    server.start()
    right, errors = read_all(server, metrics)
    assert not errors
    assert right >= METRICS * PUSHES - 2
    assert reported(server, path), server.log()[-3000:]


def test_a_torn_tail_of_the_log_is_cut(killed):
    """The last request is there in part: what a power cut leaves of one that was never acknowledged."""
    server, metrics, path = killed
    os.truncate(path, records_of(path, metrics[-1])[-1] + 20)
    server.start()
    assert read_all(server, metrics) == (METRICS * PUSHES - 1, [])
    # The log goes on behind the cut, also after another crash.
    measure = {"timestamp": START_S + PUSHES, "value": PUSHES}
    server.client().post(f"/v1/metric/{metrics[0]}/measures", [measure]).expect(202)
    server.kill()
    server.start()
    assert read_all(server, metrics) == (METRICS * PUSHES, [])


def damage(server, *fields):
    """Makes fields of the index, each a column of a row, texts that are not UTF-8."""
    with sqlite3.connect(server.data_dir / "indexer.sqlite", timeout=60) as connection:
        for table, column, key, value in fields:
            update = f"UPDATE {table} SET {column} = CAST(X'FF' AS TEXT) WHERE {key} = ?"
            assert connection.execute(update, [value]).rowcount == 1
    connection.close()


def damage_in_the_index(server, *fields):
    """Restarts the server; these fields are damaged then."""
    server.kill()
    damage(server, *fields)
    server.start()


def creator_of(metric):
    return "metric", "creator", "id", uuid.UUID(metric).bytes


def test_a_metric_damaged_in_the_index_stops_no_conversion(gnudi):
    """The cache has it from before the damage; a pass reads the index once its policy has other methods."""
    server = gnudi(config=f"{LAZY}[incoming]\nsacks = 1\n", arguments=["--skip-archive-policies-creation"])
    metrics = fill(server, raw={"timespan": "1 day"})
    assert read_all(server, metrics) == (METRICS * PUSHES, [])
    damage(server, creator_of(metrics[-1]))
    client = server.client()
    change = {"definition": [{"granularity": "1s"}], "aggregation_methods": ["count", "sum", "mean"], "raw": {"timespan": "1 day"}}
    client.patch("/v1/archive_policy/damage", change).expect(200)
    for number, metric in enumerate(metrics):
        measure = {"timestamp": START_S + PUSHES, "value": number * 1000.5 + PUSHES}
        client.post(f"/v1/metric/{metric}/measures", [measure]).expect(202)
    assert read_all(server, metrics[:-1]) == ((METRICS - 1) * (PUSHES + 1), [])
    assert metrics[-1] in server.log()


def test_damaged_definitions_and_annotations_are_named_and_can_be_deleted(gnudi):
    server = gnudi()
    author = server.client("author")
    resource = author.post("/v1/resource/generic", {"id": str(uuid.uuid4())}).expect(201).json()["id"]
    annotations = f"/v1/resource/generic/{resource}/annotation"
    annotation = author.post(annotations, {"text": "moved"}).expect(201).json()["id"]
    damage_in_the_index(server,
                        ("archive_policy", "definition", "name", "bool"),
                        ("archive_policy_rule", "metric_pattern", "name", "default"),
                        ("resource_annotation", "content", "id", uuid.UUID(annotation).bytes))
    client = server.client()
    # Who wrote an annotation is unknown: only an administrator may delete it.
    server.client("author").delete(f"{annotations}/{annotation}").expect(500)
    client.post("/v1/metric", {"name": "m"}).expect(500)
    for listing, name in [("/v1/archive_policy", "bool"), ("/v1/archive_policy_rule", "default"), (annotations, annotation)]:
        path = f"{listing}/{name}"
        for asked in [listing, path]:
            assert f"{name} is damaged" in client.get(asked).expect(500).body.decode(), asked
        client.delete(path).expect(204)
        client.get(path).expect(404)
        client.delete(path).expect(404)
        client.get(listing).expect(200)


def test_a_damaged_policy_in_use_is_repaired_by_its_whole_definition(gnudi, tmp_path):
    (tmp_path / "rules.yaml").write_text('"update archive policy": "role:admin and not \'bool\':%(name)s"\n')
    server = gnudi(config=f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")
    client = server.client()
    own = {"definition": [{"granularity": 60}]}
    metrics = [client.post("/v1/metric", body).expect(201).json()["id"] for body in [{"archive_policy_name": "low"}, {"archive_policy": own}]]
    paths = [f"/v1/metric/{metric}/measures" for metric in metrics]
    for path in paths:
        client.post(path, [{"timestamp": START_S, "value": 1}]).expect(202)
        assert client.get(f"{path}?refresh=true").expect(200).json()[0][2] == 1
    of_definition = client.get(f"/v1/metric/{metrics[1]}").expect(200).json()["archive_policy"]["name"]
    whole = client.get("/v1/archive_policy/low").expect(200).json()
    damage_in_the_index(server, *(("archive_policy", "definition", "name", name) for name in ["low", "bool", of_definition]))
    client = server.client()
    for path in paths:
        client.post(path, [{"timestamp": START_S + 1, "value": 3}]).expect(202)
        assert "is damaged" in client.get(path).expect(500).body.decode()
    resource = client.post("/v1/resource/generic", {"id": str(uuid.uuid4())}).expect(201).json()["id"]
    new = {"archive_policy_name": "low", "measures": [{"timestamp": START_S, "value": 1}]}
    client.post("/v1/batch/resources/metrics/measures?create_metrics=true", {resource: {"new": new}}).expect(202)
    client.delete("/v1/archive_policy/low").expect(400)
    part = {"definition": [{"granularity": 300, "timespan": 30 * 86_400}]}
    assert "low is damaged" in client.patch("/v1/archive_policy/low", part).expect(500).body.decode()
    client.as_user("other").patch("/v1/archive_policy/low", part).expect(403)
    client.patch("/v1/archive_policy/bool", part).expect(403)
    repair = {**part, "back_window": whole["back_window"], "aggregation_methods": whole["aggregation_methods"]}
    assert client.patch("/v1/archive_policy/low", repair).expect(200).json() == whole
    client.patch(f"/v1/metric/{metrics[1]}", {"archive_policy_name": "low"}).expect(200)

    def last(path):
        answer = client.get(f"{path}?refresh=true")
        return answer.status == 200 and answer.json()[-1][2]
    wait_until(lambda: last(paths[0]) == 2, 60, "the measure that waited")
    wait_until(lambda: last(paths[1]), 60, "measures of the metric that moved")


@pytest.fixture
def server(gnudi):
    """One that takes InfluxDB's lines."""
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    create_policy_with_rule(server.client())
    server.client().post("/v1/influxdb/query?q=CREATE+DATABASE+db").expect(204)
    return server


@pytest.fixture
def write(server):
    """Posts lines."""
    return lambda lines: server.client().post("/v1/influxdb/write?db=db", lines, headers={"Content-Type": "text/plain"})


def test_a_damaged_metric_that_gets_lines_is_named_and_can_be_deleted(server, write):
    """The other metrics of the request are stored, and a client is told not to repeat it."""
    write(b"m,host=h f=1,g=2").expect(204)
    metrics = metrics_of(server.client(), "db", "h")
    damage_in_the_index(server, creator_of(metrics["m.f"]))
    for lines in [b"m,host=h f=1,g=2,new=3", b"m,host=h f=1", b"m,host=h f=1,g=2"]:
        error = write(lines).expect(400).json()["error"]
        assert error.startswith(f"partial write: metric {metrics['m.f']} is damaged"), error
        assert error.endswith(" dropped=1"), error
    assert sum(values(server.client(), metrics["m.g"], "count")) == 3
    assert set(metrics_of(server.client(), "db", "h")) == {"m.g", "m.new"}
    assert "a write leaves out what is damaged" in server.log()
    server.client().delete(f"/v1/metric/{metrics['m.f']}").expect(204)
    write(b"m,host=h f=1,g=2").expect(204)


def test_new_metrics_without_a_rule_that_can_be_read_are_named_and_keep_no_other_from_being_stored(server, write):
    write(b"m,host=h f=1").expect(204)
    rule, = server.client().get("/v1/archive_policy_rule").expect(200).json()
    damage_in_the_index(server, ("archive_policy_rule", "metric_pattern", "name", rule["name"]))
    for lines in [b"m,host=h f=1,new=2", b"m,host=h f=1\nm,host=other f=1"]:
        error = write(lines).expect(400).json()["error"]
        assert error.startswith(f"partial write: archive policy rule {rule['name']} is damaged"), error
        assert error.endswith(" dropped=1"), error
    metrics = metrics_of(server.client(), "db", "h")
    assert set(metrics) == {"m.f"}
    assert sum(values(server.client(), metrics["m.f"], "count")) == 3
    assert len(server.client().get("/v1/resource/db").expect(200).json()) == 1
    server.client().delete(f"/v1/archive_policy_rule/{rule['name']}").expect(204)
    server.client().post("/v1/archive_policy_rule", rule).expect(201)
    write(b"m,host=h f=1,new=2\nm,host=other f=1").expect(204)


def test_a_damaged_metric_that_is_still_cached_keeps_no_new_one_from_being_stored(server, write):
    for _ in range(2):
        write(b"m,host=h f=1,g=2").expect(204)
    metrics = metrics_of(server.client(), "db", "h")
    damage(server, creator_of(metrics["m.f"]))
    error = write(b"m,host=h f=1,g=2,new=3").expect(400).json()["error"]
    assert error.startswith(f"partial write: metric {metrics['m.f']} is damaged"), error
    assert error.endswith(" dropped=1"), error
    assert set(metrics_of(server.client(), "db", "h")) == {"m.g", "m.new"}
    assert sum(values(server.client(), metrics["m.g"], "count")) == 3


@pytest.mark.parametrize("path", ["/api/v1/write", "/v1/prometheus/write"])
def test_a_damaged_metric_that_gets_samples_keeps_no_other_from_being_stored(gnudi, path):
    """Prometheus repeats a write that gets 500 without end, and sends nothing of its shard behind it."""
    server = gnudi()
    rule = {"name": "all", "metric_pattern": "*", "archive_policy_name": "raw"}
    server.client().post("/v1/archive_policy_rule", rule).expect(201)
    target = [("__name__", "up"), ("instance", "i"), ("job", "j")]

    def write(second, *names):
        body = b"".join(
            series(label("__name__", name), *(label(*pair) for pair in target[1:]), sample(second, (START_S + second) * 1000))
            for name in names)
        return server.client().post(path, snappy(body), headers=VERSION_1)

    write(0, "up", "down").expect(202, 204)
    metrics = metrics_of(server.client(), "prometheus", "j@i")
    damage_in_the_index(server, creator_of(metrics["up"]))
    for second in [1, 2]:
        assert metrics["up"] in write(second, "up", "down", "new").expect(400).body.decode()
    assert values(server.client(), metrics["down"], "raw") == [0.0, 1.0, 2.0]
    if path == "/api/v1/write":
        samples = [(3.0, (START_S + 3) * 1000)]
        message = request_2((target, samples, b""), ([("__name__", "new"), *target[1:]], samples, b""))
        answer = server.client().post(path, snappy(message), headers=VERSION_2).expect(400)
        assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"


def test_exemplars_of_other_series_are_shown_beside_those_of_a_damaged_metric(gnudi, tmp_path):
    """With a rule of the operator's, which is checked for each metric."""
    (tmp_path / "rules.yaml").write_text('"get measures": "not \'hidden\':%(name)s"\n')
    server = gnudi(config=f"[oslo_policy]\npolicy_file = {tmp_path / 'rules.yaml'}\n")

    def write(second):
        time_ms = (START_S + second) * 1000
        body = b"".join(
            series(label("__name__", name), label("job", "j"), sample(second, time_ms), exemplar(1.0, time_ms, trace_id=name))
            for name in ["up", "down"])
        return server.client().post("/api/v1/write", snappy(body), headers=VERSION_1)

    def shown():
        found = server.client().get("/api/v1/query_exemplars?query=up%2Bdown").expect(200).json()["data"]
        return [one["seriesLabels"]["__name__"] for one in found]

    write(0).expect(204)
    assert shown() == ["down", "up"]
    damage_in_the_index(server, creator_of(metrics_of(server.client(), "prometheus", "j@none")["up"]))
    # The restart has dropped the exemplars.
    write(1).expect(400)
    assert shown() == ["down"]


def test_what_is_damaged_keeps_nothing_else_from_opentelemetry_from_being_stored(gnudi):
    """Collectors drop a request that gets 500."""
    server = gnudi()

    def export(second, *names):
        points = [{"timeUnixNano": str((START_S + second) * 10**9), "asDouble": second}]
        metrics = [{"name": name, "gauge": {"dataPoints": points}} for name in names]
        resources = [{"attributes": [{"key": "service.name", "value": {"stringValue": job}}]} for job in "abc"]
        body = {"resourceMetrics": [{"resource": one, "scopeMetrics": [{"metrics": metrics}]} for one in resources]}
        return server.client().post("/api/v1/otlp/v1/metrics", body).expect(200).json()

    assert export(0, "x", "y") == {}
    a, b, c = (server.client().get(f"/v1/resource/prometheus/{job}@none").expect(200).json() for job in "abc")
    damage_in_the_index(server, creator_of(a["metrics"]["x"]),
                        ("resource", "creator", "id", uuid.UUID(b["id"]).bytes),
                        ("resource", "attributes", "id", uuid.UUID(c["id"]).bytes))
    # Of a: x; of b: all; of c, whose row cannot be changed: the new one.
    for second in [1, 2]:
        partial = export(second, "x", "y", "z")["partialSuccess"]
        assert partial["rejectedDataPoints"] == "5", partial
        assert all(named in partial["errorMessage"] for named in [a["metrics"]["x"], b["id"], c["id"]]), partial
    client = server.client()
    assert set(metrics_of(client, "prometheus", "a@none")) == {"y", "z"}
    for metric in [a["metrics"]["y"], c["metrics"]["x"], c["metrics"]["y"]]:
        assert values(client, metric, "raw") == [0.0, 1.0, 2.0]


def test_a_histogram_of_opentelemetry_that_is_damaged_is_one_data_point(gnudi):
    server = gnudi()

    def export(second):
        point = {"timeUnixNano": str((START_S + second) * 10**9), "count": "2", "sum": 3.0, "bucketCounts": ["1", "1"], "explicitBounds": [1.0]}
        metrics = [{"name": "h", "histogram": {"dataPoints": [point], "aggregationTemporality": 2}}]
        # With a descriptive attribute there is `target_info`, which is no data point.
        attributes = [{"key": key, "value": {"stringValue": "a"}} for key in ["service.name", "host.name"]]
        body = {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}]}
        return server.client().post("/api/v1/otlp/v1/metrics", body).expect(200).json()

    assert export(0) == {}
    resource = server.client().get("/v1/resource/prometheus/a@none").expect(200).json()
    damage_in_the_index(server, ("resource", "creator", "id", uuid.UUID(resource["id"]).bytes))
    partial = export(1)["partialSuccess"]
    assert partial["rejectedDataPoints"] == "1" and resource["id"] in partial["errorMessage"], partial


def test_a_damaged_metric_in_the_index_stops_no_other(gnudi):
    """Its measures wait in the sack of all others."""
    server = gnudi(config=f"{LAZY}[incoming]\nsacks = 1\n", arguments=["--skip-archive-policies-creation"])
    metrics = fill(server)
    damage_in_the_index(server, creator_of(metrics[-1]))
    right, errors = read_all(server, metrics)
    assert right == (METRICS - 1) * PUSHES
    assert [answer.status for answer in errors] == [500]
    assert metrics[-1] in str(errors[0].body)
    batch = {metric: [{"timestamp": START_S, "value": 1}] for metric in metrics}
    assert metrics[-1] in str(server.client().post("/v1/batch/metrics/measures", batch).expect(500).body)
    listed = server.client().get("/v1/metric?limit=5").expect(200).json()
    assert len(listed) == 5
    ids = {metric["id"] for metric in server.client().get("/v1/metric").expect(200).json()}
    assert ids == set(metrics[:-1])
    assert metrics[-1] in server.log()
    # Who its creator was is unknown: only an administrator may delete it.
    client, path = server.client(), f"/v1/metric/{metrics[-1]}"
    client.as_user("other").delete(path).expect(500)
    client.delete(f"{path}/measures?start=0").expect(500)
    client.delete(path).expect(204)
    client.get(path).expect(404)
    client.delete(path).expect(404)


def test_a_resource_with_a_damaged_metric_does_not_end_with_those_that_get_no_measures(gnudi):
    """The damaged metric is left out wherever the resource is read, and it may be the one that gets measures."""
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    client = server.client()
    create_policy(client, "damage", [("1s", None)])

    def create(*names):
        body = {"id": str(uuid.uuid4()), "metrics": {name: {"archive_policy_name": "damage"} for name in names}}
        return client.post("/v1/resource/generic", body).expect(201).json()

    hit, whole = create("silent", "damaged"), create("silent")
    server.kill()
    damage(server, creator_of(hit["metrics"]["damaged"]))
    server.config_path.write_text("[metricd]\nmetric_cleanup_delay = 1\nmetric_inactive_after = 2\n")
    server.start()
    client = server.client()

    def ended_at(resource):
        return client.get(f"/v1/resource/generic/{resource['id']}").expect(200).json()["ended_at"]

    # Both are in one page of the janitor's listing.
    wait_until(lambda: ended_at(whole) is not None, 120, "the silent resource has ended")
    assert ended_at(hit) is None


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_damage_in_the_aggregates(with_aggregates, copied, place):
    server, metrics = with_aggregates
    server = copied(server)
    path = largest_file(server.data_dir / "aggregates")
    flip(path, int(used_length(path) * place))
    server.start()
    right, errors = read_all(server, metrics)
    assert all(answer.status in (500, 503) for answer in errors), errors
    # Any sixteen bytes belong to two values at most.
    assert len(errors) <= 2, errors
    assert right >= (METRICS - 2) * PUSHES
    if right < METRICS * PUSHES:
        assert reported(server, path), server.log()[-3000:]
    # Writing goes on for all others.
    client = server.client()
    for metric in metrics:
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": START_S + PUSHES, "value": 1}]).expect(202)


def test_what_is_lost_is_told_or_left_out_as_chosen(gnudi):
    """The log of aggregates lost its end: the metrics that were written there answer so by name, or with what is left."""
    server = gnudi(config="[storage]\ndirty_bytes_max = 0\n", arguments=["--skip-archive-policies-creation"])
    metrics = fill(server)
    assert read_all(server, metrics) == (METRICS * PUSHES, [])
    path = largest_file(server.data_dir / "aggregates")
    # Zeros that fill the last frame up to a multiple of eight belong to it.
    end = (used_length(path) + 7) // 8 * 8
    client, lost = server.client(), metrics[3:8]
    for metric in lost:
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": START_S + PUSHES, "value": 1}]).expect(202)
        client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum").expect(200)
    assert server.stop() == 0
    os.truncate(path, end)
    server.start()
    right, errors = read_all(server, metrics)
    assert len(errors) == len(lost), errors
    assert right == (METRICS - len(errors)) * PUSHES, "an older state was served"
    assert all(answer.status == 500 for answer in errors), errors
    assert all(metric in answer.body.decode() for metric, answer in zip(lost, errors)), errors
    assert all("damaged_metrics" in answer.body.decode() for answer in errors), errors
    # New measures are taken, and what comes after the damage is answered.
    client, later = server.client(), {"timestamp": "now", "value": 7}
    for metric in metrics:
        client.post(f"/v1/metric/{metric}/measures", [later]).expect(202)
    refused = [metric for metric in metrics if not is_answered(client, metric)]
    assert refused == lost
    assert server.stop() == 0
    server.config_path.write_text("[storage]\ndamaged_metrics = serve\n")
    server.start()
    client = server.client()
    assert all(is_answered(client, metric) for metric in metrics)
    newest = client.get(f"/v1/metric/{refused[0]}/measures?refresh=true&aggregation=sum").expect(200).json()
    assert [value for _, _, value in newest] == [7], newest


def is_answered(client, metric):
    """Whether the metric's measures are, from the first to the last."""
    answer = client.get(f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum")
    assert answer.status in (200, 500), answer
    return answer.status == 200


def test_a_directory_in_use_is_refused(gnudi):
    from support import gnudi as program

    server = gnudi()
    second = program.run("serve", "--listen", "127.0.0.1:0", "--data-dir", server.data_dir, "--without", "host")
    assert second.returncode not in (0, None)
    assert "in use by another process" in second.stderr + second.stdout
    assert str(server.data_dir) in second.stderr + second.stdout
    assert server.healthy()
