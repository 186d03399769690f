"""Every alert of deploy/prometheus/alerts.yaml, on made-up series: it fires for those with the fault, and only for those. Run by promtool."""

import shutil
import subprocess

import pytest
import yaml
from monitoring import files

MINUTES = 600
LABELS = 'job="gnudi", instance="a:8041"'


def level(value):
    """A gauge, in promtool's notation."""
    return f"{value}+0x{MINUTES}"


def growing(step):
    """A counter that grows by so much a minute."""
    return f"0+{step}x{MINUTES}"


STILL = growing(0)


def stepping(step):
    """A counter that grows once in the last minutes."""
    return f"0+0x{MINUTES - 4} {step}+0x4"


SHOWN = 'status="200"', 'status="503"'
# By alert: series where all is well, and where it fires; those that are not named in the latter are as in the former.
CASES = {
    "GnudiDown": ({"up": level(1)}, {"up": level(0)}),
    "GnudiDiskFailed": ({"gnudi_incoming_poisoned": level(0), "gnudi_aggregates_poisoned": level(0)}, {"gnudi_aggregates_poisoned": level(1)}),
    "GnudiDiskFull": ({"gnudi_disk_reserve_held_bytes": level(64), "gnudi_disk_reserve_bytes": level(64)}, {"gnudi_disk_reserve_held_bytes": level(0)}),
    "GnudiDiskFillsUp": ({"gnudi_disk_free_bytes": f"1000000-100x{MINUTES}"}, {"gnudi_disk_free_bytes": f"1000000-1000x{MINUTES}"}),
    "GnudiMergeWaitsForSpace": ({"gnudi_aggregates_merge_waits": level(0)}, {"gnudi_aggregates_merge_waits": level(1)}),
    "GnudiServerErrors": ({f"gnudi_api_requests_total {SHOWN[0]}": growing(100), f"gnudi_api_requests_total {SHOWN[1]}": growing(4)},
                          {f"gnudi_api_requests_total {SHOWN[1]}": growing(10)}),
    "GnudiFaultOfTheProgram": ({"gnudi_api_panics_total": STILL, "gnudi_metricd_measures_set_aside_total": STILL},
                               {"gnudi_api_panics_total": stepping(1)}),
    "GnudiDamaged": ({"gnudi_incoming_damaged_total": STILL, "gnudi_aggregates_damaged_total": STILL, "gnudi_metricd_damaged_total": STILL,
                      "gnudi_index_damaged_total": STILL},
                     {"gnudi_metricd_damaged_total": stepping(1)}),
    "GnudiSlowSyncs": ({"gnudi_incoming_sync_seconds_total": growing(4), "gnudi_incoming_syncs_total": growing(10)},
                       {"gnudi_incoming_sync_seconds_total": growing(6)}),
    "GnudiJournalFails": ({"gnudi_journal_failures_total": STILL}, {"gnudi_journal_failures_total": stepping(1)}),
    "GnudiRestartsOften": ({"gnudi_process_cpu_seconds_total": growing(1)},
                           {"gnudi_process_cpu_seconds_total": f"0+1x{MINUTES - 30} 0+1x9 0+1x9 0+1x9"}),
    "GnudiRefusesMany": ({"gnudi_api_audit_suppressed_total": STILL}, {"gnudi_api_audit_suppressed_total": growing(5)}),
    "GnudiBacklog": ({"gnudi_backlog_measures": level(200), "gnudi_api_measures_total": growing(60)}, {"gnudi_backlog_measures": level(400)}),
    "GnudiOldMeasuresWait": ({"gnudi_metricd_oldest_waiting_seconds": level(500)}, {"gnudi_metricd_oldest_waiting_seconds": level(700)}),
    "GnudiPassesFail": ({"gnudi_metricd_passes_failed_total": STILL}, {"gnudi_metricd_passes_failed_total": growing(1)}),
    "GnudiDropsLateMeasures": ({"gnudi_metricd_measures_late_total": growing(9), "gnudi_metricd_measures_folded_total": growing(100)},
                               {"gnudi_metricd_measures_late_total": growing(11)}),
    "GnudiAgentDisconnected": ({"gnudi_notification_connected": level(2), "gnudi_notification_brokers": level(2)}, {"gnudi_notification_connected": level(1)}),
    "GnudiAgentBehind": ({"gnudi_notification_oldest_seconds": level(500)}, {"gnudi_notification_oldest_seconds": level(700)}),
    "GnudiAgentSetsAside": ({"gnudi_notification_set_aside_total": STILL}, {"gnudi_notification_set_aside_total": stepping(1)}),
    "GnudiAgentDrops": ({"gnudi_notification_aside_dropped_total": STILL, 'gnudi_publisher_lost_total publisher="udp"': STILL},
                        {"gnudi_notification_aside_dropped_total": stepping(1)}),
    "GnudiAgentStoreFails": ({"gnudi_gnocchi_retries_total": growing(1), "gnudi_gnocchi_samples_total": growing(1)},
                             {"gnudi_gnocchi_samples_total": STILL}),
    "GnudiPollingFails": ({"gnudi_polling_failures_total": STILL, "gnudi_polling_discovery_failures_total": STILL},
                          {"gnudi_polling_failures_total": growing(1)}),
    "GnudiPollingStopped": ({"gnudi_polling_rounds_total": growing(1)}, {"gnudi_polling_rounds_total": STILL}),
}


# Figures that a process may have without the others of the alert: `gnudi metricd` has none of the API, a process on shared engines none of a disk.
ALONE = {
    "GnudiFaultOfTheProgram": ["gnudi_api_panics_total", "gnudi_metricd_measures_set_aside_total"],
    "GnudiDamaged": ["gnudi_incoming_damaged_total", "gnudi_aggregates_damaged_total", "gnudi_metricd_damaged_total",
                     "gnudi_index_damaged_total"],
    "GnudiAgentDrops": ["gnudi_notification_aside_dropped_total", 'gnudi_publisher_lost_total publisher="udp"'],
}


def unit_test(series, firing):
    """One of promtool's: these alerts fire, and no other, at the end of the series."""
    listed = []
    for name, values in series.items():
        metric, _, label = name.partition(" ")
        listed.append({"series": f"{metric}{{{LABELS}{', ' + label if label else ''}}}", "values": values})
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in firing]
    check = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{MINUTES}m", "exp_samples": expected}
    return {"interval": "1m", "input_series": listed, "promql_expr_test": [check]}


def promtool(directory, *tests):
    path = directory / "tests.yaml"
    # Every fifth of the minutes that a Prometheus has: `for` is longer, and only the end counts.
    path.write_text(yaml.safe_dump({"rule_files": [str(files.ALERTS)], "evaluation_interval": "5m", "tests": list(tests)}))
    return subprocess.run([shutil.which("promtool"), "test", "rules", path], capture_output=True, text=True, check=False)


def test_every_alert_has_its_case():
    rules = files.rules()
    assert list(CASES) == [rule["alert"] for rule in rules]
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


@pytest.mark.parametrize("alert", CASES)
def test_it_fires_where_it_should_and_only_there(tmp_path, alert):
    well, ill = CASES[alert]
    assert ill.keys() <= well.keys()
    done = promtool(tmp_path, unit_test(well, []), unit_test({**well, **ill}, [alert]))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALONE)
def test_it_fires_by_each_figure_of_a_process_that_lacks_the_others(tmp_path, alert):
    done = promtool(tmp_path, *(unit_test({name: stepping(1)}, [alert]) for name in ALONE[alert]))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("store", ["incoming", "aggregates"])
def test_damage_that_a_start_finds_is_told(tmp_path, store):
    """Hours after the last process: there is no sample before the damage."""
    done = promtool(tmp_path, unit_test({f"gnudi_{store}_damaged_total": f"_x{MINUTES - 4} 3+0x4"}, ["GnudiDamaged"]))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_tells_an_alert_that_stays_silent(tmp_path):
    done = promtool(tmp_path, unit_test(CASES["GnudiDown"][0], ["GnudiDown"]))
    assert done.returncode != 0 and "GnudiDown" in done.stdout + done.stderr
