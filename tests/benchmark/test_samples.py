"""`gnudi-benchmark samples`: raw samples in a real PostgreSQL beside gnudi. Every answer is checked by the command itself
against the samples; here its results are."""

import json

import pytest
from support.gnudi import run_benchmark
from support.http import create_policy

pytestmark = pytest.mark.slow

SAMPLES = 2 * 1440
# Without the virtual environment that `make bench` makes.
NO_GNOCCHI = ["--gnocchi-venv", "/nonexistent"]


def samples(*arguments, status=0):
    done = run_benchmark("samples", "--instances", "2", "--days", "1", "--reads", "2", "-f", "json",
                     *NO_GNOCCHI, *arguments, timeout_s=60)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout), done.stderr


def number(text, unit):
    value, found = text.split(" ")
    assert found == unit, text
    return float(value)


@pytest.fixture(scope="module")
def run():
    return samples()


def test_both_stores_hold_and_answer_every_sample(run):
    found, _ = run
    for store in ["postgresql", "gnudi"]:
        assert found[f"{store} samples"] == SAMPLES
        seconds = number(found[f"{store} load time"], "seconds")
        # The time is shown in hundredths.
        speed = number(found[f"{store} load speed"], "sample/s")
        assert SAMPLES / (seconds + 0.01) < speed < SAMPLES / max(seconds - 0.01, 1e-9)
        assert 0 < found[f"{store} read by 60 s"] < 10
        assert 0 < found[f"{store} read by 3600 s"] < 10
    # Two times, the ids and the signature make more than this.
    assert number(found["postgresql disk"], "bytes") > SAMPLES * 150
    assert "partial" not in found


def test_a_table_compares_them(run):
    found, _ = run
    (table,) = found["tables"]
    assert [row[0] for row in table["rows"]] == ["postgresql", "gnudi"]
    ratios = [row[table["headings"].index("read by 60 s") + 1] for row in table["rows"]]
    expected = found["postgresql read by 60 s"] / found["gnudi read by 60 s"]
    assert float(ratios[0].removesuffix("x")) == pytest.approx(expected, rel=0.05)
    assert ratios[1] == ""


def test_a_missing_peer_is_told_and_the_others_go_on(run):
    found, errors = run
    (note,) = [note for note in found["notes"] if "not measured" in note]
    assert note == "gnocchi: not measured: /nonexistent/bin/uwsgi is missing"
    assert note in errors.splitlines()


def test_a_missing_postgresql_is_told():
    found, errors = samples("--postgresql", "/nonexistent", "--stores", "postgresql,gnudi")
    assert "postgresql: not measured: /nonexistent/initdb is missing" in found["notes"]
    assert "postgresql: not measured: /nonexistent/initdb is missing" in errors.splitlines()
    assert found["gnudi samples"] == SAMPLES


def test_a_store_that_answers_something_else_is_told(gnudi):
    server = gnudi()
    # A policy of the name that the command uses, which keeps only the last ten minutes.
    create_policy(server.client(), "gnudi-bench-samples", [("60s", 10), ("3600s", 24)])
    found, errors = samples("--stores", "gnudi", "--gnudi-url", f"http://127.0.0.1:{server.port}", status=130)
    assert "gnudi: instance 0 by 60 s: 10 points, not 1440" in errors.splitlines()
    assert found["partial"] == "gnudi failed"
    assert found["gnudi samples"] == SAMPLES
    assert "gnudi read by 60 s" not in found and "gnudi disk" not in found


def test_nothing_to_measure_is_an_error():
    done = run_benchmark("samples", "--stores", "gnocchi", *NO_GNOCCHI)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-2:] == [
        "gnocchi: not measured: /nonexistent/bin/uwsgi is missing",
        "gnudi-benchmark: nothing was measured",
    ]


@pytest.mark.parametrize("arguments, reason", [
    (["--instances", "0"], "0 is not in 1..=10000"),
    (["--days", "367"], "367 is not in 1..=366"),
    (["--instances", "10000", "--days", "366"], "5270400000 samples, at most 20000000"),
    (["--stores", "mongodb"], "invalid value 'mongodb'"),
])
def test_too_much_or_nonsense_is_refused(arguments, reason):
    done = run_benchmark("samples", *arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert reason in done.stderr
