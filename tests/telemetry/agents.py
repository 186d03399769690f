"""Our notification agent as a process, notifications for it, and what of them has come to the store."""

import json
import pathlib
import subprocess
import urllib.request
import uuid

from support import cloud_venv
from support.gnudi import binary
from support.process import Process, free_port

HERE = pathlib.Path(__file__).resolve().parent
#: What polling agents send, and where it waits.
QUEUE = "notifications.sample"


class Agent:
    """`gnudi agent notification` with a configuration of its own."""

    def __init__(self, directory, broker, config="", store=None, pipeline=None, transport_url=None):
        """`store` is a gnudi server that takes basic authentication; `pipeline` is the text of pipeline.yaml."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        text = f"[DEFAULT]\ntransport_url = {transport_url or broker.url()}\n"
        if store is not None:
            text += f"[gnocchi]\nauth_type = gnocchi-basic\nuser = admin\nendpoint = http://127.0.0.1:{store.port}\n"
        if pipeline is not None:
            (self.directory / "pipeline.yaml").write_text(pipeline)
        self.config_path = self.directory / "ceilometer.conf"
        self.config_path.write_text(text + config)
        self.log_path = self.directory / "log"
        self.process = self.metrics_port = None

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
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0
        for line in lines:
            if line.startswith((f"gnudi_notification_{name} ", f"gnudi_notification_{name}_total ")):
                return float(line.split()[1])
        return 0

    def stop(self):
        return self.process.terminate(60)

    def kill(self):
        self.process.kill()


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
    done = subprocess.run([str(cloud_venv.python()), str(HERE / "notify.py")], input=json.dumps(job),
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def stored(client, resource, name="image.size"):
    """The measures of a resource's metric as {timestamp: value}; empty while there is none."""
    answer = client.get(f"/v1/resource/generic/{resource}/metric/{name}/measures?refresh=true")
    return {} if answer.status == 404 else {time: value for time, _, value in answer.expect(200).json()}
