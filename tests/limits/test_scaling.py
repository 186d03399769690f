"""The cost of a request is linear in its size, not quadratic, wherever a client determines a count.

The tests measure the server's processor time, which does not depend on other programs: four times the input may take a few times as
much; quadratic cost would take sixteen times as much.
"""

import json
import uuid

import pytest

from inputs.remote_write import label, sample, series, snappy
from support.http import create_policy_with_rule

pytestmark = pytest.mark.slow

GROWTH = 4
# Between four times, with room for caches that get too small, and sixteen.
FACTOR_MAX = 9
# Below it, the clock's ticks of 10 ms and what the server does besides would count too much. A quadratic step of a nanosecond
# over the 40,000 items of these requests takes five times as long.
UNNOTICED_S = 0.3
# Nothing is processed meanwhile.
CONFIG = "[metricd]\ngreedy = false\nmetric_processing_delay = 3600\n"
TYPE = "application/json"


@pytest.fixture
def server(gnudi):
    """One for each case: what another has written is not checkpointed meanwhile, nor at its end."""
    server = gnudi(config=CONFIG, arguments=["--skip-archive-policies-creation"])
    client = server.client()
    create_policy_with_rule(client, aggregation_methods=["mean"])
    client.post("/v1/influxdb/query?q=CREATE+DATABASE+%22db%22").expect(204)
    return server


def names(count):
    return [f"n{number}" for number in range(count)]


def ids(count, salt):
    return [str(uuid.UUID(int=salt << 64 | number)) for number in range(count)]


def measures(server, count):
    metric = server.client().post("/v1/metric", {"archive_policy_name": "all"}).expect(201).json()["id"]
    points = [{"timestamp": 1_600_000_000 + number, "value": number} for number in range(count)]
    return "POST", f"/v1/metric/{metric}/measures", points, 202


def measures_that_the_scanner_does_not_know(server, count):
    _, path, points, status = measures(server, count)
    return "POST", path, [{"timestamp": "now", "value": f"{point['value']}"} for point in points], status


def unknown_metrics(_, count):
    return "POST", "/v1/batch/metrics/measures", {name: [] for name in ids(count, 1)}, 400


def resource(server, count, salt):
    """The id of a new resource with so many metrics."""
    rid = f"scaling-{salt}-{count}"
    metrics = {name: {"archive_policy_name": "all"} for name in names(count)}
    server.client(timeout_s=300).post("/v1/resource/generic", {"id": rid, "metrics": metrics}).expect(201)
    return rid


def metrics_by_name(_, count):
    body = {f"new-{count}": {name: [] for name in names(count)}}
    return "POST", "/v1/batch/resources/metrics/measures?create_metrics=true", body, 400


def metrics_of_a_resource(_, count):
    metrics = {name: {"archive_policy_name": "all"} for name in names(count)}
    return "POST", "/v1/resource/generic", {"id": f"made-{count}", "metrics": metrics}, 201


def metrics_in_place_of_others(server, count):
    rid = resource(server, count, "replaced")
    metrics = {f"other-{name}": {"archive_policy_name": "all"} for name in names(count)}
    return "PATCH", f"/v1/resource/generic/{rid}", {"metrics": metrics}, 200


def names_in_operations(server, count):
    rid = resource(server, count, "named")
    asked = [[name, "mean"] for name in names(count)]
    body = {"operations": ["metric", *asked], "search": {"=": {"id": rid}}, "resource_type": "generic"}
    return "POST", "/v1/aggregates", body, 200


def names_that_nothing_has(server, count):
    rid = resource(server, count, "unnamed")
    asked = [[f"none-{name}", "mean"] for name in names(count)]
    body = {"operations": ["metric", *asked], "search": {"=": {"id": rid}}, "resource_type": "generic"}
    return "POST", "/v1/aggregates", body, 404


def ids_in_operations(_, count):
    return "POST", "/v1/aggregates", {"operations": ["metric", *([name, "mean"] for name in ids(count, 2))]}, 404


def one_pattern(server, count):
    body = {"operations": ["metric", "[" * count * 100, "mean"], "search": {}, "resource_type": "generic"}
    return "POST", "/v1/aggregates", body, 400


def ids_in_an_aggregation(_, count):
    return "POST", "/v1/aggregation/metric?aggregation=mean", ids(count, 3), 404


def values_in_a_search(_, count):
    return "POST", "/v1/search/resource/generic", {"in": {"original_resource_id": names(count // 4)}}, 200


def conditions_of_a_search(_, count):
    conditions = [{"=": {"original_resource_id": name}} for name in names(count // 21)]
    return "POST", "/v1/search/resource/generic", {"or": conditions}, 200


def operators_of_a_search(_, count):
    return "POST", "/v1/search/metric?metric_id=" + ids(1, 4)[0], {"and": [{"=": number} for number in range(count)]}, 400


def attributes(_, count):
    described = {name: {"type": "string", "required": False} for name in names(count)}
    return "POST", "/v1/resource_type", {"name": f"type{count}", "attributes": described}, 400


def attributes_in_a_patch(server, count):
    server.client().post("/v1/resource_type", {"name": f"patched{count}"}).expect(201)
    described = {name: {"type": "string", "required": False} for name in names(count // 4)}
    patch = [{"op": "add", "path": "/attributes", "value": described}]
    patch += [{"op": "add", "path": f"/attributes/m{number}", "value": {"type": "bool"}} for number in range(900)]
    return "PATCH", f"/v1/resource_type/patched{count}", patch, 400


def definitions(_, count):
    items = [{"granularity": number + 1, "points": 1} for number in range(count)]
    return "POST", "/v1/archive_policy", {"name": f"policy{count}", "definition": items}, 400


def methods(_, count):
    listed = [f"-{method}" for method in ["mean", "sum"] * (count // 2)]
    return "POST", "/v1/archive_policy", {"name": f"methods{count}", "definition": [{"granularity": "1s", "points": 1}],
                                          "aggregation_methods": listed}, 201


def keys(_, count):
    """All but one are not known."""
    return "POST", "/v1/metric", {"archive_policy_name": "all", **{name: 1 for name in names(count)}}, 400


def the_same_key(_, count):
    return "POST", "/v1/metric", b"{" + b", ".join([b'"name": "x"'] * count) + b', "archive_policy_name": "all"}', 201


def lines(_, count):
    text = b"".join(b"m,host=h%d f=1 1600000000000000000\n" % number for number in range(count // 4))
    return "POST", "/v1/influxdb/write?db=db", text, 204


def fields(_, count):
    text = b"m,host=h " + b",".join(b"f%d=1" % number for number in range(count // 4)) + b" 1600000000000000000"
    return "POST", "/v1/influxdb/write?db=db", text, 204


def labels(_, count):
    shown = [label("__name__", "m"), *(label(name, "1") for name in names(count))]
    return "POST", "/v1/prometheus/write", snappy(series(*shown, sample(1.0, 1_600_000_000_000))), 202


def segments(_, count):
    return "GET", "/v1/" + "x/" * min(count, 30_000), None, 404




# A sixth of what the largest requests may hold, so that four times as much may be sent.
COUNT = 10_000
# Writing them to the index takes long. Of lines there are enough that its checkpoints do not count.
FEW = {metrics_of_a_resource: 1_000, metrics_in_place_of_others: 500, names_in_operations: 1_000, names_that_nothing_has: 1_000,
       lines: 8_000, fields: 2_000}
CASES = [measures, measures_that_the_scanner_does_not_know, unknown_metrics, metrics_by_name, metrics_of_a_resource,
         metrics_in_place_of_others, names_in_operations, names_that_nothing_has, ids_in_operations, one_pattern,
         ids_in_an_aggregation, values_in_a_search, conditions_of_a_search, operators_of_a_search, attributes,
         attributes_in_a_patch, definitions, methods, keys, the_same_key, lines, fields, labels, segments]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_four_times_as_much_takes_no_square_of_the_time(server, case):
    count = FEW.get(case, COUNT)
    first, fourfold = (cost(server, *case(server, size)) for size in (count, GROWTH * count))
    print(f"{case.__name__}: {first:.2f} s, {fourfold:.2f} s for {GROWTH} times as much")
    assert fourfold < UNNOTICED_S or fourfold < FACTOR_MAX * first, (first, fourfold)


def cost(server, method, path, body, status):
    """Seconds of processor time."""
    headers = {"Content-Type": TYPE}
    if "influxdb" in path:
        headers = {"Content-Type": "text/plain"}
    elif "prometheus" in path:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
    elif "resource_type" in path and method == "PATCH":
        headers = {"Content-Type": "application/json-patch+json"}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    client = server.client(timeout_s=300)
    before = server.process.processor_seconds()
    answer = client.request(method, path, body, headers=headers)
    after = server.process.processor_seconds()
    assert answer.status == status, answer
    return after - before
