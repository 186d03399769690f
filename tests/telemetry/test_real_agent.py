"""Ceilometer's own notification agent with gnudi as its store, and beside gnudi's agent on the same queues."""

import collections
import functools
import time
import uuid

from support.process import wait_until
from telemetry.agents import QUEUE, measures_taken, notify, polled, sample
from telemetry.publishing import upgrade

TIMEOUT_S = 120
#: Neither agent repeats a request because the store is slow.
STORE = "gnocchi://?enable_filter_project=false&timeout=120"
PIPELINE = "sources: [{{name: all, meters: ['*'], sinks: [store]}}]\nsinks: [{{name: store, publishers: ['{}']}}]\n"
EVENT_PIPELINE = "sources: [{{name: all, events: ['*'], sinks: [store]}}]\nsinks: [{{name: store, publishers: ['{}']}}]\n"

INSTANCES = [str(uuid.UUID(int=0xa0 + number)) for number in range(6)]
VOLUME, IMAGE = str(uuid.UUID(int=0xb0)), str(uuid.UUID(int=0xc0))


def about(number, host="h1"):
    return {"display_name": f"web {number} é", "host": host, "flavor": {"id": "42", "name": "m1.small"}, "status": "active"}


def stamp(number):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_767_225_600 + number))


def samples_of_instances():
    """Two rounds of polling: in the second, the instances have moved."""
    for round_number, host in enumerate(["h1", "h2"]):
        for number, instance in enumerate(INSTANCES):
            fields = {"timestamp": stamp(3600 * round_number + number), "user_id": "u1", "project_id": "p1"}
            known = about(number, host)
            disk = {"instance_id": instance, "disk_name": "vda"}
            yield polled([
                sample(instance, "cpu", 10 ** 9 * number, counter_unit="ns", resource_metadata=known, **fields),
                sample(instance, "memory", 512.5, counter_unit="MB", resource_metadata=known, **fields),
                sample(f"{instance}-vda", "disk.device.usage", number, resource_metadata=disk, **fields),
                sample(instance, "no.such.meter", 1, resource_metadata=known, **fields),
            ])


def services():
    """What Cinder, Glance and Nova say: meters that definitions make of notifications, and events."""
    volume = {"volume_id": VOLUME, "tenant_id": "p1", "user_id": "u1", "size": 20, "status": "available", "display_name": "data",
              "volume_type": "fast", "availability_zone": "z", "host": "c1", "created_at": "2026-01-01 00:00:00+00:00"}
    image = {"id": IMAGE, "owner": "p1", "size": 12345, "name": "debian", "status": "active", "disk_format": "qcow2",
             "container_format": "bare", "created_at": "2026-01-01T00:00:00Z", "deleted_at": None, "properties": {}}
    common = {"publisher_id": "x.h1", "priority": "info"}
    return [{**common, "exchange": "cinder", "event_type": "volume.create.end", "payload": volume},
            {**common, "exchange": "glance", "event_type": "image.upload", "payload": image}]


def deleted(instance):
    payload = {"instance_id": instance, "tenant_id": "p1", "user_id": "u1", "display_name": "web", "host": "h2",
               "state": "active", "instance_type": "m1.small", "instance_flavor_id": "42", "memory_mb": 512, "vcpus": 1,
               "disk_gb": 1, "root_gb": 1, "ephemeral_gb": 0, "instance_type_id": 2}
    return {"exchange": "nova", "publisher_id": "compute.h2", "event_type": "compute.instance.delete.start", "priority": "info",
            "payload": payload}


#: What is the store's own, or the moment's.
MOMENTARY = {"revision_start", "revision_end", "started_at", "ended_at", "created_by_user_id", "created_by_project_id", "creator"}


def content(client):
    """Every resource with its attributes, whether it has ended, and its metrics with their measures."""
    found = {}
    for resource in client.get("/v1/resource/generic?details=true&limit=1000").expect(200).json():
        if resource["original_resource_id"] is None:
            continue
        metrics = {}
        for name, metric in resource.pop("metrics").items():
            described = client.get(f"/v1/metric/{metric}").expect(200).json()
            measures = client.get(f"/v1/metric/{metric}/measures?refresh=true").expect(200).json()
            metrics[name] = (described["unit"], described["archive_policy"]["name"], measures)
        kept = {key: value for key, value in resource.items() if key not in MOMENTARY}
        found[resource["original_resource_id"]] = (kept, resource["ended_at"] is not None, metrics)
    return found


def has_ended(client, instance):
    return client.get(f"/v1/resource/instance/{instance}").expect(200).json()["ended_at"] is not None


def test_both_agents_leave_the_same_in_the_store(rabbitmq, gnudi, agent, ceilometer_agent, tmp_path):
    """The real one takes the queues, ours copies of all: a store for each. The real one's is made ready by ceilometer-upgrade."""
    their_store, our_store = gnudi(), gnudi()
    upgrade(f"http://127.0.0.1:{their_store.port}", tmp_path)
    pipelines = {"pipeline": PIPELINE.format(STORE), "event_pipeline": EVENT_PIPELINE.format(STORE)}
    ours = agent(rabbitmq, store=our_store, config="[notification]\npool = copies\n").start()
    theirs = ceilometer_agent(rabbitmq, their_store, **pipelines).start()
    clients = [our_store.client(), their_store.client()]
    polls = list(samples_of_instances())
    measures = 0
    # One after the other: Ceilometer's agent handles many messages at once.
    for notifications in ([*polls[:len(INSTANCES)], *services()], polls[len(INSTANCES):]):
        notify(rabbitmq.url(), notifications)
        # cpu, memory and disk of each; the size of a volume and of an image.
        measures += sum(3 if one["priority"] == "sample" else 1 for one in notifications)
        for store, process in ((our_store, ours), (their_store, theirs)):
            wait_until(lambda store=store, wanted=measures: measures_taken(store) >= wanted, TIMEOUT_S, process.log()[-3000:])
        rabbitmq.wait_empty([QUEUE, "notifications.info", "copies"])
    assert [measures_taken(store) for store in (our_store, their_store)] == [measures, measures]
    notify(rabbitmq.url(), [deleted(INSTANCES[0]), deleted(INSTANCES[1])])
    for client, process in zip(clients, (ours, theirs)):
        for instance in INSTANCES[:2]:
            ended = functools.partial(has_ended, client, instance)
            wait_until(ended, TIMEOUT_S, process.log()[-3000:])
    rabbitmq.wait_empty([QUEUE, "notifications.info", "copies"])
    # An end of an instance ends its disks: after the instance itself.
    disks = [f"{instance}-vda" for instance in INSTANCES[:2]]
    for client in clients:
        wait_until(lambda client=client: all(content(client)[disk][1] for disk in disks), TIMEOUT_S, "ends of disks")
    our_content, their_content = map(content, clients)
    assert our_content == their_content
    assert set(our_content) == {*INSTANCES, *(f"{instance}-vda" for instance in INSTANCES), VOLUME, IMAGE}
    assert {rid for rid, (_, is_ended, _) in our_content.items() if is_ended} == {*INSTANCES[:2], *disks}
    last = our_content[INSTANCES[5]]
    assert (last[0]["host"], last[0]["display_name"], last[0]["type"]) == ("h2", "web 5 é", "instance")
    assert [value for _, _, value in last[2]["cpu"][2]] == [5 * 10.0 ** 9, 5 * 10.0 ** 9]
    assert ours.figure("undecodable") == ours.figure("malformed") == ours.figure("set_aside") == 0
    assert ours.stop() == 0


def test_both_agents_share_the_queues(rabbitmq, gnudi, agent, ceilometer_agent):
    """Together they bring every sample to the store, and none twice, though both meet resources that nobody knows yet."""
    store = gnudi()
    client = store.client()
    client.post("/v1/archive_policy", {
        "name": "each", "back_window": 3600, "aggregation_methods": ["mean", "count"],
        "definition": [{"granularity": 1, "points": 100_000}],
    }).expect(201)
    url = f"{STORE}&archive_policy=each"
    theirs = ceilometer_agent(rabbitmq, store, pipeline=PIPELINE.format(url), event_pipeline=EVENT_PIPELINE.format("test://"))
    ours = agent(rabbitmq, store=store, pipeline=PIPELINE.format(url)).start()
    theirs.start(consumers=2)
    resources = [str(uuid.UUID(int=0xd00 + number)) for number in range(10)]
    wanted, notifications = collections.defaultdict(dict), []
    for number in range(120):
        samples = []
        for index in range(5):
            resource = resources[(number + index) % len(resources)]
            samples.append(sample(resource, "memory", 5 * number + index, stamp(5 * number + index), resource_metadata=about(1)))
            wanted[resource][f"{stamp(5 * number + index)}+00:00"] = 5 * number + index
        notifications.append(polled(samples))
    notify(rabbitmq.url(), notifications)
    wait_until(lambda: measures_taken(store) >= 600, TIMEOUT_S, f"600 measures\n{ours.log()[-2000:]}\n{theirs.log()[-2000:]}")
    rabbitmq.wait_empty([QUEUE])
    assert measures_taken(store) == 600
    for resource, values in wanted.items():
        path = f"/v1/resource/instance/{resource}/metric/memory/measures?refresh=true&aggregation="
        assert {at: value for at, _, value in client.get(f"{path}mean").expect(200).json()} == values
        assert {value for _, _, value in client.get(f"{path}count").expect(200).json()} == {1}
    taken = ours.figure("acknowledged")
    assert 0 < taken < 120, taken
    assert ours.stop() == 0
