"""Malformed and refused requests about resources, their types, history, searches and batches.

`RESOURCE` is a resource of the type `badtype` with a metric `cpu` of the policy `used`, `OTHER` another one; both belong
to the user `owner`. The type has the attributes of `TYPE`.
"""

from differential.bad_requests import MISSING, TEXT, case

TYPE = {
    "display": {"type": "string", "required": True, "min_length": 2, "max_length": 5},
    "size": {"type": "number", "required": False, "min": 0, "max": 10},
    "uid": {"type": "uuid", "required": False},
    "active": {"type": "bool", "required": False},
    "seen": {"type": "datetime", "required": False},
}
RESOURCE = "b0000000-0000-4000-8000-000000000001"
OTHER = "b0000000-0000-4000-8000-000000000002"
NEW = "b0000000-0000-4000-8000-0000000000ff"
ONE = f"/v1/resource/badtype/{RESOURCE}"
ANY_ONE = "names one of several wrong keys"
FAILS = "Gnocchi fails"


def create_cases():
    """POST /v1/resource/TYPE."""

    def post(name, body, kind="badtype", **more):
        return case("resource: " + name, "POST", f"/v1/resource/{kind}", body, **more)

    def of(**more):
        return {"id": NEW, "display": "name", **more}

    for name, body in {
        "null": b"null", "a list": [], "text": "x", "a number": 5,
        "no id": {"display": "name"},
        "no required attribute": {"id": NEW},
        "required attribute is null": of(display=None),
        "string is a number": of(display=7),
        "string too short": of(display="x"),
        "string too long": of(display="x" * 6),
        "number is text": of(size="7"),
        "number too small": of(size=-1),
        "number too large": of(size=10.5),
        "number is null": of(size=None),
        "uuid is text": of(uid="foobar"),
        "uuid is a number": of(uid=5),
        "bool is text": of(active="true"),
        "bool is a number": of(active=1),
        "time is text": of(seen="foobar"),
        "time before the epoch": of(seen="1960-01-01"),
        "unknown key": of(foo=1),
        "attribute of no type": of(flavor="x"),
        "user is a number": of(user_id=5),
        "project is a list": of(project_id=[]),
        "started_at is text": of(started_at="foobar"),
        "started_at before the epoch": of(started_at="1960-01-01"),
        "ended_at is text": of(ended_at="foobar"),
        "ends before it starts": of(started_at="2014-01-02", ended_at="2014-01-01"),
        "metrics is a list": of(metrics=[]),
        "metrics is text": of(metrics="x"),
        "metric is text": of(metrics={"cpu": "foobar"}),
        "metric is a number": of(metrics={"cpu": 1}),
        "metric is null": of(metrics={"cpu": None}),
        "unknown metric": of(metrics={"cpu": MISSING}),
        "metric of an unknown policy": of(metrics={"cpu": {"archive_policy_name": "nope"}}),
        "metric without a policy": of(metrics={"zzz": {}}),
        "metric with an unknown key": of(metrics={"cpu": {"archive_policy_name": "used", "foo": 1}}),
        "unit too long": of(metrics={"cpu": {"archive_policy_name": "used", "unit": "u" * 32}}),
        "metric name with a slash": of(metrics={"a/b": {"archive_policy_name": "used"}}),
        "metric without a policy, and a number too small": of(size=-1, metrics={"zzz": {}}),
        "metric without a policy behind a bad one": of(metrics={"cpu": {"foo": 1}, "zzz": {}}),
        "bad metric without a policy, and a number too small": of(size=-1, metrics={"zzz": {"unit": 5}}),
        "name with a slash, and a number too small": of(size=-1, metrics={"a/b": {"archive_policy_name": "used"}}),
        "id with a slash": {"id": "a/b", "display": "name"},
        "id too long": {"id": "x" * 290, "display": "name"},
        "id of a resource that exists": {"id": RESOURCE, "display": "name"},
    }.items():
        yield post(name, body)
    for name, body in {
        "id is null": {"id": None, "display": "name"},
        "id is a number": {"id": 5, "display": "name"},
        "id is a list": {"id": [], "display": "name"},
        "number is infinite": f'{{"id": "{NEW}", "display": "name", "size": Infinity}}'.encode(),
        "started_at is null": of(started_at=None),
        "time is a list": of(seen=[]),
        "time is an object": of(seen={}),
        "ended_at alone and long ago": of(ended_at="2014-01-01"),
    }.items():
        yield post(name, body, other_body=TEXT)
    for name, body in {
        "number is NaN": f'{{"id": "{NEW}", "display": "name", "size": NaN}}'.encode(),
        "NUL in the id": {"id": "a\0b", "display": "name"},
        "NUL in a string": of(display="a\0b"),
        "NUL in the user": of(user_id="a\0b"),
        "NUL in a metric's name": of(metrics={"a\0b": {"archive_policy_name": "used"}}),
        "user too long": of(user_id="u" * 300),
        "metric's name too long": of(metrics={"n" * 300: {"archive_policy_name": "used"}}),
        "lone surrogate": f'{{"id": "{NEW}", "display": "\\ud800\\ud800"}}'.encode(),
        "deep": b"[" * 5000 + b"]" * 5000,
        "year 10000": of(started_at="10000-01-01"),
    }.items():
        yield post(name, body, status=400, why=FAILS, other_body=TEXT)
    yield post("infinite started_at", b'{"id": "bad-infinite", "started_at": Infinity}', kind="generic", status=400,
               why="Gnocchi stores 1677", other_body=TEXT)
    yield post("half an object", b"{", other_body=TEXT)
    yield post("empty body", b"", other_body=TEXT)
    yield post("content type", of(), headers={"Content-Type": "text/plain"})
    yield post("anonymous", of(), user=None)
    yield post("unknown type", of(), kind="nope")
    yield post("type with a space", of(), kind="no%20pe")
    yield case("resource: POST without a type", "POST", "/v1/resource", of())


def change_cases():
    """PATCH, GET and DELETE of one resource; conditions."""

    def patch(name, body, **more):
        return case("resource: PATCH " + name, "PATCH", more.pop("path", ONE), body, **more)

    for name, body in {
        "null": b"null", "a list": [], "text": "x",
        "id": {"id": OTHER}, "type": {"type": "generic"}, "creator": {"creator": "x"},
        "revision_start": {"revision_start": "2014-01-01"},
        "unknown key": {"foo": 1},
        "required attribute is null": {"display": None},
        "string too long": {"display": "x" * 6},
        "number too large": {"size": 11},
        "uuid is text": {"uid": "x"},
        "bool is a number": {"active": 0},
        "time is text": {"seen": "x"},
        "ends before it started": {"ended_at": "2000-01-01"},
        "starts after it ended": {"started_at": "2014-01-02", "ended_at": "2014-01-01"},
        "metrics is a list": {"metrics": []},
        "unknown metric": {"metrics": {"cpu": MISSING}},
        "unknown policy": {"metrics": {"cpu": {"archive_policy_name": "nope"}}},
        "bad metric beside a good attribute": {"size": 5, "metrics": {"cpu": MISSING}},
    }.items():
        yield patch(name, body)
    yield patch("half an object", b"{", other_body=TEXT)
    yield patch("content type", {}, headers={"Content-Type": "text/plain"})
    yield patch("anonymous", {}, user=None)
    yield patch("of another user", {"size": 5}, user="mallory")
    yield patch("unknown", {}, path=f"/v1/resource/badtype/{MISSING}")
    yield patch("unknown name", {}, path="/v1/resource/badtype/nope")
    yield patch("in another type", {}, path=f"/v1/resource/nope/{RESOURCE}")
    for header, value in {"If-Match": '"x"', "If-None-Match": "*", "If-Unmodified-Since": "Tue, 01 Jan 2013 00:00:00 GMT"}.items():
        yield patch(header, {"size": 5}, headers={header: value})
        yield case(f"resource: DELETE {header}", "DELETE", ONE, headers={header: value})
        yield case(f"resource: GET {header}", "GET", ONE, headers={header: value})
    yield patch("bad If-Match", {"size": 5}, headers={"If-Match": "x,,"})
    for name, path in {
        "unknown": f"/v1/resource/badtype/{MISSING}", "unknown name": "/v1/resource/badtype/nope",
        "of an unknown type": f"/v1/resource/nope/{RESOURCE}", "id too long": "/v1/resource/badtype/" + "x" * 290,
        "history of an unknown one": f"/v1/resource/badtype/{MISSING}/history",
        "metrics of an unknown one": f"/v1/resource/badtype/{MISSING}/metric",
        "metric of an unknown one": f"/v1/resource/badtype/{MISSING}/metric/cpu",
        "unknown metric": ONE + "/metric/nope", "measures of an unknown metric": ONE + "/metric/nope/measures",
        "unknown sub-path": ONE + "/foo", "long sub-path": ONE + "/metric/cpu/foo",
    }.items():
        for method in ("GET", "DELETE"):
            yield case(f"resource: {method} {name}", method, path)
    for suffix in ("", "/history", "/metric", "/metric/cpu", "/metric/cpu/measures"):
        yield case(f"resource: GET{suffix} anonymous", "GET", ONE + suffix, user=None)
        yield case(f"resource: GET{suffix} of another user", "GET", ONE + suffix, user="mallory")
        yield case(f"resource: PUT{suffix}", "PUT", ONE + suffix, {})
    yield case("resource: DELETE of another user", "DELETE", ONE, user="mallory")
    yield case("resource: DELETE anonymous", "DELETE", ONE, user=None)
    for query in ("details=maybe", "limit=0", "limit=x", "sort=nope", "sort=id:sideways", "marker=foobar",
                  f"marker={RESOURCE}@x", f"marker={RESOURCE}@999999"):
        yield case(f"resource: history {query}", "GET", f"{ONE}/history?{query}",
                   other_body=TEXT if "sideways" in query else "")


def list_cases():
    """GET /v1/resource/TYPE and DELETE of many."""
    for query in ("details=maybe", "history=maybe", "limit=0", "limit=-1", "limit=x", "sort=nope", "sort=nope:asc",
                  f"marker={MISSING}", "history=true&marker=x", f"history=true&marker={MISSING}@1"):
        yield case(f"resources: {query}", "GET", f"/v1/resource/badtype?{query}")
    yield case("resources: sort=id:sideways", "GET", "/v1/resource/badtype?sort=id:sideways", other_body=TEXT)
    yield case("resources: marker=foobar", "GET", "/v1/resource/badtype?marker=foobar", status=400, why=FAILS, other_body=TEXT)
    yield case("resources: unknown type", "GET", "/v1/resource/nope")
    yield case("resources: anonymous", "GET", "/v1/resource/badtype", user=None, status=401,
               why="Gnocchi lists every resource to anybody", other_body=TEXT)
    for method in ("PUT", "PATCH"):
        yield case(f"resources: {method}", method, "/v1/resource/badtype", {})
    for name, body in {
        "nothing": None, "null": b"null", "an empty filter": {}, "a list": [], "two operators": {"=": {"id": RESOURCE}, "!=": {"id": OTHER}},
        "unknown operator": {"wtf": {"id": RESOURCE}}, "unknown attribute": {"=": {"nope": 1}},
        "bad time": {"=": {"started_at": "foobar"}},
    }.items():
        yield case(f"resources: DELETE {name}", "DELETE", "/v1/resource/badtype", body,
                   other_body=TEXT if name in ("null", "a list", "two operators", "unknown operator") else "")
    yield case("resources: DELETE bad text", "DELETE", "/v1/resource/badtype?filter=a%20b%20c", other_body=TEXT)
    yield case("resources: DELETE unknown type", "DELETE", "/v1/resource/nope", {"=": {"id": RESOURCE}})
    yield case("resources: DELETE anonymous", "DELETE", "/v1/resource/badtype", {"=": {"id": RESOURCE}}, user=None,
               status=401, why="Gnocchi lets anybody delete", other_body=TEXT)


def type_cases():
    """/v1/resource_type."""

    def post(name, body, **more):
        return case("type: " + name, "POST", "/v1/resource_type", body, **more)

    def of(**attribute):
        return {"name": "newtype", "attributes": {"foo": attribute}}

    for name, body in {
        "null": b"null", "a list": [], "empty": {}, "name is a number": {"name": 1}, "name is null": {"name": None},
        "unknown key": {"name": "newtype", "foo": 1}, "exists": {"name": "badtype"}, "generic": {"name": "generic"},
        "attributes is a list": {"name": "newtype", "attributes": []},
        "attribute is text": {"name": "newtype", "attributes": {"foo": "string"}},
        "shortest longer than longest": of(type="string", min_length=5, max_length=2),
        "min above max": of(type="number", min=5, max=2),
    }.items():
        yield post(name, body)
    for name, attribute in {
        "no type": {}, "unknown type": {"type": "wtf"}, "type is a number": {"type": 1},
        "required is text": {"type": "string", "required": "yes"},
        "min_length below 0": {"type": "string", "min_length": -1},
        "max_length 0": {"type": "string", "max_length": 0},
        "max_length 257": {"type": "string", "max_length": 257},
        "max_length is text": {"type": "string", "max_length": "5"},
        "min is text": {"type": "number", "min": "5"},
        "min of a uuid": {"type": "uuid", "min": 5},
        "length of a number": {"type": "number", "max_length": 5},
        "options at creation": {"type": "string", "options": {"fill": "x"}},
        "unknown key of an attribute": {"type": "bool", "foo": 1},
    }.items():
        yield post(name, of(**attribute), other_body=ANY_ONE)
    for name in ("id", "type", "metrics", "started_at", "ended_at", "user_id", "project_id", "revision", "creator",
                 "revision_start", "revision_end", "-foo", "", "x" * 64, "é"):
        yield post(f"attribute {name[:20]!r}", {"name": "newtype", "attributes": {name: {"type": "string"}}})
    for name, body in {
        "name too long": {"name": "n" * 256}, "NUL in the name": {"name": "a\0b"},
        "deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    }.items():
        yield post(name, body, status=400, why=FAILS, other_body=TEXT)
    yield post("half an object", b"{", other_body=TEXT)
    yield post("content type", {"name": "newtype"}, headers={"Content-Type": "text/plain"})
    yield post("anonymous", {"name": "newtype"}, user=None)
    yield post("not admin", {"name": "newtype"}, user="mallory")
    for method in ("GET", "DELETE"):
        yield case(f"type: {method} unknown", method, "/v1/resource_type/nope")
    yield case("type: DELETE in use", "DELETE", "/v1/resource_type/badtype")
    yield case("type: DELETE not admin", "DELETE", "/v1/resource_type/badtype", user="mallory")
    yield case("type: DELETE anonymous", "DELETE", "/v1/resource_type/badtype", user=None)
    for method in ("PUT", "PATCH", "DELETE"):
        yield case(f"type: {method} on the collection", method, "/v1/resource_type", {})
    for method in ("PUT", "POST"):
        yield case(f"type: {method} on one", method, "/v1/resource_type/badtype", {})
    yield from type_patch_cases()


def type_patch_cases():
    headers = {"Content-Type": "application/json-patch+json"}

    def patch(name, body, **more):
        return case("type: PATCH " + name, "PATCH", more.pop("path", "/v1/resource_type/badtype"), body,
                    **{"headers": headers, **more})

    def add(name, **value):
        return {"op": "add", "path": f"/attributes/{name}", "value": value}

    for name, body in {
        "null": b"null", "text": "x", "numbers": [1],
        "no op": [{"path": "/attributes/x"}], "no path": [{"op": "add", "value": {}}],
        "replaces": [{"op": "replace", "path": "/attributes/size", "value": {"type": "number"}}],
        "tests": [{"op": "test", "path": "/attributes/size", "value": {}}],
        "the name": [{"op": "add", "path": "/name", "value": {}}],
        "value is text": [{"op": "add", "path": "/attributes/x", "value": "string"}],
        "removes an unknown one": [{"op": "remove", "path": "/attributes/nope"}],
        "another type": [add("size", type="string")],
        "reserved": [add("id", type="string", required=False)],
        "required without a fill": [add("flavor", type="string", required=True)],
        "fill of another type": [add("flavor", type="string", required=True, options={"fill": 5})],
        "fill too long": [add("flavor", type="string", required=True, max_length=2, options={"fill": "xyz"})],
        "fill is no uuid": [add("flavor", type="uuid", required=True, options={"fill": "xyz"})],
        "good, then bad": [add("flavor", type="bool", required=False), {"op": "remove", "path": "/attributes/nope"}],
    }.items():
        yield patch(name, body, other_body=ANY_ONE if name in ("no op", "no path", "replaces", "tests", "the name", "value is text",
                                                               "numbers") else "")
    for name, body in {
        "an object": {}, "unknown type": [add("flavor", type="wtf")], "unknown option": [add("flavor", type="bool", options={"foo": 1})],
        "add without a value": [{"op": "add", "path": "/attributes/x"}],
        "path is a number": [{"op": "add", "path": 1}],
        "path too deep": [{"op": "add", "path": "/attributes/x/y/z", "value": {}}],
        "attributes of attributes": [{"op": "add", "path": "/attributesfoo", "value": {}}],
    }.items():
        yield patch(name, body, status=400, why="Gnocchi fails at some", other_body=TEXT)
    yield patch("removes all", [{"op": "remove", "path": "/attributes"}], path="/v1/resource_type/badflux")
    yield patch("content type", [], headers={"Content-Type": "application/json"})
    yield patch("half a list", b"[", other_body=TEXT)
    yield patch("unknown", [add("x", type="bool")], path="/v1/resource_type/nope")
    yield patch("not admin", [], user="mallory")
    yield patch("anonymous", [], user=None)


def metric_cases():
    """Metrics of a resource."""

    def post(name, body, **more):
        return case("resource metric: " + name, "POST", more.pop("path", ONE + "/metric"), body, **more)

    for name, body in {
        "null": b"null", "a list": [], "text value": {"disk": "x"}, "null value": {"disk": None},
        "unknown metric": {"disk": MISSING}, "unknown policy": {"disk": {"archive_policy_name": "nope"}},
        "no policy": {"zzz": {}}, "exists": {"cpu": {"archive_policy_name": "used"}},
        "slash": {"a/b": {"archive_policy_name": "used"}}, "unknown key": {"disk": {"archive_policy_name": "used", "foo": 1}},
    }.items():
        yield post(name, body)
    yield post("half an object", b"{", other_body=TEXT)
    yield post("unknown resource", {"disk": {"archive_policy_name": "used"}}, path=f"/v1/resource/badtype/{MISSING}/metric")
    yield post("of another user", {"disk": {"archive_policy_name": "used"}}, user="mallory")
    yield post("anonymous", {"disk": {"archive_policy_name": "used"}}, user=None)
    measures = [{"timestamp": 1, "value": 1}]
    path = ONE + "/metric/cpu/measures"
    yield post("measures are text", "x", path=path)
    yield post("bad time", [{"timestamp": "x", "value": 1}], path=path)
    yield post("measures of another user", measures, path=path, user="mallory")
    yield case("resource metric: bad aggregation", "GET", path + "?aggregation=wtf")
    yield case("resource metric: bad start", "GET", path + "?start=foobar")
    for name, body in {
        "metric of an unknown resource": {"archive_policy_name": "used", "name": "x", "resource_id": MISSING},
        "metric of a resource without a name": {"archive_policy_name": "used", "resource_id": RESOURCE},
        "metric that the resource has": {"archive_policy_name": "used", "name": "cpu", "resource_id": RESOURCE},
        "resource id with a slash": {"archive_policy_name": "used", "name": "x", "resource_id": "a/b"},
    }.items():
        yield post(name, body, path="/v1/metric", **({"status": (400, 404), "why": FAILS, "other_body": TEXT}
                                                     if name == "metric of an unknown resource" else {}))


def batch_cases():
    """POST /v1/batch/resources/metrics/measures."""
    good = [{"timestamp": 1, "value": 1}]

    def post(name, body, query="", **more):
        return case("resource batch: " + name, "POST", "/v1/batch/resources/metrics/measures" + query, body, **more)

    for name, body in {
        "null": b"null", "a list": [], "text": "x",
        "measures for a resource": {RESOURCE: good},
        "measures are text": {RESOURCE: {"cpu": "x"}},
        "measures are null": {RESOURCE: {"cpu": None}},
        "bad time": {RESOURCE: {"cpu": [{"timestamp": "x", "value": 1}]}},
        "bad value": {RESOURCE: {"cpu": [{"timestamp": 1, "value": "x"}]}},
        "no measures": {RESOURCE: {"cpu": {"archive_policy_name": "used"}}},
        "unknown key": {RESOURCE: {"cpu": {"measures": good, "foo": 1}}},
        "policy is a number": {RESOURCE: {"cpu": {"measures": good, "archive_policy_name": 1}}},
    }.items():
        yield post(name, body, other_body=ANY_ONE if isinstance(body, dict) else "")
    yield post("unknown metric", {RESOURCE: {"nope": good}})
    yield post("a known and an unknown metric", {RESOURCE: {"cpu": good, "nope": good}})
    yield post("unknown resource", {MISSING: {"cpu": good}})
    yield post("unknown resource, create", {MISSING: {"cpu": good}}, query="?create_metrics=true", status=400,
               why="the order of a set", other_body="the order of a set")
    yield post("id with a slash", {"a/b": {"cpu": good}})
    yield post("id too long", {"x" * 290: {"cpu": good}}, other_body=TEXT)
    yield post("name with a slash, create", {RESOURCE: {"a/b": good}}, query="?create_metrics=true")
    yield post("no rule, create", {RESOURCE: {"zzz": good}}, query="?create_metrics=true")
    yield post("unknown policy, create", {RESOURCE: {"zzz": {"measures": good, "archive_policy_name": "nope"}}},
               query="?create_metrics=true")
    yield post("unit too long, create", {RESOURCE: {"zzz": {"measures": good, "archive_policy_name": "used", "unit": "u" * 32}}},
               query="?create_metrics=true", status=400, why=FAILS, other_body=TEXT)
    yield post("create_metrics=maybe", {RESOURCE: {"cpu": good}}, query="?create_metrics=maybe")
    yield post("of another user", {RESOURCE: {"cpu": good}}, user="mallory")
    yield post("anonymous", {RESOURCE: {"cpu": good}}, user=None)
    yield post("half an object", b"{", other_body=TEXT)
    yield post("content type", {}, headers={"Content-Type": "text/plain"})
    yield case("resource batch: GET", "GET", "/v1/batch/resources/metrics/measures")


def all_cases():
    for cases in (create_cases, change_cases, list_cases, type_cases, metric_cases, batch_cases):
        yield from cases()
