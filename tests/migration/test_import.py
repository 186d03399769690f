"""`gnudi import gnocchi`: a real Gnocchi is filled at random over its API, imported, changed, and imported again. Then it and gnudi must
give the same responses to everything, also after both got the same further measures."""

import random
import re

import pytest

from migration import sources
from migration.test_follow import change_definitions, change_kind
from migration.world import START_S, World, check_same, metadata, ordered, series
from support import gnudi as program
from support.engines import parameters, sections

REQUESTS = 8
FURTHER = 4
# Gnocchi takes a second for a pass over one metric there: fewer of all.
SLOW = ("s3", "swift")


def imported(theirs, world, *target):
    """What an import tells of itself."""
    done = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", *target, timeout_s=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(world.resources)} resources" in done.stdout and "0 left out" in done.stdout, done.stdout
    return done.stdout


def verified(theirs, ours, *arguments):
    return program.run("import", "verify", "--gnocchi", f"http://127.0.0.1:{theirs.port}", "--gnudi", f"http://127.0.0.1:{ours.port}",
                       *arguments, timeout_s=120)


def check_import(theirs, seed, target, serve, is_slow=False):
    """`target`: the arguments that name what is imported into; `serve` starts a gnudi on it."""
    world = World(theirs.client(), random.Random(f"import {seed}"))
    requests, further = (2, 1) if is_slow else (REQUESTS, FURTHER)
    world.make(*((5, 2) if is_slow else ()))
    world.post([theirs.client()], world.requests(requests))
    imported(theirs, world, *target)
    again = imported(theirs, world, *target)
    assert f"  {len(world.metrics)} metrics, " in again and " 0 brought up to date" in again, again
    # Gnocchi goes on: revisions, passes that move windows and that do not, and measures that wait, in one request each.
    for resource in world.rng.sample(sorted(world.resources), len(world.resources) // 2):
        world.change(resource)
    world.post([theirs.client()], world.requests(further))
    for metric, measures in world.requests(1)[0].items():
        theirs.client().post(f"/v1/metric/{metric}/measures", measures).expect(202)
    imported(theirs, world, *target)
    ours = serve()
    check_same(series(ours.client(), world.metrics), series(theirs.client(), world.metrics), "series")
    check_same(ordered(metadata(ours.client(), world)), ordered(metadata(theirs.client(), world)), "metadata")
    same = verified(theirs, ours)
    assert same.returncode == 0, same.stdout + same.stderr
    world.post([theirs.client(), ours.client()], world.requests(further))
    check_same(series(ours.client(), world.metrics), series(theirs.client(), world.metrics), "series after more measures")
    return world, ours


@pytest.mark.parametrize("combination", parameters(["postgresql+file+file", *sources.COMBINATIONS], ["postgresql+file+file"]))
def test_an_imported_gnocchi_answers_the_same(gnocchi, gnudi, seed, tmp_path, request, combination):
    theirs = gnocchi(databases=sources.databases(request, combination), stores=sources.sections(request, combination))
    data_dir = tmp_path / "data"
    serve = lambda: gnudi(data_dir=data_dir, arguments=["--skip-archive-policies-creation"])
    world, ours = check_import(theirs, f"{seed} {combination}", ["--data-dir", data_dir], serve,
                               is_slow=any(engine in combination for engine in SLOW))
    # What differs is told.
    metric = sorted(world.metrics)[0]
    point = {"timestamp": world.now_s + 100_000, "value": 1}
    ours.client().post(f"/v1/metric/{metric}/measures", [point]).expect(202)
    ours.client().get(f"/v1/metric/{metric}/measures?refresh=true&limit=1").expect(200)
    different = verified(theirs, ours)
    assert different.returncode == 1 and metric in different.stdout, different.stdout + different.stderr


def test_what_waits_is_taken_as_one_pass(gnocchi, gnudi, tmp_path):
    """Of several measures of one time Gnocchi keeps the smallest of a pass. A pass begins at its first measure, also at one that is known:
    then the next one has a rate, however late it is."""
    theirs = gnocchi()
    client = theirs.client()
    world = World(client, random.Random("waits"))
    known = {"timestamp": START_S, "value": 1}
    later = lambda value: {"timestamp": START_S + 30, "value": value}
    # The resource ends after the measure that Gnocchi has processed, and before the pending ones, which revoke the end.
    ended = {"id": "ended", "started_at": "2023-11-14T00:00:00+00:00", "ended_at": "2023-11-14T22:13:30+00:00"}
    resource = client.post("/v1/resource/generic", ended).expect(201).json()["id"]
    world.resources[resource] = "generic"
    metrics = {}
    for policy in ("plain", "rates"):
        for first in ([], [known]):
            body = {"archive_policy_name": policy, "resource_id": resource, "name": f"m{len(metrics)}"}
            metric = client.post("/v1/metric", body).expect(201).json()["id"]
            metrics[metric] = policy
            client.post(f"/v1/metric/{metric}/measures", [known]).expect(202)
            client.get(f"/v1/metric/{metric}/measures?refresh=true&limit=1").expect(200)
            for waits in (first + [later(9), later(2)], [later(5)]):
                client.post(f"/v1/metric/{metric}/measures", waits).expect(202)
    path = f"/v1/resource/generic/{resource}"
    assert client.get(path).expect(200).json()["ended_at"] == ended["ended_at"]
    imported(theirs, world, "--data-dir", tmp_path / "data")
    # What was revived has a revision that Gnocchi lacks: it is imported anew.
    imported(theirs, world, "--data-dir", tmp_path / "data")
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"])
    check_same(series(ours.client(), metrics), series(theirs.client(), metrics), "series")
    revived = [server.client().get(path).expect(200).json()["ended_at"] for server in (ours, theirs)]
    assert revived == [None, None]


def test_engines_that_are_shared_are_imported_into(gnocchi, cloud, seed, tmp_path, request):
    theirs = gnocchi(databases=request.getfixturevalue("postgres"))
    target = tmp_path / "target.conf"
    target.write_text(sections(request, "postgresql+redis+redis"), encoding="utf-8")
    serve = lambda: cloud(target.read_text(encoding="utf-8"), upgrade=["--skip-archive-policies-creation"])
    world, ours = check_import(theirs, f"{seed} target", ["--target", target], serve)
    ours.stop()
    # A server of gnudi has used it: what Gnocchi has is not written over that.
    done = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", "--target", target, timeout_s=120)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert "or a server has used it since: import into an empty one" in done.stderr, done.stderr


def test_changes_through_the_generic_type_are_revisions(gnocchi, gnudi, seed, tmp_path):
    """Gnocchi stores them without the attributes of the resource's own type, and shows them in the generic history only."""
    theirs = gnocchi()
    world = World(theirs.client(), random.Random(f"generic {seed}"))
    world.make(3, 1)
    machine = theirs.client().post("/v1/resource/machine", {"id": "changed", "host": "h1"}).expect(201).json()["id"]
    world.resources[machine] = "machine"
    for of_type, change in (("machine", {"host": "h2"}), ("generic", {"project_id": "p7"}), ("generic", {"project_id": "p8"}),
                            ("machine", {"host": "h3"}), ("generic", {"project_id": "p9"})):
        theirs.client().patch(f"/v1/resource/{of_type}/{machine}", change).expect(200)
    imported(theirs, world, "--data-dir", tmp_path / "data")
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"])

    def shown(server, of_type, *fields):
        history = server.client().get(f"/v1/resource/{of_type}/{machine}/history?sort=revision_start:asc").expect(200).json()
        return [tuple(revision[field] for field in fields) for revision in history]

    fields = ("revision_start", "revision_end", "project_id")
    assert shown(ours, "generic", *fields) == shown(theirs, "generic", *fields)
    assert shown(ours, "machine", "host", "project_id") == [("h1", None), ("h2", None), ("h2", "p7"), ("h2", "p8"), ("h3", "p8"), ("h3", "p9")]
    same = verified(theirs, ours)
    assert same.returncode == 0, same.stdout + same.stderr


def test_what_gnocchi_has_left_of_a_resource_is_reported(gnocchi, tmp_path):
    """It deletes the attributes of resources that a filter of their type matches, and leaves the rest."""
    theirs = gnocchi()
    world = World(theirs.client(), random.Random("left"))
    left = theirs.client().post("/v1/resource/machine", {"id": "left", "host": "h1"}).expect(201).json()["id"]
    theirs.client().request("DELETE", "/v1/resource/machine", {"=": {"host": "h1"}}).expect(200)
    assert left in {resource["id"] for resource in theirs.client().get("/v1/resource/generic").expect(200).json()}
    done = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", "--data-dir", tmp_path / "data", timeout_s=120)
    assert (done.returncode, world.resources) == (0, {}), done.stderr
    assert f"resource {left}: Gnocchi has deleted its attributes as a machine, and left the rest" in done.stdout, done.stdout


def test_gnocchi_may_have_several_files(gnocchi, tmp_path):
    """As where a distribution or an administrator names the drivers beside `gnocchi.conf`."""
    theirs = gnocchi()
    world = World(theirs.client(), random.Random("files"))
    world.make(3, 1)
    parts = re.split(r"(?m)^(?=\[)", (theirs.directory / "gnocchi.conf").read_text(encoding="utf-8"))
    first, directory = tmp_path / "first.conf", tmp_path / "more"
    directory.mkdir()
    first.write_text("".join(part for part in parts if not part.startswith("[storage]")), encoding="utf-8")
    (directory / "engines.conf").write_text("".join(part for part in parts if part.startswith("[storage]")), encoding="utf-8")
    command = ["import", "gnocchi", "--config-file", first, "--data-dir", tmp_path / "data"]
    done = program.run(*command, timeout_s=120)
    assert done.returncode == 1 and "file_basepath" in done.stderr, done.stdout + done.stderr
    done = program.run(*command, "--config-dir", directory, timeout_s=120)
    assert done.returncode == 0 and "0 left out" in done.stdout, done.stdout + done.stderr


def test_an_attribute_may_have_a_question_mark_in_its_name(gnocchi, gnudi, tmp_path):
    """Gnocchi checks the first character only."""
    theirs = gnocchi()
    client = theirs.client()
    attributes = {name: {"type": "string", "required": False} for name in ("up?", "two words")}
    client.post("/v1/resource_type", {"name": "odd", "attributes": attributes}).expect(201)
    resource = client.post("/v1/resource/odd", {"id": "odd", "up?": "yes", "two words": "a b"}).expect(201).json()["id"]
    client.patch(f"/v1/resource/odd/{resource}", {"up?": "no"}).expect(200)
    done = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", "--data-dir", tmp_path / "data", timeout_s=120)
    assert done.returncode == 0 and "0 left out" in done.stdout, done.stdout + done.stderr
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"]).client()
    history = ours.get(f"/v1/resource/odd/{resource}/history?sort=revision_start:asc").expect(200).json()
    assert [(revision["up?"], revision["two words"]) for revision in history] == [("yes", "a b"), ("no", "a b")]


@pytest.mark.long
def test_names_in_capitals_are_the_same_in_mariadb(gnocchi, gnudi, tmp_path, request):
    """MySQL and MariaDB compare names without regard to case, and Gnocchi stores what a request says."""
    combination = "mariadb+file+file"
    theirs = gnocchi(databases=sources.databases(request, combination), stores=sources.sections(request, combination))
    client = theirs.client()
    World(client, random.Random("capitals"))
    rule = {"name": "capitals", "metric_pattern": "capitals.*", "archive_policy_name": "PLAIN"}
    client.post("/v1/archive_policy_rule", rule).expect(201)
    metric = client.post("/v1/metric", {"name": "m", "archive_policy_name": "Plain"}).expect(201).json()["id"]
    client.post(f"/v1/metric/{metric}/measures", [{"timestamp": 1700000000, "value": 1}]).expect(202)
    resource = client.post("/v1/resource/MACHINE", {"id": "r", "host": "h"}).expect(201).json()["id"]
    done = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", "--data-dir", tmp_path / "data", timeout_s=120)
    assert done.returncode == 0 and "0 left out" in done.stdout, done.stdout + done.stderr
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"]).client()
    assert ours.get(f"/v1/metric/{metric}").expect(200).json()["archive_policy"]["name"] == "plain"
    assert ours.get(f"/v1/resource/machine/{resource}").expect(200).json()["host"] == "h"
    assert ours.get("/v1/archive_policy_rule/capitals").expect(200).json()["archive_policy_name"] == "plain"


@pytest.mark.long
@pytest.mark.parametrize("combination", ["postgresql+redis+redis", "mariadb+s3+s3"])
def test_policies_and_types_that_change_between_imports(gnocchi, cloud, seed, tmp_path, request, combination):
    theirs = gnocchi()
    world = World(theirs.client(), random.Random(f"change {seed}"))
    world.make(6, 3)
    world.post([theirs.client()], world.requests(3))
    target = tmp_path / "target.conf"
    target.write_text(sections(request, combination), encoding="utf-8")
    imported(theirs, world, "--target", target)
    change_definitions(world)
    change_kind(world)
    world.post([theirs.client()], world.requests(1))
    imported(theirs, world, "--target", target)
    again = imported(theirs, world, "--target", target)
    assert " 0 brought up to date" in again, again
    ours = cloud(target.read_text(encoding="utf-8"), upgrade=["--skip-archive-policies-creation"])
    check_same(series(ours.client(), world.metrics), series(theirs.client(), world.metrics), "series")
    check_same(ordered(metadata(ours.client(), world)), ordered(metadata(theirs.client(), world)), "metadata")
