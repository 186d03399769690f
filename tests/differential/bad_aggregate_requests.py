"""Malformed and refused requests that search, aggregate or write in other protocols.

Resources and their type are those of `bad_resource_requests.py`; `{metric}`, `{named}` and policies those of
`bad_requests.py`.
"""

import json

from differential.bad_requests import MISSING, TEXT, case
from differential.bad_resource_requests import ANY_ONE, FAILS, RESOURCE

SEARCH = "/v1/search/resource/badtype"
AGGREGATES = "/v1/aggregates"
LEGACY = "/v1/aggregation/metric"
LEGACY_RESOURCE = "/v1/aggregation/resource/badtype/metric/cpu"
GOOD = ["metric", "{metric}", "mean"]


def search_cases():
    """POST /v1/search/resource/TYPE."""

    def post(name, body, **more):
        return case("search: " + name, "POST", more.pop("path", SEARCH), body, **more)

    for name, body in {
        "a list": [], "text": "x", "a number": 5,
        "two operators": {"=": {"id": RESOURCE}, "!=": {"id": RESOURCE}},
        "unknown operator": {"wtf": {"id": RESOURCE}},
        "operator without a field": {"=": {}},
        "two fields": {"=": {"id": RESOURCE, "size": 1}},
        "value is a list": {"=": {"size": [1]}},
        "value is an object": {"=": {"size": {}}},
        "field is text": {"=": "size"},
        "empty and": {"and": []},
        "and of text": {"and": "x"},
        "and of an object": {"and": {"=": {"size": 1}}},
        "not of a list": {"not": [{"=": {"size": 1}}]},
        "in of a value": {"in": {"size": 1}},
        "in of nothing": {"in": {"size": []}},
        "in of lists": {"in": {"size": [[1]]}},
        "like of an id": {"like": {"id": "x"}},
        "id with a slash": {"=": {"id": "a/b"}},
        "id too long": {"=": {"id": "x" * 290}},
    }.items():
        yield post(name, body, other_body=ANY_ONE)
    for name, body in {
        "unknown field": {"=": {"nope": 1}},
        "metrics": {"=": {"metrics": "x"}},
        "bad time": {"=": {"started_at": "foobar"}},
        "time before the epoch": {">": {"started_at": "1960-01-01"}},
        "number is text": {"=": {"size": "foobar"}},
        "created_by with less": {"<": {"created_by_user_id": "x"}},
        "created_by with in": {"in": {"created_by_project_id": ["x"]}},
        "unknown field far down": {"or": [{"=": {"size": 1}}, {"not": {"and": [{"=": {"nope": 1}}]}}]},
    }.items():
        yield post(name, body)
    for name, body in {
        "bad lifespan": {"=": {"lifespan": "foobar"}},
        "lifespan of nothing": {"=": {"lifespan": None}},
        "negative lifespan": {">": {"lifespan": -5}},
        "uuid is text": {"=": {"uid": "foobar"}},
        "bool is text": {"=": {"active": "foobar"}},
        "bool is a number": {"=": {"active": 5}},
        "like of a number": {"like": {"size": 5}},
        "like of a bool": {"like": {"active": "x"}},
        "like of a time": {"like": {"started_at": "2014-01-01"}},
        "NUL": {"=": {"display": "a\0b"}},
        "deep not": nested(2000),
        "wide and": {"and": [{"=": {"size": 1}}] * 3000},
        "id is a number": {"=": {"id": 5}},
        "id is null": {"=": {"id": None}},
        "less than true": {"<": {"active": True}},
    }.items():
        yield post(name, body, status=(200, 400), why=FAILS, other_body=TEXT)
    for text in ("a b c", "=", "size =", "= 1", "size = = 1", "(size = 1", "size = 1)", "not", "size = 1 and", "and",
                 "size = 1 size = 2", "size = [1", "size in 1]", "'open", "size wtf 1"):
        quoted = text.replace(" ", "%20").replace("=", "%3D").replace("'", "%27")
        yield post(f"text {text!r}", None, path=f"{SEARCH}?filter={quoted}", other_body=TEXT)
    for text in ("nope = 1", "started_at = 'foobar'", "size = foobar", "size in []", "id like 'x'"):
        yield post(f"text {text!r}", None, path=f"{SEARCH}?filter={text.replace(' ', '%20')}",
                   other_body=TEXT if "id like" in text or "[]" in text else "")
    for query in ("details=maybe", "history=maybe", "limit=0", "limit=x", "sort=nope", f"marker={MISSING}", "history=true&marker=x"):
        yield post(query, {}, path=f"{SEARCH}?{query}")
    yield post("unknown type", {}, path="/v1/search/resource/nope")
    yield post("half an object", b"{", other_body=TEXT)
    yield post("content type", {"=": {"size": 1}}, headers={"Content-Type": "text/plain"})
    yield post("anonymous", {"=": {"size": 1}}, user=None, status=401, why="Gnocchi lets anybody search", other_body=TEXT)
    for method in ("GET", "PUT", "DELETE"):
        yield case(f"search: {method}", method, SEARCH)


def nested(depth):
    return ('{"not": ' * depth + '{"=": {"size": 1}}' + "}" * depth).encode()


def search_metric_cases():
    """POST /v1/search/metric."""

    def post(name, body, query="metric_id={metric}", **more):
        return case("search metric: " + name, "POST", f"/v1/search/metric?{query}", body, **more)

    for name, body in {
        "null": b"null", "a list": [], "text": "x", "empty": {},
        "two operators": {"=": 1, "<": 2}, "unknown operator": {"wtf": 1}, "value is text": {"=": "x"},
        "value is null": {"=": None}, "three values": {"=": [1, 2, 3]}, "and of a number": {"and": 1},
        "not of a number": {"not": 1},
    }.items():
        yield post(name, body, other_body=ANY_ONE)
    yield post("no body", b"")
    yield post("half an object", b"{", other_body=TEXT)
    for query in ("start=foobar", "stop=foobar", "granularity=42"):
        yield post(query, {"=": 1}, query="metric_id={metric}&" + query)
    yield post("aggregation=wtf", {"=": 1}, query="metric_id={metric}&aggregation=wtf",
               other_body="depends on whether the metric has been processed")
    yield post("granularity=foobar", {"=": 1}, query="metric_id={metric}&granularity=foobar", status=400, why=FAILS, other_body=TEXT)
    yield post("metric_id=foobar", {"=": 1}, query="metric_id=foobar", status=(400, 404), why=FAILS, other_body=TEXT)
    yield post("no metric", {"=": 1}, query="start=1", status=400, why=FAILS, other_body=TEXT)
    yield post("division by zero", {"=": [{"/": 0}, 1]}, status=(200, 400), why=FAILS, other_body=TEXT)
    yield post("huge power", {"=": [{"**": 1e300}, 1]}, status=(200, 400), why=FAILS, other_body=TEXT)
    yield post("deep", b'{"and": [' * 3000 + b'{"=": 1}' + b"]}" * 3000, status=400, why=FAILS, other_body=TEXT)
    yield post("of another user", {"=": 1}, user="mallory")
    yield post("anonymous", {"=": 1}, user=None)


def aggregates_cases():
    """POST /v1/aggregates."""

    def post(name, body, query="", **more):
        return case("aggregates: " + name, "POST", AGGREGATES + query, body, **more)

    def of(operations, **more):
        return text_of({"operations": operations, **more})

    def text_of(body):
        return json.dumps(body).encode()

    for name, body in {
        "null": b"null", "a list": [], "empty": {}, "unknown key": of(GOOD, foo=1),
        "operations are null": of(None), "operations are a number": of(5), "operations are an object": of({}),
        "no operations": of([]), "unknown operation": of(["wtf", GOOD]), "metric alone": of(["metric"]),
        "metric without a method": of(["metric", "{metric}"]), "metric of a number": of(["metric", 5, "mean"]),
        "aggregate without a method": of(["aggregate", GOOD]), "aggregate with an unknown method": of(["aggregate", "wtf", GOOD]),
        "aggregate of nothing": of(["aggregate", "mean"]), "resample without a span": of(["resample", "mean", GOOD]),
        "resample by text": of(["resample", "mean", "foobar", GOOD]), "resample by 0": of(["resample", "mean", 0, GOOD]),
        "rolling by text": of(["rolling", "mean", "x", GOOD]), "rolling by 0": of(["rolling", "mean", 0, GOOD]),
        "plus with one side": of(["+", GOOD]), "plus with three": of(["+", GOOD, 1, 2]), "clip with four": of(["clip", GOOD, 1, 2, 3]),
        "abs of two": of(["abs", GOOD, GOOD]), "number is text": of(["+", GOOD, "x"]),
        "text is empty": of(""), "text is open": of("(metric"), "text is a word": of("metric"), "text is a number": of("5"),
        "text with too much": of("(wtf (metric {metric} mean))"), "text without a method": of("(metric {metric})"),
        "search without a type": of(GOOD, search={}), "type without a search": of(GOOD, resource_type="badtype"),
        "unknown type": of(GOOD, resource_type="nope", search={}), "type is a number": of(GOOD, resource_type=5, search={}),
        "search is a number": of(GOOD, resource_type="badtype", search=5),
        "search is no filter": of(GOOD, resource_type="badtype", search={"wtf": {"id": RESOURCE}}),
        "search is bad text": of(GOOD, resource_type="badtype", search="a b c"),
    }.items():
        yield post(name, body, other_body=ANY_ONE)
    for name, body in {
        "no metric": of(["+", 1, 2]), "a number": of(["abs", 5]),
        "method of a pair is a number": of(["metric", ["{metric}", 1]]),
        "metric of a pair is null": of(["rolling", "mean", 2, ["metric", ["{metric}", "mean"], [None, "mean"]]]),
        "pair of three": of(["metric", ["{metric}", "mean", "sum"]]),
        "unknown metric": of(["metric", MISSING, "mean"]), "metric by name": of(["metric", "foobar", "mean"]),
        "a known and an unknown metric": of(["metric", ["{metric}", "mean"], [MISSING, "mean"]]),
        "method that the policy lacks": of(["metric", "{metric}", "max"]),
        "unknown method": of(["metric", "{metric}", "wtf"]),
        "rolling longer than all": of(["rolling", "mean", 10_000, GOOD]),
        "search of an unknown field": of(["metric", "cpu", "mean"], resource_type="badtype", search={"=": {"nope": 1}}),
        "search of a bad time": of(["metric", "cpu", "mean"], resource_type="badtype", search={"=": {"started_at": "x"}}),
        "metric that no resource has": of(["metric", "nope", "mean"], resource_type="badtype", search={"=": {"id": RESOURCE}}),
        "nothing found": of(["metric", "cpu", "mean"], resource_type="badtype", search={"=": {"id": MISSING}}),
    }.items():
        yield post(name, body)
    yield post("deep operations", of("(abs " * 3000 + "(metric {metric} mean)" + ")" * 3000), status=400, why=FAILS, other_body=TEXT)
    yield post("deep JSON", b'{"operations": ' + b'["abs", ' * 3000 + b'["metric", "x", "mean"]' + b"]" * 3000 + b"}", status=400,
               why=FAILS, other_body=TEXT)
    yield post("half an object", b"{", other_body=TEXT)
    yield post("content type", of(GOOD), headers={"Content-Type": "text/plain"})
    for query in ("start=foobar", "stop=foobar", "granularity=foobar", "granularity=0", "needed_overlap=x", "fill=x",
                  "use_history=maybe", "details=maybe", "granularity=42"):
        yield post(query, of(GOOD), query="?" + query)
    by_name = of(["metric", "cpu", "mean"], resource_type="badtype", search={"=": {"id": RESOURCE}})
    for query in ("groupby=nope", "groupby=nope&use_history=true", "groupby=metrics"):
        yield post(query, by_name, query="?" + query, other_body=TEXT if "metrics" in query else "",
                   **({"status": 400, "why": FAILS} if "metrics" in query else {}))
    yield post("of another user", of(GOOD), user="mallory")
    yield post("anonymous", of(GOOD), user=None)
    for method in ("GET", "PUT", "DELETE"):
        yield case(f"aggregates: {method}", method, AGGREGATES)


def legacy_cases():
    """/v1/aggregation."""

    def get(name, query, **more):
        return case("aggregation: " + name, "GET", f"{LEGACY}?{query}", **more)

    for query in ("", "metric=", "metric=foobar", f"metric={MISSING}", "metric={metric}&aggregation=wtf", "metric={metric}&start=foobar",
                  "metric={metric}&stop=foobar", "metric={metric}&granularity=foobar", "metric={metric}&granularity=42",
                  "metric={metric}&needed_overlap=x", "metric={metric}&fill=x", "metric={metric}&refresh=maybe",
                  "metric={metric}&resample=60", "metric={metric}&granularity=1&resample=x", f"metric={{metric}}&metric={MISSING}",
                  f"metric={MISSING}&start=foobar", "metric={metric}&metric={named}&aggregation=max"):
        yield get(query or "nothing", query, other_body=TEXT if "refresh" in query or query.endswith("=max") else "")
    yield get("unknown reaggregation", "metric={metric}&metric={named}&reaggregation=wtf", status=(200, 400), why=FAILS, other_body=TEXT)
    yield get("of another user", "metric={metric}", user="mallory")
    yield get("anonymous", "metric={metric}", user=None)
    for name, body in {"null": b"null", "an object": {}, "text": "x", "numbers": [1], "no ids": ["x"], "unknown": [MISSING]}.items():
        yield case(f"aggregation: POST {name}", "POST", LEGACY, body)
    yield case("aggregation: POST half a list", "POST", LEGACY, b"[", other_body=TEXT)
    yield case("aggregation: POST content type", "POST", LEGACY, [], headers={"Content-Type": "text/plain"})
    for query in ("groupby=nope", "aggregation=wtf", "granularity=42", "fill=x", "start=x", "filter=a%20b%20c", "needed_overlap=x"):
        yield case(f"aggregation: resource {query}", "POST", f"{LEGACY_RESOURCE}?{query}", b"",
                   other_body=TEXT if "filter" in query else "")
    yield case("aggregation: resource, bad filter", "POST", LEGACY_RESOURCE, {"wtf": {}}, other_body=ANY_ONE)
    yield case("aggregation: resource, unknown field", "POST", LEGACY_RESOURCE, {"=": {"nope": 1}})
    yield case("aggregation: unknown type", "POST", "/v1/aggregation/resource/nope/metric/cpu", {})
    for path in ("/v1/aggregation", "/v1/aggregation/foo", "/v1/aggregation/resource", "/v1/aggregation/resource/badtype",
                 "/v1/aggregation/resource/badtype/metric", "/v1/aggregation/resource/badtype/foo/cpu",
                 "/v1/aggregation/resource/badtype/metric/cpu"):
        for method in ("GET", "POST") if not path.endswith("cpu") else ("GET",):
            # Half a path: to Gnocchi its end is an action with arguments.
            more = {"status": (400, 404, 405), "why": "no such path"} if path.endswith("/metric") else {}
            yield case(f"aggregation: {method} {path}", method, path, b"" if method == "POST" else None, other_body=TEXT, **more)


def influxdb_cases():
    """/v1/influxdb."""

    def write(name, body, db="badflux", **more):
        return case("influxdb: " + name, "POST", f"/v1/influxdb/write?db={db}", body, **more)

    for name, body in {
        "a word": b"foobar", "no fields": b"cpu,host=a", "empty field": b"cpu,host=a value=", "no host": b"cpu,rack=a value=1",
        "no tags": b"cpu value=1", "bad number": b"cpu,host=a value=abc",
        "second line": b"cpu,host=a value=1\ncpu,host=a", "open quotes": b'"cpu,host=a value=1',
        "no measurement": b",host=a value=1", "empty tag": b"cpu,host= value=1",
    }.items():
        yield write(name, body)
    yield write("invalid UTF-8", b"cpu,host=\xff value=1", other_body="Gnocchi does not say what is wrong")
    yield write("unknown database", b"cpu,host=a value=1", db="nope", status=(400, 404), why=FAILS, other_body=TEXT)
    yield write("anonymous", b"cpu,host=a value=1", user=None)
    for q in ("show%20databases", "drop%20database%20x", "", "create%20database", "select%20*"):
        yield case(f"influxdb: query {q!r}", "POST", f"/v1/influxdb/query?q={q}", b"", other_body=TEXT)
    yield case("influxdb: query not admin", "POST", "/v1/influxdb/query?q=create%20database%20mine", b"", user="mallory")
    for method, path in (("GET", "write"), ("PUT", "write"), ("GET", "query"), ("POST", "ping"), ("GET", "nope")):
        more = {"status": (404, 405), "why": "no such path: Gnocchi looks at the method first"} if path == "nope" else {}
        yield case(f"influxdb: {method} {path}", method, f"/v1/influxdb/{path}", other_body=TEXT, **more)


def all_cases():
    for cases in (search_cases, search_metric_cases, aggregates_cases, legacy_cases, influxdb_cases):
        yield from cases()
