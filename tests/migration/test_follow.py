"""`gnudi import gnocchi --follow`: a real Gnocchi and its metricd keep working while they are imported round after round. After the cut-over
gnudi gives the same responses."""

import random
import re
import signal
import subprocess
import time
import uuid

import psycopg2
import pytest

from migration import sources
from migration.world import World, check_same, metadata, ordered, series
from support import gnudi as program
from support.engines import parameters, sections
from support.http import create_policy_with_rule
from support.process import wait_until

# Between rounds there are 5 s.
BUSY_S = 14
ROUNDS_MIN, STEPS_MIN = 2, 5
TIMEOUT_S = 120
# Values of these depend on how Gnocchi's passes cut what is posted.
CUT_BY_PASSES = ("rates", "percentiles")


class Followed:
    """An import that follows, whose lines are kept."""

    def __init__(self, theirs, into, first_round_s=TIMEOUT_S, option="--data-dir"):
        command = [program.binary(), "import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", option, into, "--follow"]
        self.log = theirs.directory / "import.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_until(lambda: "following Gnocchi" in self.told() or self.process.poll() is not None, first_round_s, "the first round")
        assert self.process.poll() is None, self.told()

    def told(self):
        return self.log.read_text(encoding="utf-8")

    def rounds(self):
        """How many there were, without the first one and the last."""
        return self.told().count(" metrics read, ")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(TIMEOUT_S) == 0, self.told()
        assert "0 left out" in self.told().splitlines()[-1], self.told()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def post(client, request):
    client.post("/v1/batch/metrics/measures", request).expect(202)


def delete_resource(world, resource):
    """Answers the metrics that it had."""
    gone = metrics_of(world, resource).values()
    world.client.delete(f"/v1/resource/{world.resources.pop(resource)}/{resource}").expect(204)
    for metric in gone:
        del world.metrics[metric]


def next_request(world, used):
    """Each time once: of two values at one time Gnocchi keeps either, by what its passes process together. `used`: {metric: times}."""
    made = world.requests(1)[0]
    for metric, measures in made.items():
        times = used.setdefault(metric, set())
        measures[:] = [measure for measure in measures if measure["timestamp"] not in times]
        times.update(measure["timestamp"] for measure in measures)
    return {metric: measures for metric, measures in made.items() if measures}


def go_on(world, used, step):
    """What a cloud does within a moment: all that can happen to what was imported."""
    post(world.client, next_request(world, used))
    for resource in world.rng.sample(sorted(world.resources), 2):
        world.change(resource)
    if step % 3 == 0:
        world.make_resource(100 + step)
        delete_resource(world, world.rng.choice(sorted(world.resources)))
    if step % 4 == 1:
        metric = world.rng.choice(sorted(world.metrics))
        world.client.delete(f"/v1/metric/{metric}").expect(204)
        del world.metrics[metric]
    if step % 3 == 1:
        move_metric(world, step)


def move_metric(world, step):
    """A metric gets another resource and name, or none."""
    source, target = world.rng.sample(sorted(world.resources), 2)
    metrics = metrics_of(world, source)
    if not metrics:
        return
    name, metric = world.rng.choice(sorted(metrics.items()))
    if world.rng.random() < 0.3:
        set_metrics(world, source, {other: found for other, found in metrics.items() if other != name})
    else:
        set_metrics(world, target, metrics_of(world, target) | {f"{name}.{step}": metric})


def metrics_of(world, resource):
    return world.client.get(f"/v1/resource/generic/{resource}").expect(200).json()["metrics"]


def set_metrics(world, resource, metrics):
    world.client.patch(f"/v1/resource/{world.resources[resource]}/{resource}", {"metrics": metrics}).expect(200)


def make_again(world, body, of_type="generic"):
    """A resource that is deleted, and made once more by the same name with other metrics."""
    made = world.client.post(f"/v1/resource/{of_type}", body).expect(201).json()
    world.resources[made["id"]] = of_type
    world.metrics |= {metric: "plain" for metric in made["metrics"].values()}
    return made


def change_definitions(world):
    """Back windows, one larger and one smaller, and the attributes of a type: new with a value for all and without, gone, of another
    kind, and required from now on."""
    for name, back_window in (("plain", 1), ("window", 1)):
        definition = world.client.get(f"/v1/archive_policy/{name}").expect(200).json()["definition"]
        # In another order, which Gnocchi keeps.
        items = [{"granularity": item["granularity"], "points": item["points"]} for item in reversed(definition)]
        world.client.patch(f"/v1/archive_policy/{name}", {"definition": items, "back_window": back_window}).expect(200)
    patch_type(world, [
        {"op": "add", "path": "/attributes/zone", "value": {"type": "string", "required": True, "options": {"fill": "z1"}}},
        {"op": "add", "path": "/attributes/note", "value": {"type": "string", "required": False}},
        {"op": "add", "path": "/attributes/owner", "value": {"type": "uuid", "required": True, "options": {"fill": str(uuid.UUID(int=5))}}},
        {"op": "add", "path": "/attributes/host", "value": {"type": "string", "required": True, "max_length": 60, "options": {"fill": "?"}}},
        {"op": "remove", "path": "/attributes/load"},
        {"op": "remove", "path": "/attributes/seen"}])
    attributes = world.attributes

    def later(is_new):
        values = {name: value for name, value in attributes(is_new).items() if name not in ("load", "seen")}
        if is_new:
            values |= {"zone": "z2", "owner": str(uuid.UUID(int=6))}
        return values | ({"note": "n"} if world.rng.random() < 0.3 else {})

    world.attributes = later


def make_policy_again(client):
    """Gnocchi's API changes granularities only so."""
    client.delete("/v1/archive_policy_rule/again").expect(204)
    client.delete("/v1/archive_policy/again").expect(204)
    create_policy_with_rule(client, "again", [("30s", 50)], "again*")


def change_kind(world):
    """An attribute that comes back as another."""
    patch_type(world, [{"op": "add", "path": "/attributes/load", "value": {"type": "bool", "required": False, "options": {"fill": True}}}])


def add_again(world):
    """An attribute that comes back as it was, without the values that resources had."""
    patch_type(world, [{"op": "remove", "path": "/attributes/is_up"}])
    patch_type(world, [{"op": "add", "path": "/attributes/is_up", "value": {"type": "bool", "required": False}}])


def patch_type(world, patch):
    world.client.patch("/v1/resource_type/machine", patch, headers={"Content-Type": "application/json-patch+json"}).expect(200)


def have_outage(theirs, followed):
    """Nobody gets into Gnocchi's database until the import has noticed."""
    url = re.search(r"^url = (\S+)$", (theirs.directory / "gnocchi.conf").read_text(encoding="utf-8"), re.M).group(1)
    server, name = url.rsplit("/", 1)
    connection = psycopg2.connect(f"{server}/postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            wait_until(lambda: "trying again" in followed.told(), TIMEOUT_S, "an outage that is noticed")
        finally:
            cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    connection.close()


def process_all(world):
    """Has Gnocchi process what waits; a sack that its metricd has at the moment is refused with 503."""
    for metric in world.metrics:
        path = f"/v1/metric/{metric}/measures?refresh=true&limit=1"
        wait_until(lambda path=path: world.client.get(path).status == 200, TIMEOUT_S, f"an answer to {path}")


@pytest.mark.parametrize("combination", parameters(["postgresql+file+file", "mariadb+redis+ceph"], ["postgresql+file+file"]))
def test_a_gnocchi_that_goes_on_is_followed(gnocchi, gnudi, seed, tmp_path, request, combination):
    theirs = gnocchi(databases=sources.databases(request, combination), stores=sources.sections(request, combination), metricd=True)
    world = World(theirs.client(), random.Random(f"follow {seed} {combination}"))
    world.make()
    again = {"id": "made again", "metrics": {"cpu": {"archive_policy_name": "plain"}}}
    first = make_again(world, again)
    create_policy_with_rule(world.client, "again", [("60s", 100)], "again*")
    used = {}
    for _ in range(4):
        post(world.client, next_request(world, used))
    followed = Followed(theirs, tmp_path / "data")
    try:
        began, step = time.monotonic(), 0
        while time.monotonic() < began + BUSY_S or step < STEPS_MIN or followed.rounds() < ROUNDS_MIN:
            assert time.monotonic() < began + TIMEOUT_S, followed.told()
            go_on(world, used, step)
            if step == 2 and first["id"] in world.resources:
                delete_resource(world, first["id"])
                make_again(world, again | {"host": "h"}, "machine")
            if step == 3:
                world.client.delete("/v1/archive_policy/unused").expect(204)
                world.client.delete("/v1/archive_policy_rule/disk-rule").expect(204)
                make_policy_again(world.client)
            if step == 4:
                change_definitions(world)
                change_kind(world)
            step += 1
            time.sleep(0.3)
        if combination.startswith("postgresql"):
            have_outage(theirs, followed)
        add_again(world)
        process_all(world)
        # What still waits at the cut-over is imported, too.
        last = next_request(world, used)
        post(world.client, {metric: measures for metric, measures in last.items() if world.metrics[metric] not in CUT_BY_PASSES})
        followed.end()
    finally:
        followed.stop()
    process_all(world)
    assert followed.rounds() >= ROUNDS_MIN, followed.told()
    ours = gnudi(data_dir=tmp_path / "data", arguments=["--skip-archive-policies-creation"])
    check_same(series(ours.client(), world.metrics), series(theirs.client(), world.metrics), "series")
    check_same(ordered(metadata(ours.client(), world)), ordered(metadata(theirs.client(), world)), "metadata")
    verified = program.run("import", "verify", "--gnocchi", f"http://127.0.0.1:{theirs.port}", "--gnudi", f"http://127.0.0.1:{ours.port}",
                           timeout_s=TIMEOUT_S)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_server_that_opens_the_store_ends_the_import(gnocchi, cloud, seed, tmp_path, request):
    """Shared engines have no lock that keeps it out, and a later round would replace resources that it has changed. A second import is refused."""
    theirs = gnocchi(databases=request.getfixturevalue("postgres"))
    world = World(theirs.client(), random.Random(f"opened {seed}"))
    world.make(3, 1)
    target = tmp_path / "target.conf"
    target.write_text(sections(request, "postgresql+redis+redis"), encoding="utf-8")
    followed = Followed(theirs, target, option="--target")
    try:
        second = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", "--target", target, timeout_s=TIMEOUT_S)
        assert (second.returncode, second.stdout) == (1, ""), second.stdout
        assert "another import into this store is running" in second.stderr, second.stderr
        assert followed.process.poll() is None, followed.told()
        cloud(target.read_text(encoding="utf-8"), workers=0, upgrade=["--skip-archive-policies-creation"])
        assert followed.process.wait(TIMEOUT_S) == 1, followed.told()
        assert "a server of gnudi has opened the store during the import" in followed.told()
    finally:
        followed.stop()
