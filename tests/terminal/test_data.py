"""`gnudi metric`, `measures`, `resource` and `aggregates`: the output of Gnocchi's client, and gnudi's additions."""

import json

import pytest

from support import gnudi as program
from terminal.store import HOUR, make_hosts, server_variables

HOST = "web-1"

# As a script has them that was written for Gnocchi's client; ROOM is the id of a metric.
COMMANDS = [
    ["metric", "list"],
    ["metric", "list", "--limit", "2", "--sort", "name:desc"],
    ["metric", "show", "ROOM"],
    ["metric", "show", "--resource-id", HOST, "cpu"],
    ["measures", "show", "--utc", "ROOM"],
    ["measures", "show", "ROOM", "--granularity", "60", "--aggregation", "max", "--start", f"{HOUR}:10", "--stop", f"{HOUR}:12:00"],
    # Digits are a date, not seconds since 1970.
    ["measures", "show", "ROOM", "--granularity", "60", "--start", "20261121", "--stop", "20261121T100500,5"],
    ["measures", "show", "ROOM", "--granularity", "60", "--start", "2026", "--stop", "2026-11-21 10:7"],
    ["measures", "show", "-r", HOST, "cpu", "--resample", "600", "--granularity", "300"],
    ["resource", "list"],
    ["resource", "list", "--type", "host", "--limit", "1", "--details"],
    ["resource", "list", "-t", "host", "--history"],
    ["resource", "show", "-t", "host", HOST],
    ["resource", "history", "--type", "host", HOST],
    ["resource", "search", "--type", "host", "rack = 'r1'"],
    ["resource", "search", "-t", "host", "rack like 'r%'", "--sort", "rack:desc"],
    ["aggregates", "(aggregate mean (metric cpu mean))", "type = 'host'", "--resource-type", "host", "--groupby", "rack"],
    ["aggregates", "(metric cpu mean)", "type = 'host'", "--granularity", "300", "--fill", "0"],
    ["aggregates", "(* 2 (metric ROOM mean))", "--granularity", "60", "--start", f"{HOUR}:50:00"],
    # The last one applies.
    ["metric", "list", "--limit", "1", "--limit", "2"],
    # As long as one option begins so.
    ["measures", "show", "ROOM", "--gran", "60", "--agg", "max"],
    # None is asked for, and one page of the server listed.
    ["metric", "list", "--limit", "0"],
]
IDS = [" ".join(command) for command in COMMANDS]


def words(command, server):
    return [word.replace("ROOM", server.room) for word in command]


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_json_is_gnocchis(server, gnudi_prints, gnocchi_prints, command):
    asked = [*words(command, server), "-f", "json"]
    expected = json.loads(gnocchi_prints(*asked))
    assert expected, "something is compared"
    printed = json.loads(gnudi_prints(*asked))
    assert printed == expected
    if isinstance(printed, list):
        assert [list(row) for row in printed] == [list(row) for row in expected], "columns in their order"


FORMS = [(COMMANDS[number], form) for number in (0, 2, 9, 12, 13, 16) for form in ("table", "csv", "value")
         # The client has no CSV of a single thing.
         if not (form == "csv" and "show" in COMMANDS[number])]


@pytest.mark.parametrize(("command", "form"), FORMS)
def test_other_formats_are_gnocchis(server, gnudi_prints, gnocchi_prints, command, form):
    asked = [*words(command, server), "-f", form]
    assert gnudi_prints(*asked) == gnocchi_prints(*asked)


@pytest.mark.parametrize("options", [
    ["-f", "csv", "--quote", "all"],
    ["-f", "csv", "--quote", "minimal"],
    ["-f", "csv", "--quote", "none", "-c", "name", "-c", "resource_id", "-c", "unit"],
    ["-f", "value", "--sort-column", "name", "--sort-column", "id", "--sort-descending"],
    ["-f", "value", "--sort-column", "Resource ID", "--sort-column", "colour", "--sort-ascending"],
    ["--marker", "ROOM", "--sort", "id:asc", "--print-empty", "--max-width", "0"],
    ["--marker", "ROOM", "--sort", "id:asc", "--fit-width"],
])
def test_options_of_the_formats_are_gnocchis(server, gnudi_prints, gnocchi_prints, options):
    asked = words(["metric", "list", *options], server)
    assert gnudi_prints(*asked) == gnocchi_prints(*asked)


def test_json_on_a_line(server, gnudi_prints, gnocchi_prints):
    for command in (["resource", "show", HOST], ["metric", "list"]):
        assert gnudi_prints(*command, "-f", "json", "--noindent") == gnocchi_prints(*command, "-f", "json", "--noindent")


def test_how_much_the_client_logs_is_no_matter(server, gnudi_prints):
    assert gnudi_prints("--debug", "-v", "--quiet", "metric", "show", server.room, "-f", "value", "-c", "name") == "room.temperature\n"


def test_global_options_of_the_client(server, gnudi_prints, gnocchi_prints):
    for asked in (["--gnocchi-api-version", "1", "metric", "list", "--timeout", "20.5", "-f", "csv"],
                  ["metric", "list", "-f", "csv", "-q", "--gnocchi-api-version=1"],
                  ["--log-file", "/dev/null", "metric", "list", "-f", "csv", "--collect-timing"]):
        assert gnudi_prints(*asked) == gnocchi_prints(*asked)
    for timeout in ("0", "-1", "nan", "x", "100000"):
        assert "not a number of seconds" in gnudi_prints("metric", "list", f"--timeout={timeout}", fails=2)


def test_numbers_are_printed_as_by_python(server, gnudi_prints, gnocchi_prints):
    client = server.client()
    number = {"type": "number", "required": False}
    client.post("/v1/resource_type", {"name": "scale", "attributes": {"small": number, "large": number}}).expect(201)
    client.post("/v1/resource/scale", {"id": "scale-1", "small": 1e-5, "large": 1e16}).expect(201)
    for form in (["json"], ["json", "--noindent"], ["value"], ["table"]):
        asked = ["resource", "show", "-t", "scale", "scale-1", "-f", *form]
        assert gnudi_prints(*asked) == gnocchi_prints(*asked)
    client.request("DELETE", "/v1/resource/generic/scale-1").expect(204)
    client.request("DELETE", "/v1/resource_type/scale").expect(204)


def test_columns_are_chosen(server, gnudi_prints, gnocchi_prints):
    asked = ["metric", "list", "-c", "name", "--column", "id", "-f", "value"]
    assert gnudi_prints(*asked) == gnocchi_prints(*asked)
    assert "Recognized columns are" in gnudi_prints("metric", "list", "-c", "colour", fails=1)


def test_a_metric_lives(gnudi_prints):
    created = json.loads(gnudi_prints("metric", "create", "fan", "-a", "low", "-u", "rpm", "-f", "json"))
    assert (created["name"], created["unit"], created["archive_policy_name"]) == ("fan", "rpm", "low")
    shown = json.loads(gnudi_prints("metric", "show", "fan", "-f", "json"))
    assert (shown["id"], shown["archive_policy/name"], shown["resource/id"]) == (created["id"], "low", None)
    owned = json.loads(gnudi_prints("metric", "create", "fan", "--resource-id", HOST, "-f", "json"))
    assert owned["resource_id"] is not None
    gnudi_prints("metric", "delete", "--resource-id", HOST, "fan")
    gnudi_prints("metric", "delete", created["id"])
    assert "no metric has the name fan" in gnudi_prints("metric", "show", "fan", fails=1)


def test_names_are_looked_up(server, gnudi_prints):
    listed = gnudi_prints("metric", "list", "--name", "r*m.temp*", "-f", "value", "-c", "name")
    assert listed == "room.temperature\n"
    assert gnudi_prints("metric", "list", "--name", "room_temperature", "-f", "json") == "[]\n"
    shown = json.loads(gnudi_prints("metric", "show", "room.temperature", "-f", "json"))
    assert shown["id"] == server.room
    complaint = gnudi_prints("metric", "show", "cpu", fails=1)
    assert "2 metrics have the name cpu" in complaint and complaint.count(" of resource ") == 2
    one = complaint.split()[-4]
    assert json.loads(gnudi_prints("metric", "show", one, "-f", "json"))["name"] == "cpu"


def test_a_course_is_drawn(server, gnudi_prints):
    printed = gnudi_prints("measures", "show", "room.temperature", "--granularity", "60")
    line, summary, rule = printed.splitlines()[:3]
    assert line == "▁▂▃▅▆▇█" * 8 + "▁▂▃▅"
    assert summary == "60 s: 60 points, 20 to 23"
    assert rule.startswith("+---") and printed.count("\n") == 2 + 60 + 4
    both = gnudi_prints("measures", "show", "room.temperature")
    assert "3600 s: 1 point, " in both and "60 s: 60 points" in both
    for form in ("json", "csv", "value"):
        assert "▁" not in gnudi_prints("measures", "show", "room.temperature", "-f", form)


def test_the_last_of_it(server, gnudi_prints):
    metric = json.loads(gnudi_prints("metric", "create", "now", "-a", "medium", "-f", "json"))["id"]
    times = [("-90 minutes", 1), ("-30 minutes", 2), ("-1 minute", 3)]
    measures = [{"timestamp": time, "value": value} for time, value in times]
    server.client().post(f"/v1/metric/{metric}/measures", measures).expect(202)
    shown = ["measures", "show", "now", "--granularity", "60", "--refresh", "-f", "value", "-c", "value"]
    assert gnudi_prints(*shown, "--last", "1h") == "2.0\n3.0\n"
    assert gnudi_prints(*shown, "--last", "10 minutes") == "3.0\n"
    assert gnudi_prints(*shown, "--start", "-2h", "--stop", "-1h") == "1.0\n"
    aggregated = gnudi_prints("aggregates", f"(metric {metric} mean)", "--granularity", "60", "--last", "1h", "-f", "value", "-c", "value")
    assert aggregated == "2.0\n3.0\n"
    gnudi_prints("metric", "delete", metric)


def test_measures_are_added(gnudi_prints):
    gnudi_prints("metric", "create", "added", "-a", "low")
    gnudi_prints("measures", "add", "added", "-m", "2015-03-06T14:33:57@43.1", "--measure", "2015-03-06T14:34:12@12")
    shown = gnudi_prints("measures", "show", "added", "--granularity", "300", "--refresh", "--aggregation", "max", "-f", "value")
    assert shown == "2015-03-06T14:30:00+00:00 300.0 43.1\n"
    gnudi_prints("measures", "add", "added", "-m", "20150307@7")
    shown = gnudi_prints("measures", "show", "added", "--granularity", "300", "--refresh", "--start", "20150307", "-f", "value")
    assert shown == "2015-03-07T00:00:00+00:00 300.0 7.0\n"
    assert "is no number" in gnudi_prints("measures", "add", "added", "-m", "now@much", fails=2)
    refused = gnudi_prints("measures", "add", "added", "-m", "soon@1", fails=1)
    assert "Unable to convert timestamps" in refused and "(HTTP 400)" in refused
    gnudi_prints("metric", "delete", "added")


def test_times_are_those_of_the_machine(server, gnudi_prints):
    asked = ["measures", "show", server.room, "--granularity", "3600", "-f", "value", "-c", "timestamp"]
    assert gnudi_prints(*asked, TZ="Asia/Tokyo") == "2026-11-21T19:00:00+09:00\n"
    assert gnudi_prints(*asked, "--utc", TZ="Asia/Tokyo") == "2026-11-21T10:00:00+00:00\n"


def test_options_may_stand_before_the_command(server, gnudi_prints):
    nowhere = {"GNOCCHI_ENDPOINT": "http://127.0.0.1:1"}
    printed = gnudi_prints("--endpoint", f"http://127.0.0.1:{server.port}", "--user", "me", "metric", "list", "-f", "json", **nowhere)
    assert json.loads(printed)


@pytest.mark.parametrize(("arguments", "status", "complaint"), [
    (["metric", "show", "00000000-0000-4000-8000-000000000000"], 1, "Metric 00000000-0000-4000-8000-000000000000 does not exist (HTTP 404)"),
    (["metric", "delete", ""], 1, "the metric has no name"),
    (["metric", "show", "-r", "nowhere", "cpu"], 1, "does not exist (HTTP 404)"),
    (["metric", "create", "x", "-a", "nowhere"], 1, "(HTTP 400)"),
    (["measures", "show", "room.temperature", "--aggregation", "most"], 1, "Aggregation method does not exist for this metric: "),
    (["measures", "show", "room.temperature", "--start", "soon"], 1, "(HTTP 400)"),
    (["measures", "show", "room.temperature", "--last", "soon"], 2, "not a span of time"),
    (["measures", "show", "room.temperature", "--last", "1h", "--start", "-2h"], 2, "cannot be used with"),
    (["resource", "search", "rack ="], 1, "(HTTP 400)"),
    (["resource", "show", "nowhere"], 1, "(HTTP 404)"),
    (["aggregates", "(mean"], 1, "(HTTP 400)"),
    (["metric", "list", "-f", "xml"], 2, "possible values: table, json, value, csv"),
    (["metric", "list", "--endpoint", "127.0.0.1:1"], 1, "http"),
    (["metric", "list", "--os-auth-type", "v3kerberos"], 1, "gnocchi-basic and gnocchi-noauth"),
    (["metric", "list", "--os-auth-type", "password"], 1, "OS_AUTH_URL is needed"),
    (["metric"], 2, "Usage"),
])
def test_what_is_wrong_is_said(gnudi_prints, arguments, status, complaint):
    said = gnudi_prints(*arguments, fails=status)
    assert complaint in said and "panicked" not in said, said


def test_a_server_that_is_away(gnudi_prints):
    for command, fails in ((["metric", "list"], 1), (["status"], 2)):
        said = gnudi_prints(*command, fails=fails, GNOCCHI_ENDPOINT="http://127.0.0.1:1")
        assert "no answer from http://127.0.0.1:1" in said and "`gnudi serve`" in said
        assert said.count("\n") == 1


def test_names_do_not_steer_the_terminal(server, gnudi_prints):
    evil = server.client().post("/v1/metric", {"name": "a\u001b[2Jb", "archive_policy_name": "low"}).expect(201).json()["id"]
    printed = gnudi_prints("metric", "show", evil)
    assert "\x1b" not in printed and "a\\u{1b}[2Jb" in printed
    gnudi_prints("metric", "delete", evil)


def test_a_reader_may_go(server):
    """As `gnudi metric list | head -0`."""
    import subprocess

    variables = {"GNOCCHI_ENDPOINT": f"http://127.0.0.1:{server.port}"}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{program.binary()} metric list --utc | true"],
                          capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 2, "--utc is no option of it"
    for line in ("metric list | true", "config | true", "status --watch --interval 1 -f value -c sacks | head -n 1 > /dev/null"):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{program.binary()} {line}"],
                              capture_output=True, text=True, check=False, env=variables, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), line


def test_a_history_is_shown_to_its_end(gnudi):
    """However few revisions the server has on a page."""
    server = gnudi(config="[api]\nmax_limit = 2\n")
    make_hosts(server.client())
    for rack in range(5):
        server.client().request("PATCH", "/v1/resource/host/web-1", {"rack": f"new-{rack}"}).expect(200)
    ask = lambda *words: program.run("resource", "history", "-t", "host", "web-1", "-f", "value", "-c", "rack", *words,
                                     env=server_variables(server), timeout_s=60).stdout.split()
    assert ask("--sort", "revision_start:asc") == ["r0", "r7", *(f"new-{rack}" for rack in range(5))]
    assert ask("--sort", "revision_start:desc", "--limit", "1") == ["new-4"]


def test_no_more_than_the_limit_is_listed(gnudi):
    """Gnocchi's client lists whole pages of the server."""
    server = gnudi(config="[api]\nmax_limit = 2\n")
    for number in range(5):
        server.client().post("/v1/metric", {"name": f"m{number}", "archive_policy_name": "low"}).expect(201)
    listed = lambda limit: program.run("metric", "list", "--sort", "name:asc", "--limit", limit, "-f", "value", "-c", "name",
                                       env=server_variables(server), timeout_s=60).stdout.split()
    assert listed(3) == ["m0", "m1", "m2"]
    assert listed(9) == ["m0", "m1", "m2", "m3", "m4"]


def test_wide_characters_keep_tables_straight(server, gnudi_prints, gnocchi_prints):
    made = server.client().post("/v1/metric", {"name": "温度計 é", "unit": "℃", "archive_policy_name": "low"}).expect(201).json()["id"]
    for form in (["table"], ["json", "-c", "name"]):
        assert gnudi_prints("metric", "list", "-f", *form) == gnocchi_prints("metric", "list", "-f", *form)
    gnudi_prints("metric", "delete", made)


def test_a_full_disk_ends_no_work(server, tmp_path):
    """What a command says about its work is left out; a result that cannot be printed is an error."""
    import subprocess

    run = lambda line: subprocess.run(["bash", "-c", f"{program.binary()} {line}"], capture_output=True, text=True, check=False, timeout=60)
    done = run(f"backup {tmp_path}/backups --data-dir {server.data_dir} > /dev/full 2> /dev/full")
    assert done.returncode == 0
    backups = [path for path in (tmp_path / "backups").iterdir() if path.is_dir()]
    assert len(backups) == 1 and not backups[0].name.endswith(".partial")
    done = run("config > /dev/full")
    assert done.returncode == 1 and "writing to standard output" in done.stderr
