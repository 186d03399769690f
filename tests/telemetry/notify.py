"""Sends notifications with the real oslo_messaging, in the cloud's Python.

    python notify.py < job      (JSON: url, driver, topic, options, pace_s, notifications)

Each notification is {exchange, publisher_id, event_type, priority, payload}; `pace_s` is the pause after each.
"""

import json
import sys
import time

import oslo_messaging
from oslo_config import cfg


def main():
    job = json.load(sys.stdin)
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


main()
