"""Rows of docs/compatibility.md about InfluxDB's lines, each on both servers. (Prometheus' remote writes need two packages that
the pinned Gnocchi is installed without.)"""

import gzip

import pytest

from differential.deviations import ours, policy_named, theirs, unique

PLAIN = {"Content-Type": "text/plain"}


def database(client):
    """The name of a new database; metrics of all names have a policy."""
    name = unique("flux").replace("-", "_")
    client.post(f"/v1/influxdb/query?q=create+database+{name}").expect(204)
    for rule in client.get("/v1/archive_policy_rule").expect(200).json():
        client.delete(f"/v1/archive_policy_rule/{rule['name']}").expect(204)
    rule = {"name": unique("rule"), "metric_pattern": "*", "archive_policy_name": policy_named(client, [("1s", 600)])}
    client.post("/v1/archive_policy_rule", rule).expect(201)
    return name


def write(client, name, lines, query="", **headers):
    """The host `a` is another in each database: resources of different types have different ids."""
    lines = lines.replace(b"host=a", b"host=" + name.encode())
    return client.post(f"/v1/influxdb/write?db={name}{query}", lines, headers={**PLAIN, **headers})


def metrics_of(client, kind):
    """{metric's name: its points} of all resources of a type."""
    found = {}
    for resource in client.get(f"/v1/resource/{kind}").expect(200).json():
        for metric, id_ in resource["metrics"].items():
            found[metric] = [(row[0][:19],
                              row[2]) for row in client.get(f"/v1/metric/{id_}/measures?refresh=true&aggregation=sum").json()]
    return found


def written(client, lines, query=""):
    """The status of a write, and what is there afterwards."""
    name = database(client)
    status = write(client, name, lines, query).status
    return status, metrics_of(client, name) if status == 204 else None


def pair(ours, theirs, lines, query=""):
    return written(theirs, lines, query), written(ours, lines, query)


@pytest.mark.parametrize("field", [b"v=true", b"v=-5i", b"v=7u"])
def test_fields_that_gnocchi_half_understands(ours, theirs, field):
    """What follows is dropped there, the time included."""
    their, our = pair(ours, theirs, b"m,host=a " + field + b" 1600000000000000000")
    assert our[0] == 204
    (points,) = our[1].values()
    assert points == [("2020-09-13T12:26:40", {b"v=true": 1, b"v=-5i": -5, b"v=7u": 7}[field])]
    assert their != our, their


def test_an_odd_end_of_a_line(ours, theirs):
    their, our = pair(ours, theirs, b"m,host=a v=1 1600000000000000000 more")
    assert (their[0], our[0]) == (204, 400)


@pytest.mark.parametrize("lines", [b"\\m,host=a v=1 1600000000000000000", b"a=b,host=a v=1 1600000000000000000",
                                   b"# a comment\nm,host=a v=1 1600000000000000000", b"m,host=a v=1 1600000000000000000\r\n\r\n"])
def test_names_comments_and_ends_of_lines(ours, theirs, lines):
    their, our = pair(ours, theirs, lines)
    assert our[0] == 204 and their[0] != 204, (their, our)


def test_the_unit_of_times(ours, theirs):
    their, our = pair(ours, theirs, b"m,host=a v=1 1600000000", "&precision=s")
    (points,) = our[1].values()
    assert points == [("2020-09-13T12:26:40", 1)]
    assert [point for points in their[1].values() for point in points] == [("1970-01-01T00:00:01", 1)]


def test_pings(ours, theirs):
    found = [[client.request("HEAD", "/v1/influxdb/ping").status, client.get("/v1/influxdb/ping").status] for client in (theirs,
                                                                                                                         ours)]
    assert found == [[405, 406], [204, 204]]


def test_compressed_lines(ours, theirs):
    found = []
    for client in (theirs, ours):
        name = database(client)
        body = gzip.compress(b"m,host=%s v=1 1600000000000000000" % name.encode())
        found.append(write(client, name, body, **{"Content-Encoding": "gzip"}).status)
    assert found[1] == 204 and found[0] in (400, 500), found


@pytest.mark.parametrize("name,lines,status", [
    ("nowhere", b"m,host=a v=1", 404), (None, b"m,host=a/b v=1 1600000000000000000", 204),
    (None, b"m,host=a v=1 9999999999999999999999", 400), (None, b"m" * 300 + b",host=a v=1 1600000000000000000", 204),
])
def test_what_fails_there(ours, theirs, name, lines, status):
    found = [write(client, name or database(client), lines).status for client in (theirs, ours)]
    assert found[1] == status and found[0] == 500, found


@pytest.mark.parametrize("name", ["a/b", "x" * 256])
def test_databases_that_cannot_be_asked_for(ours, theirs, name):
    found = [client.post(f"/v1/influxdb/query?q=create+database+%22{name.replace('/', '%2f')}%22").status for client in (theirs,
                                                                                                                         ours)]
    assert found[1] == 400 and found[0] != 400, found

