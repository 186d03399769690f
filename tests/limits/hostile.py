"""Malicious requests, byte by byte, which `test_hostile_requests.py` sends, and the status that each must get.

`{metric}` and `{resource}` are an existing metric and resource, of the policy `hostile` and the type `hostile`; a rule of that name
exists, too. A status of 0: the server closes the connection without an answer.
"""

import dataclasses
import functools
import gzip
import json
import zlib

ADMIN = b"Authorization: Basic YWRtaW46\r\n"
HOST = b"Host: h\r\n"
JSON = b"Content-Type: application/json\r\n"
MISSING = "00000000-0000-4000-8000-000000000000"
DEEP = 100_000
# As long as the ids that stand there in the end.
METRIC, RESOURCE = b"{metric}".ljust(36, b"-"), b"{resource}".ljust(36, b"-")


@dataclasses.dataclass
class Request:
    """`raw` goes over the wire as it is. `ends`: the client then closes its side, for the request is never complete."""

    name: str
    raw: bytes
    statuses: tuple
    ends: bool = False


def filled(text):
    return text.replace(b"{metric}", METRIC).replace(b"{resource}", RESOURCE)


def build(method, target, body=None, head=b"", host=HOST, user=ADMIN, kind=JSON):
    """A request that is well-formed but for its parts. Texts of targets are sent as Latin-1."""
    target, body = filled(target.encode("latin-1")), None if body is None else filled(body)
    line = method.encode() + b" " + target + b" HTTP/1.1\r\n"
    length = b"" if body is None else kind + b"Content-Length: %d\r\n" % len(body)
    return line + host + user + length + head + b"\r\n" + (body or b"")


def request(name, statuses, *arguments, **more):
    statuses = statuses if isinstance(statuses, tuple) else (statuses,)
    return Request(name, build(*arguments, **more), statuses)


def heads():
    """What comes before the body: lines, hosts, lengths, encodings."""
    def raw(name, statuses, text, ends=False):
        return Request(f"head: {name}", text, statuses if isinstance(statuses, tuple) else (statuses,), ends)

    get = b"GET / HTTP/1.1\r\n"
    for name, text in {
        "no version": b"GET /\r\n\r\n", "an unknown version": b"GET / HTTP/9.9\r\nHost: h\r\n\r\n",
        "TLS client hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
        "NUL in the method": b"GE\x00T / HTTP/1.1\r\nHost: h\r\n\r\n",
        "NUL in the target": b"GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n",
        "a space in the target": b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
        "a tab for a space": b"GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n",
        "NUL in a header": get + b"Host: h\r\nX: \x00\r\n\r\n", "a header without a colon": get + b"Host: h\r\nX\r\n\r\n",
        "a space before the colon": get + b"Host : h\r\n\r\n", "an empty header name": get + b"Host: h\r\n: x\r\n\r\n",
        "a folded header": get + b"Host: h\r\nX: a\r\n b\r\n\r\n",
        "a return alone in a header": get + b"Host: h\r\nX: a\rb\r\n\r\n",
        "no host": get + b"\r\n", "two hosts": get + b"Host: a\r\nHost: b\r\n\r\n",
        "a host that is a script": get + b'Host: a"><script>\r\n\r\n',
        "a host with a user": get + b"Host: u@h\r\n\r\n", "a host with a path": get + b"Host: a/b\r\n\r\n",
        "a port that is none": get + b"Host: h:port\r\n\r\n",
        "a target without a slash": b"GET v1 HTTP/1.1\r\nHost: h\r\n\r\n",
        "a negative length": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "a length that is text": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: ten\r\n\r\n",
        "a length with a sign": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: +2\r\n\r\n[]",
        "a length beyond 64 bits": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "two lengths": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]]",
        "lengths in a list": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: 2, 3\r\n\r\n[]]",
        "a transfer encoding that is none": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: foobar\r\n\r\n",
        "chunked, then gzip": b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "chunked in HTTP/1.0": b"POST /v1/metric HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    }.items():
        yield raw(name, (400, 505), text)
    yield raw("length and chunks", (400, 401),
              b"POST /v1/metric HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    yield raw("nothing but ends of lines", (0, 400), b"\r\n\r\n\r\n", ends=True)
    yield raw("HTTP/2 preface", (0, 400, 505), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ends=True)
    yield raw("a head without an end", 0, get + b"Host: h\r\nX: ", ends=True)
    yield raw("half a method", 0, b"GE", ends=True)
    yield raw("a target of 70,000 bytes", (414, 431), build("GET", "/" + "a" * 70_000))
    yield raw("a header of 70,000 bytes", 431, get + HOST + b"X: " + b"x" * 70_000 + b"\r\n\r\n")
    yield raw("1,000 headers", 431, get + HOST + b"".join(b"X%d: x\r\n" % n for n in range(1000)) + b"\r\n")
    for method in ("BREW", "TRACE", "CONNECT", "get", "PROPFIND", "M" * 200):
        yield request(f"head: method {method[:10]}", (400, 405, 501), method, "/v1/metric")
    for target in ("http://other/v1/metric/none", "*", "/v1//metric", "//v1/metric/none", "/v1/metric/../../etc/passwd",
                   "/v1/%2e%2e/%2e%2e/etc/passwd", "/v1/metric;x=1",
                   "/V1/METRIC", "/v1/metric/%00", "/v1/metric/%ff", "/v1/metric/%zz", "/v1/metric/%", "/v1/metric/\xff\xfe",
                   "/v1/metric/%u0041", "/./v1/none",
                   "/v1/metric/" + "a" * 30_000, "/v1" + "/a" * 10_000, "/v1/metric?" + "&" * 20_000,
                   "/v1/none?" + "a=1&" * 10_000, "/%2f%2f%2f"):
        yield request(f"target: {target[:40]!r}", TARGETS.get(target, (400, 404)), "GET", target)
    for name, head in {
        "no scheme": b"Authorization: admin\r\n", "no base 64": b"Authorization: Basic %%%\r\n", 
        "no UTF-8": b"Authorization: Basic //86\r\n", "empty": b"Authorization:\r\n", "bearer": b"Authorization: Bearer x\r\n",
        "60,000 bytes": b"Authorization: Basic " + b"A" * 60_000 + b"\r\n", "Latin-1": b"Authorization: Basic \xff\r\n",
    }.items():
        yield request(f"authorization: {name}", 401, "GET", "/v1/metric", user=head)
    yield request("authorization: twice", (200, 400, 401), "GET", "/v1/metric?limit=1",
                  user=ADMIN + b"Authorization: Basic eDo=\r\n")
    for name, value in {"a type without a slash": b"json", "weights that are none": b"application/json;q=x",
                        "10,000 types": b"a/b," * 10_000, "Latin-1": b"\xff/\xfe"}.items():
        yield request(f"accept: {name}", (200, 400, 406), "GET", "/v1/metric?limit=1", head=b"Accept: " + value + b"\r\n")
    for name, value in {"a date": b"Range: bytes=0-1\r\n",
                        "an upgrade": b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
                        "forwarded": b"Forwarded: for=\"[::1\"\r\nX-Forwarded-For: ,,,\r\nX-Forwarded-Proto: javascript\r\n",
                        "an origin": b"Origin: null\r\n", "cookies": b"Cookie: " + b"a=1;" * 5000 + b"\r\n"}.items():
        yield request(f"header: {name}", 200, "GET", "/v1/metric?limit=1", head=value)


# Targets that are well-formed, whatever they are meant for.
TARGETS = {"/v1/metric;x=1": (404,), "*": (400, 404), "/v1//metric": (200, 404), "//v1/metric/none": (404,),
           "/v1/metric?" + "&" * 20_000: (200, 400),
           "/v1/metric/\xff\xfe": (400,), "/%2f%2f%2f": (200,), "/v1/metric/%ff": (400,)}


def bodies():
    """Every route that takes a body, with bodies that it cannot mean."""
    measures = "/v1/metric/{metric}/measures"
    routes = {
        "policy": ("POST", "/v1/archive_policy"), "policy change": ("PATCH", "/v1/archive_policy/hostile"),
        "rule": ("POST", "/v1/archive_policy_rule"),
        "rule change": ("PATCH", "/v1/archive_policy_rule/hostile"), "metric": ("POST", "/v1/metric"),
        "metric change": ("PATCH", "/v1/metric/{metric}"), "measures": ("POST", measures),
        "named measures": ("POST", "/v1/resource/hostile/{resource}/metric/cpu/measures"),
        "resource": ("POST", "/v1/resource/hostile"),
        "resource change": ("PATCH", "/v1/resource/hostile/{resource}"),
        "resource's metrics": ("POST", "/v1/resource/hostile/{resource}/metric"),
        "deletion": ("DELETE", "/v1/resource/hostile"), "type": ("POST", "/v1/resource_type"),
        "type change": ("PATCH", "/v1/resource_type/hostile"),
        "aggregates": ("POST", "/v1/aggregates"), "aggregation": ("POST", "/v1/aggregation/resource/hostile/metric/cpu"),
        "batch": ("POST", "/v1/batch/metrics/measures"),
        "named batch": ("POST", "/v1/batch/resources/metrics/measures?create_metrics=true"),
        "search": ("POST", "/v1/search/resource/hostile"), "metric search": ("POST", "/v1/search/metric?metric_id={metric}"),
    }
    texts = {
        "half an object": b'{"a": ', "no JSON": b"hello", "no UTF-8": b'{"a": "\xff\xfe"}', "NUL": b"\x00\x00",
        "deep lists": b"[" * DEEP,
        "deep objects": b'{"a":' * DEEP, "a long number": b"1" * DEEP, "a surrogate": b'{"\\ud800": 1}',
        "two documents": b"{} {}",
        "a number beyond floats": b"[1e999999]", "a control character": b'{"a\x01": 1}',
    }
    for route, (method, target) in routes.items():
        kind = KINDS.get(route, JSON)
        for name, body in texts.items():
            yield request(f"{route}: {name}", 400, method, target, body, kind=kind)
    for route, (method, target) in routes.items():
        yield request(f"{route}: another type", (400, 415), method, target, b"<xml/>", kind=b"Content-Type: application/xml\r\n")
        raw = build(method, target, b"{}", kind=KINDS.get(route, JSON)).replace(b"Content-Length: 2",
                                                                                b"Content-Length: 2000000000")
        yield Request(f"{route}: 2 GB are promised", raw, (400, 413), ends=True)


KINDS = {"type change": b"Content-Type: application/json-patch+json\r\n"}


def chunks():
    """Bodies in chunks, and compressed ones."""
    def chunked(name, statuses, text, ends=False):
        head = b"POST /v1/batch/metrics/measures HTTP/1.1\r\n" + HOST + ADMIN + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
        return Request(f"chunks: {name}", head + text, statuses, ends)

    yield chunked("a size that is none", (400,), b"xyz\r\n{}\r\n0\r\n\r\n")
    yield chunked("a negative size", (400,), b"-1\r\n{}\r\n0\r\n\r\n")
    yield chunked("a size beyond 64 bits", (400, 413), b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n")
    yield chunked("a chunk that is longer than it says", (400,), b"1\r\n{}\r\n0\r\n\r\n")
    yield chunked("an extension of 60,000 bytes", (202, 400), b"2;" + b"x" * 60_000 + b"\r\n{}\r\n0\r\n\r\n")
    yield chunked("no end", (0, 400), b"2\r\n{}\r\n", ends=True)
    yield chunked("10,000 chunks of a byte", (400,), b"1\r\n[\r\n" * 10_000 + b"0\r\n\r\n")
    yield chunked("a trailer that is a length", (202, 400), b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n")
    batch, zeros = "/v1/batch/metrics/measures", bytes(64 << 20)
    bomb = gzip.compress(zeros, 9)
    for name, statuses, encoding, body in [
        ("gzip that is none", (400, 415), b"gzip", b"hello"),
        ("half a gzip", (400, 415), b"gzip", gzip.compress(b"{}" * 500)[:20]),
        ("a bomb", (400, 413, 415), b"gzip", bomb), ("a bomb in a bomb", (400, 413, 415), b"gzip, gzip", gzip.compress(bomb)),
        ("deflate", (202, 400, 415), b"deflate", zlib.compress(b"{}")), ("br", (400, 415), b"br", b"\x0b\x00\x80"),
        ("unknown", (202, 400, 415), b"foobar", b"{}"),
        ("ten times gzip", (202, 400, 415), b", ".join([b"gzip"] * 10), b"{}"),
    ]:
        yield request(f"compressed: {name}", statuses, "POST", batch, body, head=b"Content-Encoding: " + encoding + b"\r\n")
    writes = [("/v1/prometheus/write", b""), ("/api/v1/write", b""), ("/api/v1/write", b";proto=io.prometheus.write.v2.Request")]
    for name, body in {"nothing": b"", "no Snappy": b"hello", "4 GB promised": b"\xff\xff\xff\xff\x0f\x00",
                       "a copy of nothing": b"\x08\x01\x00",
                       "no protobuf": b"\x05\x10hello", "a length beyond the end": b"\x04\x0c\x0a\xff\xff\x0f"}.items():
        for write, version in writes:
            # Version 2 has no field 1, and passes over it.
            statuses = (204, 400, 413) if name == "nothing" else (400, 413)
            yield request(f"remote write: {name} {write}{version.decode()}", statuses, "POST", write, body,
                          kind=b"Content-Type: application/x-protobuf" + version + b"\r\n")
    otlp = "/api/v1/otlp/v1/metrics"
    for name, kind, body in [
        ("no JSON", b"json", b"hello"), ("brackets", b"json", b'{"resourceMetrics":' + b"[" * DEEP),
        ("objects", b"json", b'{"resourceMetrics":[' + b"{}," * 1_100_000 + b"{}]}"),
        ("values in values", b"json", b'{"resourceMetrics":[{"resource":{"attributes":[{"value":'
         + b'{"arrayValue":{"values":[' * 1000), ("a number", b"json", b'{"resourceMetrics":1}'),
        ("no protobuf", b"x-protobuf", b"hello"), ("a length beyond the end", b"x-protobuf", b"\x0a\xff\xff\x0f"),
        ("resources", b"x-protobuf", b"\x0a\x00" * 600_000),
    ]:
        yield request(f"OTLP: {name}", (400, 413), "POST", otlp, body, kind=b"Content-Type: application/" + kind + b"\r\n")
    # A small one: of what is inflated and freed at once the allocator keeps some for a while.
    yield request("OTLP: a bomb", (400, 413), "POST", otlp, gzip.compress(bytes(8 << 20), 9),
                  head=b"Content-Encoding: gzip\r\n", kind=b"Content-Type: application/x-protobuf\r\n")
    for name, body in {
        "no UTF-8": b"\xff\xfe v=1", "no field": b"m 1", "NUL": b"m\x00 v=1\x00", "an open quote": b'm v="abc',
        "an open escape": b"m\\", "commas": b"m,,,, v=1",
        "a time beyond 64 bits": b"m v=1 99999999999999999999",
        "80,000 fields": b"m " + b",".join(b"f%d=1" % n for n in range(80_000)),
        "80,000 tags": b"m," + b",".join(b"t%d=1" % n for n in range(80_000)) + b" v=1",
        "a name of a megabyte": b"m" * 1_000_000 + b" v=1", "the same tag": b"m,a=1,a=2 v=1",
    }.items():
        yield request(f"lines: {name}", (204, 400, 413) if name in ("the same tag", "NUL") else (400, 413), "POST",
                      "/v1/influxdb/write?db=hostile", body, kind=b"Content-Type: text/plain\r\n")
    for name, query in {"a statement": "q=DROP+DATABASE+x", "NUL": "q=create+database+%00", "no UTF-8": "q=%ff",
                        "long": "q=create+database+" + "x" * 10_000}.items():
        yield request(f"influxdb query: {name}", (400, 501), "POST", "/v1/influxdb/query?" + query, b"")


def queries():
    """Arguments of requests that read."""
    lists = ["/v1/metric", "/v1/resource/hostile", "/v1/resource/hostile/{resource}/history",
             "/v1/resource/hostile/{resource}/annotation"]
    for path in lists:
        for query in ("limit=0", "limit=-1", "limit=99999999999999999999", "limit=x", "limit=1e3", "sort=%00", "sort=a:b:c",
                      "sort=" + "id," * 3000, "marker=%ff", "marker=" + "x" * 5000):
            # As many as are allowed at most, where it is a number.
            yield request(f"list: {path} {query[:20]}", 200 if query == "limit=99999999999999999999" else (400, 404), "GET",
                          f"{path}?{query}")
    measures = "/v1/metric/{metric}/measures"
    for query in ("start=%00", "start=1e400", "start=-9e99", "start=99999999999999999999999", "stop=" + "9" * 5000,
                  "granularity=1e-400", "granularity=-1", "granularity=0",
                  "granularity=" + "9" * 400, "granularity=nan", "aggregation=" + "a" * 5000, "aggregation=rate:rate:mean",
                  "aggregation=101pct", "aggregation=-1pct", "aggregation=%ff",
                  "resample=0", "resample=1e-9", "resample=inf", "refresh=perhaps", "start=1%3Bdrop", "start=2020-99-99",
                  "start='1'--", "resample=" + "9" * 30):
        yield request(f"read: {query[:24]}", (400, 404), "GET", f"{measures}?{query}")
    for query in ("seconds=0", "seconds=-1", "seconds=1e9", "seconds=99999999999999999999", "frequency=0", "frequency=1000000",
                  "minutes=1", "seconds=%00"):
        yield request(f"flame graph: {query}", 400, "GET", f"/debug/flamegraph?{query}")
    for operations in ("(", "(" * 5000, "(metric {metric} mean", "(/ (metric {metric} mean) foobar)", "(** 9e99 9e99)",
                       "(aggregate)", "(rolling mean 0 (metric {metric} mean))", "\x00",
                       "(resample mean 0 (metric {metric} mean))", "(aggregate 500pct (metric {metric} mean))"):
        yield request(f"operations: {operations[:24]!r}", (400, 404), "POST", "/v1/aggregates",
                      json.dumps({"operations": operations}).encode())
    for text in ("a like '" + "%" * 5000 + "'", "(" * 3000, "not " * 5000 + "a = 1", "a in [" + "1," * 20_000 + "1]",
                 "a = 'x' and " * 3000 + "a = 'x'", "=", "\x00", "a === b", "a = \ud7ff"):
        target = "/v1/search/resource/hostile?filter=" + "".join(f"%{byte:02x}" for byte in text.encode()[:15_000])
        yield request(f"filter: {text[:20]!r}", 400, "POST", target)


def prometheus():
    """Questions to Prometheus' API: whatever they are, Prometheus' status."""
    query, ranged = "/api/v1/query?query=", "/api/v1/query_range?start=0&end=1000&step=1&query="
    for name, text in {
        "nothing": "", "NUL": "%00", "no UTF-8": "%ff%fe", "brackets": "(" * 20_000, "closed brackets": "(" * 5_000 + "1" + ")" * 5_000,
        "minus": "-" * 20_000 + "1", "calls": "abs(" * 5_000 + "x" + ")" * 5_000, "a long chain": "%2b".join("1" * 20_000),
        "subqueries": "x" + "[1m:1s]" * 2_000, "an open quote": "x{a=%22", "an open brace": "x{", "an open range": "x[",
        "a range of ages": "rate(x[99999999999999999999y])", "a huge number": "1e999999999", "a regex of brackets":
        "x{a=~%22" + "(" * 10_000 + "%22}", "a regex that grows": "x{a=~%22((a{0,100}){0,100}){0,100}%22}", "matchers":
        "x{" + ",".join(["a=%22b%22"] * 2_000) + "}", "no function": "no_function(x)", "an unknown method": "x{__aggregation__=%22none%22}",
        "no granularity": "x{__granularity__=%22-1%22}", "a granularity by regex": "x{__granularity__=~%22.%2b%22}",
        "@ of ages": "x @ 1e300", "an offset of ages": "x offset 999999999y",
    }.items():
        for target in (query, ranged):
            yield request(f"prometheus: {name} {target[:16]}", (200, 400, 422) if name in ("minus", "a huge number") else (400, 414, 422, 431),
                          "GET", target + text)
            path, _, arguments = target.partition("?")
            form = b"Content-Type: application/x-www-form-urlencoded\r\n"
            yield request(f"prometheus: {name} as a form to {path}", (200, 400, 422) if name in ("minus", "a huge number") else (400, 422),
                          "POST", path, f"{arguments}{text}".encode("latin-1"), kind=form)
    times = ["start=0&end=1000&step=0.000000001", "start=0&end=1e300&step=1", "start=-1e300&end=1e300&step=1e9", "start=1&end=0&step=1",
             "start=NaN&end=1&step=1", "start=0&end=1&step=-1", "start=0&end=1&step=NaN", "start=0&end=1&step=1e300", "start=&end=&step="]
    for arguments in times:
        yield request(f"prometheus: {arguments}", 400, "GET", f"/api/v1/query_range?query=x&{arguments}")
    for arguments in ["time=x", "time=1e999", "timeout=x", "limit=-1", "limit=x", "lookback_delta=x"]:
        yield request(f"prometheus: {arguments}", 400, "GET", f"/api/v1/query?query=x&{arguments}")
    yield request("prometheus: no time left", 503, "GET", "/api/v1/query?query=x&timeout=0.000000001")
    for path in ["series", "labels", "label/a/values"]:
        for match in ["", "{}", "x[5m]", "sum(x)", "x{", "%22", "x%00"]:
            yield request(f"prometheus: {path} of {match}", 400, "GET", f"/api/v1/{path}?match[]={match}")
    yield request("prometheus: many sets", 400, "GET", "/api/v1/series?" + "&".join(["match[]=x"] * 1_000))
    yield request("prometheus: an empty label", (400, 404), "GET", "/api/v1/label//values")
    for arguments in ["", "match[]={}", "match[]=x&start=2&end=1", "match[]=x&start=x"]:
        yield request(f"prometheus: delete {arguments}", 400, "POST", f"/api/v1/admin/tsdb/delete_series?{arguments}", b"")
    for path in ["query", "query_exemplars", "format_query", "parse_query", "metadata", "targets", "rules", "alerts", "read", "status/buildinfo",
                 "status/runtimeinfo", "status/flags", "status/config", "status/tsdb", "admin/tsdb/clean_tombstones", "none"]:
        yield request(f"prometheus: PATCH {path}", (404, 405), "PATCH", f"/api/v1/{path}", b"[" * DEEP)
    for match in ["{}", "{__aggregation__=%22mean%22}", "{__aggregation__=%22mean%22,job=~%22.*%22}"]:
        yield request(f"prometheus: federate {match}", 400, "GET", f"/federate?match[]={match}")
    for name, body in {"nothing": b"", "no Snappy": b"hello", "4 GB promised": b"\xff\xff\xff\xff\x0f\x00", "no protobuf": b"\x05\x10hello",
                       "a length beyond the end": b"\x04\x0c\x0a\xff\xff\x0f"}.items():
        yield request(f"prometheus: read {name}", (400, 413), "POST", "/api/v1/read", body, kind=b"Content-Type: application/x-protobuf\r\n")


# Values that neither a span of time, nor a word, nor a list of them can be.
NO_VALUES = ("null", "true", "[]", "{}", "1e999999", '"\\u0000"', '"' + "x" * 5000 + '"')


def policies():
    """What policies and definitions have beside Gnocchi's fields."""
    raw = [f'"raw": {value}' for value in (*NO_VALUES, "-1", '"1 day"', '{"timespan": null}', '{"timespan": 0}', '{"timespan": -1}',
                                           '{"timespan": "-1 day"}', '{"timespan": 1e400}', '{"timespan": %s}' % ("9" * 400),
                                           '{"timespan": "99999999999999999999 days"}', '{"timespan": []}', '{"timespan": {}}', '{"timespan": NaN}',
                                           '{"timespan": "1 day", "points": 5}', '{"timespan": "1 day", "timespans": 1}')]
    late = [f'"late": {value}' for value in (*NO_VALUES, "0", "false", '"Recompute"', '"keep"', '["recompute"]', '{"recompute": 1}',
                                             "9" * 400, '"drop", "raw": {"timespan": "1 day"}', '"recompute", "aggregation_methods": ["last"]',
                                             '"recompute", "aggregation_methods": ["mean"]', '"recompute", "aggregation_methods": ["95pct", "increase"]',
                                             '"recompute", "raw": {}')]
    methods = [f'"aggregation_methods": {value}' for value in ("null", "1", "{}", '[1]', '["increase:mean"]', '["rate:increase"]', '["-increase-"]',
                                                               '["rate_resets"]', '[[]]', '["%s"]' % ("x" * 5000))]
    forms = {
        "policy": ("POST", "/v1/archive_policy", '{"name": "none", "definition": [{"granularity": 60}], %s}'),
        "policy change": ("PATCH", "/v1/archive_policy/hostile", '{"definition": [{"granularity": 1, "points": 60}], %s}'),
        "definition": ("POST", "/v1/metric", '{"archive_policy": {"definition": [{"granularity": 60}], %s}}'),
        "definition of a resource's": ("POST", "/v1/resource/hostile/{resource}/metric",
                                       '{"x": {"archive_policy": {"definition": [{"granularity": 60}], %s}}}'),
        "move to a definition": ("PATCH", "/v1/metric/{metric}", '{"archive_policy": {"definition": [{"granularity": 60}], %s}}'),
    }
    for form, (method, target, body) in forms.items():
        for number, fields in enumerate((*raw, *late, *methods)):
            yield request(f"{form}: {number} {fields[:40]}", 400, method, target, (body % fields).encode())
    for name, body in {
        "a name": '{"archive_policy": {"definition": [{"granularity": 60}], "name": "x"}}', "both": '{"archive_policy_name": "hostile", '
        '"archive_policy": {"definition": [{"granularity": 60}]}}', "a definition's name": f'{{"archive_policy_name": "definition:{MISSING}"}}',
        "101 granularities": '{"archive_policy": {"definition": %s}}' % json.dumps([{"granularity": n} for n in range(1, 102)]),
        "no policy": '{"archive_policy": null}', "a text": '{"archive_policy": "low"}',
        "a long back window": '{"archive_policy": {"definition": [{"granularity": 60}], "back_window": 4294967296}}',
    }.items():
        for method, target in (("POST", "/v1/metric"), ("PATCH", "/v1/metric/{metric}")):
            yield request(f"definition: {name} {method}", 400, method, target, body.encode())
    name = f"/v1/archive_policy/definition:{MISSING}"
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", b'{"definition": [{"granularity": 60}]}')):
        yield request(f"definition: {method} by its name", 404, method, name, body)
    yield request("definition: a policy of such a name", 400, "POST", "/v1/archive_policy",
                  f'{{"name": "definition:{MISSING}", "definition": [{{"granularity": 60}}]}}'.encode())


def annotations():
    """Texts about resources."""
    path = "/v1/resource/hostile/{resource}/annotation"
    for body in ("[]", "{}", "1", '{"text": null}', '{"text": 1}', '{"text": []}', '{"text": ""}', '{"text": "%s"}' % ("x" * 5000),
                 '{"text": "\\u0000"}', '{"text": "\\ud800"}', '{"text": "x", "more": 1}', '{"text": "x", "timestamp": "never"}',
                 '{"text": "x", "timestamp": 1e400}', '{"text": "x", "timestamp": []}', '{"text": "x", "timestamp": "9999999-01-01"}',
                 '{"timestamp": 1}', '{"text": "x", "id": "x"}', "[" * DEEP):
        yield request(f"annotation: {body[:40]}", 400, "POST", path, body.encode())
    yield request("annotation: of nothing", 404, "POST", f"/v1/resource/hostile/{MISSING}/annotation", b'{"text": "x"}')
    for query in ("start=never", "start=1e400", "stop=%00", "stop=" + "9" * 5000):
        yield request(f"annotations: {query[:20]}", 400, "GET", f"{path}?{query}")
    for target in (f"{path}/{MISSING}", f"{path}/x", f"{path}/%00", path + "/" + "x" * 5000):
        yield request(f"annotation: delete {target[40:70]}", (400, 404), "DELETE", target)
    for query in ("annotations=perhaps", "annotations=%ff", "annotations=1&annotations=0"):
        yield request(f"history: {query}", 400, "GET", f"/v1/resource/hostile/{{resource}}/history?{query}")


def removals():
    """Measures of a time that are to be removed."""
    for path in ("/v1/metric/{metric}/measures", "/v1/resource/hostile/{resource}/metric/cpu/measures"):
        for query in ("", "start=", "start=never", "start=%00", "start=1e400", "start=-9e99", "stop=" + "9" * 5000, "stop=2020-99-99",
                      "start=5&stop=5", "start=6&stop=5", "start=9999999-01-01", "start=%ff", "from=1", "aggregation=mean"):
            yield request(f"removal: {path[4:12]} {query[:20]}", (400, 404), "DELETE", f"{path}?{query}")
    yield request("removal: of nothing", 404, "DELETE", f"/v1/metric/{MISSING}/measures?start=1")


def added_arguments():
    """Arguments that Gnocchi does not have, of requests that read."""
    lists = ("/v1/metric", "/v1/resource/hostile", "/v1/resource/hostile/{resource}/metric")
    for path in lists:
        for query in ("last_measure=perhaps", "last_measure=%ff", "late_dropped=2", "late_dropped=%00", "silent_since=never", "silent_since=",
                      "silent_since=1e400", "silent_since=%ff", "silent_since=" + "9" * 5000):
            if path == lists[0] or (path == lists[1] and query.startswith("silent")):
                yield request(f"last measure: {path} {query[:24]}", 400, "GET", f"{path}?{query}")
    for query in ("sort=last_measure:sideways", "sort=late_dropped:desc:asc", "sort=last_measures", "name_like=" + "%25" * 5000):
        yield request(f"last measure: {query[:30]}", 400, "GET", f"/v1/metric?{query}")
    for query in ("last_measure=perhaps", "late_dropped=%ff"):
        yield request(f"metric: {query}", 400, "GET", f"/v1/metric/{{metric}}?{query}")
    body = json.dumps({"resource_type": "hostile", "search": {}, "operations": "(aggregate mean (metric cpu mean))"}).encode()
    for query in ("groupby=time:weekdays", "groupby=time:", "groupby=time:minute", "groupby=time:hour&utc_offset=x",
                  "groupby=time:hour&utc_offset=%2b99:00", "groupby=time:hour&utc_offset=Europe/Berlin", "groupby=time:hour&utc_offset=",
                  "groupby=time:hour&utc_offset=%2b01:00&utc_offset=%2b02:00", "groupby=time:hour&reaggregation=none",
                  "groupby=time:hour&reaggregation=rate:mean", "groupby=time:hour&use_history=true",
                  "groupby=time:hour&groupby=time:hour&" + "groupby=time:weekday&" * 2000, "groupby=time:%00",
                  "empty=perhaps", "empty=%ff", "empty=", "use_history=perhaps"):
        yield request(f"aggregates: {query[:60]}", 400, "POST", f"/v1/aggregates?{query}", body)


def tables():
    """Arrow's streams, and what asks for them."""
    kind, batches = b"Content-Type: application/vnd.apache.arrow.stream\r\n", ("/v1/batch/metrics/measures",
                                                                              "/v1/batch/resources/metrics/measures?create_metrics=true")
    marker = b"\xff\xff\xff\xff"
    for target in batches:
        for name, body in {
            "no bytes": b"", "JSON": b"{}", "a file": b"ARROW1\x00\x00" + bytes(64), "a marker": marker, "half a length": marker + b"\x10",
            "the end alone": marker + bytes(4), "2 GB of metadata": marker + b"\xff\xff\xff\x7f", "a negative length": marker + b"\xff" * 4 + bytes(64),
            "no table": marker + b"\x10\x00\x00\x00" + bytes(16), "offsets beyond the end": marker + b"\x10\x00\x00\x00" + b"\xff" * 16,
            "zeros": bytes(65_536), "ones": b"\xff" * 65_536, "a length before version 0.15": b"\x10\x00\x00\x00" + bytes(16),
        }.items():
            yield request(f"Arrow: {name} to {target[:20]}", 400, "POST", target, body, kind=kind)
        yield request(f"Arrow: a bomb to {target[:20]}", (400, 413), "POST", target, gzip.compress(bytes(8 << 20), 9),
                      head=b"Content-Encoding: gzip\r\n", kind=kind)
    for target in ("/v1/metric/{metric}/measures", "/v1/archive_policy", "/v1/metric", "/v1/aggregates"):
        yield request(f"Arrow: not taken by {target}", (400, 415), "POST", target, marker + bytes(4), kind=kind)
    accept = b"Accept: application/vnd.apache.arrow.stream\r\n"
    for target in ("/v1/metric/{metric}/measures", "/v1/metric", "/v1/resource/hostile", "/v1/resource/hostile/{resource}/history"):
        for query in ("compression=gzip", "compression=%ff", "compression=lz4&compression=zstd", "compression="):
            yield request(f"Arrow: {target} {query}", 400, "GET", f"{target}?{query}", head=accept)
    body = json.dumps({"resource_type": "hostile", "search": {}, "operations": "(aggregate mean (metric cpu mean))"}).encode()
    for query in ("form=tall", "form=%00", "form=", "form=long&form=wide", "form=wide&compression=gzip", "form=wide&groupby=%00"):
        yield request(f"Arrow: aggregates {query}", 400, "POST", f"/v1/aggregates?{query}", body, head=accept)
    yield request("Arrow: an error is JSON", 404, "GET", f"/v1/metric/{MISSING}/measures", head=accept)


def methods():
    """Methods that routes do not have."""
    for target in ("/v1/archive_policy", "/v1/archive_policy/hostile", "/v1/archive_policy_rule",
                   "/v1/archive_policy_rule/hostile", "/v1/metric", "/v1/metric/{metric}",
                   "/v1/metric/{metric}/measures", "/v1/resource/hostile", "/v1/resource/hostile/{resource}",
                   "/v1/resource/hostile/{resource}/history", "/v1/resource/hostile/{resource}/annotation",
                   f"/v1/resource/hostile/{{resource}}/annotation/{MISSING}",
                   "/v1/resource/hostile/{resource}/metric", "/v1/resource/hostile/{resource}/metric/cpu",
                   "/v1/resource/hostile/{resource}/metric/cpu/measures",
                   "/v1/resource_type", "/v1/resource_type/hostile", "/v1/aggregates", "/v1/aggregation/metric",
                   "/v1/batch/metrics/measures",
                   "/v1/batch/resources/metrics/measures", "/v1/search/metric", "/v1/search/resource/hostile",
                   "/v1/influxdb/write", "/v1/prometheus/write", "/api/v1/write", "/api/v1/otlp/v1/metrics",
                   "/v1/capabilities", "/v1/status", "/debug/cluster", "/debug/flamegraph", "/v1/openapi.json"):
        yield request(f"method: PUT {target}", (404, 405), "PUT", target, b"{}")
    for value in ("maybe", "", "true&metrics=false", "%ff"):
        yield request(f"flag: /debug/cluster?metrics={value}", 400, "GET", f"/debug/cluster?metrics={value}")
    yield request("method: POST /v1/search/resource", 405, "POST", "/v1/search/resource", b"{}")
    yield request("method: POST /v1/aggregates/more", 400, "POST", "/v1/aggregates/more", b"{}")
    for target in ("/v1/aggregation/x/y/z/w", "/v1/batch/foo/measures", "/v1/none/at/all", "/v1/status/a/b", "/none"):
        yield request(f"method: POST {target}", (400, 404, 405), "POST", target, b"{}")
    # Pages that answer whatever is asked of them; they must not read 100,000 brackets for it.
    for target in ("/", "/v1/", "/healthcheck", "/metrics"):
        yield request(f"method: POST brackets to {target}", (200, 400, 405), "POST", target, b"[" * DEEP)
    for target in ("/v1/status/true%00", "/v1/status/" + "x" * 5000):
        yield request(f"status: {target[:20]}", (400, 404), "GET", target)
    for target in ("/page/..%2f..%2fetc%2fpasswd", "/page/%00", "/page/" + "x" * 5000):
        yield request(f"page: {target[:20]}", (400, 404), "GET", target)
    yield request("types: no such method", 405, "PATCH", "/v1/resource", b"[" * DEEP)
    yield request("ping: no such method", 405, "POST", "/v1/influxdb/ping", b"[" * DEEP)
    for target in ("/v1/archive_policy/" + "x" * 5000, f"/v1/metric/{MISSING}", f"/v1/resource/hostile/{MISSING}",
                   "/v1/resource/none/none", "/v1/resource_type/%00", "/v1/resource_type/generic",
                   "/v1/archive_policy/hostile", "/v1/archive_policy_rule/none"):
        yield request(f"deletion: {target[:50]}", (400, 404), "DELETE", target)


@functools.cache
def all_requests():
    """Made when a test needs them: to compress the bombs takes most of a second, and each worker loads this file."""
    return [request for part in (heads, bodies, chunks, queries, prometheus, policies, annotations, removals, added_arguments, tables, methods)
            for request in part()]
