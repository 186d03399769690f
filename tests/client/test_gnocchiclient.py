"""The `gnocchi` command (gnocchiclient 7.2.0) against gnudi in basic mode, as its users run it."""

import json
import os
import subprocess

import pytest


@pytest.fixture
def gnocchi_command(gnudi, programs):
    """Runs `gnocchi ...` as admin and answers its JSON; `fails=True`: answers what it printed instead."""
    server = gnudi()
    environment = {
        **os.environ,
        "OS_AUTH_TYPE": "gnocchi-basic",
        "GNOCCHI_USER": "admin",
        "GNOCCHI_ENDPOINT": f"http://127.0.0.1:{server.port}",
    }

    def command(*arguments, as_json=True, fails=False):
        form = ["-f", "json"] if as_json and not fails else []
        done = subprocess.run([programs / "gnocchi", *arguments, *form], capture_output=True, text=True, env=environment,
                              timeout=60, check=False)
        if fails:
            assert done.returncode != 0
            return done.stdout + done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if as_json else done.stdout

    return command


def test_metrics_and_measures(gnocchi_command):
    created = gnocchi_command("metric", "create", "--archive-policy-name", "high", "--unit", "B", "disk.bytes")
    metric = created["id"]
    assert gnocchi_command("metric", "show", metric)["name"] == "disk.bytes"
    assert [item["id"] for item in gnocchi_command("metric", "list")] == [metric]
    gnocchi_command("measures", "add", "-m", "2015-03-06T14:33:57@43.1", "-m", "2015-03-06T14:34:12@12", metric,
                    as_json=False)
    points = gnocchi_command("measures", "show", "--refresh", "--granularity", "1", "--aggregation", "mean", "--utc",
                             metric)
    assert [(point["timestamp"], point["value"]) for point in points] == [
        ("2015-03-06T14:33:57+00:00", 43.1),
        ("2015-03-06T14:34:12+00:00", 12.0),
    ]
    resampled = gnocchi_command("measures", "show", "--granularity", "1", "--resample", "3600", "--utc", metric)
    assert [point["value"] for point in resampled] == [27.55]
    gnocchi_command("metric", "delete", metric, as_json=False)
    assert gnocchi_command("metric", "list") == []
    assert "does not exist" in gnocchi_command("metric", "show", metric, fails=True)


def test_batches(gnocchi_command, tmp_path):
    metric = gnocchi_command("metric", "create", "--archive-policy-name", "low")["id"]
    batch = tmp_path / "batch.json"
    batch.write_text(json.dumps({metric: [{"timestamp": "2015-03-06T14:33:57", "value": 4}]}))
    gnocchi_command("measures", "batch-metrics", str(batch), as_json=False)
    assert [point["value"] for point in gnocchi_command("measures", "show", "--refresh", metric)] == [4.0]


def test_archive_policies_and_rules(gnocchi_command):
    assert {policy["name"] for policy in gnocchi_command("archive-policy", "list")} == {"bool", "low", "medium", "high", "raw"}
    created = gnocchi_command("archive-policy", "create", "-d", "granularity:1s,points:60", "-m", "mean", "-m",
                              "rate:mean", "-b", "2", "mine")
    assert created["back_window"] == 2
    assert "rate:mean" in created["aggregation_methods"]
    updated = gnocchi_command("archive-policy", "update", "-d", "granularity:1s,points:120", "mine")
    assert updated["definition"][0]["points"] == 120
    gnocchi_command("archive-policy-rule", "create", "-a", "mine", "-m", "cpu.*", "cpus")
    assert gnocchi_command("archive-policy-rule", "show", "cpus")["metric_pattern"] == "cpu.*"
    metric = gnocchi_command("metric", "create", "cpu.load")["id"]
    assert gnocchi_command("metric", "show", metric)["archive_policy/name"] == "mine"
    gnocchi_command("archive-policy-rule", "delete", "cpus", as_json=False)
    assert "in use" in gnocchi_command("archive-policy", "delete", "mine", fails=True)
    assert "already exists" in gnocchi_command("archive-policy", "create", "-d", "granularity:1s,points:60", "mine", fails=True)


def test_status_and_capabilities(gnocchi_command):
    assert gnocchi_command("status")["storage/total number of measures to process"] == 0
    assert "rate:99pct" in json.dumps(gnocchi_command("capabilities", "list"))
