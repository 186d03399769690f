"""Sends notifications with the real oslo_messaging, in the cloud's Python.

    python notify.py < job      (JSON: url, driver, topic, options, pace_s, notifications)
    python notify.py --each     (a job a line; answers a line for each: what went wrong, or nothing)

Each notification is {exchange, publisher_id, event_type, priority, payload}; `pace_s` is the pause after each. To load oslo_messaging
takes a second: with `--each` a fork that has loaded it does each job, and leaves nothing for the next.
"""

import json
import os
import signal
import sys
import time
import traceback

import kombu.transport.pyamqp  # noqa: F401
import oslo_messaging
import oslo_messaging.notify.messaging  # noqa: F401
from oslo_config import cfg

TIMEOUT_S = 300


def send(job):
    conf = cfg.ConfigOpts()
    conf([], project="test")
    notifiers = {}
    for item in job["notifications"]:
        exchange = item.get("exchange", "ceilometer")
        if exchange not in notifiers:
            oslo_messaging.set_transport_defaults(exchange)
            transport = oslo_messaging.get_notification_transport(conf, url=job["url"])
            if not notifiers:
                for name, value in job.get("options", {}).items():
                    conf.set_override(name, value, group="oslo_messaging_rabbit")
            conf.set_override("control_exchange", exchange)
            notifiers[exchange] = oslo_messaging.Notifier(transport, driver=job["driver"], topics=[job["topic"]])
        conf.set_override("control_exchange", exchange)
        notifier = notifiers[exchange].prepare(publisher_id=item["publisher_id"])
        getattr(notifier, item["priority"])({"request_id": "req-1"}, item["event_type"], item["payload"])
        time.sleep(job.get("pace_s", 0))


def in_a_fork(job):
    """What went wrong."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(TIMEOUT_S)
        try:
            send(job)
        except BaseException:  # pylint: disable=broad-except
            os.write(writer, traceback.format_exc()[-3000:].encode())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="replace") as told:
        why = told.read()
    _, status = os.waitpid(child, 0)
    return why or (f"the fork ended with status {status}" if status else "")


def main():
    if sys.argv[1:] != ["--each"]:
        send(json.load(sys.stdin))
        return
    # Loads the driver, which each fork would load otherwise.
    oslo_messaging.get_notification_transport(cfg.ConfigOpts(), url="rabbit://127.0.0.1:1/").cleanup()
    for line in sys.stdin:
        print(json.dumps(in_a_fork(json.loads(line))), flush=True)


main()
