"""PromQL over metrics that Gnocchi's clients wrote: by name, by attributes of resources, and over their stored aggregates."""

import pytest

from prometheus.oracle import ask
from support.gnudi import Gnudi
from support.http import create_metric, create_policy, post_seconds
from support.process import wait_until

HOUR = 1_750_003_200
IDS = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"]


@pytest.fixture(scope="module")
def buckets(module_path):
    """Two instances with four hours of `cpu.util`, a value a minute, and a metric without a resource."""
    with Gnudi(module_path) as server:
        client = server.client()
        create_policy(client, "levels", [("5m", 10_000), ("1h", 10_000)],
                      aggregation_methods=["mean", "max", "min", "sum", "count", "last"])
        create_policy(client, "plain", [("1m", 10_000)], aggregation_methods=["last"])
        client.post("/v1/resource_type", {"name": "server", "attributes": {
            "host": {"type": "string", "required": True}, "unit": {"type": "string", "required": False}}}).expect(201)
        for number, id in enumerate(IDS):
            body = {"id": id, "host": f"node-{number}", "unit": "small", "project_id": f"p{number}", "user_id": "u",
                    "metrics": {"cpu.util": {"archive_policy_name": "levels", "unit": "%"}}}
            client.post("/v1/resource/server", body).expect(201)
            measures = [{"timestamp": HOUR + minute * 60, "value": value(number, minute)} for minute in range(240)]
            client.post(f"/v1/resource/server/{id}/metric/cpu.util/measures", measures).expect(202)
        metric = client.post("/v1/metric", {"name": "alone", "archive_policy_name": "plain"}).expect(201).json()["id"]
        client.post(f"/v1/metric/{metric}/measures", [{"timestamp": HOUR + 30, "value": 7}]).expect(202)
        wait_until(lambda: len(query(server, 'count_over_time({__name__=~"cpu.util|alone"}[5h])', HOUR + 5 * 3600)) == 3, 60, "measures")
        yield server


def value(number, minute):
    return number * 1000 + (minute * 37 % 101) / 4


def query(server, text, time):
    status, document = ask(server.port, "/api/v1/query", {"query": text, "time": time})
    assert status == 200, document
    return {one["metric"].get("host", ""): float(one["value"][1]) for one in document["data"]["result"]}


def window(number, start, end):
    return [value(number, minute) for minute in range(240) if start <= minute < end]


def test_labels(buckets):
    _, document = ask(buckets.port, "/api/v1/series", {"match[]": '{__name__="cpu.util", host="node-1"}'})
    assert document["data"] == [{"__name__": "cpu.util", "resource": IDS[1], "resource_id": IDS[1], "type": "server", "project": "p1",
                                 "user": "u", "unit": "%", "host": "node-1", "attribute_unit": "small"}]
    assert set(query(buckets, "ceilometer_cpu_util", HOUR + 600)) == {"node-0", "node-1"}
    assert set(query(buckets, '{"cpu.util", resource_id="%s"}' % IDS[0], HOUR + 600)) == {"node-0"}


def test_a_bucket_counts_from_its_start(buckets):
    for minute in [0, 4, 5, 61, 119]:
        start = minute - minute % 5
        mean = {f"node-{number}": sum(window(number, start, start + 5)) / 5 for number in [0, 1]}
        assert query(buckets, '{"cpu.util"}', HOUR + minute * 60 + 30) == pytest.approx(mean)
        hour = minute - minute % 60
        assert query(buckets, '{"cpu.util", __granularity__="1h", host="node-1"}', HOUR + minute * 60 + 30) == \
            pytest.approx({"node-1": sum(window(1, hour, hour + 60)) / 60})
        assert query(buckets, '{"cpu.util", __aggregation__="max", host="node-1"}', HOUR + minute * 60) == \
            {"node-1": max(window(1, start, start + 5))}


def test_the_newest_bucket_is_found_until_the_next_can_be_there(buckets):
    last = HOUR + 235 * 60
    assert query(buckets, '{"cpu.util", host="node-0"}', last + 599)
    assert not query(buckets, '{"cpu.util", host="node-0"}', last + 601)
    assert query(buckets, '{"cpu.util", __granularity__="3600"}', HOUR + 5 * 3600 - 1)
    assert not query(buckets, '{"cpu.util", __granularity__="3600"}', HOUR + 5 * 3600 + 1)


def test_extended_selectors_reach_over_long_buckets(buckets):
    means = [sum(window(1, hour * 60, hour * 60 + 60)) / 60 for hour in range(3)]
    hourly = '{"cpu.util", __granularity__="1h", host="node-1"}'
    assert query(buckets, f"{hourly} smoothed", HOUR + 5400) == pytest.approx({"node-1": (means[1] + means[2]) / 2})
    # For functions the samples are at the ends of the hours.
    assert query(buckets, f"delta({hourly}[1h] anchored)", HOUR + 9000) == pytest.approx({"node-1": means[1] - means[0]})
    assert query(buckets, f"delta({hourly}[1h] smoothed)", HOUR + 9000) == pytest.approx({"node-1": (means[2] - means[0]) / 2}, rel=1e-3)


@pytest.mark.parametrize("function, of", [
    ("max_over_time", max), ("min_over_time", min), ("sum_over_time", sum), ("count_over_time", len),
    ("avg_over_time", lambda values: sum(values) / len(values)), ("last_over_time", lambda values: values[-1])])
@pytest.mark.parametrize("range_minutes, end_minute", [(60, 60), (60, 120), (5, 45), (15, 20), (120, 240), (180, 200)])
def test_functions_of_whole_buckets_are_exact(buckets, function, of, range_minutes, end_minute):
    found = query(buckets, f'{function}({{"cpu.util"}}[{range_minutes}m])', HOUR + end_minute * 60)
    expected = {f"node-{number}": of(window(number, end_minute - range_minutes, end_minute)) for number in [0, 1]}
    assert found == pytest.approx(expected)


def test_the_open_bucket_is_part_of_a_window_that_reaches_beyond_it(buckets):
    assert query(buckets, 'count_over_time(alone[1m])', HOUR + 31) == {"": 1.0}
    assert query(buckets, 'alone', HOUR + 31) == {"": 7.0}


def test_a_range_query_takes_buckets_of_its_step(buckets):
    status, document = ask(buckets.port, "/api/v1/query_range",
                           {"query": 'sum by (project) ({"cpu.util"})', "start": HOUR, "end": HOUR + 3 * 3600, "step": "1h"})
    found = {one["metric"]["project"]: [float(value) for _, value in one["values"]] for one in document["data"]["result"]}
    expected = {f"p{number}": [sum(window(number, hour * 60, hour * 60 + 60)) / 60 for hour in range(4)] for number in [0, 1]}
    assert found == {project: pytest.approx(values) for project, values in expected.items()}


def test_what_a_policy_does_not_have_is_not_found(buckets):
    assert query(buckets, '{"cpu.util", __aggregation__="99pct"}', HOUR + 600) == {}
    assert query(buckets, '{"cpu.util", __granularity__="10m"}', HOUR + 600) == {}
    for text in ['{"cpu.util", __aggregation__="nonsense"}', '{"cpu.util", __aggregation__!="max"}', '{__aggregation__="max"}',
                 '{"cpu.util", __granularity__="soon"}']:
        status, document = ask(buckets.port, "/api/v1/query", {"query": text})
        assert (status, document["errorType"]) == (400, "bad_data"), text


def test_what_came_before_a_move_to_finer_sources_stays(buckets):
    client = buckets.client()
    methods = ["mean", "sum", "count"]
    create_policy(client, "hours", [("1h", 10_000)], aggregation_methods=methods)
    create_policy(client, "exact", [("1m", 100_000), ("1h", 10_000)], aggregation_methods=methods, raw={"timespan": "30 days"})
    metric = create_metric(client, "hours", name="moved")
    count = lambda: query(buckets, "count_over_time(moved[5h])", HOUR + 5 * 3600).get("")
    post_seconds(client, metric, range(HOUR, HOUR + 240 * 60, 60))
    wait_until(lambda: count() == 240, 60, "measures")
    client.patch(f"/v1/metric/{metric}", {"archive_policy_name": "exact"}).expect(200)
    post_seconds(client, metric, [HOUR + 240 * 60])
    wait_until(lambda: count() == 241, 60, "a measure after the move")
    # Hours, then raw points from the last hour on.
    assert query(buckets, "moved", HOUR + 3600 + 60) == {"": HOUR + 3600 + 29.5 * 60}
    assert query(buckets, "moved", HOUR + 3 * 3600 + 60) == {"": HOUR + 3 * 3600 + 60}


def test_series_are_deleted(buckets):
    client = buckets.client()
    create_policy(client, "second", [("1s", 1000)], aggregation_methods=["last"])
    metric = client.post("/v1/metric", {"name": "gone", "archive_policy_name": "second"}).expect(201).json()["id"]
    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": HOUR + second, "value": second} for second in range(20)]).expect(202)
    count = lambda: query(buckets, "count_over_time(gone[1h])", HOUR + 600).get("")
    path = "/api/v1/admin/tsdb/delete_series?match[]=gone"
    wait_until(lambda: count() == 20, 60, "measures")
    client.post(f"{path}&start={HOUR + 5}&end={HOUR + 9}", b"").expect(204)
    wait_until(lambda: count() == 15, 60, "their removal")
    client.request("PUT", path, b"").expect(204)
    wait_until(lambda: count() is None, 60, "the metric's deletion")
    client.get(f"/v1/metric/{metric}").expect(404)
