"""`gnudi-benchmark prometheus`: every written sample is stored, every query is answered, and missing ones are reported. The command itself
checks that the answers of several servers are equal."""

import json

import pytest

from support.gnudi import run_benchmark

pytestmark = pytest.mark.slow

SMALL = ["--write-series", "200", "--write-samples", "2000", "--series", "200", "--days", "1", "--rounds", "1"]
# Without the program that `make bench` builds.
NO_PROMETHEUS = ["--prometheus", "/nonexistent"]


def prometheus(*arguments, status=0):
    done = run_benchmark("prometheus", *SMALL, *NO_PROMETHEUS, *arguments, timeout_s=60)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def run():
    done = prometheus("--peers", "limit,gnudi,prometheus", "-f", "json")
    return json.loads(done.stdout), done.stderr


def test_remote_writes_are_counted(run):
    found, _ = run
    table = found["tables"][0]
    assert "200 series, 2000 samples" in table["title"], table["title"]
    assert [row[0] for row in table["rows"]] == ["limit", "gnudi"]
    assert all(len(row) == len(table["headings"]) for row in table["rows"])
    assert "gnudi remote write" in found and "gnudi disk after remote write" in found
    assert "limit disk after remote write" not in found


def test_every_query_is_answered(run):
    found, _ = run
    _, history, instant, ranges = found["tables"]
    assert [row[0] for row in history["rows"]] == ["gnudi"]
    assert (len(instant["rows"]), len(ranges["rows"])) == (3 * 3 + 3 * 3 * 2, 6 * 3 * 2)
    for table in (instant, ranges):
        assert table["headings"] == ["query", "series", "time", "gnudi"]
        assert all(row[3].split(" ")[1] in ("µs", "ms", "s") for row in table["rows"]), table["rows"]
    assert "partial" not in found


def test_a_missing_peer_is_told(run):
    found, errors = run
    for failure in ("prometheus: not written to: /nonexistent is missing", "prometheus: not asked: /nonexistent is missing"):
        assert failure in found["notes"] and failure in errors.splitlines()


def test_tables_as_markdown():
    text = prometheus("--peers", "gnudi", "--only", "write", "--markdown").stdout.splitlines()
    assert text[0].startswith("Remote write: 200 series")
    assert text[2].startswith("| server | new series |") and set(text[3]) == set("| -")
    assert text[4].startswith("| gnudi | ")
    assert any(line.startswith("- gnudi: every accepted measure is on disk") for line in text)


@pytest.mark.parametrize("arguments, reason", [
    (["--peers", "influxdb"], "influxdb takes no remote writes: choose limit, gnudi, gnudi-os, prometheus, victoria-metrics"),
    (["--series", "10"], "10 is not in 200..=100000"),
    (["--only", "read"], "invalid value 'read'"),
])
def test_nonsense_is_refused(arguments, reason):
    done = run_benchmark("prometheus", *arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert reason in done.stderr
