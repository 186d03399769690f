"""Policies with raw points: points posted in any order, around kills, give the same results as in order.

The model is a dictionary of the accepted points, from which rows are computed in the simplest way.
"""

import calendar
import math
import random
import struct
import time

import pyarrow.ipc
import pytest

from inputs.remote_write import label, sample, series, snappy
from support.http import create_metric, get_patiently

ROUNDS = 25
MINUTE, HOUR = 60, 3600
START = 1_700_000_000
RAW_SPAN = 6 * HOUR
POLICY = {
    "name": "kept", "definition": [{"granularity": MINUTE, "timespan": 24 * HOUR}, {"granularity": HOUR, "timespan": 30 * 24 * HOUR}],
    "aggregation_methods": ["sum", "count", "min", "max", "last", "rate:last"], "raw": {"timespan": RAW_SPAN},
}


class Model:
    """The points that were accepted, by time in nanoseconds."""

    def __init__(self):
        self.points = {}

    def post(self, points):
        """A request: of one time the smallest value counts, and a later request replaces it."""
        newest = max(self.points, default=None)
        window = None if newest is None else newest // (HOUR * 10**9) * HOUR * 10**9 - HOUR * 10**9
        reach = None if newest is None else min(window, newest - RAW_SPAN * 10**9)
        request = {}
        for at, value in points:
            if reach is None or at >= reach:
                request[at] = min(value, request.get(at, math.inf))
        self.points.update(request)

    def raw(self):
        oldest = max(self.points) - RAW_SPAN * 10**9
        return [(at, self.points[at]) for at in sorted(self.points) if at > oldest]

    def rows(self, method, granularity):
        buckets, before = {}, None
        for at in sorted(self.points):
            value = self.points[at]
            if method == "rate:last":
                if before is not None:
                    buckets.setdefault(at // (granularity * 10**9), []).append(value - before)
                before = value
            else:
                buckets.setdefault(at // (granularity * 10**9), []).append(value)
        of = {"sum": sum, "count": len, "min": min, "max": max, "last": lambda values: values[-1], "rate:last": lambda values: values[-1]}
        return [(bucket * granularity, float(of[method](values))) for bucket, values in sorted(buckets.items())]


def iso(nanoseconds):
    seconds, fraction = divmod(nanoseconds, 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09}"


def nanoseconds(text):
    """Of a time as the server shows it, with 0, 3, 6 or 9 digits of a second's fraction."""
    whole, _, fraction = text.removesuffix("+00:00").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction.ljust(9, "0"))


def read_raw(client, metric, query=""):
    shown = get_patiently(client, f"/v1/metric/{metric}/measures?aggregation=raw&refresh=true{query}")
    assert all(granularity == 0.0 for _, granularity, _ in shown)
    return [(nanoseconds(at), value) for at, _, value in shown]


def read_rows(client, metric, method, granularity):
    path = f"/v1/metric/{metric}/measures?aggregation={method}&granularity={granularity}&refresh=true"
    return [(nanoseconds(at) // 10**9, value) for at, _, value in get_patiently(client, path)]


def check(client, metric, model):
    assert read_raw(client, metric) == model.raw()
    for method in POLICY["aggregation_methods"]:
        for granularity in (MINUTE, HOUR):
            assert read_rows(client, metric, method, granularity) == model.rows(method, granularity), (method, granularity)


def request_of(draw, model):
    """Some points near the newest one, or hours before it, of which some replace others."""
    newest = max(model.points, default=START * 10**9) // 10**9
    back = draw.choice([0, 0, 0, HOUR, 2 * HOUR, RAW_SPAN])
    points = []
    for _ in range(draw.choice([1, 3, 40, 700])):
        second = newest - draw.randrange(back + 1) + (draw.randrange(600) if back == 0 else 0)
        points.append((second * 10**9 + draw.choice([0, 0, 250_000_000, 7]), float(draw.randrange(-500, 500)) / 4))
    return points


def test_points_in_any_order_read_as_in_order(servers, seed, rounds):
    client, restart = servers
    client.post("/v1/archive_policy", POLICY).expect(201)
    draw = random.Random(seed)
    metrics = [(create_metric(client, "kept"), Model()) for _ in range(3)]
    for number in range(rounds):
        for metric, model in metrics:
            points = request_of(draw, model)
            body = [{"timestamp": iso(at), "value": value} for at, value in points]
            client.post(f"/v1/metric/{metric}/measures", body).expect(202)
            model.post(points)
        if number % 5 == 4:
            if draw.random() < 0.5:
                client = restart()
            for metric, model in metrics:
                check(client, metric, model)
    metric, model = metrics[0]
    points = model.raw()
    start, stop = points[len(points) // 3][0], points[2 * len(points) // 3][0]
    assert read_raw(client, metric, f"&start={iso(start)}&stop={iso(stop)}") == [p for p in points if start <= p[0] < stop]


def test_the_policy_is_shown_and_changed(gnudi):
    client = gnudi().client()
    shown = client.get("/v1/archive_policy/raw").expect(200).json()
    assert shown["raw"] == {"timespan": "15 days, 0:00:00"}
    assert [item["timespan"] for item in shown["definition"]] == ["90 days, 0:00:00", "730 days, 0:00:00"]
    assert "raw" not in client.get("/v1/archive_policy/medium").expect(200).json()
    plain = {key: value for key, value in POLICY.items() if key != "raw"}
    client.post("/v1/archive_policy", plain).expect(201)
    metric = create_metric(client, "kept")
    client.get(f"/v1/metric/{metric}/measures?aggregation=raw").expect(404)
    points = lambda *seconds: [{"timestamp": START + second, "value": second} for second in seconds]
    client.post(f"/v1/metric/{metric}/measures", points(0, 4 * HOUR)).expect(202)
    assert read_rows(client, metric, "count", HOUR)[0][1] == 1
    change = {"definition": POLICY["definition"], "raw": {"timespan": "1 day"}}
    assert client.patch("/v1/archive_policy/kept", change).expect(200).json()["raw"] == {"timespan": "1 day, 0:00:00"}
    # What came before is gone but for the back window and the point before it, from which rates count; what comes from now on is
    # kept, and late points are taken back to there.
    client.post(f"/v1/metric/{metric}/measures", points(8 * HOUR)).expect(202)
    client.post(f"/v1/metric/{metric}/measures", points(5 * HOUR, 60)).expect(202)
    assert [at // 10**9 - START for at, _ in read_raw(client, metric)] == [0, 4 * HOUR, 5 * HOUR, 8 * HOUR]
    assert client.patch("/v1/archive_policy/kept", {"definition": POLICY["definition"]}).expect(200).json()["raw"]


@pytest.mark.parametrize("raw", [None, 3600, "15d", [], {}, {"timespan": 0}, {"timespan": -1}, {"timespan": "x"}, {"timespan": None},
                                 {"timespan": 1e30}, {"timespan": 60, "points": 3}])
def test_bad_definitions_are_refused(server, raw):
    client = server.client()
    client.post("/v1/archive_policy", {**POLICY, "raw": raw}).expect(400)
    client.get("/v1/archive_policy/kept").expect(404)
    client.patch("/v1/archive_policy/raw", {"definition": [{"granularity": 60}, {"granularity": 3600}], "raw": raw}).expect(400)


def test_what_raw_points_do_not_have_is_refused(server):
    client = server.client()
    metric = create_metric(client, "raw")
    assert read_raw(client, metric) == []
    for query in ("granularity=60", "granularity=60&resample=3600", "aggregation=raw", "start=x"):
        assert client.get(f"/v1/metric/{metric}/measures?aggregation=raw&{query}").status in (400, 404), query


def test_ends_of_series_are_kept_and_are_no_values(gnudi):
    """Prometheus' marker of a series' end reads as NaN among the raw points, and counts in no aggregate."""
    client = gnudi().client()
    client.post("/v1/archive_policy_rule", {"name": "all", "metric_pattern": "*", "archive_policy_name": "raw"}).expect(201)
    marker = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
    samples = [sample(value, (START + 15 * index) * 1000) for index, value in enumerate([1.0, marker, 3.0])]
    body = snappy(series(label("__name__", "up"), *samples))
    client.request("POST", "/v1/prometheus/write", body).expect(202)
    metric = client.get("/v1/metric").expect(200).json()[0]["id"]
    assert [math.isnan(value) for _, value in read_raw(client, metric)] == [False, True, False]
    # Arrow has the values bit for bit.
    answer = client.get(f"/v1/metric/{metric}/measures?aggregation=raw", headers={"Accept": "application/vnd.apache.arrow.stream"})
    table = pyarrow.ipc.open_stream(answer.expect(200).body).read_all()
    assert [struct.pack("<d", value) for value in table["value"].to_pylist()] == [struct.pack("<d", value) for value in (1.0, marker, 3.0)]
    assert table.column_names == ["timestamp", "value"]
    assert [value for _, value in read_rows(client, metric, "sum", HOUR)] == [4.0]
    assert [value for _, value in read_rows(client, metric, "count", HOUR)] == [2.0]
