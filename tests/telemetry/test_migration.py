"""The steps of docs/migration.md with Ceilometer's own notification agent, which posts to a real Gnocchi while Gnocchi is imported: every
sample is in gnudi afterwards, also those sent during the cut-over."""

import collections
import uuid

import pytest

from migration.test_follow import Followed
from support.gnudi import START_TIMEOUT_S, Gnudi
from support.process import Process, wait_until
from telemetry.agents import QUEUE, Sending, measures_taken, polled, sample
from telemetry.publishing import upgrade
from telemetry.test_real_agent import EVENT_PIPELINE, PIPELINE, STORE, about, stamp

TIMEOUT_S = 90
NOTIFICATIONS, PACE_S = 400, 0.08
#: So many are sent before the cut-over, however long it takes to come to that, and the others during it.
BEFORE = 250
RESOURCES = [str(uuid.UUID(int=0xe00 + number)) for number in range(8)]
EACH = {"name": "each", "back_window": 3600, "aggregation_methods": ["mean", "count"], "definition": [{"granularity": 1, "points": 100_000}]}


def notifications():
    """And {resource: {time: value}}."""
    made, wanted = [], collections.defaultdict(dict)
    for number in range(NOTIFICATIONS):
        samples = []
        for index in range(3):
            resource, value = RESOURCES[(number + index) % len(RESOURCES)], 3 * number + index
            samples.append(sample(resource, "memory", value, stamp(value), resource_metadata=about(1)))
            wanted[resource][f"{stamp(value)}+00:00"] = value
        made.append(polled(samples))
    return made, wanted


def stored(client, resource, aggregation):
    answer = client.get(f"/v1/resource/instance/{resource}/metric/memory/measures?refresh=true&aggregation={aggregation}")
    return {} if answer.status == 404 else {at: value for at, _, value in answer.expect(200).json()}


def serve_in_place(theirs, directory, data_dir):
    """gnudi where Gnocchi was, so that nobody is told of another endpoint."""
    ours = Gnudi(directory, data_dir=data_dir)
    ours.port = theirs.port
    ours.process = Process(ours.command(), ours.log_path)
    ours.process.wait_ready(ours.healthy, START_TIMEOUT_S)
    return ours


@pytest.mark.long
def test_ceilometer_posts_all_the_time(rabbitmq, gnocchi, ceilometer_agent, tmp_path):
    theirs = gnocchi(metricd=True)
    theirs.client().post("/v1/archive_policy", EACH).expect(201)
    upgrade(f"http://127.0.0.1:{theirs.port}", tmp_path)
    agent = ceilometer_agent(rabbitmq, theirs, pipeline=PIPELINE.format(f"{STORE}&archive_policy=each"),
                             event_pipeline=EVENT_PIPELINE.format("test://"))
    agent.start()
    made, wanted = notifications()
    sendings = [Sending(tmp_path / "sending-before", rabbitmq.url(), made[:BEFORE], PACE_S)]
    ours = followed = None
    try:
        wait_until(lambda: len(stored(theirs.client(), RESOURCES[0], "mean")) > 5, TIMEOUT_S, agent.log()[-2000:])
        followed = Followed(theirs, tmp_path / "data")
        wait_until(lambda: followed.told().count(" metrics read, ") >= 1, TIMEOUT_S, "a further round")
        # Its publisher drops what Gnocchi does not take: the broker keeps it.
        agent.stop()
        sendings.append(Sending(tmp_path / "sending-meanwhile", rabbitmq.url(), made[BEFORE:], PACE_S))
        followed.end()
        theirs.stop()
        ours = serve_in_place(theirs, tmp_path / "ours", tmp_path / "data")
        imported = sum(len(stored(ours.client(), resource, "mean")) for resource in RESOURCES)
        agent.start()
        for sending in sendings:
            sending.wait(TIMEOUT_S)
        rabbitmq.wait_empty([QUEUE])
        assert all(stored(ours.client(), resource, "mean") == wanted[resource] for resource in RESOURCES), agent.log()[-2000:]
        assert all(set(stored(ours.client(), resource, "count").values()) == {1} for resource in RESOURCES)
        total = sum(map(len, wanted.values()))
        assert 0 < imported < total and measures_taken(ours) == total - imported, (imported, total)
        assert ours.stop() == 0
    finally:
        for sending in sendings:
            sending.kill()
        if followed is not None:
            followed.stop()
        if ours is not None and ours.process.running():
            ours.kill()
