"""Reads notifications of samples off a broker as Ceilometer does, and writes each as a line of JSON: its envelope's message,
and whether Ceilometer's own function takes the samples' signatures.

Arguments: the broker's URL, the secret. Ends with its standard input.
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


def take(body, message):
    envelope = json.loads(message.body)
    inner = json.loads(envelope["oslo.message"])
    samples = inner["payload"]["samples"]
    verified = all(verify_signature(sample, secret) for sample in samples)
    print(json.dumps({"version": envelope["oslo.version"], "verified": verified, "message": inner}), flush=True)
    message.ack()


with kombu.Connection(url) as connection:
    exchange = kombu.Exchange("ceilometer", type="topic", durable=False)
    queue = kombu.Queue("notifications.sample", exchange, routing_key="notifications.sample", durable=False)
    with connection.Consumer(queue, callbacks=[take], accept=["json"]):
        print("ready", flush=True)
        threading.Thread(target=end_with_input, daemon=True).start()
        while True:
            connection.drain_events()
