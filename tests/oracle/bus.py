"""Reads notifications of samples from a broker as Ceilometer does, and writes each as a line of JSON: its topic, its envelope's message,
whether Ceilometer's own function accepts the samples' signatures, and whether it still does after a sample was altered.

Arguments: the broker's URL, the secret. Gets copies of all messages of priority SAMPLE on the exchange `ceilometer`, so that
agents can get the same ones. Ends with its standard input.
"""

import json
import os
import sys
import threading

import kombu
from ceilometer.publisher.utils import verify_signature

url, secret = sys.argv[1:]


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def altered(sample):
    """What somebody might make of it on the way, in each way that would matter."""
    yield {**sample, "counter_volume": 77777.5}
    yield {**sample, "resource_id": "another"}
    yield {**sample, "resource_metadata": {**sample["resource_metadata"], "display_name": "another"}}


def take(body, message):
    envelope = json.loads(message.body)
    inner = json.loads(envelope["oslo.message"])
    samples = inner["payload"]["samples"]
    line = {
        "topic": message.delivery_info["routing_key"].split(".")[0],
        "version": envelope["oslo.version"],
        "verified": all(verify_signature(sample, secret) for sample in samples),
        "verified_altered": any(verify_signature(other, secret) for other in altered(samples[0])),
        "message": inner,
    }
    print(json.dumps(line), flush=True)
    message.ack()


with kombu.Connection(url) as connection:
    exchange = kombu.Exchange("ceilometer", type="topic", durable=False)
    queue = kombu.Queue("reader", exchange, routing_key="*.sample", durable=False, exclusive=True)
    with connection.Consumer(queue, callbacks=[take], accept=["json"]):
        print("ready", flush=True)
        threading.Thread(target=end_with_input, daemon=True).start()
        while True:
            connection.drain_events()
