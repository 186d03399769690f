"""Reads notifications of samples from a broker as Ceilometer does, and writes each as a line of JSON: its topic, its envelope's message,
whether Ceilometer's own function accepts the samples' signatures, and whether it still does after a sample was altered.

Arguments: the broker's URL, the secret. Gets copies of all messages of priority SAMPLE on the exchange `ceilometer`, so that
agents can get the same ones. For each number on a line of its standard input it publishes a mark there, and writes `{"mark": number}` when
the mark comes: then all that was published before is written. Ends with its standard input.
"""

import json
import os
import sys
import threading
import traceback

import kombu
from ceilometer.publisher.utils import verify_signature

url, secret = sys.argv[1:]
exchange = kombu.Exchange("ceilometer", type="topic", durable=False)
#: The routing key of marks: no agent's topic.
MARK = "mark.sample"


def mark_until_input_ends():
    try:
        for number in sys.stdin:
            with kombu.Connection(url) as connection:
                connection.Producer(exchange=exchange).publish({"mark": int(number)}, routing_key=MARK, serializer="json")
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
    os._exit(0)


def altered(sample):
    """What somebody might make of it on the way, in each way that would matter."""
    yield {**sample, "counter_volume": 77777.5}
    yield {**sample, "resource_id": "another"}
    yield {**sample, "resource_metadata": {**sample["resource_metadata"], "display_name": "another"}}


def take(body, message):
    if message.delivery_info["routing_key"] == MARK:
        print(json.dumps(body), flush=True)
        message.ack()
        return
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
    queue = kombu.Queue("reader", exchange, routing_key="*.sample", durable=False, exclusive=True)
    with connection.Consumer(queue, callbacks=[take], accept=["json"]):
        print("ready", flush=True)
        threading.Thread(target=mark_until_input_ends, daemon=True).start()
        while True:
            connection.drain_events()
