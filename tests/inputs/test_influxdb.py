"""InfluxDB's lines, sent by a real client (PyPI's `influxdb`), and by hand those that it does not send."""

import gzip
import http.client

import pytest
from inputs.stored import metrics_of, points, values
from support.http import basic, create_policy_with_rule
from support.process import at_once

LINES = {"Content-Type": "text/plain"}


@pytest.fixture
def server(gnudi):
    server = gnudi(arguments=["--skip-archive-policies-creation"])
    create_policy_with_rule(server.client(), back_window=3000)
    server.client().post("/v1/influxdb/query?q=CREATE+DATABASE+%22db%22").expect(204)
    return server


@pytest.fixture
def influx(server):
    # It loads pandas, for which each worker would wait.
    from influxdb import InfluxDBClient

    client = InfluxDBClient("127.0.0.1", server.port, "admin", "", "db", path="/v1/influxdb")
    yield client
    client.close()


def write(server, lines, database="db", query="", user="admin", **headers):
    client = server.client(user)
    headers = {**LINES, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return client.post(f"/v1/influxdb/write?db={database}{query}", lines.encode(), headers=headers)


def test_a_real_client_writes(server, influx):
    assert influx.ping() == "Gnocchi 4.7.1"
    written = [
        {"measurement": "cpu load", "tags": {"host": "web 1,a=b", "region": "é"}, "time": "2026-11-21T10:00:00Z",
         "fields": {"user": 1.5, "cores": 4, "text": "a, \"quoted\" b", "on": True}},
        {"measurement": "cpu load", "tags": {"host": "web 1,a=b", "region": "é"}, "time": "2026-11-21T10:00:01Z",
         "fields": {"user": 2.5, "cores": -4, "on": False}},
        {"measurement": "disk", "tags": {"host": "web 1,a=b", "path": "/var/log"}, "fields": {"used": 1e300},
         "time": "2026-11-21T10:00:00.5Z"},
    ]
    assert influx.write_points(written)
    metrics = metrics_of(server.client(), "db", "web%201,a=b")
    assert set(metrics) == {"cpu load.user@region=é", "cpu load.cores@region=é", "cpu load.on@region=é",
                            "disk.used@path=_var_log"}
    client = server.client()
    assert values(client, metrics["cpu load.user@region=é"]) == [1.5, 2.5]
    assert values(client, metrics["cpu load.cores@region=é"]) == [4.0, -4.0]
    assert values(client, metrics["cpu load.on@region=é"]) == [1.0, 0.0]
    assert points(client, metrics["disk.used@path=_var_log"]) == [("2026-11-21T10:00:00+00:00", 1.0, 1e300)]


def test_texts_have_newlines(server):
    lines = ('log,host=web text="Traceback:\n  x=\\"1\\"\n",size=2 1795255200000000000\n'
             'log,host=web size=3 1795255201000000000\n')
    write(server, lines).expect(204)
    assert values(server.client(), metrics_of(server.client(), "db", "web")["log.size"]) == [2.0, 3.0]
    refused = write(server, lines + 'log,host=web text="open,size=4\n').expect(400)
    assert b"line 5" in refused.body


@pytest.mark.parametrize("precision", ["n", "u", "ms", "s", "m", "h"])
def test_times_are_in_the_units_that_the_client_says(server, influx, precision):
    written = [{"measurement": "m", "tags": {"host": "h"}, "time": "2026-11-21T10:00:00Z", "fields": {"f": 1.0}}]
    assert influx.write_points(written, time_precision=precision)
    metric = metrics_of(server.client(), "db", "h")["m.f"]
    assert points(server.client(), metric) == [("2026-11-21T10:00:00+00:00", 1.0, 1.0)]


def test_a_form_creates_a_database_too(server):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    client = server.client()
    client.post("/v1/influxdb/query", b"q=CREATE+DATABASE+telegraf", headers=form).expect(204)
    assert client.get("/v1/resource_type/telegraf").expect(200).json()["attributes"] == {}
    client.post("/v1/influxdb/query", b"q=CREATE+DATABASE+telegraf", headers=form).expect(204)
    client.post("/v1/influxdb/query", b"q=DROP+DATABASE+telegraf", headers=form).expect(501)
    server.client("joe").post("/v1/influxdb/query?q=create+database+x").expect(403)
    server.client(None).post("/v1/influxdb/query?q=create+database+x").expect(401)
    server.client(None).get("/v1/influxdb/ping").expect(204)
    assert server.client(None).request("HEAD", "/v1/influxdb/ping").expect(204).headers["x-influxdb-version"]


def test_requests_that_make_the_same_things_all_succeed(server):
    """Eight clients write to the same new resources and metrics at once; every measure arrives."""
    clients, rounds, failures = 8, 20, []

    def run(number):
        for time in range(rounds):
            lines = [f"m,host=h{host} a={number},b{time}={number} {1700000000 + number * rounds + time}"
                     for host in range(3)]
            answer = write(server, "\n".join(lines), query="&precision=s")
            if answer.status != 204:
                failures.append(answer)

    at_once(run, range(clients))
    assert not failures
    for host in range(3):
        metrics = metrics_of(server.client(), "db", f"h{host}")
        assert set(metrics) == {"m.a", *(f"m.b{time}" for time in range(rounds))}
        assert len(values(server.client(), metrics["m.a"])) == clients * rounds
        assert len(values(server.client(), metrics["m.b0"])) == clients


def test_a_deleted_resource_comes_back_with_the_next_line(server):
    for value in (1, 2):
        write(server, f"m,host=h f={value} 1700000000000000000").expect(204)
        metric = metrics_of(server.client(), "db", "h")["m.f"]
        assert values(server.client(), metric) == [float(value)]
        server.client().delete("/v1/resource/db/h").expect(204)


def test_a_resource_that_comes_back_with_another_type_is_refused(server):
    client, line = server.client(), "m,host=h f=1 1700000000000000000"
    # The second is served from memory.
    write(server, line).expect(204)
    write(server, line).expect(204)
    client.delete("/v1/resource/db/h").expect(204)
    client.post("/v1/resource/generic", {"id": "h", "metrics": {"m.f": {}}}).expect(201)
    client.get("/v1/resource/generic/h/metric/m.f").expect(200)
    write(server, line).expect(409)


def test_compressed_and_in_chunks(server):
    """As telegraf writes, and as clients that do not know the length of what they write."""
    lines = "".join(f"m,host=h f={number} {1700000000 + number}\n" for number in range(100)).encode()
    client = server.client()
    path = "/v1/influxdb/write?db=db&precision=s"
    client.post(path, gzip.compress(lines), headers={**LINES, "Content-Encoding": "gzip"}).expect(204)
    metric = metrics_of(client, "db", "h")["m.f"]
    assert values(client, metric) == [float(number) for number in range(100)]
    # Each chunk ends in the middle of a line.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    pieces = (lines[start:start + 33] for start in range(0, len(lines), 33))
    connection.request("POST", path, pieces, {**LINES, **basic("ann")}, encode_chunked=True)
    assert connection.getresponse().status == 204
    connection.close()
    assert len(values(client, metrics_of(server.client("ann"), "db", "h")["m.f"])) == 100


def test_who_may_write(server):
    write(server, "m,host=h f=1", user="ann").expect(204)
    # Another user's resource of the same name is another one.
    write(server, "m,host=h f=1", user="bob").expect(204)
    resource = server.client("ann").get("/v1/resource/db/h").expect(200).json()["id"]
    # Written by its UUID it is the same, and not bob's.
    write(server, f"m,host={resource} f=1", user="ann").expect(204)
    write(server, f"m,host={resource} f=1", user="bob").expect(403)
    write(server, f"m,host={resource} g=1", user="bob").expect(403)
    write(server, "m,host=h f=1", user=None).expect(401)
    # A resource is of one type, known or not.
    server.client().post("/v1/influxdb/query?q=create+database+other").expect(204)
    for _ in range(2):
        write(server, "m,host=h f=1", database="other", user="ann").expect(409)
        write(server, "m,host=h f=1", user="ann").expect(204)


def test_the_tag_that_names_the_resource(server):
    write(server, "m,node=n,host=h f=1", X_Gnocchi_InfluxDB_Tag_Resource_ID="node").expect(204)
    assert set(metrics_of(server.client(), "db", "n")) == {"m.f@host=h"}
    long_name = "x" * 400
    write(server, f"m,host={long_name},t={long_name} f=1").expect(204)
    resource = server.client().get("/v1/resource/db").expect(200).json()[-1]
    assert len(resource["original_resource_id"]) == 255
    assert [len(name) for name in resource["metrics"]] == [255]
