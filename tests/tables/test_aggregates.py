"""Aggregates across metrics as long and wide tables: they equal the JSON response."""

import datetime
import struct
import uuid

import pyarrow as pa
import pytest
from support.http import create_policy
from tables.stream import MEDIA_TYPE, TAKES, table

PATH = "/v1/aggregates"
FLAVORS = ["small", "large", None]


@pytest.fixture(scope="module")
def world(server):
    """Resources with two metrics each, some of whose points are missing."""
    client = server.client()
    create_policy(client, "two", [("1s", 1000), ("1 minute", 1000)], aggregation_methods=["mean", "max"])
    client.post("/v1/resource_type", {"name": "vm", "attributes": {"flavor": {"type": "string", "required": False}}}).expect(201)
    metrics, document = {}, {}
    for number in range(6):
        resource = str(uuid.UUID(int=number + 1))
        flavor = FLAVORS[number % 3]
        body = {"id": resource, "metrics": {name: {"archive_policy_name": "two"} for name in ["cpu", "disk"]}}
        made = client.post("/v1/resource/vm", body if flavor is None else {**body, "flavor": flavor}).expect(201).json()
        metrics[resource] = made["metrics"]
        for place, name in enumerate(["cpu", "disk"]):
            seconds = [second for second in range(90) if (second + number) % (4 + place)]
            document[made["metrics"][name]] = [{"timestamp": 1_700_000_000 + s, "value": s * 0.1 + number} for s in seconds]
    client.post("/v1/batch/metrics/measures", document).expect(202)
    for resource in metrics:
        for name in ["cpu", "disk"]:
            client.get(f"/v1/resource/vm/{resource}/metric/{name}/measures?refresh=true").expect(200)
    return client, metrics


def flat(answer):
    """A JSON answer as rows: keys by name, second, granularity, bits of the value."""
    def rows(keys, measures):
        if isinstance(measures, list):
            for time, granularity, value in measures:
                second = int(datetime.datetime.fromisoformat(time).timestamp())
                yield (*keys, second, granularity, struct.pack("d", value))
            return
        for key, inner in measures.items():
            yield from rows(keys if key == "aggregated" else (*keys, key), inner)

    if isinstance(answer, dict):
        yield from rows((), answer["measures"])
    else:
        for part in answer:
            group = tuple(part["group"].values())
            yield from rows(group, part["measures"].get("measures", part["measures"]))


def told(read):
    """The same of a long table."""
    columns = {name: read[name].cast(pa.utf8()).to_pylist() if name not in ("timestamp", "granularity", "value") else None
               for name in read.column_names}
    keys = [values for values in columns.values() if values is not None]
    seconds = [time // 10**9 for time in read["timestamp"].cast(pa.int64()).to_pylist()]
    values = [struct.pack("d", value) for value in read["value"].to_pylist()]
    return list(zip(*keys, seconds, read["granularity"].to_pylist(), values))


def ask(client, body, query=""):
    answer = client.post(f"{PATH}?{query}", body, headers=TAKES).expect(200)
    assert answer.headers["content-type"] == MEDIA_TYPE
    return table(answer.body)


REQUESTS = [
    ("by id", "", ["metric_id", "aggregation"], lambda ids: {"operations": ["metric", *([id, "mean"] for id in ids)]}),
    ("by id, twice", "fill=0", ["metric_id", "aggregation"],
     lambda ids: {"operations": ["*", 2, ["metric", [ids[0], "mean"], [ids[1], "max"], [ids[0], "max"]]]}),
    ("one of all", "fill=null", [], lambda ids: {"operations": ["aggregate", "sum", ["metric", *([id, "max"] for id in ids)]]}),
    ("of resources", "granularity=60", ["resource_id", "metric", "aggregation"],
     lambda ids: {"operations": ["metric", ["*", "max"]], "search": {}, "resource_type": "vm"}),
    ("one of resources", "", [],
     lambda ids: {"operations": ["aggregate", "mean", ["metric", "cpu", "mean"]], "search": {}, "resource_type": "vm"}),
    ("of groups", "groupby=flavor", ["group_flavor"],
     lambda ids: {"operations": ["aggregate", "max", ["metric", "disk", "mean"]], "search": {}, "resource_type": "vm"}),
    ("of groups, not one", "groupby=flavor&groupby=id&granularity=1", ["group_flavor", "group_id", "resource_id", "metric", "aggregation"],
     lambda ids: {"operations": ["metric", ["cpu", "mean"], ["disk", "max"]], "search": {}, "resource_type": "vm"}),
    ("of groups over time", "groupby=flavor&use_history=true&granularity=60", ["group_flavor"],
     lambda ids: {"operations": ["aggregate", "max", ["metric", "disk", "mean"]], "search": {}, "resource_type": "vm"}),
]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("name, query, keys, body", REQUESTS, ids=[name for name, *_ in REQUESTS])
def test_tables_say_what_json_says(world, name, query, keys, body, compression):
    client, metrics = world
    body = body([id for known in metrics.values() for id in known.values()])
    wanted = list(flat(client.post(f"{PATH}?{query}", body).expect(200).json()))
    long = ask(client, body, f"{query}&compression={compression}")
    assert long.column_names == [*keys, "timestamp", "granularity", "value"]
    assert sorted(told(long), key=str) == sorted(wanted, key=str) and wanted
    wide = ask(client, body, f"{query}&compression={compression}&form=wide")
    assert wide.column_names[:2] == ["timestamp", "granularity"]
    cells = {}
    for row in wide.to_pylist():
        for column, value in list(row.items())[2:]:
            if value is not None:
                cells[column, int(row["timestamp"].timestamp()), row["granularity"]] = struct.pack("d", value)
    key = lambda keys: "/".join(key or "" for key in keys) if keys else "value"
    first = {}
    for *keys, second, granularity, value in wanted:
        first.setdefault((key(keys), second, granularity), value)
    assert cells == first


def test_what_a_table_cannot_be_is_refused(world):
    client, metrics = world
    body = {"operations": ["metric", [next(iter(metrics.values()))["cpu"], "mean"]]}
    for query, argument in [("form=round", "form"), ("form=wide&form=long", "form"), ("compression=gzip", "compression"),
                            ("details=true", "details")]:
        answer = client.post(f"{PATH}?{query}", body, headers=TAKES).expect(400)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["description"]["detail"] == argument
    # Errors are Gnocchi's.
    unknown = {"operations": ["metric", [str(uuid.UUID(int=99)), "mean"]]}
    wanted = client.post(PATH, unknown).expect(404)
    assert client.post(PATH, unknown, headers=TAKES).expect(404).json() == wanted.json()


def test_lists_are_tables(world):
    client, metrics = world
    read = table(client.get("/v1/metric?sort=id:asc&limit=5", headers=TAKES).expect(200).body)
    listed = client.get("/v1/metric?sort=id:asc&limit=5").expect(200).json()
    for metric in listed:
        metric["archive_policy_name"] = metric.pop("archive_policy")["name"]
    assert sorted(read.column_names) == sorted(listed[0])
    assert read.to_pylist() == [{name: metric[name] for name in read.column_names} for metric in listed]
    answer = client.get("/v1/metric?limit=5", headers=TAKES).expect(200)
    assert "rel=\"next\"" in answer.headers["link"] or "rel=next" in answer.headers["link"]
    read = table(client.get("/v1/resource/vm?sort=id:asc", headers=TAKES).expect(200).body)
    listed = client.get("/v1/resource/vm?sort=id:asc").expect(200).json()
    assert read.column_names == list(listed[0])
    for row, resource in zip(read.to_pylist(), listed, strict=True):
        for name, value in row.items():
            if isinstance(value, datetime.datetime):
                assert value == datetime.datetime.fromisoformat(resource[name])
            elif name == "metrics":
                assert dict(value) == resource[name]
            else:
                assert value == resource[name], name
    some = table(client.post("/v1/search/resource/vm?attrs=id&attrs=flavor", {"=": {"flavor": "small"}}, headers=TAKES).expect(200).body)
    assert some.column_names == ["id", "flavor"] and some["flavor"].to_pylist() == ["small"] * 2
    one = next(iter(metrics))
    named = table(client.get(f"/v1/resource/vm/{one}/metric", headers=TAKES).expect(200).body)
    assert sorted(named["name"].to_pylist()) == ["cpu", "disk"]
    assert table(client.get(f"/v1/resource/vm/{one}/history", headers=TAKES).expect(200).body).num_rows == 1
    none = table(client.post("/v1/search/resource/vm", {"=": {"flavor": "none"}}, headers=TAKES).expect(200).body)
    assert none.num_rows == 0 and "id" in none.column_names


def test_attributes_of_any_kind(world):
    client, _ = world
    kinds = {"n": {"type": "number"}, "b": {"type": "bool"}, "d": {"type": "datetime"}, "u": {"type": "uuid"}}
    optional = {name: {**kind, "required": False} for name, kind in kinds.items()}
    client.post("/v1/resource_type", {"name": "kinds", "attributes": optional}).expect(201)
    client.post("/v1/resource_type", {"name": "others", "attributes": {"n": {"type": "string", "required": False}}}).expect(201)
    given = {"n": 1.5, "b": True, "d": "2026-01-01T00:00:00+00:00", "u": str(uuid.UUID(int=5))}
    client.post("/v1/resource/kinds", {"id": "one", **given}).expect(201)
    client.post("/v1/resource/kinds", {"id": "two"}).expect(201)
    client.post("/v1/resource/others", {"id": "three", "n": "text"}).expect(201)
    read = table(client.get("/v1/resource/kinds", headers=TAKES).expect(200).body)
    assert [str(read.schema.field(name).type) for name in kinds] == ["double", "bool", "timestamp[ns, tz=UTC]", "string"]
    assert [read[name].null_count for name in kinds] == [1] * 4
    all = table(client.get("/v1/resource/generic?details=true", headers=TAKES).expect(200).body)
    assert sorted(filter(None, all["n"].to_pylist())) == ["1.5", "text"]
