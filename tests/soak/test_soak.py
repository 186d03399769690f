"""The soak itself, for a third of a minute: the load continues over two ends of the server, every response is right, and the report is
written. Whether quantities are flat only shows within an hour: `make soak`."""

import json

import pytest

from soak import run

pytestmark = pytest.mark.long

MINUTES = 0.3
SHARES = [0.4, 0.3, 0.3]


def test_a_third_of_a_minute(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(run, "SAMPLE_S", 0.4)
    report = run.soak(seed, minutes=MINUTES, rate=60, output=tmp_path, shares=SHARES)
    assert not report.faults, report
    assert [what for _, what in report.events] == ["SIGTERM", "kill -9", "SIGTERM"]
    data = json.loads((tmp_path / "samples.json").read_text())
    assert {sample["life"] for sample in data["samples"]} == {1, 2, 3}
    assert all(sample["rss"] > sample["anon"] > 0 and sample["disk"] > 0 for sample in data["samples"])
    assert "Memory" in (tmp_path / "report.html").read_text()
    assert str(run.judge_again(tmp_path / "samples.json", tmp_path / "again")).splitlines()[0] == str(report).splitlines()[0]
