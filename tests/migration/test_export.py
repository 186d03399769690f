"""`gnudi export gnocchi` and `gnudi export post`: a real Gnocchi filled at random is imported, gnudi serves in its place, and then
Gnocchi is updated with everything new in gnudi. Both must give the same responses to everything."""

import http.server
import itertools
import json
import random
import re
import sqlite3
import subprocess
import threading
import time
import urllib.parse
import uuid

import psycopg2
import pytest

from migration.targets import Embedded, Shared
from migration.world import POLICIES, World, check_same, metadata, series
from support import gnudi as program
from support.engines import databases, sections

BATCH_MEASURES = 40
# Of Gnocchi's own making for each change that comes to it.
STAMPS = ("revision", "revision_start", "revision_end")


class Back:
    """A Gnocchi that was imported into a gnudi which keeps a journal, and the file between them."""

    def __init__(self, gnocchi, target, seed, tmp_path):
        self.rng = random.Random(f"export {seed}")
        self.gnocchi, self.target = gnocchi, target
        self.world = World(gnocchi.client(), self.rng)
        self.file = tmp_path / "back.jsonl"
        # Ids of metrics that gnudi has made: in Gnocchi.
        self.made, self.numbers, self.used = {}, itertools.count(100), {}

    def import_all(self):
        self.patch_type([{"op": "add", "path": f"/attributes/{name}", "value": {"type": "string", "required": False}}
                         for name in ("gone", "turned")])
        self.world.make()
        machines = [resource for resource, of_type in self.world.resources.items() if of_type == "machine"]
        self.world.client.patch(f"/v1/resource/machine/{machines[0]}", {"turned": "a text"}).expect(200)
        self.world.post([self.gnocchi.client()], self.world.requests(4))
        self.world.now_s += 1000
        done = program.run("import", "gnocchi", "--config-file", self.gnocchi.directory / "gnocchi.conf", *self.target.arguments, timeout_s=120)
        assert done.returncode == 0, done.stderr
        self.imported = set(self.world.metrics)

    def serve(self):
        self.target.serve()
        self.world.client = self.target.clients()[0]

    def crash(self):
        self.target.crash()
        self.world.client = self.target.clients()[0]

    def measure(self, requests):
        """Posts to gnudi by every route. Within a minute points may be late: what is older than the back window, Gnocchi takes or leaves
        depending on what it happens to process at once; so it is with two values at one time."""
        clients = self.target.clients()
        for _ in range(requests):
            self.world.now_s += self.rng.choice([0, 60, 400, 4000])
            minute = self.world.now_s // 60 * 60
            request = {}
            for metric in self.rng.sample(sorted(self.world.metrics), len(self.world.metrics) * 2 // 3):
                times = {minute + self.rng.randint(0, 59) + self.rng.choice([0, 0.25, 0.000001]) for _ in range(self.rng.choice([1, 4, 20]))}
                times -= self.used.setdefault(metric, set())
                self.used[metric] |= times
                if times:
                    request[metric] = [{"timestamp": time, "value": self.rng.choice([1.5, -3, 7e-3, 1e12]) * self.rng.random()}
                                       for time in sorted(times)]
            client = self.rng.choice(clients)
            if self.rng.random() < 0.5:
                client.post("/v1/batch/metrics/measures", request).expect(202)
            else:
                for metric, measures in request.items():
                    client.post(f"/v1/metric/{metric}/measures", measures).expect(202)

    def change(self):
        """Resources and metrics that are made, changed and deleted."""
        world, client, rng = self.world, self.world.client, self.rng
        for resource in rng.sample(sorted(world.resources), len(world.resources) // 2):
            world.change(resource)
        for _ in range(4):
            world.make_resource(next(self.numbers))
        self.delete_metric(lambda shown: True)
        for resource in rng.sample(sorted(world.resources), 3):
            name, policy = f"later.{next(self.numbers)}", world.policy()
            made = client.post(f"/v1/resource/generic/{resource}/metric", {name: {"archive_policy_name": policy, "unit": "x"}})
            made.expect(200)
            world.metrics[client.get(f"/v1/resource/generic/{resource}/metric/{name}").expect(200).json()["id"]] = policy
        for _ in range(2):
            policy = world.policy()
            made = client.post("/v1/metric", {"archive_policy_name": policy, "name": f"later {len(world.metrics)} é"})
            world.metrics[made.expect(201).json()["id"]] = policy
        self.delete_resource()
        self.replace_metric()

    def delete_metric(self, wanted):
        for metric in self.rng.sample(sorted(self.world.metrics), len(self.world.metrics)):
            shown = self.world.client.get(f"/v1/metric/{metric}").expect(200).json()
            if wanted(shown):
                self.world.client.delete(f"/v1/metric/{metric}").expect(204)
                del self.world.metrics[metric]
                return shown
        raise AssertionError("no such metric")

    def delete_resource(self):
        resource = self.rng.choice(sorted(self.world.resources))
        shown = self.world.client.get(f"/v1/resource/generic/{resource}").expect(200).json()
        self.world.client.delete(f"/v1/resource/generic/{resource}").expect(204)
        del self.world.resources[resource]
        for metric in shown["metrics"].values():
            self.world.metrics.pop(metric, None)

    def replace_metric(self):
        """One that is deleted and made anew, under its name."""
        shown = self.delete_metric(lambda shown: shown["resource"] is not None)
        resource, name = shown["resource"]["id"], shown["name"]
        policy = self.world.policy()
        client = self.world.client
        client.post(f"/v1/resource/generic/{resource}/metric", {name: {"archive_policy_name": policy}}).expect(200)
        self.world.metrics[client.get(f"/v1/resource/generic/{resource}/metric/{name}").expect(200).json()["id"]] = policy

    def make_defined(self):
        """Metrics with definitions of their own, two of which are the same: alone and of a resource."""
        client = self.world.client
        for number, methods in enumerate((["mean", "count"], ["mean", "count"], ["max"])):
            own = {"definition": [{"granularity": "1m", "points": 700}], "aggregation_methods": methods, "back_window": 1}
            name = f"defined.{next(self.numbers)}"
            if number == 1:
                path = f"/v1/resource/generic/{self.rng.choice(sorted(self.world.resources))}/metric"
                client.post(path, {name: {"archive_policy": own, "unit": "x"}}).expect(200)
                made = client.get(f"{path}/{name}").expect(200).json()
                policy = made["archive_policy"]["name"]
            else:
                made = client.post("/v1/metric", {"archive_policy": own, "name": name}).expect(201).json()
                policy = made["archive_policy_name"]
            POLICIES[policy] = ([("1m", 700)], methods, 1)
            self.world.metrics[made["id"]] = policy
        assert sum(policy.startswith("definition:") for policy in POLICIES) == 2

    def change_definitions(self):
        client = self.world.client
        POLICIES["later"] = ([("1m", 500)], ["mean", "count"], 2)
        client.post("/v1/archive_policy", {"name": "later", "definition": [{"granularity": "1m", "points": 500}],
                                           "aggregation_methods": ["mean", "count"], "back_window": 2}).expect(201)
        client.patch("/v1/archive_policy/unused", {"definition": [{"granularity": "1d", "points": 20}]}).expect(200)
        client.post("/v1/archive_policy_rule", {"name": "later-rule", "metric_pattern": "later*", "archive_policy_name": "later"}).expect(201)
        client.delete("/v1/archive_policy_rule/disk-rule").expect(204)
        client.post("/v1/resource_type", {"name": "rack", "attributes": {"row": {"type": "number", "required": True}}}).expect(201)
        made = client.post("/v1/resource/rack", {"id": str(uuid.UUID(int=77)), "row": 3, "started_at": "2023-01-01T00:00:00"})
        self.world.resources[made.expect(201).json()["id"]] = "rack"
        self.patch_type([
            {"op": "add", "path": "/attributes/zone", "value": {"type": "string", "required": True, "options": {"fill": "z1"}}},
            {"op": "add", "path": "/attributes/is_up", "value": {"type": "bool", "required": True, "options": {"fill": True}}},
            {"op": "add", "path": "/attributes/note", "value": {"type": "string", "required": False}},
            {"op": "remove", "path": "/attributes/gone"},
            {"op": "remove", "path": "/attributes/turned"}])
        self.patch_type([{"op": "add", "path": "/attributes/turned", "value": {"type": "number", "required": True, "options": {"fill": 7}}}])
        attributes = self.world.attributes
        more = lambda is_new: {"zone": "z2", "turned": 8, "is_up": False} if is_new else {"note": "n"} if self.rng.random() < 0.3 else {}
        self.world.attributes = lambda is_new: attributes(is_new) | more(is_new)

    def patch_type(self, patch):
        headers = {"Content-Type": "application/json-patch+json"}
        self.world.client.patch("/v1/resource_type/machine", patch, headers=headers).expect(200)

    def export_command(self):
        journals = [argument for journal in self.target.journals for argument in ("--journal", journal)]
        return ["export", "gnocchi", "--config-file", self.gnocchi.directory / "gnocchi.conf", *self.target.arguments, *journals,
                "--output", self.file, "--batch-measures-max", BATCH_MEASURES]

    def export(self, cut=True):
        """Exports, cuts the file somewhere behind what was posted, as an interruption does, and exports again."""
        self.target.stop()
        before = self.file.stat().st_size if self.file.exists() else 0
        done = program.run(*self.export_command(), timeout_s=60)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "  0 left out" in done.stdout, done.stdout
        if cut:
            whole = self.file.stat().st_size
            with open(self.file, "r+b") as file:
                file.truncate(self.rng.randint(before, whole))
            done = program.run(*self.export_command(), timeout_s=60)
            assert done.returncode == 0, done.stdout + done.stderr

    def post_command(self):
        return ["export", "post", self.file, "--gnocchi", f"http://127.0.0.1:{self.gnocchi.port}"]

    def post(self):
        """Posts, is killed in the middle, and posts the rest."""
        process = subprocess.Popen([program.binary(), *map(str, self.post_command())], stdout=subprocess.PIPE, text=True)
        time.sleep(self.rng.uniform(0.1, 1))
        process.kill()
        told = process.communicate()[0]
        done = program.run(*self.post_command(), timeout_s=120)
        assert done.returncode == 0, done.stdout + done.stderr
        again = program.run(*self.post_command(), timeout_s=60)
        assert (again.returncode, again.stdout.splitlines()[1].strip()[:10]) == (0, "0 requests"), again.stdout
        self.made |= dict(re.findall(r"metric (\S+) is (\S+) in Gnocchi", told + done.stdout))
        # What a kill kept from being told stands beside the file.
        state = self.file.with_name(self.file.name + ".posted").read_text(encoding="utf-8")
        lines = [line.split() for line in state.splitlines()]
        recorded = dict(words[2:] for words in lines if words[0] != "attempt" and len(words) == 4)
        assert self.made.items() <= recorded.items()
        self.made = recorded

    def find_made(self):
        """{id in gnudi: id in Gnocchi} of all metrics: of resources by their names, others as the post says."""
        ids, ours = {}, self.target.clients()[0]
        for metric in self.world.metrics:
            shown = ours.get(f"/v1/metric/{metric}").expect(200).json()
            if metric in self.imported:
                ids[metric] = metric
            elif shown["resource"] is None:
                ids[metric] = self.made[metric]
            else:
                path = f"/v1/resource/generic/{shown['resource']['id']}/metric/{urllib.parse.quote(shown['name'])}"
                ids[metric] = self.gnocchi.client().get(path).expect(200).json()["id"]
        return ids

    def compare(self):
        self.target.serve(is_journaled=False)
        (client, *_) = self.target.clients()
        ids = self.find_made()
        theirs = series(self.gnocchi.client(), {ids[metric]: policy for metric, policy in self.world.metrics.items()})
        ours = series(client, self.world.metrics)
        ours = {(ids[metric], *rest): rows for (metric, *rest), rows in ours.items()}
        check_same(comparable(ours), comparable(theirs), "series")
        assert ours.keys() == theirs.keys()
        # The paths of metrics name them: each side is asked for its own.
        metrics, self.world.metrics = self.world.metrics, {}
        ours = self.shown(client, ids)
        theirs = self.shown(self.gnocchi.client(), {})
        self.world.metrics = metrics
        check_same(ours, theirs, "metadata")
        check_same(theirs, ours, "metadata")
        self.target.stop()

    def shown(self, client, ids):
        answers = metadata(client, self.world)
        # A definition has a name like any other in Gnocchi, and is listed there.
        policies = answers["/v1/archive_policy"]
        answers["/v1/archive_policy"] = [policy for policy in policies if not policy["name"].startswith("definition-")]
        answers = json.dumps(answers).replace("definition:", "definition-")
        for ours, theirs in ids.items():
            answers = answers.replace(ours, theirs)
        return unstamped(json.loads(answers))


def comparable(found):
    """Without what depends on how many requests Gnocchi processes at once: rates at the edge of the back window, and a percentile's last
    digits."""
    digits = lambda method, value: f"{value:.9g}" if method.endswith("pct") else value
    return {(metric, method, granularity): [(*at, digits(method, value)) for *at, value in rows]
            for (metric, method, granularity), rows in found.items() if not method.startswith("rate:")}


def unstamped(answer):
    """Without stamps and the numbers of revisions, and without the order of lists and of attributes."""
    if isinstance(answer, dict):
        return {key: unstamped(value) for key, value in answer.items() if key not in STAMPS}
    if isinstance(answer, list):
        return sorted((unstamped(item) for item in answer), key=lambda item: json.dumps(item, sort_keys=True))
    return answer


@pytest.fixture
def shared(request, tmp_path):
    target = Shared(tmp_path, sections(request, "postgresql+redis+redis"))
    yield target
    target.cloud.stop()


@pytest.mark.parametrize("index, into", [("postgresql", "embedded"), pytest.param("mariadb", "shared", marks=pytest.mark.long)])
def test_a_gnocchi_that_is_gone_back_to_has_all_that_came_in(gnocchi, gnudi, seed, tmp_path, request, index, into):
    target = Embedded(gnudi, tmp_path) if into == "embedded" else request.getfixturevalue("shared")
    back = Back(gnocchi(databases=databases(request, index)), target, f"{seed} {into}", tmp_path)
    back.import_all()
    back.serve()
    back.measure(6)
    back.crash()
    back.change_definitions()
    back.change()
    back.make_defined()
    back.measure(6)
    back.export()
    back.post()
    back.compare()
    policies = {policy["name"] for policy in back.gnocchi.client().get("/v1/archive_policy").expect(200).json()}
    assert {policy.replace(":", "-") for policy in POLICIES} <= policies
    # Once more, with the same file: Gnocchi has ids of its own for what was made.
    back.serve()
    back.change()
    back.make_defined()
    back.measure(4)
    back.export()
    back.post()
    back.compare()


def test_what_an_unposted_file_has_is_taken_back(gnocchi, gnudi, seed, tmp_path):
    """Gnocchi knows nothing of the first export when the second one runs: both are posted at once."""
    back = Back(gnocchi(), Embedded(gnudi, tmp_path), f"{seed} twice", tmp_path)
    back.import_all()
    back.serve()
    world, types = back.world, {"kept": uuid.UUID(int=501), "gone": uuid.UUID(int=502), "other": uuid.UUID(int=503)}
    changed = sorted(world.resources)[0]
    before = world.client.get(f"/v1/resource/generic/{changed}").expect(200).json()["project_id"]
    own = {"archive_policy_name": "plain"}

    def metric(path, name):
        world.client.post(f"{path}/metric", {name: own}).expect(200)
        found = world.client.get(f"{path}/metric/{urllib.parse.quote(name)}").expect(200).json()["id"]
        world.metrics[found] = "plain"
        return found

    def resource(of_type, id, **fields):
        world.client.post(f"/v1/resource/{of_type}", {"id": str(id), "started_at": "2023-01-01T00:00:00", **fields}).expect(201)
        world.resources[str(id)] = of_type

    def text(name):
        return {"op": "add", "path": f"/attributes/{name}", "value": {"type": "string", "required": False}}

    world.client.post("/v1/archive_policy", {"name": "brief", "definition": [{"granularity": "1m", "points": 5}]}).expect(201)
    world.client.post("/v1/archive_policy_rule", {"name": "brief-rule", "metric_pattern": "b*", "archive_policy_name": "brief"}).expect(201)
    world.client.patch("/v1/archive_policy/unused", {"definition": [{"granularity": "1d", "points": 20}]}).expect(200)
    for name in ("brief", "shelf"):
        world.client.post("/v1/resource_type", {"name": name, "attributes": {"row": {"type": "number", "required": False}}}).expect(201)
    back.patch_type([text("brief"), text("noted")])
    for name, id in types.items():
        resource("shelf" if name == "kept" else "generic", id)
        metric(f"/v1/resource/generic/{id}", "of it")
    metrics = [metric(f"/v1/resource/generic/{changed}", name) for name in ("brief", "again é")]
    alone = world.client.post("/v1/metric", {**own, "name": "brief"}).expect(201).json()["id"]
    world.metrics[alone] = "plain"
    world.client.patch(f"/v1/resource/generic/{changed}", {"project_id": "brief"}).expect(200)
    back.measure(2)
    back.export(cut=False)

    back.serve()
    world.client.delete("/v1/archive_policy_rule/brief-rule").expect(204)
    world.client.delete("/v1/archive_policy/brief").expect(204)
    world.client.patch("/v1/archive_policy/unused", {"definition": [{"granularity": "1d", "points": 10}]}).expect(200)
    world.client.delete("/v1/resource_type/brief").expect(204)
    world.client.patch("/v1/resource_type/shelf", [text("depth")], headers={"Content-Type": "application/json-patch+json"}).expect(200)
    back.patch_type([{"op": "remove", "path": "/attributes/brief"}])
    for name in ("gone", "other"):
        id = str(types[name])
        del world.metrics[world.client.get(f"/v1/resource/generic/{id}/metric/of%20it").expect(200).json()["id"]]
        world.client.delete(f"/v1/resource/generic/{id}").expect(204)
        del world.resources[id]
    resource("machine", types["other"], host="h1", noted="n")
    metric(f"/v1/resource/generic/{types['other']}", "of it")
    for found in (*metrics, alone):
        world.client.delete(f"/v1/metric/{found}").expect(204)
        del world.metrics[found]
    metric(f"/v1/resource/generic/{changed}", "again é")
    world.client.patch(f"/v1/resource/shelf/{types['kept']}", {"depth": "deep"}).expect(200)
    world.client.patch(f"/v1/resource/generic/{changed}", {"project_id": before}).expect(200)
    back.measure(2)
    back.export(cut=False)
    back.post()
    back.compare()


def test_a_store_without_any_imported_metric_is_exported(gnocchi, gnudi, seed, tmp_path):
    back = Back(gnocchi(), Embedded(gnudi, tmp_path), seed, tmp_path)
    back.import_all()
    back.serve()
    for metric in back.imported:
        back.world.client.delete(f"/v1/metric/{metric}").expect(204)
    back.world.metrics.clear()
    back.export(cut=False)
    back.post()
    assert back.gnocchi.client().get("/v1/metric").expect(200).json() == []


def test_what_gnocchi_has_left_of_resources_does_not_hide_others(gnocchi, gnudi, seed, tmp_path):
    """A page of resources whose attributes it has deleted is not the end of them."""
    back = Back(gnocchi(), Embedded(gnudi, tmp_path), seed, tmp_path)
    back.import_all()
    conf = (back.gnocchi.directory / "gnocchi.conf").read_text(encoding="utf-8")
    connection = psycopg2.connect(re.search("^url = (.*)$", conf, re.MULTILINE).group(1))
    columns = "type, creator, user_id, project_id, started_at, revision_start, ended_at, original_resource_id"
    with connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO resource (id, {columns}) SELECT LPAD(number::TEXT, 32, '0')::UUID, {columns} FROM "
                       f"(SELECT {columns} FROM resource WHERE type = 'machine' LIMIT 1) AS one, GENERATE_SERIES(1, 1000) AS number")
    connection.close()
    back.serve()
    back.measure(1)
    back.export(cut=False)
    lines = [json.loads(line) for line in back.file.read_text(encoding="utf-8").splitlines()]
    assert {line["path"] for line in lines if "method" in line} == {"/v1/batch/metrics/measures"}


def test_what_cannot_be_exported_is_told(gnocchi, gnudi, seed, tmp_path):
    target = Embedded(gnudi, tmp_path)
    (journal,) = target.journals
    back = Back(gnocchi(), target, seed, tmp_path)
    back.import_all()
    back.serve()
    back.measure(3)
    client = back.world.client
    own = {"definition": [{"granularity": "1m"}], "aggregation_methods": ["increase", "last"], "raw": {"timespan": "1d"}}
    made = client.post("/v1/metric", {"archive_policy": own, "name": "extended"}).expect(201).json()["archive_policy_name"]
    moved = sorted(back.imported)[0]
    client.patch(f"/v1/metric/{moved}", {"archive_policy_name": "unused"}).expect(200)
    # A metric that leaves its resource keeps its place in Gnocchi, and another one cannot have that.
    shown = (client.get(f"/v1/metric/{metric}").expect(200).json() for metric in sorted(back.imported - {moved}))
    former = next(metric for metric in shown if metric["resource"] is not None)
    resource, name = f"/v1/resource/generic/{former['resource']['id']}", former["name"]
    others = {key: id for key, id in client.get(resource).expect(200).json()["metrics"].items() if key != name}
    client.patch(resource, {"metrics": others}).expect(200)
    client.post(f"{resource}/metric", {name: {"archive_policy_name": "plain"}}).expect(200)
    latter = client.get(f"{resource}/metric/{urllib.parse.quote(name)}").expect(200).json()["id"]
    client.post(f"/v1/metric/{latter}/measures", [{"timestamp": back.world.now_s, "value": 7531.25}]).expect(202)
    target.stop()
    conf = back.gnocchi.directory / "gnocchi.conf"

    def refused(*arguments):
        done = program.run("export", "gnocchi", "--config-file", conf, *arguments, timeout_s=60)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    nowhere, file = tmp_path / "nowhere", tmp_path / "refused.jsonl"
    assert "there is no store of gnudi" in refused("--data-dir", nowhere, "--journal", journal, "--output", file)
    for arguments, reason in (["--journal", nowhere], "nowhere"), (["--journal", tmp_path], "there is no journal in"), ([], "which journal"):
        assert reason in refused(*target.arguments, *arguments, "--output", file)
    other = gnudi(config="[incoming]\njournal = " + str(tmp_path / "other") + "\n")
    assert other.stop() == 0
    assert "none of this Gnocchi's metrics" in refused("--data-dir", other.data_dir, "--journal", tmp_path / "other", "--output", file)
    assert "belongs to another store" in refused(*target.arguments, "--journal", tmp_path / "other", "--output", file)
    assert not nowhere.exists() and not file.exists()
    # What cannot be read in the index does not count as deleted.
    for table, column in [("metric", "creator"), ("resource", "attributes")]:
        with sqlite3.connect(target.data_dir / "indexer.sqlite") as index:
            where = f"WHERE id = (SELECT MAX(id) FROM {table} WHERE {column} <> '{{}}')"
            ((before,),) = index.execute(f"SELECT {column} FROM {table} {where}")
            index.execute(f"UPDATE {table} SET {column} = '[' || CAST(X'FF' AS TEXT) {where}")
        index.close()
        assert "damaged in " in refused(*target.arguments, "--journal", journal, "--output", file)
        with sqlite3.connect(target.data_dir / "indexer.sqlite") as index:
            index.execute(f"UPDATE {table} SET {column} = ? {where}", [before])
        index.close()
    # A journal that is damaged costs what is hit.
    (segment, *_) = sorted(journal.glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[4096 + 60] ^= 1
    segment.write_bytes(content)
    done = program.run(*back.export_command(), timeout_s=60)
    assert done.returncode == 0, done.stderr
    assert "5 left out:" in done.stdout, done.stdout
    assert f"metric {former['id']}: it belongs to another resource than in Gnocchi" in done.stdout, done.stdout
    assert f"metric {latter}: metric {former['id']}, which had its name before, keeps that in Gnocchi" in done.stdout, done.stdout
    assert "1 skipped because their metric was deleted or is left out" in done.stdout, done.stdout
    assert "7531.25" not in back.file.read_text(encoding="utf-8")
    assert f"archive policy {made.replace(':', '-')}: Gnocchi has no raw points, method increase\n" in done.stdout, done.stdout
    assert re.search(f"metric {moved}: it moved from archive policy [a-z]+ to unused, which Gnocchi's API cannot express\n", done.stdout), done.stdout
    assert f"{segment}: " in done.stdout and "at offset 4096 are damaged" in done.stdout, done.stdout
    # What Gnocchi refuses stops the post, with the line.
    lines = back.file.read_text(encoding="utf-8").splitlines()
    (number, line) = next((number, line) for number, line in enumerate(lines, 1) if "/v1/batch/metrics" in line)
    metric = re.search(r'"body":\{"([0-9a-f-]{36})"', line).group(1)
    back.gnocchi.client().delete(f"/v1/metric/{metric}").expect(204)
    done = program.run(*back.post_command(), timeout_s=60)
    assert done.returncode == 1, done.stdout
    assert f"{back.file} line {number}: POST /v1/batch/metrics/measures: 400" in done.stderr and metric in done.stderr, done.stderr


class Small(http.server.BaseHTTPRequestHandler):
    """What a Gnocchi of a few metrics has in common with a real one."""

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Forgetful(Small):
    """A Gnocchi that makes a metric, and goes away before it has said so."""

    made = []

    def do_GET(self):
        self.answer(200, self.made)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.made.append({"id": str(uuid.UUID(int=len(self.made) + 1)), "name": "lonely"})
        if len(self.made) == 2:
            self.close_connection = True
        else:
            self.answer(201, self.made[-1])


class Deleting(Small):
    """A Gnocchi that makes metrics without a resource, and deletes them."""

    made, alive, measured = [], {}, []

    def do_GET(self):
        metric = self.path.rpartition("/")[2]
        if self.path.startswith("/v1/metric/"):
            self.answer(*((200, self.alive[metric]) if metric in self.alive else (404, {})))
        else:
            self.answer(200, list(self.alive.values()))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/metric":
            self.made.append(str(uuid.UUID(int=len(self.made) + 1)))
            self.alive[self.made[-1]] = {"id": self.made[-1], "name": body["name"]}
            self.answer(201, self.alive[self.made[-1]])
        elif self.path == "/v1/batch/metrics/measures":
            self.measured.extend(body)
            self.answer(202 if set(body) <= set(self.alive) else 400, {})
        else:
            self.answer(200, [])

    def do_DELETE(self):
        deleted = self.path.startswith("/v1/metric/") and self.alive.pop(self.path.rpartition("/")[2], None)
        self.answer(*((200, {}) if deleted or "/resource/" in self.path else (404, {"description": "Metric x does not exist"})))


def test_a_metric_without_a_resource_is_made_once(tmp_path):
    """Gnocchi makes one as often as it is asked: the post finds what it has asked for before it was interrupted."""
    ids = [str(uuid.UUID(int=1000 + number)) for number in range(3)]
    lines = [{"head": {"version": 1, "store": str(uuid.UUID(int=7))}}]
    lines += [{"method": "POST", "path": "/v1/metric", "metric": id, "body": {"name": "lonely", "archive_policy_name": "low"}} for id in ids]
    file = tmp_path / "back.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"journal": {}}]), encoding="utf-8")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forgetful) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ["export", "post", file, "--gnocchi", f"http://127.0.0.1:{server.server_port}"]
        first, second, third = (program.run(*command, timeout_s=60) for _ in range(3))
        server.shutdown()
    assert first.returncode == 1 and f"{file} line 3" in first.stderr, first.stderr
    assert second.returncode == 0, second.stderr
    assert "waits 5 s" in second.stderr and "waits" not in first.stderr + third.stderr
    told = dict(re.findall(r"metric (\S+) is (\S+) in Gnocchi", first.stdout + second.stdout + third.stdout))
    assert told == {id: metric["id"] for id, metric in zip(ids, Forgetful.made, strict=True)}


@pytest.mark.parametrize("is_posted_between", [False, True])
def test_a_metric_that_joins_a_resource_and_leaves_it_is_made_again(tmp_path, is_posted_between):
    """Each export takes back what the one before has made. Of the same name there is another metric, which gnudi does not have."""
    metric, resource = str(uuid.UUID(int=1000)), str(uuid.UUID(int=1001))
    alone = {"method": "POST", "path": "/v1/metric", "metric": metric, "body": {"name": "lonely", "archive_policy_name": "low"}}
    named = {"method": "POST", "path": f"/v1/resource/generic/{resource}/metric", "metric": metric, "body": {"lonely": {}}}
    not_alone = {"method": "DELETE", "path": f"/v1/metric/{metric}", "metric": metric, "made": [metric]}
    not_named = {"method": "DELETE", "path": f"/v1/resource/generic/{resource}/metric/lonely", "metric": metric}
    measures = {"method": "POST", "path": "/v1/batch/metrics/measures", "made": [metric], "measures": 0, "body": {metric: []}}
    exports = [[alone, measures], [not_alone, named], [not_named, alone, measures], [not_alone, named]]
    file, made = tmp_path / "back.jsonl", Deleting.made
    for state in (made, Deleting.alive, Deleting.measured):
        state.clear()
    lines, told = [{"head": {"version": 1, "store": str(uuid.UUID(int=7))}}], {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deleting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for number, export in enumerate(exports):
            lines += [*export, {"journal": {}}]
            if is_posted_between or number == len(exports) - 1:
                file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
                done = program.run("export", "post", file, "--gnocchi", f"http://127.0.0.1:{server.server_port}", timeout_s=60)
                assert done.returncode == 0, done.stderr
                told.update((gnocchi, gnudi) for gnudi, gnocchi in re.findall(r"metric (\S+) is (\S+) in Gnocchi", done.stdout))
            foreign = str(uuid.UUID(int=2000 + number))
            Deleting.alive[foreign] = {"id": foreign, "name": "lonely"}
        server.shutdown()
    assert len(made) == 2 and told == dict.fromkeys(made, metric)
    assert Deleting.measured == made and not set(made) & set(Deleting.alive)


def test_a_journal_has_one_process(gnudi, tmp_path):
    config = f"[incoming]\njournal = {tmp_path / 'journal'}\n"
    gnudi(config=config)
    (tmp_path / "second.conf").write_text(config, encoding="utf-8")
    done = program.run("serve", "--config-file", tmp_path / "second.conf", "--data-dir", tmp_path / "second", "--listen", "127.0.0.1:0", timeout_s=60)
    assert done.returncode == 1
    assert "[incoming] journal" in done.stderr and "another process writes this journal" in done.stderr, done.stderr


@pytest.fixture(autouse=True)
def _policies():
    """What a test adds is its own."""
    before = dict(POLICIES)
    yield
    POLICIES.clear()
    POLICIES.update(before)

