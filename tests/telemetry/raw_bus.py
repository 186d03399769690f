"""Publishes raw bytes to queues, and drains queues, in the cloud's Python.

    python raw_bus.py HOST:PORT USER PASSWORD < job      (JSON: publish, drain; answers what was drained as JSON)

`publish` is a list of {queue, body (Base64), filler (that many more bytes), times, headers, nested (an array within an array, that
many times, in a header)}; queues must be there. `drain` is a
list of queues; what was in them is {queue: [{body, headers}]}.
"""

import base64
import json
import struct
import sys

import amqp


class NestedMessage(amqp.Message):
    """A message whose one header the library would write by recursion."""

    levels = 0

    def _serialize_properties(self):
        field = b"\x01a" + b"".join(b"A" + struct.pack(">I", 5 * inner) for inner in reversed(range(self.levels)))
        has_headers = 1 << 13
        return struct.pack(">HI", has_headers, len(field)) + field


def publish(channel, item):
    body = base64.b64decode(item["body"])
    if item.get("filler"):
        body += b" " * item["filler"]
    message = NestedMessage(body) if item.get("nested") else amqp.Message(
        body, application_headers=item.get("headers", {}), content_type="application/json", delivery_mode=2)
    message.levels = item.get("nested", 0)
    for _ in range(item.get("times", 1)):
        channel.basic_publish_confirm(message, exchange="", routing_key=item["queue"], mandatory=True)


def drain(channel, queue):
    found = []
    while message := channel.basic_get(queue, no_ack=True):
        body = message.body.encode() if isinstance(message.body, str) else message.body
        headers = message.properties.get("application_headers", {})
        found.append({"body": base64.b64encode(body[:1 << 20]).decode(), "headers": headers})
    return found


def main():
    host, user, password = sys.argv[1:]
    job = json.load(sys.stdin)
    with amqp.Connection(host, user, password, confirm_publish=True) as connection:
        channel = connection.channel()
        for item in job.get("publish", []):
            publish(channel, item)
        json.dump({queue: drain(channel, queue) for queue in job.get("drain", [])}, sys.stdout)


main()
