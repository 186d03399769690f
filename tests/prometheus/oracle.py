"""A real Prometheus that accepts remote writes; and queries to it and to gnudi.

If available, it is the one that `make target/tools/bin/prometheus` builds (four minutes): gnudi must give the same answers, including the
texts of warnings. Otherwise it is Debian's 2.42, which lacks a part of the language.
"""

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request

from support.gnudi import ROOT
from support.http import Client, basic
from support.process import Process, free_port, required

TOLERANCE = 1e-9
BUILT = ROOT / "target" / "tools" / "bin" / "prometheus"
FEATURES = "--enable-feature=promql-experimental-functions,promql-binop-fill-modifiers,promql-unquoted-utf8-names,exemplar-storage"


class Oracle:
    """Prometheus without anything to scrape; `config` is its configuration. `is_current` says that its language is gnudi's."""

    def __init__(self, directory, config="global: {}\n"):
        self.is_current = BUILT.exists()
        program = BUILT if self.is_current else required("prometheus")
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "prometheus.yml"
        path.write_text(config)
        self.port = free_port()
        self.process = Process([
            program, *([FEATURES] if self.is_current else []), f"--config.file={path}", f"--storage.tsdb.path={directory / 'data'}", "--web.enable-remote-write-receiver",
            "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{self.port}"], directory / "prometheus.log")
        client = Client("127.0.0.1", self.port, user=None, timeout_s=2)
        self.process.wait_ready(lambda: client.answers("/-/ready"), 60)

    def stop(self):
        if self.process.running():
            self.process.kill()


def http(port, method, path, body=None, headers=None):
    """Status and body of one request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method=method,
                                     headers={**basic("admin"), **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def write(port, path, message):
    """A remote write; `message` is in snappy's format."""
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
    status, body = http(port, "POST", path, message, headers)
    assert status in (200, 202, 204), (status, body)


def ask(port, path, parameters, method="GET"):
    """Status and document."""
    encoded = urllib.parse.urlencode(parameters, doseq=True)
    if method == "GET":
        status, body = http(port, "GET", f"{path}?{encoded}")
    else:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        status, body = http(port, "POST", path, encoded.encode(), form)
    return status, json.loads(body)


def is_near(a, b, tolerance):
    """Whether two texts of values say the same, up to the last digits."""
    if a == b:
        return True
    a, b = float(a), float(b)
    if a == b or math.isnan(a) and math.isnan(b):
        return True
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance * max(abs(a), abs(b), 1)


def by_labels(data):
    """The series of a result: {labels: {time: value}}."""
    if data["resultType"] in ("scalar", "string"):
        time, value = data["result"]
        return {(): {time: value}}
    series = {}
    for one in data["result"]:
        labels = tuple(sorted(one["metric"].items()))
        assert labels not in series, f"twice: {labels}"
        series[labels] = dict(map(tuple, one.get("values") or [one["value"]]))
    return series


def text_differences(expected, found):
    """How warnings, infos and errors differ. Of many Prometheus shows ten, any ten: the number of the others is compared. How many samples were not
    monotonic it counts wrongly."""
    texts = []
    for kind in ["warnings", "infos"]:
        one, other = (sorted(re.sub(r"over -?\d+ samples", "", text) for text in answer.get(kind) or []) for answer in (expected, found))
        if any("omitted" in text for text in one):
            one, other = ([len(shown), *(text for text in shown if "omitted" in text)] for shown in (one, other))
        if one != other:
            texts.append(f"{kind}: {one} is not {other}")
    if expected.get("error") != found.get("error"):
        texts.append(f"{expected['error']!r} is not {found['error']!r}")
    return texts


def differences(expected, found, with_texts=False, tolerance=TOLERANCE):
    """How two answers differ, as texts."""
    if expected["status"] != found["status"] or expected.get("errorType") != found.get("errorType"):
        return [f"{expected} is not {found}"]
    if with_texts and (texts := text_differences(expected, found)):
        return texts
    if expected["status"] == "error":
        return []
    expected, found = expected["data"], found["data"]
    if expected["resultType"] != found["resultType"]:
        return [f"{expected['resultType']} is not {found['resultType']}"]
    expected, found = by_labels(expected), by_labels(found)
    texts = [f"missing: {labels}" for labels in expected.keys() - found.keys()]
    texts += [f"too much: {labels} {found[labels]}" for labels in found.keys() - expected.keys()]
    for labels in expected.keys() & found.keys():
        one, other = expected[labels], found[labels]
        if one.keys() != other.keys():
            texts.append(f"{labels}: times {sorted(one.keys() ^ other.keys())[:5]} in one only")
            continue
        texts += [f"{labels} at {time}: {one[time]} is not {other[time]}" for time in one if not is_near(one[time], other[time], tolerance)][:3]
    return texts
