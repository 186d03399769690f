"""Malformed and refused requests, which `test_bad_requests.py` sends to gnudi and to a real Gnocchi.

In paths and bodies `{metric}` and `{named}` are metrics of the policy `used` (1 s and 60 s, methods mean and sum),
`{policy}` is `used`, `{free}` a policy without metrics, `{rule}` a rule; nothing else exists. A case that Gnocchi
accepts and gnudi refuses goes to `{scrap}`, which nobody reads.
"""

import dataclasses

TEXT = "carries a Python library's own words"
PAGE = "is a page for people"
ANY_KEY = "names one of several missing keys"
MISSING = "00000000-0000-4000-8000-000000000000"


@dataclasses.dataclass
class Case:
    """One request. `body`: bytes as they are, other values as JSON."""

    name: str
    method: str
    path: str
    body: object = None
    headers: dict = dataclasses.field(default_factory=dict)
    user: str | None = "admin"
    # Gnudi's own status (or a tuple of them) where it deviates from Gnocchi on purpose, and why.
    status: int | tuple | None = None
    why: str = ""
    # Why the body of the answer isn't compared.
    other_body: str = ""


def case(name, method, path, body=None, **more):
    return Case(name, method, path, body, **more)


MEASURES = "/v1/metric/{metric}/measures"
SCRAP = "/v1/metric/{scrap}/measures"
BATCH = "/v1/batch/metrics/measures"


def measures_cases():
    """Bodies of POST /v1/metric/ID/measures."""

    def post(name, body, path=MEASURES, **more):
        return case("measures: " + name, "POST", path, body, **more)

    good = b'{"timestamp": 1, "value": 1}'
    yield post("empty body", b"", other_body=TEXT)
    for name, body in {
        "half an array": b"[{",
        "half a string": b'[{"timestamp": "20',
        "two values": b"[] []",
        "trailing comma": b"[" + good + b",]",
        "single quotes": b"[{'timestamp': 1, 'value': 1}]",
        "bare word": b"hello",
        "no colon": b'[{"timestamp" 1}]',
        "control character in a string": b'[{"timestamp": "\x01", "value": 1}]',
    }.items():
        yield post(name, body, other_body=TEXT)
    yield post("invalid UTF-8", b'[{"timestamp": "\xff", "value": 1}]', other_body=TEXT)
    yield post("invalid UTF-8 alone", b"\xff\xfe", other_body=TEXT)
    yield post("byte order mark", b"\xef\xbb\xbf[" + good + b"]", path=SCRAP, other_body=TEXT)
    yield post("unfinished escape", b'[{"timestamp": "\\u12", "value": 1}]', other_body=TEXT)
    for name, body in {
        "null": b"null",
        "a number": b"1",
        "a string": b'"abc"',
        "true": b"true",
        "an object": good,
        "numbers": b"[1, 2]",
        "strings": b'["a"]',
        "arrays": b'[["2015-03-06T14:33:57", 43.1]]',
        "nulls": b"[null]",
        "null value": b'[{"timestamp": 1, "value": null}]',
        "text value": b'[{"timestamp": 1, "value": "foobar"}]',
        "empty text value": b'[{"timestamp": 1, "value": ""}]',
        "array value": b'[{"timestamp": 1, "value": [1]}]',
        "object value": b'[{"timestamp": 1, "value": {}}]',
        "no value": b'[{"timestamp": 1}]',
        "second measure without a value": b"[" + good + b', {"timestamp": 2}]',
        "null timestamp": b'[{"timestamp": null, "value": 1}]',
        "object timestamp": b'[{"timestamp": {}, "value": 1}]',
        "text timestamp": b'[{"timestamp": "foobar", "value": 1}]',
        "month 13": b'[{"timestamp": "2015-13-06T14:33:57", "value": 1}]',
        "day 32": b'[{"timestamp": "2015-01-32", "value": 1}]',
        "29 February of a common year": b'[{"timestamp": "2015-02-29", "value": 1}]',
        "hour 24": b'[{"timestamp": "2015-01-01T24:00:00", "value": 1}]',
        "minute 60": b'[{"timestamp": "2015-01-01T23:60:00", "value": 1}]',
        "before the epoch": b'[{"timestamp": "1969-12-31T23:59:59", "value": 1}]',
        "before the epoch by zone": b'[{"timestamp": "1970-01-01T00:00:00+01:00", "value": 1}]',
        "negative seconds": b'[{"timestamp": -1, "value": 1}]',
        "mixed forms": b'[{"timestamp": 1478012832, "value": 1}, {"timestamp": "2015-01-01", "value": 1}]',
        "relative after Unix": b'[{"timestamp": 1478012832, "value": 1}, {"timestamp": "-5 minutes", "value": 1}]',
        "unknown unit": b'[{"timestamp": "-5 parsecs", "value": 1}]',
    }.items():
        yield post(name, body)
    for name, body in {
        "array timestamp": b'[{"timestamp": [1], "value": 1}]',
        "no timestamp": b'[{"value": 1}]',
        "empty object": b"[{}]",
        "second measure without a timestamp": b"[" + good + b', {"value": 2}]',
        "2,000 nested arrays": b"[" * 2000 + b"]" * 2000,
        "200,000 nested arrays": b"[" * 200_000,
        "deep value": b'[{"timestamp": 1, "value": ' + b"[" * 5000 + b"]" * 5000 + b"}]",
        "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    }.items():
        yield post(name, body, path=SCRAP, status=400, why="Gnocchi fails, or takes what it can't process",
                   other_body=TEXT)
    for name, timestamp in {
        "not a time": b'"NaT"',
        "empty timestamp": b'""',
        "NaN timestamp": b"NaN",
        "infinite timestamp": b"Infinity",
        "year 292,000,000": b"9223372036854775807",
        "far timestamp": b"1e30",
        "year 10000": b'"10000-01-01"',
    }.items():
        yield post(name, b'[{"timestamp": %s, "value": 1}]' % timestamp, path=SCRAP, status=400,
                   why="beyond what 64-bit nanoseconds hold: Gnocchi stores another time", other_body=TEXT)
    for name, body in {
        "boolean timestamp": b'[{"timestamp": true, "value": 1}]',
        "ISO, then a number": b'[{"timestamp": "2015-01-01", "value": 1}, {"timestamp": 1478012832, "value": 1}]',
    }.items():
        yield post(name, body, path=SCRAP, status=(202, 400), why="Gnocchi makes something of it", other_body=TEXT)
    yield post("nothing", b"[]")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", None, "application/json-patch+json", "json"):
        yield post(f"content type {kind!r}", b"[" + good + b"]", headers={"Content-Type": kind})
    for name, metric, status in (
        ("unknown metric", MISSING, None), ("bad metric id", "foobar", None), ("metric id too long", "a" * 5000, None),
        ("percent-encoded id", "%00%ff", 400), ("path traversal", "..%2f..%2fetc", None),
    ):
        yield post(name, b"[" + good + b"]", path=f"/v1/metric/{metric}/measures", status=status,
                   why="the path is not UTF-8" if status else "", other_body=TEXT if status else None)
    yield post("anonymous", b"[" + good + b"]", user=None)
    yield post("of another user", b"[" + good + b"]", user="mallory")


def batch_cases():
    """Bodies of POST /v1/batch/metrics/measures."""

    def post(name, body, **more):
        return case("batch: " + name, "POST", BATCH, body, **more)

    good = b'[{"timestamp": 1, "value": 1}]'
    for name, body in {
        "null": b"null",
        "a list": b"[]",
        "a number": b"7",
        "text": b'"x"',
        "key is no id": b'{"foobar": ' + good + b"}",
        "empty key": b'{"": ' + good + b"}",
        "measures are null": b'{"{metric}": null}',
        "measures are a number": b'{"{metric}": 1}',
        "value is text": b'{"{metric}": [{"timestamp": 1, "value": "x"}]}',
        "bad time": b'{"{metric}": [{"timestamp": "x", "value": 1}]}',
        "one good, one bad": b'{"{metric}": ' + good + b', "{named}": [{"timestamp": "x", "value": 1}]}',
    }.items():
        yield post(name, body)
    yield post("unknown metric", {MISSING: [{"timestamp": 1, "value": 1}]})
    yield post("a known and an unknown metric", b'{"{metric}": ' + good + b', "' + MISSING.encode() + b'": ' + good
               + b"}")
    yield post("half an object", b'{"{metric}": ', other_body=TEXT)
    yield post("empty body", b"", other_body=TEXT)
    yield post("nothing", b"{}")
    yield post("a metric with nothing", b'{"{metric}": []}')
    yield post("content type", b"{}", headers={"Content-Type": "text/plain"})
    yield post("anonymous", b'{"{metric}": ' + good + b"}", user=None)
    yield post("of another user", b'{"{metric}": ' + good + b"}", user="mallory")
    yield case("batch: GET", "GET", BATCH)
    yield case("batch: unknown collection", "POST", "/v1/batch/foo/measures", b"{}")
    yield case("batch: no collection", "GET", "/v1/batch")


def read_cases():
    """Arguments of GET /v1/metric/ID/measures."""

    def get(name, query, **more):
        return case("read: " + name, "GET", f"{MEASURES}?{query}", **more)

    for query in (
        "aggregation=wtf", "aggregation=rate:wtf", "aggregation=max", "aggregation=", "aggregation=rate:mean",
        "granularity=foobar", "granularity=42", "granularity=0", "granularity=-1",
        "granularity=1%20shenanigan", "start=foobar", "stop=foobar", "start=-1", "stop=2015-13-01",
        "start=1915-01-01", "resample=60", "resample=abc&granularity=1", "resample=0&granularity=1",
        "resample=-60&granularity=1", "resample=X&granularity=1", "refresh=maybe", "refresh=2",
        "aggregation=wtf&granularity=foobar", "start=foobar&granularity=foobar", "aggregation=wtf&resample=1",
        "resample=x", "granularity=1&resample=y", "aggregation=wtf&refresh=maybe", "granularity=42&refresh=maybe",
    ):
        yield get(query, query)
    for query in ("start=", "stop=", "start=nan", "stop=inf", "start=1e30", "start=NaT"):
        yield get(query, query, status=(200, 400), why="Gnocchi makes something of it", other_body=TEXT)
    for query in (
        "granularity=", "granularity=nan", "granularity=inf", "granularity=1e300",
        "resample=inf&granularity=1", "resample=nan&granularity=1", "aggregation=mean&aggregation=sum",
        "start=1&start=2", "granularity=1&granularity=60", "refresh=",
    ):
        yield get(query, query, other_body=TEXT)
    yield get("bad escape", "start=%zz", other_body=TEXT)
    yield get("invalid UTF-8", "aggregation=%ff", status=404, why="Gnocchi fails", other_body=TEXT)
    yield get("NUL", "aggregation=%00")
    yield get("unknown argument", "foo=bar")
    yield case("read: unknown metric", "GET", f"/v1/metric/{MISSING}/measures")
    yield case("read: bad id", "GET", "/v1/metric/foo/measures")
    yield case("read: anonymous", "GET", MEASURES, user=None)
    yield case("read: of another user", "GET", MEASURES, user="mallory")
    for method in ("PUT", "PATCH", "DELETE"):
        yield case(f"read: {method}", method, MEASURES, b"[]")


def metric_cases():
    """POST, GET and DELETE of /v1/metric."""

    def post(name, body, **more):
        return case("metric: " + name, "POST", "/v1/metric", body, **more)

    for name, body in {
        "a list": [], "null": b"null", "text": "x", "number": 5,
        "no policy, no name": {},
        "no rule matches": {"name": "zzz"},
        "unknown policy": {"archive_policy_name": "nope"},
        "policy is a number": {"archive_policy_name": 1},
        "policy is null": {"archive_policy_name": None},
        "policy is a list": {"archive_policy_name": []},
        "name is a number": {"archive_policy_name": "used", "name": 1},
        "name is null": {"archive_policy_name": "used", "name": None},
        "name with a slash": {"archive_policy_name": "used", "name": "a/b"},
        "unit is a number": {"archive_policy_name": "used", "unit": 1},
        "unit too long": {"archive_policy_name": "used", "unit": "u" * 32},
        "extra key": {"archive_policy_name": "used", "foo": "bar"},
        "two extra keys": {"archive_policy_name": "used", "foo": "bar", "bar": 1},
    }.items():
        yield post(name, body)
    yield post("extra key and bad unit", {"archive_policy_name": "used", "foo": "bar", "unit": 1}, other_body=TEXT)
    yield post("name too long", {"archive_policy_name": "used", "name": "n" * 256}, status=400, why="Gnocchi fails",
               other_body=TEXT)
    yield post("NUL in the name", {"archive_policy_name": "used", "name": "a\0b"}, status=400, why="Gnocchi fails",
               other_body=TEXT)
    yield post("lone surrogate in the name", b'{"archive_policy_name": "used", "name": "\\ud800"}', status=400,
               why="Gnocchi fails", other_body=TEXT)
    yield post("half an object", b'{"archive_policy_name"', other_body=TEXT)
    yield post("content type", {"archive_policy_name": "used"}, headers={"Content-Type": "plain/text"})
    yield post("no content type", {"archive_policy_name": "used"}, headers={"Content-Type": None})
    yield post("anonymous", {"archive_policy_name": "used"}, user=None)
    yield post("bad authorization", {"archive_policy_name": "used"}, headers={"Authorization": "Basic !!!"})
    yield post("unknown authorization", {"archive_policy_name": "used"}, headers={"Authorization": "Bearer x"},
               status=401, why="Gnocchi takes it for a user without a name")
    yield post("empty authorization", {"archive_policy_name": "used"}, headers={"Authorization": ""})
    for name, path in {
        "bad id": "/v1/metric/foobar", "unknown id": f"/v1/metric/{MISSING}",
        "unknown sub-path": "/v1/metric/{metric}/foo", "long sub-path": "/v1/metric/{metric}/measures/foo",
    }.items():
        yield case(f"metric: GET {name}", "GET", path)
        yield case(f"metric: DELETE {name}", "DELETE", path)
    yield case("metric: DELETE anonymous", "DELETE", "/v1/metric/{metric}", user=None)
    yield case("metric: DELETE of another user", "DELETE", "/v1/metric/{metric}", user="mallory")
    yield case("metric: GET anonymous", "GET", "/v1/metric/{metric}", user=None)
    yield case("metric: GET of another user", "GET", "/v1/metric/{metric}", user="mallory")
    for method in ("PUT", "PATCH", "DELETE"):
        yield case(f"metric: {method} on the collection", method, "/v1/metric", {})
    for method in ("PUT", "POST"):
        yield case(f"metric: {method} on one", method, "/v1/metric/{metric}", {})
    yield case("metric: PATCH on one", "PATCH", "/v1/metric/{metric}", {}, status=400, why="metrics move to other policies")


def list_cases():
    """Arguments of GET /v1/metric."""
    for query in (
        "limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=", "sort=nope:asc", "sort=nope", "sort=id:sideways",
        "sort=:", "sort=", "sort=id:asc:desc", "sort=&sort=id", "sort=id:-", f"marker={MISSING}", "status=foo", "status=active&limit=x",
        "limit=1&limit=2", "name=a&name=b",
    ):
        yield case(f"list: {query}", "GET", f"/v1/metric?{query}")
    for query in ("limit=99999999999999999999", f"limit={'9' * 40}", "limit=1e3", "id=foo&id=bar", "sort=id:asc&sort=id:desc"):
        yield case(f"list: {query}", "GET", f"/v1/metric?{query}", other_body=TEXT)
    for query in ("limit=%D9%A1", "marker="):
        yield case(f"list: {query}", "GET", f"/v1/metric?{query}", status=(200, 400),
                   why="Gnocchi makes something of it", other_body=TEXT)
    for query in ("marker=foobar", "id=foobar", "id="):
        yield case(f"list: {query}", "GET", f"/v1/metric?{query}", status=400, why="Gnocchi fails", other_body=TEXT)
    yield case("list: anonymous", "GET", "/v1/metric", user=None, status=401,
               why="Gnocchi lists every metric to anybody")


def policy_cases():
    """POST, PATCH and DELETE of /v1/archive_policy."""

    def post(name, body, **more):
        return case("policy: " + name, "POST", "/v1/archive_policy", body, **more)

    def of(*definition, **more):
        return {"name": "new", "definition": list(definition), **more}

    second = {"granularity": "1s"}
    for name, body in {
        "null": b"null", "list": [],
        "no name": {"definition": [second]},
        "no definition": {"name": "new"},
        "empty definition": of(),
        "definition is text": {"name": "new", "definition": "x"},
        "definition is an object": {"name": "new", "definition": {}},
        "item is text": of("x"),
        "item is a list": of([]),
        "item with an unknown key": of({"cowsay": "moo"}),
        "name is a number": {"name": 1, "definition": [second]},
        "name is null": {"name": None, "definition": [second]},
        "granularity 0": of({"granularity": 0}),
        "negative granularity": of({"granularity": -1}),
        "granularity is text": of({"granularity": "x"}),
        "granularity is null": of({"granularity": None}),
        "empty granularity": of({"granularity": ""}),
        "granularity is half a nanosecond": of({"granularity": 5e-10}),
        "points 0": of({"granularity": 1, "points": 0}),
        "negative points": of({"granularity": 1, "points": -1}),
        "points are text": of({"granularity": 1, "points": "x"}),
        "points are null": of({"granularity": 1, "points": None}),
        "timespan 0": of({"granularity": 1, "timespan": 0}),
        "timespan shorter than granularity": of({"granularity": 2, "timespan": 1}),
        "all three disagree": of({"granularity": 1, "points": 60, "timespan": 61}),
        "points alone": of({"points": 5}),
        "timespan alone": of({"timespan": 5}),
        "granularity twice": of({"granularity": "1s", "points": 60}, {"granularity": 1, "points": 120}),
        "negative back window": of(second, back_window=-1),
        "back window is text": of(second, back_window="x"),
        "back window is null": of(second, back_window=None),
        "unknown key": of(second, foo=1),
        "methods are text": of(second, aggregation_methods="mean"),
        "methods are null": of(second, aggregation_methods=None),
        "exists": {"name": "used", "definition": [second]},
    }.items():
        yield post(name, body)
    for name, body in {
        "unknown method": of(second, aggregation_methods=["wtf"]),
        "100pct": of(second, aggregation_methods=["100pct"]),
        "0pct": of(second, aggregation_methods=["0pct"]),
        "rate of rate": of(second, aggregation_methods=["rate:rate:mean"]),
        "method is a number": of(second, aggregation_methods=[1]),
        "empty item": of({}),
        "granularity is an object": of({"granularity": {}}),
    }.items():
        yield post(name, body, other_body=TEXT)
    for name, body in {
        "huge granularity": of({"granularity": 1e30}),
        "infinite granularity": of({"granularity": "inf"}),
        "granularity is not a number": of({"granularity": "nan"}),
        "huge points": of({"granularity": 1, "points": 10**30}),
        "huge back window": of(second, back_window=10**30),
        "timespan overflows": of({"granularity": "1 day", "points": 10**9}),
        "name too long": {"name": "n" * 256, "definition": [second]},
        "empty name": {"name": "", "definition": [second]},
        "NUL in the name": {"name": "a\0b", "definition": [second]},
        "infinite points": b'{"name": "new", "definition": [{"granularity": 1, "points": Infinity}]}',
    }.items():
        yield post(name, body, status=400, why="Gnocchi fails, or keeps a policy that nothing can use",
                   other_body=TEXT)
    yield post("empty", {}, other_body=ANY_KEY)
    yield post("half an object", b'{"name":', other_body=TEXT)
    yield post("content type", of(second), headers={"Content-Type": "text/plain"})
    yield post("anonymous", of(second), user=None)
    yield post("not admin", of(second), user="mallory")
    yield post("not admin, bad body", b"{", user="mallory")
    yield from policy_change_cases()


def policy_change_cases():
    """PATCH and DELETE of one archive policy, and methods that don't exist."""
    second, minute = {"granularity": "1s", "points": 60}, {"granularity": "60s"}
    for name, body in {
        "empty": {}, "null": b"null", "list": [],
        "empty definition": {"definition": []},
        "dropped granularity": {"definition": [second]},
        "added granularity": {"definition": [second, minute, {"granularity": 5}]},
        "changed granularity": {"definition": [{"granularity": 5}, minute]},
        "disagreeing item": {"definition": [{"granularity": 1, "points": 50, "timespan": 3600}, minute]},
        "new name": {"definition": [second, minute], "name": "x"},
        "negative back window": {"definition": [second, minute], "back_window": -1},
    }.items():
        yield case(f"policy: PATCH {name}", "PATCH", "/v1/archive_policy/used", body)
    # Those that it has.
    yield case("policy: PATCH methods", "PATCH", "/v1/archive_policy/used",
               {"definition": [second, minute], "aggregation_methods": ["mean", "sum"]}, status=200, why="policies get other methods")
    good = {"definition": [second, minute]}
    yield case("policy: PATCH half an object", "PATCH", "/v1/archive_policy/used", b"{", other_body=TEXT)
    yield case("policy: PATCH unknown", "PATCH", "/v1/archive_policy/nope", good)
    yield case("policy: PATCH not admin", "PATCH", "/v1/archive_policy/used", good, user="mallory")
    yield case("policy: PATCH anonymous", "PATCH", "/v1/archive_policy/used", good, user=None)
    yield case("policy: DELETE unknown", "DELETE", "/v1/archive_policy/nope")
    yield case("policy: DELETE in use", "DELETE", "/v1/archive_policy/used")
    yield case("policy: DELETE used by a rule", "DELETE", "/v1/archive_policy/ruled")
    yield case("policy: DELETE not admin", "DELETE", "/v1/archive_policy/free", user="mallory")
    yield case("policy: DELETE anonymous", "DELETE", "/v1/archive_policy/free", user=None)
    yield case("search: POST without a type", "POST", "/v1/search/resource", {})
    yield case("aggregates: POST with a segment too many", "POST", "/v1/aggregates/more",
               {"operations": ["metric", "{metric}", "mean"]})
    yield case("policy: GET unknown", "GET", "/v1/archive_policy/nope")
    yield case("policy: GET with Unicode", "GET", "/v1/archive_policy/%E2%9C%94")
    yield case("policy: GET invalid UTF-8", "GET", "/v1/archive_policy/%ff", status=400, why="the path is not UTF-8",
               other_body=TEXT)
    for method in ("PUT", "DELETE", "PATCH"):
        yield case(f"policy: {method} on the collection", method, "/v1/archive_policy", {})
    for method in ("PUT", "POST"):
        yield case(f"policy: {method} on one", method, "/v1/archive_policy/used", {})


def rule_cases():
    """POST, PATCH and DELETE of /v1/archive_policy_rule."""

    def post(name, body, **more):
        return case("rule: " + name, "POST", "/v1/archive_policy_rule", body, **more)

    good = {"name": "new", "metric_pattern": "a.*", "archive_policy_name": "free"}
    for name, body in {
        "null": b"null", "list": [],
        "no name": {"metric_pattern": "a", "archive_policy_name": "free"},
        "no pattern": {"name": "new", "archive_policy_name": "free"},
        "no policy": {"name": "new", "metric_pattern": "a"},
        "name is a number": {**good, "name": 1},
        "pattern is null": {**good, "metric_pattern": None},
        "policy is a list": {**good, "archive_policy_name": []},
        "unknown key": {**good, "foo": 1},
        "exists": {**good, "name": "rule"},
    }.items():
        yield post(name, body)
    yield post("empty", {}, other_body=ANY_KEY)
    yield post("unknown policy", {**good, "archive_policy_name": "nope"}, other_body=TEXT)
    yield post("name too long", {**good, "name": "n" * 256}, status=400, why="Gnocchi fails", other_body=TEXT)
    yield post("half an object", b"{", other_body=TEXT)
    yield post("content type", good, headers={"Content-Type": "text/plain"})
    yield post("not admin", good, user="mallory")
    yield post("anonymous", good, user=None)
    one = "/v1/archive_policy_rule/rule"
    for name, body in {"empty": {}, "null": b"null", "number": {"name": 1}, "extra": {"name": "x", "foo": 1},
                       "pattern": {"metric_pattern": "b"}}.items():
        yield case(f"rule: PATCH {name}", "PATCH", one, body)
    yield case("rule: PATCH to itself", "PATCH", one, {"name": "rule"})
    yield case("rule: PATCH to a taken name", "PATCH", one, {"name": "other"}, other_body=TEXT)
    yield case("rule: PATCH unknown", "PATCH", "/v1/archive_policy_rule/nope", {"name": "x"})
    yield case("rule: PATCH not admin", "PATCH", one, {"name": "x"}, user="mallory")
    yield case("rule: GET unknown", "GET", "/v1/archive_policy_rule/nope")
    yield case("rule: DELETE unknown", "DELETE", "/v1/archive_policy_rule/nope")
    yield case("rule: DELETE not admin", "DELETE", one, user="mallory")
    yield case("rule: DELETE anonymous", "DELETE", one, user=None)
    for method in ("PUT", "DELETE", "PATCH"):
        yield case(f"rule: {method} on the collection", method, "/v1/archive_policy_rule", {})


def route_cases():
    """Paths, methods and Accept headers."""
    for path in ("/nope", "/v1/nope", "/v2/", "/v1/metric/", "/v1/metric/{metric}/", "/v1/capabilities/x"):
        yield case(f"route: GET {path}", "GET", path, other_body=TEXT)
    yield case("route: GET /v1/status/x", "GET", "/v1/status/x", status=(400, 404),
               why="Gnocchi reads the path's end as an argument", other_body=TEXT)
    for path in ("/v1/archive_policy/", "/v1//metric", "//v1/metric"):
        yield case(f"route: GET {path}", "GET", path, status=(200, 404), why="an empty name", other_body=TEXT)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/", "/v1/"):
            yield case(f"route: {method} {path}", method, path, {}, status=(200, 405),
                       why="Gnocchi answers every method alike", other_body=TEXT)
        for path in ("/v1/capabilities", "/v1/status"):
            yield case(f"route: {method} {path}", method, path, {})
    yield case("route: unknown method", "BREW", "/v1/metric", other_body=TEXT)
    yield case("route: HEAD", "HEAD", "/v1/metric", other_body=TEXT)
    yield case("route: status, not admin", "GET", "/v1/status", user="mallory")
    yield case("route: status, anonymous", "GET", "/v1/status", user=None)
    yield case("route: status, bad details", "GET", "/v1/status?details=maybe")
    for accept in (None, "text/plain", "text/html", "application/xml", "image/png", "*/*"):
        headers = {"Accept": accept}
        # Programs that name no kind of text may get JSON.
        body = "" if accept is None or accept.startswith("text/") else PAGE

        def page(name, method, path, sent=None, headers=headers, body=body, **more):
            return case(f"route: Accept {headers['Accept']}, {name}", method, path, sent, headers=headers,
                        other_body=body, **more)

        yield page("a page", "GET", "/v1/capabilities", body=TEXT)
        yield page("not found", "GET", "/v1/metric/foo")
        yield page("bad body", "POST", "/v1/metric", b"[]")
        yield page("not admin", "POST", "/v1/archive_policy", {}, user="mallory")
        yield page("anonymous", "POST", "/v1/archive_policy", {}, user=None, status=(401, 406), why="both are true",
                   body=TEXT)
        yield page("no such page", "GET", "/v1/nope")
        yield page("wrong method", "PUT", "/v1/metric")
        yield page("Unicode", "GET", "/v1/archive_policy/%E2%9C%94%3Cb%3E")
    yield case("route: Accept nothing", "GET", "/v1/archive_policy", headers={"Accept": "application/json;q=0"},
               status=(200, 406), why="Gnocchi fails", other_body=TEXT)
    for accept in ("application/*", "text/*", "application/json;q=0.1, text/html", "", "garbage"):
        yield case(f"route: Accept {accept!r}, bad body", "POST", "/v1/metric", b"[]", headers={"Accept": accept},
                   other_body=PAGE)


def all_cases():
    for cases in (measures_cases, batch_cases, read_cases, metric_cases, list_cases, policy_cases, rule_cases,
                  route_cases):
        yield from cases()
