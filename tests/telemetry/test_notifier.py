"""The notifier publisher, compared with Ceilometer's: the same notifications on the same broker."""

import json
import random
import re
import time

import pytest

from support.process import wait_until
from telemetry import values
from telemetry.agents import Sending, notify, polled, sample

ROUNDS = 3
TIMEOUT_S = 120


def notifications(theirs, rabbitmq, topic):
    """What waits in a topic's queue, without what differs from one message to the next."""
    told = []
    for body in theirs.ask({"drain": f"{topic}.sample", "broker": rabbitmq.url()}):
        envelope = json.loads(body)
        assert envelope.pop("oslo.version") == "2.0"
        message = json.loads(envelope.pop("oslo.message"))
        assert not envelope
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", message.pop("timestamp"))
        assert re.fullmatch("[0-9a-f]{32}", message.pop("_unique_id"))
        assert re.fullmatch("[0-9a-f-]{36}", message.pop("message_id"))
        told.append({name: value for name, value in message.items() if not name.startswith("_context_")})
    return told


@pytest.mark.parametrize("options, topics", [
    ("", ["metering"]),
    ("?per_meter_topic=1&policy=drop", ["metering"]),
    ("?topic=one&topic=two&policy=queue&max_queue_length=10", ["one", "two"]),
    ("{netloc}/?topic=three", ["three"]),
])
def test_samples_come_as_from_ceilometer(ours, theirs, rabbitmq, seed, rounds, options, topics):
    rng = random.Random(seed)
    netloc = rabbitmq.url().removeprefix("rabbit://").rstrip("/")
    for _ in range(rounds):
        line = {
            "publish": "notifier://" + options.replace("{netloc}", netloc),
            "samples": [values.sample(rng) for _ in range(rng.randrange(1, 6))],
            "secret": "s", "host": "a-host", "broker": rabbitmq.url(),
        }
        assert theirs.ask(line) is None
        expected = [notifications(theirs, rabbitmq, topic) for topic in topics]
        assert all(expected)
        assert ours.ask(line) is None
        assert [waiting(theirs, rabbitmq, topic, len(some)) for topic, some in zip(topics, expected)] == expected


def waiting(theirs, rabbitmq, topic, count):
    """With the policy `queue` they come when they come."""
    told = []
    deadline = time.monotonic() + 60
    while len(told) < count and time.monotonic() < deadline:
        told += notifications(theirs, rabbitmq, topic)
    return told


def test_events_come_as_from_ceilometer(ours, theirs, rabbitmq, seed, rounds):
    rng = random.Random(seed)
    for _ in range(rounds):
        line = {
            "publish": "notifier://", "events": [values.event(rng) for _ in range(rng.randrange(1, 6))],
            "secret": "s", "host": "a-host", "broker": rabbitmq.url(),
        }
        assert theirs.ask(line) is None
        expected = notifications(theirs, rabbitmq, "event")
        assert ours.ask(line) is None
        assert notifications(theirs, rabbitmq, "event") == expected


LASTING = """[oslo_messaging_rabbit]
amqp_durable_queues = true
[DEFAULT]
control_exchange = out
[notification]
notification_control_exchanges = in
pipelines = meter
[oslo_messaging_notifications]
topics = in
"""
PIPELINE = "sources: [{name: s, meters: ['*'], sinks: [k]}]\nsinks: [{name: k, publishers: ['notifier://?topic=out']}]\n"


def numbers(theirs, rabbitmq):
    """Of the samples that wait in the queue."""
    return [one["counter_volume"] for message in notifications(theirs, rabbitmq, "out") for one in message["payload"]]


@pytest.mark.long
def test_a_broker_that_dies_loses_nothing(theirs, rabbitmq, agent, tmp_path):
    """An agent passes on what it takes, from a broker to the same: the broker is killed under load."""
    ours = agent(rabbitmq, pipeline=PIPELINE, config=LASTING).start()
    sent = 0
    # On a busy machine all may be sent before the death: then there are more, and another death.
    for number in range(5):
        load = [polled([sample("r", volume=volume)], "in") for volume in range(sent, sent + 400)]
        sending = Sending(tmp_path / f"sending-{number}", rabbitmq.url(), load, 0.01, topic="in", amqp_durable_queues=True)
        try:
            wait_until(lambda wanted=sent + 50: ours.figure("acknowledged") > wanted, TIMEOUT_S, "some that were passed on")
            before = ours.figure("acknowledged")
            rabbitmq.kill()
            is_under_load = sending.running()
            rabbitmq.start()
            sending.wait(TIMEOUT_S)
        finally:
            sending.kill()
        sent += 400
        wait_until(lambda: ours.figure("connected") == 1, TIMEOUT_S, "a new connection")
        rabbitmq.wait_empty(["in.sample"], TIMEOUT_S)
        if is_under_load and before < sent:
            break
    found = numbers(theirs, rabbitmq)
    assert set(found) == set(range(sent)) and is_under_load and before < sent
    print(f"{len(found) - sent} of {sent} samples twice; {before:.0f} before the death")
    assert ours.figure("set_aside") == ours.figure("undecodable") == 0
    # A queue that somebody deletes is declared anew: what nobody would have got is not lost either.
    rabbitmq.delete_queue("out.sample")
    notify(rabbitmq.url(), [polled([sample("r", volume=1000)], "in")], topic="in", amqp_durable_queues=True)
    wait_until(lambda: rabbitmq.depths().get("out.sample", 0) == 1, TIMEOUT_S, "a sample")
    assert numbers(theirs, rabbitmq) == [1000]
    assert ours.stop() == 0
