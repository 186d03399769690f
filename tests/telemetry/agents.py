"""gnudi's notification agent and Ceilometer's as processes; notifications for them, and the resulting data in the store."""

import base64
import functools
import json
import pathlib
import subprocess
import tempfile
import urllib.request
import uuid

from support import cloud_venv
from support.gnudi import binary
from support.http import figure
from support.process import Process, Program, free_port

HERE = pathlib.Path(__file__).resolve().parent
#: What polling agents send, and where it waits.
QUEUE = "notifications.sample"
#: A pipeline that publishes nothing; of meters, or of events.
NOWHERE = "sources: [{{name: s, {}: ['*'], sinks: [k]}}]\nsinks: [{{name: k, publishers: ['test://']}}]\n"


class Agent(Program):
    """`gnudi agent notification` with a configuration of its own."""

    def __init__(self, directory, broker, config="", store=None, pipeline=None, transport_url=None):
        """`store` is a gnudi server that takes basic authentication; `pipeline` is the text of pipeline.yaml. Without a store
        nothing is published but by that."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        text = f"[DEFAULT]\ntransport_url = {transport_url or broker.url()}\n"
        if store is not None:
            text += f"[gnocchi]\nauth_type = gnocchi-basic\nuser = admin\nendpoint = http://127.0.0.1:{store.port}\n"
        else:
            pipeline = pipeline or NOWHERE.format("meters")
            (self.directory / "event_pipeline.yaml").write_text(NOWHERE.format("events"))
        if pipeline is not None:
            (self.directory / "pipeline.yaml").write_text(pipeline)
        self.config_path = self.directory / "ceilometer.conf"
        self.config_path.write_text(text + config)
        self.log_path = self.directory / "log"
        self.metrics_port = None

    def start(self, wait=True):
        self.metrics_port = free_port()
        command = [binary(), "agent", "notification", "--config-file", self.config_path,
                   "--metrics-listen", f"127.0.0.1:{self.metrics_port}"]
        self.process = Process(command, self.log_path)
        if wait:
            self.process.wait_ready(lambda: self.figure("connected") > 0, 120)
        return self

    def figure(self, name):
        """One of the agent's figures; 0 while it is not there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0
        for line in lines:
            if line.startswith((f"gnudi_notification_{name} ", f"gnudi_notification_{name}_total ")):
                return float(line.split()[1])
        return 0

    def stop(self):
        return self.process.terminate(60)


class CeilometerAgent(Program):
    """The real `ceilometer-agent-notification`, with gnudi as its store."""

    def __init__(self, directory, broker, store, pipeline, event_pipeline, config=""):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, text in (("pipeline.yaml", pipeline), ("event_pipeline.yaml", event_pipeline)):
            (self.directory / name).write_text(text)
        self.config_path = self.directory / "ceilometer.conf"
        self.config_path.write_text(
            f"[DEFAULT]\ntransport_url = {broker.url()}\npipeline_cfg_file = {self.directory}/pipeline.yaml\n"
            f"event_pipeline_cfg_file = {self.directory}/event_pipeline.yaml\n[service_credentials]\nauth_type = none\n"
            "[gnocchi]\nauth_section = gnocchi\nauth_type = gnocchi-basic\nuser = admin\n"
            f"endpoint = http://127.0.0.1:{store.port}\n{config}"
        )
        self.broker, self.log_path = broker, self.directory / "log"

    def start(self, consumers=1):
        """Waits until the queue of samples has so many consumers."""
        command = [cloud_venv.program("ceilometer-agent-notification"), "--config-file", self.config_path]
        self.process = Process(command, self.log_path)
        self.process.wait_ready(lambda: self.broker.consumers().get(QUEUE, 0) >= consumers, 120)
        return self

    def stop(self):
        """At its own pace: a listener ends what it has begun."""
        if self.process is not None and self.process.running():
            self.process.terminate(60)


def sample(resource, name="image.size", volume=1, timestamp="2026-01-01T00:00:00", **more):
    return {"source": "openstack", "counter_name": name, "counter_type": "gauge", "counter_unit": "B",
            "counter_volume": volume, "user_id": "u", "project_id": "p", "resource_id": resource,
            "timestamp": timestamp, "resource_metadata": {"name": "n"}, "message_id": str(uuid.uuid4()), **more}


def polled(samples, exchange="ceilometer"):
    """A polling agent's notification."""
    return {"exchange": exchange, "publisher_id": "ceilometer.polling", "event_type": "telemetry.polling", "priority": "sample",
            "payload": {"samples": samples}}


def notify(url, notifications, driver="messagingv2", topic="notifications", **options):
    """Sends with the real oslo_messaging."""
    job = {"url": url, "driver": driver, "topic": topic, "options": options, "notifications": notifications}
    sender, errors = _sender()
    sender.stdin.write(json.dumps(job) + "\n")
    sender.stdin.flush()
    answer = sender.stdout.readline()
    if not answer:
        errors.seek(0)
        raise AssertionError(errors.read()[-3000:])
    assert not json.loads(answer), json.loads(answer)


@functools.cache
def _sender():
    """What sends for `notify` until the run ends, and with it the pipe; and the file of what it complains of."""
    errors = tempfile.TemporaryFile("w+")
    return subprocess.Popen([str(cloud_venv.python()), str(HERE / "notify.py"), "--each"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=errors, text=True), errors


class Sending:
    """Notifications that the real oslo_messaging sends meanwhile, one after the other with pauses."""

    def __init__(self, directory, url, notifications, pace_s, topic="notifications", **options):
        job = {"url": url, "driver": "messagingv2", "topic": topic, "options": options, "pace_s": pace_s,
               "notifications": notifications}
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "job").write_text(json.dumps(job))
        with open(directory / "job") as given, open(directory / "log", "w") as log:
            self.child = subprocess.Popen([str(cloud_venv.python()), str(HERE / "notify.py")], stdin=given, stdout=log,
                                          stderr=subprocess.STDOUT)
        self.log_path = directory / "log"

    def running(self):
        return self.child.poll() is None

    def wait(self, timeout_s):
        assert self.child.wait(timeout_s) == 0, self.log_path.read_text()[-3000:]

    def kill(self):
        self.child.kill()
        self.child.wait()


def raw_bus(broker, publish=(), drain=()):
    """Puts bytes into queues as they are, and takes messages out: {queue: [(body, headers)]}.

    `publish`: (queue, bytes), or (queue, bytes, {filler, times, headers, nested}).
    """
    items = [{"queue": one[0], "body": base64.b64encode(one[1]).decode(), **(one[2] if len(one) > 2 else {})} for one in publish]
    done = subprocess.run([str(cloud_venv.python()), str(HERE / "raw_bus.py"), f"127.0.0.1:{broker.port}", "guest", "guest"],
                          input=json.dumps({"publish": items, "drain": list(drain)}), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    return {queue: [(base64.b64decode(one["body"]), one["headers"]) for one in found] for queue, found in answer.items()}


def envelope(message, version="2.0"):
    """A message's bytes, in oslo's envelope of a version."""
    return json.dumps({"oslo.version": version, "oslo.message": json.dumps(message)}).encode()


def bare(samples, **fields):
    """A polling agent's notification as it stands in its envelope; `fields` replace its own, None takes one away."""
    message = {"message_id": str(uuid.uuid4()), "publisher_id": "ceilometer.polling", "event_type": "telemetry.polling",
               "priority": "SAMPLE", "payload": {"samples": samples}, "timestamp": "2026-01-01 00:00:00.000000",
               "_unique_id": uuid.uuid4().hex, **fields}
    return {key: value for key, value in message.items() if value is not None}


def measures_taken(store):
    """How many measures a gnudi server was given so far, each as often as it came."""
    return int(figure(store.client(), "gnudi_api_measures_total") or 0)


def stored(client, resource, name="image.size"):
    """The measures of a resource's metric as {timestamp: value}; empty while there is none."""
    answer = client.get(f"/v1/resource/generic/{resource}/metric/{name}/measures?refresh=true")
    return {} if answer.status == 404 else {time: value for time, _, value in answer.expect(200).json()}
