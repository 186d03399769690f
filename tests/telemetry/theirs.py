"""Runs Ceilometer's own classes in its virtual environment: JSON lines on standard input, answers as JSON lines on standard output. The
counterpart of the example `publishers`, with the same lines."""

import datetime
import functools
import json
import sys

from ceilometer import sample, service
from ceilometer.event import models
from ceilometer.pipeline import event as event_pipeline
from ceilometer.pipeline import sample as sample_pipeline
from ceilometer.publisher import get_publisher, utils

EPOCH = datetime.datetime(1970, 1, 1)


@functools.cache
def configuration(folder, secret="", host="h", broker="rabbit://"):
    path = f"{folder}/ceilometer.conf"
    with open(path, "w") as file:
        file.write(f"[DEFAULT]\nhost = {host}\ntransport_url = {broker}\n[publisher]\ntelemetry_secret = {secret}\n")
    return service.prepare_service(argv=[], config_files=[path])


def event(fields):
    def value(number, given):
        return EPOCH + datetime.timedelta(microseconds=given) if number == models.Trait.DATETIME_TYPE else given

    traits = [models.Trait(name, number, value(number, given)) for name, number, given in fields["traits"]]
    generated = EPOCH + datetime.timedelta(microseconds=fields["generated_us"])
    return models.Event(fields["message_id"], fields["event_type"], generated, traits, fields["raw"])


def named_sample(name):
    name, volume = name if isinstance(name, list) else (name, 1)
    return sample.Sample(name, "gauge", "B", volume, None, None, "r")


def route(line, conf):
    is_events = line["events"]
    kind = event_pipeline.EventPipelineManager if is_events else sample_pipeline.SamplePipelineManager
    conf.set_override("event_pipeline_cfg_file" if is_events else "pipeline_cfg_file", line["route"])
    published = {}

    class Names:
        def __init__(self, url):
            self.batches = published.setdefault(url, [])

        def publish_samples(self, samples):
            self.batches.append([one.name for one in samples])

        def publish_events(self, events):
            self.batches.append([one.event_type for one in events])

    from ceilometer import publisher

    real, publisher.get_publisher = publisher.get_publisher, lambda conf, url, namespace: Names(url)
    try:
        manager = kind(conf)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        publisher.get_publisher = real
    for batch in line["batches"]:
        if is_events:
            items = [models.Event("m", name, EPOCH, [], {}) for name in batch]
        else:
            items = [named_sample(name) for name in batch]
        with manager.publisher() as publish:
            publish(items)
    return {"published": published}


def publish(line, folder):
    conf = configuration(folder, line["secret"], line["host"], line.get("broker", "rabbit://"))
    purpose = "event" if "events" in line else "sample"
    publisher = get_publisher(conf, line["publish"], f"ceilometer.{purpose}.publisher")
    if purpose == "event":
        publisher.publish_events([event(fields) for fields in line["events"]])
    else:
        publisher.publish_samples([sample.Sample(**fields) for fields in line["samples"]])


def drain(line):
    """All messages that wait in a queue."""
    import kombu

    bodies = []
    with kombu.Connection(line["broker"].replace("rabbit:", "amqp:")) as connection:
        channel = connection.channel()
        while message := channel.basic_get(line["drain"], no_ack=True):
            bodies.append(message.body if isinstance(message.body, str) else message.body.decode())
    return bodies


def answer(line, folder):
    if "drain" in line:
        return drain(line)
    if "sign" in line:
        return utils.compute_signature(line["sign"], line["secret"])
    if "verify" in line:
        return [utils.verify_signature(message, line["secret"]) for message in line["verify"]]
    if "messages" in line:
        return [utils.meter_message_from_counter(sample.Sample(**fields), line["secret"]) for fields in line["messages"]]
    if "globs" in line:
        import fnmatch

        return [fnmatch.fnmatch(name, pattern) for pattern, name in line["globs"]]
    if "route" in line:
        return route(line, configuration(folder))
    return publish(line, folder)


def main(folder):
    # What Ceilometer logs must not stand among the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), folder)), file=answers, flush=True)


main(sys.argv[1])
