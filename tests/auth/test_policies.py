"""An operator's policy file is read at the start: each of its rules replaces one of Gnocchi's. An invalid file is refused with file, line
and rule."""

import json

import pytest

from support import gnudi as program

POLICY = {"name": "p", "definition": [{"granularity": "1s", "points": 1}]}


def with_rules(tmp_path, text, more="", name="policy.yaml"):
    """The configuration of a server whose rules stand beside its configuration file."""
    directory = tmp_path / "gnudi-0"
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return more


def metric(client):
    return client.post("/v1/metric", {"archive_policy_name": "low"}).expect(201).json()["id"]


def test_rules_count_one_by_one(gnudi, tmp_path):
    server = gnudi(config=with_rules(tmp_path, '''# what the people of the desk may do
"desk": "user:desk or rule:context_is_admin"
"create archive policy": "rule:desk"
"delete archive policy": [["user:desk", "'p':%(name)s"], "role:admin"]
"get measures": "not user:desk and rule:creator"
'''))
    admin, desk, other = (server.client(name) for name in ["admin", "desk", "other"])
    other.post("/v1/archive_policy", POLICY).expect(403)
    desk.post("/v1/archive_policy", POLICY).expect(201)
    other.delete("/v1/archive_policy/p").expect(403)
    admin.delete("/v1/archive_policy/p").expect(204)
    # A rule that has none keeps Gnocchi's.
    desk.get("/v1/status").expect(403)
    admin.get("/v1/status").expect(200)
    own, others = metric(other), metric(desk)
    other.get(f"/v1/metric/{own}/measures").expect(200)
    desk.get(f"/v1/metric/{others}/measures").expect(403)
    admin.get(f"/v1/metric/{own}/measures").expect(403)
    desk.post(f"/v1/metric/{others}/measures", []).expect(202)


def test_things_are_asked_for_what_they_have(gnudi, tmp_path):
    server = gnudi(config=with_rules(tmp_path, '''
"create resource": "role:admin or user:%(project_id)s"
"get resource": "'blue':%(colour)s and not None:%(project_id)s"
"get metric": "user:%(resource.user_id)s"
"create metric": "not 'secret':%(name)s"
"create resource type": "'painted':%(name)s"
"get archive policy": "'low':%(name)s"
'''))
    jd = server.client("jd")
    jd.post("/v1/resource_type", {"name": "plain"}).expect(403)
    colour = {"colour": {"type": "string", "required": False}}
    jd.post("/v1/resource_type", {"name": "painted", "attributes": colour}).expect(201)
    ids = [f"00000000-0000-0000-0000-{number:012}" for number in range(4)]
    create = lambda number, **more: jd.post("/v1/resource/painted", {"id": ids[number], **more})
    create(0).expect(403)
    create(0, project_id="other").expect(403)
    create(0, project_id="jd", colour="blue", user_id="jd", metrics={"m": {"archive_policy_name": "low"}}).expect(201)
    create(1, project_id="jd", colour="red", user_id="other", metrics={"m": {"archive_policy_name": "low"}}).expect(201)
    create(2, project_id="jd", metrics={"secret": {"archive_policy_name": "low"}}).expect(403)
    assert [jd.get(f"/v1/resource/painted/{ids[number]}").status for number in range(3)] == [200, 403, 404]
    assert [jd.get(f"/v1/resource/painted/{ids[number]}/metric/m").status for number in range(2)] == [200, 403]
    assert [jd.get(f"/v1/archive_policy/{name}").status for name in ["low", "high", "none"]] == [200, 403, 404]


def test_a_new_resource_is_asked_for_its_attributes(gnudi, tmp_path):
    server = gnudi(config=with_rules(tmp_path, '"create resource": "role:admin or not \'red\':%(colour)s"\n'))
    colour = {"colour": {"type": "string", "required": False}}
    server.client().post("/v1/resource_type", {"name": "painted", "attributes": colour}).expect(201)
    jd = server.client("jd")
    jd.post("/v1/resource/painted", {"id": "a", "colour": "red"}).expect(403)
    jd.post("/v1/resource/painted", {"id": "a"}).expect(201)
    jd.post("/v1/resource/painted", {"id": "b", "colour": "blue"}).expect(201)
    # One that moves to another project, as it will be there.
    jd.patch("/v1/resource/painted/b", {"project_id": "p", "colour": "red"}).expect(403)
    jd.patch("/v1/resource/painted/b", {"project_id": "p"}).expect(200)


def test_lists_are_cut_where_the_file_says_so(gnudi, tmp_path):
    rules = '''
"list metric": "rule:admin_or_creator"
"list resource": "rule:creator"
"search resource": "role:admin"
"delete resources": "rule:creator"
'''
    server = gnudi(config=with_rules(tmp_path, rules))
    admin, one, two = (server.client(name) for name in ["admin", "one", "two"])
    for client in [one, two]:
        metric(client)
        client.post("/v1/resource/generic", {"id": f"of {client.user}"}).expect(201)
    creators = lambda client, path: sorted(item["creator"] for item in client.get(path).expect(200).json())
    assert creators(admin, "/v1/metric") == ["one", "two"]
    assert creators(one, "/v1/metric") == ["one"]
    assert creators(one, "/v1/resource/generic?history=true") == ["one"]
    one.post("/v1/search/resource/generic", {"=": {"creator": "one"}}).expect(403)
    assert len(admin.post("/v1/search/resource/generic", {"like": {"creator": "%"}}).expect(200).json()) == 2
    asked = {"operations": "(metric m mean)", "resource_type": "generic", "search": "creator = 'one'"}
    assert [client.post("/v1/aggregates", asked).status for client in [admin, one]] == [404, 403]
    path = "/v1/aggregation/resource/generic/metric/m"
    assert [client.post(path, {"=": {"creator": "one"}}).status for client in [admin, one]] == [200, 403]
    everything = {"like": {"creator": "%"}}
    assert one.request("DELETE", "/v1/resource/generic", everything).expect(200).json() == {"deleted": 1}
    assert creators(two, "/v1/resource/generic") == ["two"]


def test_nobody_takes_a_metric_or_a_resource_of_others(gnudi):
    server = gnudi()
    one, two = server.client("one"), server.client("two")
    theirs = metric(two)
    one.post("/v1/resource/generic", {"id": "mine", "metrics": {"m": theirs}}).expect(403)
    one.post("/v1/resource/generic", {"id": "mine"}).expect(201)
    one.post("/v1/resource/generic/mine/metric", {"m": theirs}).expect(403)
    one.request("PATCH", "/v1/resource/generic/mine", {"metrics": {"m": theirs}}).expect(403)
    assert two.get(f"/v1/metric/{theirs}").expect(200).json()["resource"] is None
    shared = "11111111-1111-1111-1111-111111111111"
    two.post("/v1/resource/generic", {"id": shared}).expect(201)
    measures = {shared: {"m": [{"timestamp": 1, "value": 1}]}}
    path = "/v1/batch/resources/metrics/measures?create_metrics=true"
    one.post(path, measures).expect(403)
    assert two.get(f"/v1/resource/generic/{shared}").expect(200).json()["metrics"] == {}
    two.post(path, measures).expect(202)


@pytest.mark.parametrize("rule", ["post measures", "create metric"])
def test_measures_that_a_rule_refuses_create_no_metric(gnudi, tmp_path, rule):
    """Gnocchi refuses them, too, by `post measures` once it has created the metric."""
    server = gnudi(config=with_rules(tmp_path, f'"{rule}": "not \'denied.f\':%(name)s"\n'))
    jd = server.client("jd")
    server.client().post("/v1/resource_type", {"name": "host"}).expect(201)
    write = lambda line: jd.post("/v1/influxdb/write?db=host", line)
    write(b"denied,host=h f=1").expect(403)
    jd.get("/v1/resource/host/h").expect(404)
    write(b"told,host=h f=1").expect(204)
    write(b"told,host=h f=2\ndenied,host=h f=1").expect(403)
    assert list(jd.get("/v1/resource/host/h").expect(200).json()["metrics"]) == ["told.f"]


def test_what_a_metrics_resource_is_refuses_it_on_every_way(gnudi, tmp_path):
    """Where the rule asks for the resource behind a `not`, not looking it up would be a yes."""
    refuses = "role:admin or not 'frozen':%(resource.user_id)s"
    rules = ["post measures", "get metric", "search metric", "get measures", "delete metric"]
    server = gnudi(config=with_rules(tmp_path, "".join(f'"{rule}": "{refuses}"\n' for rule in rules)))
    jd = server.client("jd")
    server.client().post("/v1/resource_type", {"name": "host"}).expect(201)
    id = "00000000-0000-0000-0000-000000000001"
    jd.post("/v1/resource/host", {"id": id, "metrics": {"m": {"archive_policy_name": "low"}}}).expect(201)
    measures = [{"timestamp": 1, "value": 1}]
    line = f"m,host={id} f=1".encode()
    jd.post("/v1/influxdb/write?db=host", line).expect(204)
    named = jd.get(f"/v1/resource/host/{id}").expect(200).json()["metrics"]
    metric, attached = named["m"], {"id": "other", "metrics": {"m": named["m"]}}
    jd.post("/v1/influxdb/write?db=host", line).expect(204)
    ways = [
        ("POST", f"/v1/metric/{metric}/measures", measures),
        ("POST", f"/v1/resource/host/{id}/metric/m/measures", measures),
        ("POST", "/v1/batch/metrics/measures", {metric: measures}),
        ("POST", "/v1/batch/resources/metrics/measures", {id: {"m": measures}}),
        ("POST", "/v1/batch/resources/metrics/measures?create_metrics=true", {id: {"m": measures, "new": measures}}),
        ("POST", "/v1/influxdb/write?db=host", line),
        ("GET", f"/v1/metric/{metric}", None),
        ("GET", f"/v1/metric/{metric}/measures", None),
        ("GET", f"/v1/aggregation/metric?metric={metric}", None),
        ("POST", f"/v1/search/metric?metric_id={metric}", {">": 0}),
        ("POST", "/v1/aggregation/resource/host/metric/m", {}),
        ("POST", "/v1/aggregates", {"operations": f"(metric {metric} mean)"}),
    ]
    answers = lambda: [jd.request(*way).status for way in ways]
    assert {status // 100 for status in answers()} == {2}, answers()
    jd.patch(f"/v1/resource/host/{id}", {"user_id": "frozen"}).expect(200)
    # Who is let in makes the server remember the metric, which lets nobody else in.
    for _ in range(2):
        server.client().post("/v1/influxdb/write?db=host", line).expect(204)
    assert answers() == [403] * len(ways)
    jd.post("/v1/resource/host", attached).expect(403)
    jd.delete(f"/v1/metric/{metric}").expect(403)


def test_who_may_create_nothing_in_a_project_moves_nothing_there(gnudi, tmp_path):
    server = gnudi(config=with_rules(tmp_path, '"create resource": "role:admin or user:%(project_id)s"\n'))
    admin, jd = server.client(), server.client("jd")
    jd.post("/v1/resource/generic", {"id": "a", "project_id": "other"}).expect(403)
    made = jd.post("/v1/resource/generic", {"id": "a", "project_id": "jd"}).expect(201).json()["id"]
    path = f"/v1/resource/generic/{made}"
    for change, expected in [({"project_id": "other"}, 403), ({"project_id": None}, 403), ({"project_id": "jd"}, 200),
                             ({"user_id": "other"}, 200)]:
        assert jd.patch(path, change).status == expected, change
    admin.patch(path, {"project_id": "other"}).expect(200)
    # What is there already need not be moved.
    assert jd.patch(path, {"project_id": "other", "user_id": "third"}).expect(200).json()["project_id"] == "other"


@pytest.mark.parametrize("text, said", [
    ('a: "@"\n"get status": "role:admin or"\n', 'policy.yaml, line 2, rule "get status": a check is missing at the end'),
    ("a: rule:b\nb: rule:a\n", "rules refer to each other in a circle"),
    ("a: http://127.0.0.1/\n", "calls an external server"),
    ("a: [b\n", "policy.yaml: "),
    ('"get status":\n', "there is nothing behind the colon"),
])
def test_what_is_wrong_stops_the_start(tmp_path, text, said):
    (tmp_path / "policy.yaml").write_text(text)
    config = tmp_path / "gnocchi.conf"
    config.write_text("")
    ended = program.run("serve", "--config-file", config, "--data-dir", tmp_path / "data", "--port", 0, timeout_s=60)
    assert ended.returncode != 0 and said in ended.stderr, ended.stderr


def test_where_files_are_looked_for(gnudi, tmp_path):
    folder = tmp_path / "gnudi-0" / "more.d"
    folder.mkdir(parents=True)
    (folder / "1.yaml").write_text('"get status": "!"\n"list archive policy": "!"\n')
    (folder / "2.json").write_text(json.dumps({"get status": "user:jd", "get_status": "@"}))
    (folder / ".3.yaml").write_text("nonsense: [")
    (tmp_path / "gnudi-0" / "own.yaml").write_text('"list archive policy": "@"\n"get status": "@"\n')
    server = gnudi(config="[oslo_policy]\npolicy_file = own.yaml\npolicy_dirs = more.d\n")
    admin, jd = server.client("admin"), server.client("jd")
    assert [jd.get("/v1/status").status, admin.get("/v1/status").status] == [200, 403]
    jd.get("/v1/archive_policy").expect(403)
    assert 'is "get status" meant?' in server.log(), server.log()
    config = tmp_path / "other.conf"
    config.write_text("[oslo_policy]\npolicy_file = missing.yaml\n")
    ended = program.run("serve", "--config-file", config, "--data-dir", tmp_path / "data", "--port", 0, timeout_s=60)
    assert ended.returncode != 0 and "missing.yaml: there is no such file" in ended.stderr, ended.stderr


def test_folders_of_rules_add_up(gnudi, tmp_path):
    with_rules(tmp_path, '"get status": "user:jd"\n"list archive policy": "!"\n', name="a.d/1.yaml")
    with_rules(tmp_path, '"list archive policy": "@"\n', name="b.d/1.yaml")
    server = gnudi(config="[oslo_policy]\npolicy_dirs = a.d\npolicy_dirs = b.d\n")
    admin, jd = server.client("admin"), server.client("jd")
    assert [jd.get("/v1/status").status, admin.get("/v1/status").status] == [200, 403]
    jd.get("/v1/archive_policy").expect(200)


def test_a_file_of_the_former_name_is_warned_of(gnudi, tmp_path):
    server = gnudi(config=with_rules(tmp_path, json.dumps({"get status": "@"}), name="policy.json"))
    server.client("jd").get("/v1/status").expect(403)
    assert "policy.json: its rules are not read" in server.log(), server.log()
