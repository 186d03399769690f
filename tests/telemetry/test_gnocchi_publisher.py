"""gnudi's publisher for Gnocchi compared with Ceilometer's, request by request; and what only gnudi's does: many messages in one request,
and no loss while the store does not respond.
"""

import json
import random as randoms
import threading

import pytest

from support.recording_store import RecordingStore, canonical

from telemetry.publishing import (
    EVERYTHING,
    definitions,  # noqa: F401 (a fixture)
    installed_definitions,
    metadata,
    publish_ours,
    publish_theirs,
    resource_id,
    sample,
    shipped_definitions,
    upgrade,
)

pytestmark = pytest.mark.slow

ROUNDS = 40


def both(lines, directory, url=EVERYTHING, **scripted):
    """Our store and theirs, after the same lines."""
    with RecordingStore(**scripted) as ours, RecordingStore(**scripted) as theirs:
        outcomes = publish_ours(ours.url, lines, url)
        publish_theirs(theirs.url, lines, directory, url)
    return ours, theirs, outcomes


def test_the_shipped_definitions_are_theirs():
    installed, shipped = installed_definitions(), shipped_definitions()
    for kind in installed["resources"] + shipped["resources"]:
        # A list of names, or a mapping of names: the same.
        if isinstance(kind["metrics"], list):
            kind["metrics"] = dict.fromkeys(kind["metrics"])
    assert shipped == installed


def test_every_metric_of_every_type(tmp_path, seed, rounds, definitions):
    """A message for each metric, each with resources of its own: the same requests for each resource."""
    random = randoms.Random(seed)
    lines, exists, taken = [], set(), set()
    metrics = [(kind, name) for kind in definitions["resources"] for name in kind["metrics"]]
    for kind, name in metrics + random.choices(metrics, k=rounds):
        rid = resource_id(random)
        names = random.choices(list(kind["metrics"]), k=random.choice([0, 0, 1, 3])) + [name]
        lines.append({"samples": [sample(random, name, rid) for name in names]})
        random.choice([exists, exists, taken, set(), set()]).add(rid.replace("/", "_"))
    ours, theirs, outcomes = both(lines, tmp_path, exists=exists, taken=taken)
    assert outcomes == [None] * len(lines)
    assert canonical(ours.of("POST", "/v1/archive_policy")) == canonical(theirs.of("POST", "/v1/archive_policy"))
    assert canonical(ours.of("POST")) == canonical(theirs.of("POST"))
    assert canonical(ours.of("PATCH")) == canonical(theirs.of("PATCH"))
    assert ours.metrics == theirs.metrics
    last = [line["samples"][-1] for line in lines]
    assert ours.metrics.keys() >= {(one["resource_id"].replace("/", "_"), one["name"]) for one in last}
    for (_, path, _, _, headers) in ours.requests:
        assert headers["authorization"] == "Basic YWRtaW46", path
    # Far fewer requests than messages with measures.
    assert len(ours.of("POST", "/v1/batch")) < len(lines) / 4


def test_attributes_follow_what_samples_say(tmp_path, seed, rounds, definitions):
    """Many messages about few resources, whose metadata change: in the end both stores hold the same."""
    random = randoms.Random(seed)
    kinds = {kind["resource_type"]: list(kind["metrics"]) for kind in definitions["resources"]}
    resources = [(resource_id(random), random.choice(list(kinds))) for _ in range(8)]
    known = {rid: [metadata(random) for _ in range(3)] for rid, _ in resources}
    lines = []
    for _ in range(rounds * 3):
        samples = []
        for rid, kind in random.choices(resources, k=random.randrange(1, 6)):
            samples.append(sample(random, random.choice(kinds[kind]), rid, random.choice(known[rid])))
        lines.append({"samples": samples})
    ours, theirs, outcomes = both(lines, tmp_path)
    assert outcomes == [None] * len(lines)
    ids = {rid.replace("/", "_") for rid, _ in resources}
    assert ours.attributes.keys() == theirs.attributes.keys() <= ids
    for rid in ours.attributes:
        # The first sample's user, which both say only once.
        assert ours.attributes[rid] == theirs.attributes[rid], rid
    assert measures_of(ours) == measures_of(theirs)
    assert len(ours.of("PATCH")) <= len(theirs.of("PATCH"))


def measures_of(store):
    """Without units: those of the first sample of a request count, and ours are other requests."""
    return {
        key: (canonical(metric["measures"]), metric["archive_policy_name"]) for key, metric in store.metrics.items()
    }


def test_metadata_that_say_nothing_new_change_nothing():
    random = randoms.Random(1)
    lines = []
    for number in range(30):
        lines += [{"samples": [{**sample(random, "memory", f"r{rid}", {"display_name": f"n{rid}", "n": number}), "project_id": "p"}
                              for rid in range(20)]}, {"wait": True}]
    lines += [{"samples": [{**sample(random, "memory", "r3", {"display_name": "new"}), "project_id": "p"}]}]
    with RecordingStore(exists={f"r{rid}" for rid in range(20)}) as store:
        publish_ours(store.url, lines)
    patched = [path for path, _ in store.of("PATCH")]
    assert sorted(patched) == sorted([f"/v1/resource/instance/r{rid}" for rid in range(20)] + ["/v1/resource/instance/r3"])
    assert store.of("PATCH")[-1] == ("/v1/resource/instance/r3", {"display_name": "new", "project_id": "p"})


def test_what_the_store_refuses_of_resources_fails_its_message_alone():
    """But what is there already, or not there at all, where that is as good."""
    random = randoms.Random(1)
    statuses, lines, expected = {}, [], []

    def event(event_type, rid):
        traits = [("resource_id", rid), ("instance_id", rid), ("display_name", "x"), ("project_id", "p")]
        return {"events": [{"event_type": event_type, "message_id": rid, "traits": traits}]}

    for status in [400, 403, 404, 409, 413]:
        changed, created, updated, ended = ids = [f"{name}-{status}" for name in ("changed", "created", "updated", "ended")]
        statuses |= dict.fromkeys(ids, status)
        lines += [{"samples": [sample(random, "memory", changed, {"display_name": "x"})]},
                  event("compute.instance.create.end", created), event("volume.transfer.accept.end", updated),
                  event("compute.instance.delete.start", ended)]
        expected += [status != 404, status != 409, status != 404, status != 404]
    lines += [{"samples": [sample(random, "memory", "good", {})]}, event("compute.instance.delete.start", "good")]
    expected += [False, False]
    with RecordingStore(exists={*statuses, "good"}, statuses=statuses) as store:
        outcomes = publish_ours(store.url, lines)
    assert [outcome is not None for outcome in outcomes] == expected, outcomes
    for outcome in filter(None, outcomes):
        assert "is refused" in outcome
    assert {rid for rid, _ in store.metrics} == {"good", *(rid for rid in statuses if rid.startswith("changed"))}


TRAITS = ["instance_id", "resource_id", "display_name", "host", "availability_zone", "instance_flavor_id", "instance_type",
          "user_id", "project_id", "other"]


def test_events(tmp_path, seed, rounds, definitions):
    """The same requests as Ceilometer's for each event, but for the time of an end."""
    random = randoms.Random(seed)
    types = []
    for kind in definitions["resources"]:
        for key in ("event_create", "event_update", "event_delete"):
            named = kind.get(key, [])
            types += named if isinstance(named, list) else [named]
    lines = []
    for number, event_type in enumerate([*types, "compute.instance.create.start", "image.deleted"] * max(1, rounds // 10)):
        traits = {name: random.choice(["x", "y z", 7]) for name in random.sample(TRAITS, 5)}
        traits |= {"instance_id": f"i{number}", "resource_id": f"r{number}"}
        lines.append({"events": [{"event_type": event_type, "message_id": f"m{number}", "traits": list(traits.items())}]})
    found = {"instance_disk": [{"id": "d1"}, {"id": "d2"}], "instance_network_interface": [{"id": "n1"}]}
    exists = {f"{letter}{number}" for letter in "ir" for number in range(0, len(lines), 2)} | {"d1"}
    ours, theirs, outcomes = both(lines, tmp_path, exists=exists, found=found)
    assert outcomes == [None] * len(lines)

    def plain(store, method, prefix="/v1/resource/"):
        kept = []
        for path, body in store.of(method, prefix):
            if method == "PATCH" and "ended_at" in body:
                assert len(body["ended_at"]) in (19, 26)
                body = {**body, "ended_at": "then"}
            kept.append((path, body))
        return canonical(kept)

    assert plain(ours, "POST") == plain(theirs, "POST")
    assert plain(ours, "PATCH") == plain(theirs, "PATCH")
    assert plain(ours, "POST", "/v1/search") == plain(theirs, "POST", "/v1/search")
    assert len(ours.of("PATCH")) > len(types) / 2


DEFINITIONS = """
archive_policy_default: usual
archive_policies: [{name: usual, definition: [{granularity: 1 minute, timespan: 1 day}]}]
resources:
  - metrics: [no.type]
  - resource_type: one
    metrics: [one.a, one.b]
    archive_policy: old
    attributes: {project: project_id, both: [resource_metadata.x, resource_metadata.y], constant: 7}
  - resource_type: two
    metrics: {two.a: {archive_policy_name: own}, two.b: , one.b: {archive_policy_name: later}}
    attributes: {size: resource_metadata.size, vol: volume}
    event_create: ["two.*.start", "two.[ab]"]
    event_update: two.?
    event_delete: ["two.end*"]
    event_attributes: {id: rid, size: size}
    event_associated_resources: {one: '{"=": {"project": "%s"}}'}
  - resource_type: broken
    metrics: 7
  - resource_type: no.id
    metrics: [lost]
    event_delete: x
    event_attributes: {size: size}
"""


@pytest.mark.parametrize("option", ["", "&archive_policy=forced"])
def test_definitions_of_ones_own(tmp_path, seed, option):
    random = randoms.Random(seed)
    path = tmp_path / "own.yaml"
    path.write_text(DEFINITIONS)
    url = f"{EVERYTHING}&resources_definition_file={path}{option}"
    names = ["one.a", "one.b", "two.a", "two.b", "no.type", "lost", "memory"]
    fields = ["x", "y", "size"]
    lines = [{"samples": [sample(random, name, f"{name}-{number}", {field: random.choice(["v", None, 3]) for field in fields})]}
             for number in range(6) for name in names]
    events = ["two.x.start", "two.a", "two.c", "two.end", "two.end.more", "two.start", "x"]
    lines += [{"events": [{"event_type": event_type, "message_id": "m", "traits": [["rid", f"e-{event_type}"], ["size", 3]]}]}
              for event_type in events]
    exists = {f"e-{event_type}" for event_type in events[2:]} | {"two.a-0", "one.b-1"}
    ours, theirs, _ = both(lines, tmp_path, url, exists=exists)
    assert canonical(ours.of("POST", "/v1/archive_policy")) == canonical(theirs.of("POST", "/v1/archive_policy"))
    assert canonical(ours.of("POST")) == canonical(theirs.of("POST"))
    without_time = lambda store: canonical((path, body.keys() == {"ended_at"} or body) for path, body in store.of("PATCH"))
    assert without_time(ours) == without_time(theirs)
    assert ours.metrics == theirs.metrics
    policies = {name: metric["archive_policy_name"] for (_, name), metric in ours.metrics.items()}
    forced = "forced" if option else None
    assert policies == {"one.a": "old", "one.b": forced or "later", "two.a": forced or "own", "two.b": forced or "usual"}


def test_malformed_definitions_are_told_with_their_line(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("resources:\n  - {resource_type: t, metrics: [a]\n  - x\n")
    with RecordingStore() as store, pytest.raises(AssertionError, match=r"own\.yaml.*line"):
        publish_ours(store.url, [], f"{EVERYTHING}&resources_definition_file={path}")


def test_one_resource_that_cannot_be_takes_no_other_down(seed):
    """Neither one that cannot be created, nor one whose measures are refused, nor samples that are none."""
    random = randoms.Random(seed)
    refused, bad = {"r7", "r44"}, {"r13", "r14", "r60"}
    lines = [{"samples": [sample(random, "memory", f"r{first + number}", {}) for number in range(2)]} for first in range(0, 80, 2)]
    lines += [
        {"samples": [{**sample(random, "memory", "r0", {}), "volume": "x"}, sample(random, "vcpus", "r0", {})]},
        {"samples": [{**sample(random, "memory", "r0", {}), "timestamp": "never"}, sample(random, "vcpus", "r1", {})]},
        {"samples": [sample(random, "memory", "", {}), sample(random, "vcpus", "r2", {})]},
        {"samples": [{**sample(random, "memory", "r0", {}), "unit": "u" * 32}, sample(random, "vcpus", "r3", {})]},
        {"samples": [sample(random, "not.known", "r0", {}), sample(random, "vcpus", "r4", {})]},
    ]
    with RecordingStore(refused=refused, bad_ids=bad) as store:
        outcomes = publish_ours(store.url, lines)
    kept = {rid for rid, name in store.metrics if name == "memory"}
    assert kept == {f"r{number}" for number in range(80)} - refused - bad
    assert {f"r{number}" for number in range(5)} == {rid for rid, name in store.metrics if name == "vcpus"}
    failed = {number for number, outcome in enumerate(outcomes) if outcome is not None}
    assert failed == {3, 22, 6, 7, 30, 40, 41, 42, 43}
    assert "required key" in outcomes[3] and "r7" in outcomes[3]


def test_nothing_is_lost_while_the_store_is_not_well(seed):
    random = randoms.Random(seed)
    lines = []
    for number in range(30):
        lines += [{"samples": [sample(random, "memory", f"r{number}", {}) for _ in range(5)]}]
    with RecordingStore() as store:
        store.troubles = [(503, {"Retry-After": "0"}), (500, {}), (429, {"Retry-After": "1"}), (401, {}), (502, {})]
        outcomes = publish_ours(store.url, lines)
        assert store.troubles == []
    assert outcomes == [None] * 30
    sent = canonical({"timestamp": one["timestamp"], "value": one["volume"]} for line in lines for one in line["samples"])
    assert canonical(one for metric in store.metrics.values() for one in metric["measures"]) == sent


def test_a_store_that_comes_late(seed):
    """No connection at first: messages wait."""
    random = randoms.Random(seed)
    lines = [{"samples": [sample(random, "memory", f"r{number}", {})]} for number in range(5)]
    store = RecordingStore()
    # The port is taken, and nobody answers there until the store runs.
    outcomes = []
    publishing = threading.Thread(target=lambda: outcomes.append(publish_ours(store.url, lines)))
    publishing.start()
    publishing.join(1)
    assert publishing.is_alive()
    with store:
        publishing.join(60)
        assert outcomes == [[None] * 5]
    assert len(store.metrics) == 5


def gnudi_resource(client, kind, rid):
    return client.get(f"/v1/resource/{kind}/{rid}").expect(200).json()


def test_in_gnudi(gnudi, seed):
    """Types, resources, attributes, history, measures and ends, as a user sees them."""
    random = randoms.Random(seed)
    server = gnudi()
    client = server.client()
    vm, disk, other = (str(randoms.Random(number).randbytes(16).hex()) for number in range(3))
    as_uuid = lambda text: f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    vm, other = as_uuid(vm), as_uuid(other)
    about = {"display_name": "web", "flavor": {"id": "1", "name": "m1"}, "host": "h1"}
    one = lambda name, rid, known, **more: {**sample(random, name, rid, known), "project_id": "p", "user_id": "u", **more}
    lines = [
        {"upgrade": True},
        {"samples": [one("cpu", vm, about, volume=5, unit="ns", timestamp="2026-11-21T00:00:00"), one("memory", other, about)]},
        {"samples": [one("disk.device.usage", f"{vm}/vda", {"disk_name": "vda", "instance_id": vm})]},
        {"wait": True},
        {"samples": [one("cpu", vm, {**about, "host": "h2"}, volume=9, unit="ns", timestamp="2026-11-21T00:05:00")]},
        {"wait": True},
        {"events": [{"event_type": "compute.instance.delete.start", "message_id": "m", "traits": [["instance_id", vm]]}]},
    ]
    assert publish_ours(f"http://127.0.0.1:{server.port}", lines) == [None]
    instance = gnudi_resource(client, "instance", vm)
    expected = {"display_name": "web", "flavor_id": "1", "flavor_name": "m1", "host": "h2", "project_id": "p", "user_id": "u"}
    assert {key: instance[key] for key in expected} == expected
    assert instance["ended_at"] is not None
    history = client.get(f"/v1/resource/instance/{vm}/history").expect(200).json()
    assert [(entry["host"], entry["ended_at"] is None) for entry in history] == [("h1", True), ("h2", True), ("h2", False)]
    disk = client.post("/v1/search/resource/instance_disk", {"=": {"instance_id": vm}}).expect(200).json()
    assert [(one["name"], one["ended_at"] is not None, one["original_resource_id"]) for one in disk] == [("vda", True, f"{vm}_vda")]
    assert gnudi_resource(client, "instance", other)["ended_at"] is None
    metric = client.get(f"/v1/metric/{instance['metrics']['cpu']}").expect(200).json()
    assert (metric["archive_policy"]["name"], metric["unit"]) == ("ceilometer-low-rate", "ns")
    path = f"/v1/metric/{metric['id']}/measures?refresh=true"
    assert client.get(path).expect(200).json() == [
        ["2026-11-21T00:00:00+00:00", 300.0, 5.0], ["2026-11-21T00:05:00+00:00", 300.0, 9.0]
    ]
    assert client.get(f"{path}&aggregation=rate:mean").expect(200).json()[-1][2] == 4.0
    # Made again, nothing changes.
    types = client.get("/v1/resource_type").expect(200).json()
    publish_ours(f"http://127.0.0.1:{server.port}", [{"upgrade": True}])
    assert client.get("/v1/resource_type").expect(200).json() == types


def old_type(name, required, optional=""):
    """A type as the first releases made it: texts only."""
    text = {"type": "string", "min_length": 0, "max_length": 255}
    attributes = {key: {**text, "required": True} for key in required.split()}
    attributes |= {key: {**text, "required": False} for key in optional.split()}
    return {"name": name, "attributes": attributes}


def test_types_of_resources_are_those_of_ceilometer_upgrade(gnudi, tmp_path):
    """On an empty store, and on one that an older release has filled, whose types lack attributes."""
    empty, ours, theirs = (gnudi() for _ in range(3))
    for store in (ours, theirs):
        client = store.client()
        for old in (
            old_type("instance", "flavor_id host display_name", "image_ref server_group"),
            old_type("image", "name container_format disk_format"),
            old_type("host", "host_name"),
        ):
            client.post("/v1/resource_type", old).expect(201)
        client.post("/v1/resource/instance", {"id": "old", "host": "h", "flavor_id": "f", "display_name": "d"}).expect(201)
    for store in (empty, ours):
        publish_ours(f"http://127.0.0.1:{store.port}", [{"upgrade": True}])
    upgrade(f"http://127.0.0.1:{theirs.port}", tmp_path)

    def types(store):
        return {one["name"]: one["attributes"] for one in store.client().get("/v1/resource_type").expect(200).json()}

    assert types(ours) == types(theirs)
    assert types(empty) == types(theirs)
    assert gnudi_resource(ours.client(), "instance", "old")["flavor_name"] == ""
    assert json.dumps(types(empty)["instance"], sort_keys=True).count("datetime") == 3
