"""Runs in the environment of the real Ceilometer: publishes the samples and events of standard input by its GnocchiPublisher.

usage: ceilometer_publisher.py CONFIGURATION PUBLISHER_URL; lines are those of the example gnocchi_publisher.
"""

import json
import sys
import urllib.parse

from ceilometer import sample, service
from ceilometer.event import models
from ceilometer.publisher import gnocchi


def sample_of(line):
    return sample.Sample(
        name=line["name"], type=line["type"], unit=line["unit"], volume=line["volume"], user_id=line["user_id"],
        project_id=line["project_id"], resource_id=line["resource_id"], timestamp=line["timestamp"],
        resource_metadata=line["resource_metadata"], source="openstack",
    )


def event_of(line):
    kinds = {int: models.Trait.INT_TYPE, float: models.Trait.FLOAT_TYPE}
    traits = [models.Trait(name, kinds.get(type(value), models.Trait.TEXT_TYPE), value) for name, value in line["traits"]]
    return models.Event(line["message_id"], line["event_type"], None, traits, {})


def main():
    configuration, url = sys.argv[1:]
    conf = service.prepare_service(argv=[], config_files=[configuration])
    publisher = gnocchi.GnocchiPublisher(conf, urllib.parse.urlparse(url))
    for line in map(json.loads, sys.stdin):
        if "samples" in line:
            publisher.publish_samples([sample_of(one) for one in line["samples"]])
        if "events" in line:
            publisher.publish_events([event_of(one) for one in line["events"]])


main()
