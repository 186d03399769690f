"""kill -9 of the notification agent at random instants under load: every sample that was published is in the store in the end.

30 rounds, or `--rounds`.
"""

import random
import time
import uuid

from support.process import wait_until
from telemetry.agents import QUEUE, notify, polled, sample, stored

ROUNDS = 30
MESSAGES = 200
SAMPLES = 10
TIMEOUT_S = 300


def batch(start, resources):
    """Messages of samples, each of which is known by its volume."""
    volumes = iter(range(start, start + MESSAGES * SAMPLES))
    return [polled([sample(random.choice(resources), volume=volume, timestamp=stamp(volume))
                    for volume in (next(volumes) for _ in range(SAMPLES))]) for _ in range(MESSAGES)]


def stamp(number):
    """A time of its own for each, so that no two measures meet in a bucket of five minutes."""
    base = 1_767_225_600 + 300 * number
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(base))


def expected(notifications):
    wanted = {}
    for notification in notifications:
        for one in notification["payload"]["samples"]:
            wanted.setdefault(one["resource_id"], set()).add(one["counter_volume"])
    return wanted


def test_no_sample_is_lost(rabbitmq, gnudi, agent, seed, rounds):
    random.seed(seed)
    store = gnudi(arguments=["--skip-archive-policies-creation"])
    resources = [str(uuid.UUID(int=number + 1)) for number in range(5)]
    ours = agent(rabbitmq, store=store).start()
    sent = []
    for number in range(rounds):
        if number % 10 == 0:
            fresh = batch(number * MESSAGES * SAMPLES, resources)
            sent += fresh
            if ours.process.running():
                ours.kill()
            notify(rabbitmq.url(), fresh)
        if not ours.process.running():
            ours.start(wait=False)
        time.sleep(random.uniform(0.0, 0.4))
        if number == rounds // 2:
            store.kill()
            time.sleep(0.2)
            port = store.port
            store.spawn()
            assert port
            ours.kill()
            ours.config_path.write_text(ours.config_path.read_text().replace(f":{port}\n", f":{store.port}\n"))
            store.process.wait_ready(store.healthy, 60)
        ours.kill()
    ours.start()
    rabbitmq.wait_empty([QUEUE], TIMEOUT_S)
    client = store.client()
    for resource, volumes in expected(sent).items():
        wait_until(lambda name=resource, wanted=volumes: wanted <= set(stored(client, name).values()), TIMEOUT_S, resource)
    assert ours.stop() == 0
