"""kill -9 of the notification agent at random moments, under load: in the end every published sample is in the store, with its own value
and no other. The same while the store hangs, the store dies and the broker dies.

12 kills, or `--rounds`.
"""

import collections
import random
import re
import signal
import time
import uuid

import pytest

from support.process import Process, wait_until
from telemetry.agents import QUEUE, Sending, measures_taken, polled, sample

ROUNDS = 12
SAMPLES = 10
#: Messages are sent in pauses of so long: more is known of when a kill falls where there is always something to do.
PACE_S = 0.01
TIMEOUT_S = 300
PIPELINE = "sources: [{name: s, meters: ['*'], sinks: [k]}]\nsinks: [{name: k, publishers: ['gnocchi://?archive_policy=each']}]\n"
#: Samples of a resource: each has a second of its own within what the archive policy takes in any order.
RESOURCE_SAMPLES = 1000
RESOURCES = 10
BEGIN = 1_767_225_600


def place(number):
    """The resource and the time of a sample; those of a message go to several resources."""
    resource = number % RESOURCES + number // (RESOURCES * RESOURCE_SAMPLES) * RESOURCES
    second = BEGIN + number % (RESOURCES * RESOURCE_SAMPLES)
    return str(uuid.UUID(int=resource + 1)), time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def load(messages, exchange="ceilometer"):
    """Messages whose samples are known by their volumes, and what of them belongs into the store."""
    wanted, notifications = collections.defaultdict(dict), []
    for first in range(0, messages * SAMPLES, SAMPLES):
        samples = []
        for number in range(first, first + SAMPLES):
            resource, timestamp = place(number)
            samples.append(sample(resource, volume=number, timestamp=timestamp))
            wanted[resource][f"{timestamp}+00:00"] = number
        notifications.append(polled(samples, exchange))
    return notifications, wanted


def prepared(gnudi):
    """A store with an archive policy that keeps every sample apart."""
    store = gnudi(arguments=["--skip-archive-policies-creation"])
    store.client().post("/v1/archive_policy", {
        "name": "each", "back_window": RESOURCES * RESOURCE_SAMPLES, "aggregation_methods": ["mean"],
        "definition": [{"granularity": 1, "points": 100_000}],
    }).expect(201)
    return store


def all_there(store, wanted):
    """Nothing is missing, nothing is wrong, nothing is there that was not sent."""
    client = store.client()
    for resource, values in wanted.items():
        path = f"/v1/resource/image/{resource}/metric/image.size/measures?refresh=true"
        found = {timestamp: value for timestamp, _, value in client.get(path).expect(200).json()}
        assert found == values, (resource, {*found.items()} ^ {*values.items()})


def restart(store):
    """kill -9 and a start on the same port and data."""
    store.kill()
    store.process = Process(store.command(), store.log_path, env=store.env)


class Life:
    """What an agent has come to when it is killed."""

    def __init__(self, agent, store):
        self.agent, self.store = agent, store
        self.log_bytes, self.measures = len(agent.log()), measures_taken(store)

    def stage(self):
        if measures_taken(self.store) > self.measures:
            return "storing"
        return "connected" if re.search("listening", self.agent.log()[self.log_bytes:]) else "starting"


def test_no_sample_is_lost(rabbitmq, gnudi, agent, seed, rounds, tmp_path):
    random.seed(seed)
    store = prepared(gnudi)
    ours = agent(rabbitmq, store=store, pipeline=PIPELINE)
    ours.start().stop()
    # As much as is sent while so many agents live and die, so that there is work for each.
    notifications, wanted = load(60 + rounds * 60)
    sent = len(notifications) * SAMPLES
    sending = Sending(tmp_path / "sending", rabbitmq.url(), notifications, PACE_S)
    del notifications
    stages, begun = collections.Counter(), time.monotonic()
    try:
        for _ in range(rounds):
            life = Life(ours, store)
            ours.start(wait=False)
            # Early deaths are as likely as late ones, and some come after a long life.
            time.sleep(random.choice([random.uniform(0, longest) for longest in (0.04, 0.3, 1, 2)]))
            stage = life.stage()
            ours.kill()
            stages[stage] += 1
        # On a slow machine all may have died in the same stage.
        if not stages["storing"]:
            life = Life(ours, store)
            ours.start(wait=False)
            wait_until(lambda: life.stage() == "storing", TIMEOUT_S, "the first measures")
            ours.kill()
            stages["storing"] += 1
        for _ in range(20):
            if stages["starting"]:
                break
            life = Life(ours, store)
            ours.start(wait=False)
            stages[life.stage()] += 1
            ours.kill()
        killed_s = time.monotonic() - begun
        ours.start()
        sending.wait(TIMEOUT_S)
    finally:
        sending.kill()
    rabbitmq.wait_empty([QUEUE], TIMEOUT_S)
    taken = measures_taken(store)
    print(f"{rounds} kills in {killed_s:.0f} s, at {dict(stages)}; {sent} samples, {taken - sent} of them twice; "
          f"the last agent: {ours.figure('redelivered'):.0f} messages delivered again")
    all_there(store, wanted)
    # Between the two it listens, for a moment that so few kills may miss.
    assert stages["starting"] and stages["storing"], stages
    assert ours.figure("set_aside") == ours.figure("undecodable") == 0
    assert ours.stop() == 0


@pytest.mark.long
def test_a_store_and_a_broker_that_die_lose_nothing(rabbitmq, gnudi, agent, tmp_path):
    """All of it under load: the store hangs, the store dies and comes back, and the broker dies and comes back."""
    config = ("[oslo_messaging_rabbit]\namqp_durable_queues = true\n[notification]\nnotification_control_exchanges = durable\n"
              "[oslo_messaging_notifications]\ntopics = durable\n")
    store = prepared(gnudi)
    ours = agent(rabbitmq, store=store, pipeline=PIPELINE.replace("policy=each", "policy=each&timeout=2"), config=config).start()
    notifications, wanted = load(800, "durable")
    sending = Sending(tmp_path / "sending", rabbitmq.url(), notifications, PACE_S, topic="durable", amqp_durable_queues=True)
    try:
        wait_until(lambda: measures_taken(store) > 0, TIMEOUT_S, "the first measures")
        total = sum(map(len, wanted.values()))
        store.process.child.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        store.process.child.send_signal(signal.SIGCONT)
        seen = measures_taken(store)
        # A slow test may find all of them there.
        wait_until(lambda: measures_taken(store) >= min(seen + 1, total), TIMEOUT_S, "more measures")
        restart(store)
        rabbitmq.kill()
        rabbitmq.start()
        store.process.wait_ready(store.healthy, TIMEOUT_S)
        sending.wait(TIMEOUT_S)
    finally:
        sending.kill()
    wait_until(lambda: ours.figure("connections") >= 2 and ours.figure("connected") == 1, TIMEOUT_S, "a new connection")
    rabbitmq.wait_empty(["durable.sample"], TIMEOUT_S)
    all_there(store, wanted)
    assert ours.figure("set_aside") == ours.figure("undecodable") == 0
    assert ours.stop() == 0
