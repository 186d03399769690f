#!/usr/bin/env python3
"""Applies Ceilometer's own classes to documents and notifications, read as lines of JSON on stdin. The counterpart of the telemetry crate's
example `definitions`, with the same tasks and forms of answers.

Runs in the cloud's virtual environment. It also generates notifications for the installed definitions:

    {"do": "generate", "seed": 1, "count": 100}                   [{"priority": "info", "message": {}}]
"""

import contextlib
import copy
import datetime
import functools
import json
import logging
import pathlib
import random
import re
import sys
import time

import ceilometer
import jsonpath_rw
import ply.lex
import ply.yacc
import yaml
from ceilometer import declarative
from ceilometer import middleware
from ceilometer import service
from ceilometer.event import converter
from ceilometer.ipmi.notifications import ironic
from ceilometer.meter import notifications
from jsonpath_rw_ext import _arithmetic
from jsonpath_rw_ext import _filter
from jsonpath_rw_ext import _string
from jsonpath_rw_ext import parser
from stevedore import extension

PACKAGE = pathlib.Path(ceilometer.__file__).parent
METERS = PACKAGE / "data" / "meters.d" / "meters.yaml"
EVENTS = PACKAGE / "pipeline" / "data" / "event_definitions.yaml"
EPOCH = datetime.datetime(1970, 1, 1)
PARSER = parser.ExtentedJsonPathParser()
# Those that setup.cfg names, besides that of polled samples.
ENDPOINTS = [ironic.TemperatureSensorNotification, ironic.VoltageSensorNotification, ironic.CurrentSensorNotification,
             ironic.FanSensorNotification, middleware.HTTPRequest, middleware.HTTPResponse]


def made_once(make):
    """jsonpath_rw makes the tables of its one grammar anew for every path, which takes most of a random test's time."""
    made = []

    def once(*arguments, **options):
        if not made:
            made.append(make(*arguments, **options))
        return made[0]
    return once


LEX = made_once(ply.lex.lex)
ply.yacc.yacc = made_once(ply.yacc.yacc)
ply.lex.lex = lambda *arguments, **options: LEX(*arguments, **options).clone()
parse = functools.cache(PARSER.parse)


class Ceilometer:
    """The classes, with what they are configured by."""

    def __init__(self):
        self.conf = service.prepare_service(argv=[], config_files=[])
        logging.disable(logging.CRITICAL)
        self.endpoints = [endpoint(self.conf, None) for endpoint in ENDPOINTS]
        self.plugins = extension.ExtensionManager(namespace="ceilometer.event.trait_plugin")
        self.load_meters(None)
        self.load_events(None, False, [])

    def load_meters(self, folders):
        shipped = [str(METERS.parent)]
        self.conf.set_override("meter_definitions_dirs", folders or shipped, "meter")
        self.processor = notifications.ProcessMeterNotifications(self.conf, None)

    def load_events(self, file, drop, raw):
        self.conf.set_override("drop_unmatched_notifications", drop, "event")
        self.conf.set_override("store_raw", raw, "event")
        self.conf.set_override("definitions_cfg_file", file or str(EVENTS), "event")
        self.converter = converter.setup_events(self.conf, self.plugins)

    def answer(self, task):
        return getattr(self, task.pop("do"))(**task)

    def path(self, path, document):
        try:
            parsed = PARSER.parse(path)
        except Exception as error:
            return {"refused": repr(error)}
        try:
            return {"values": [found.value for found in parsed.find(document) if found is not None]}
        except Exception as error:
            return {"error": repr(error)}

    def field(self, field, document, **options):
        try:
            parsed = declarative.Definition("field", field, self.plugins)
        except Exception as error:
            return {"refused": repr(error)}
        try:
            found = parsed.parse(document, options["all"])
        except Exception as error:
            return {"error": repr(error)}
        if isinstance(found, list) and options["all"]:
            return {"values": found}
        return {"values": [] if found is None else [found]}

    def meters(self, folders):
        self.load_meters(folders)
        return {"meters": len(self.processor.definitions)}

    def events(self, **options):
        try:
            self.load_events(**options)
        except Exception as error:
            return {"refused": repr(error)}
        return {}

    def samples(self, message):
        yield from self.processor.build_sample(message)
        for endpoint in self.endpoints:
            if endpoint.filter_rule.match({}, "", message["event_type"], {}, {}):
                yield from endpoint.build_sample(message)

    def notification(self, priority, message):
        answer = {}
        try:
            samples = [sample.as_dict() for sample in self.samples(copy.deepcopy(message))]
            for sample in samples:
                del sample["id"]
            answer["samples"] = samples
        except Exception as error:
            answer["sample_error"] = repr(error)
        try:
            event = self.converter.to_event(priority, copy.deepcopy(message))
            answer["event"] = event and {
                "message_id": event.message_id,
                "event_type": event.event_type,
                "generated": nanoseconds(event.generated),
                "traits": [[item.name, [item.dtype, value_of(item)]] for item in event.traits],
                "raw": event.raw or None,
            }
        except Exception as error:
            answer["event_error"] = repr(error)
        return answer

    def speed(self, rounds, messages):
        texts = [json.dumps(message) for message in messages]
        samples = events = 0
        started = time.process_time()
        for _ in range(rounds):
            for text in texts:
                message = json.loads(text)
                try:
                    samples += len(list(self.processor.build_sample(message)))
                except Exception:
                    pass
                try:
                    events += self.converter.to_event("info", message) is not None
                except Exception:
                    pass
        return {"seconds": time.process_time() - started, "samples": samples, "events": events}

    def generate(self, seed, count):
        rng = random.Random(seed)
        makers = list(shipped())
        chosen = [makers[at % len(makers)] for at in range(count)]
        return [notification_for(rng, *maker) for maker in chosen]


def nanoseconds(when):
    return (when - EPOCH) // datetime.timedelta(microseconds=1) * 1000


def value_of(item):
    if isinstance(item.value, datetime.datetime):
        return nanoseconds(item.value)
    return repr(item.value) if isinstance(item.value, float) else item.value


def shipped():
    """For each definition that is installed: its event types, and the paths in it."""
    for definition in yaml.safe_load(METERS.read_text())["metric"]:
        types = definition["event_type"]
        keys = ["name"] * definition["name"].startswith("$") + ["unit", "volume", "resource_id", "user_id", "project_id", "timestamp", "user_metadata"]
        fields = [definition[key] for key in keys if key in definition] + list(definition.get("metadata", {}).values())
        yield [types] if isinstance(types, str) else types, fields
    for definition in yaml.safe_load(EVENTS.read_text()):
        types = definition["event_type"]
        yield [types] if isinstance(types, str) else types, list(definition["traits"].values())


WORDS = ["start", "end", "exists", "create", "create.start", "update", "x", "http.response", ""]


def event_type_for(rng, pattern):
    text = re.sub(r"\(\?!.*?\)", lambda _: rng.choice(["", "", "update", "create.start"]), pattern)
    text = re.sub(r"\.?\*", lambda star: ("." if star.group()[0] == "." else "") + rng.choice(WORDS), text)
    return text if rng.random() < 0.95 else rng.choice(["x.", ""]) + text + rng.choice(["", "x"])


def value_for(rng, name):
    """What usually stands there, and now and then something else."""
    if rng.random() < 0.12:
        return rng.choice([None, None, "", 0, False, True, 1.5, [], {}, ["x", None], {"b": 1, "a": [1.0]}, "é" * 300, "2001-02-03"])
    if re.search("_at$|timestamp|audit|[tT]ime$", name):
        day = datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**7), microseconds=rng.choice([0, rng.randrange(10**6)]))
        return day.isoformat(rng.choice("T ")) + rng.choice(["", "", "Z", "+00:00", "-05:30"])
    if re.search("size|_gb$|_mb$|vcpus|total|free|allocated|provisioned|volume|value|bytes|result", name):
        return rng.choice([rng.randrange(100), rng.random() * 100, str(rng.randrange(100)), f" {rng.randrange(9)}_0 "])
    if name == "metadata":
        return {rng.choice(["metering.a.b", "metering.x", "metering.host", "y"]): rng.choice(["v", 1, None, "w" * 300]) for _ in range(3)}
    return rng.choice(["a", "b#c", "success", "host.name.x", f"{rng.getrandbits(64):x}", rng.randrange(10)])


def plant(rng, node, slots):
    """Makes room for what a path looks for; answers where its end is, as containers and keys."""
    def under(slot, kind, fill):
        container, key = slot
        if not isinstance(container[key], kind):
            container[key] = fill()
        return container[key]

    if isinstance(node, (jsonpath_rw.Child, jsonpath_rw.Descendants)):
        return plant(rng, node.right, plant(rng, node.left, slots))
    if isinstance(node, jsonpath_rw.Union):
        return plant(rng, node.left, slots) + plant(rng, node.right, slots)
    if isinstance(node, _arithmetic.Operation):
        sides = [side for side in (node.left, node.right) if isinstance(side, jsonpath_rw.JSONPath)]
        return [end for side in sides for end in plant(rng, side, slots)]
    if isinstance(node, jsonpath_rw.Fields):
        ends = []
        for slot in slots:
            parent = under(slot, dict, dict)
            for field in node.fields:
                if rng.random() < 0.93:
                    parent.setdefault(field, None)
                    ends.append((parent, field))
        return ends
    if isinstance(node, (jsonpath_rw.Slice, jsonpath_rw.Index, _filter.Filter)):
        ends = []
        for slot in slots:
            parent = under(slot, list, lambda: [None] * rng.choice([0, 1, 2, 3]))
            if isinstance(node, _filter.Filter) and rng.random() < 0.9:
                parent.append({found.fields[0]: expression.value for expression in node.expressions
                               for found in [getattr(expression.target, "right", expression.target)]})
            ends.extend((parent, at) for at in range(len(parent)))
        return ends
    assert isinstance(node, (jsonpath_rw.Root, jsonpath_rw.This, _string.Split, _string.Sub)), node
    return slots


def notification_for(rng, types, fields):
    ids = [f"{rng.getrandbits(128):032x}", None, 7, ""]
    keys = ["user_id", "user", "tenant_id", "project_id", "request_id", "trustor_user_id"]
    ctxt = {key: rng.choice(ids[:1] * 6 + ids) for key in keys if rng.random() < 0.7}
    if rng.random() < 0.1:
        ctxt["ctxt"] = {"user": "within"}
    message = {
        "ctxt": ctxt,
        "publisher_id": rng.choice(["compute.host-1", "image.localhost", "a.b.c", "x"]),
        "event_type": event_type_for(rng, rng.choice(types)),
        "payload": {},
        "metadata": {
            "message_id": f"{rng.getrandbits(128):032x}",
            "timestamp": f"2026-03-0{rng.randrange(1, 10)} 04:05:06" + rng.choice(["", ".789012", ".5"]),
        },
    }
    for field in fields:
        paths = field["fields"] if isinstance(field, dict) else field
        for path in paths if isinstance(paths, list) else [paths]:
            if not isinstance(path, str):
                continue
            for container, key in plant(rng, parse(path), [({"": message}, "")]):
                if container is not message and container is not message["metadata"] and not isinstance(container[key], (dict, list)):
                    container[key] = value_for(rng, key if isinstance(key, str) else "")
    if rng.random() < 0.03:
        message["payload"] = rng.choice([None, [], "x", 5, {}])
    items = [item for item in message["payload"].items()] if isinstance(message["payload"], dict) else []
    if rng.random() < 0.05 and items:
        message["payload"][rng.choice(items)[0]] = rng.choice([None, 5, "x", [], {}, [{}], 1.5])
    priority = rng.choice(["info", "info", "error", "sample"])
    return {"priority": priority, "message": message}


def main():
    # One operator prints what it is made of.
    answers, sys.stdout = sys.stdout, sys.stderr
    with contextlib.redirect_stdout(None):
        peer = Ceilometer()
        for line in sys.stdin:
            print(json.dumps(peer.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
