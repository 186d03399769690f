"""gnudi's publisher and Ceilometer's with the same input; and random samples and events."""

import json
import os
import pathlib
import subprocess
import uuid

import pytest

from support import cloud_venv
from support.gnudi import example

HERE = pathlib.Path(__file__).resolve().parent
#: Neither publisher repeats a request because the other side is slow.
EVERYTHING = "gnocchi://?enable_filter_project=false&timeout=120"
TIMEOUT_S = 240


def publisher():
    """Our side."""
    return example("gnudi-telemetry", "gnocchi_publisher")


def publish_ours(store_url, lines, url=EVERYTHING):
    """What became of each line: None, or the error."""
    text = "".join(json.dumps(line) + "\n" for line in [*lines, {"wait": True}])
    done = subprocess.run([publisher(), store_url, url], input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env={**os.environ, "RUST_BACKTRACE": "0"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def configured(store_url, directory):
    """A ceilometer.conf for Gnocchi without Keystone."""
    configuration = directory / "ceilometer.conf"
    configuration.write_text(
        "[DEFAULT]\nuse_stderr = true\n[service_credentials]\nauth_type = none\n"
        f"[gnocchi]\nauth_section = gnocchi\nauth_type = gnocchi-basic\nuser = admin\nendpoint = {store_url}\n"
    )
    return configuration


def publish_theirs(store_url, lines, directory, url=EVERYTHING):
    """What Ceilometer says meanwhile."""
    done = subprocess.run(
        [cloud_venv.python(), HERE / "ceilometer_publisher.py", configured(store_url, directory), url],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=directory,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def upgrade(store_url, directory):
    """Types of resources, made by Ceilometer."""
    command = [cloud_venv.program("ceilometer-upgrade"), "--config-file", configured(store_url, directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def installed_definitions():
    """The file that Ceilometer ships with."""
    program = (
        "import json, os, yaml, ceilometer.publisher as p;"
        "print(json.dumps(yaml.safe_load(open(os.path.join(os.path.dirname(p.__file__), 'data', 'gnocchi_resources.yaml')))))"
    )
    done = subprocess.run([cloud_venv.python(), "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def shipped_definitions():
    done = subprocess.run(
        [publisher(), "http://127.0.0.1:1"], input='{"definitions": true}\n', capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


TEXTS = ["a", "web-1", "é", "", "x/y", 'quoted "', "back\\slash", "sda", "0", "\N{SNOWMAN}"]
KEYS = [
    "instance_host", "host", "image_ref", "launched_at", "created_at", "deleted_at", "display_name", "instance_flavor_id",
    "flavor_id", "instance_type", "flavor_name", "vnic_name", "instance_id", "disk_name", "name", "container_format",
    "disk_format", "node", "storage_policy", "volume_type", "volume_type_id", "image_id", "provider", "status",
    "availability_zone", "protocol", "vip_address", "binary", "zone", "email", "type", "pool_id", "unknown",
]


def metadata(random):
    """Of any shape that a pollster or a service might send."""
    value = lambda: random.choice([random.choice(TEXTS), random.choice(TEXTS), None, random.randrange(5)])
    out = {key: value() for key in KEYS if random.random() < 0.4}
    if random.random() < 0.5:
        out["flavor"] = random.choice([{"id": value(), "name": value()}, {"name": value()}, {}, "m1", None])
    if random.random() < 0.5:
        out["user_metadata"] = random.choice([{"server_group": value()}, {}, None, "x"])
    return random.choice([out, out, out, {}])


def sample(random, name, resource_id, known=None):
    """`known`: the metadata; otherwise random."""
    return {
        "name": name,
        "type": random.choice(["gauge", "delta", "cumulative"]),
        "unit": random.choice(["B", "B/s", "ns", "instance", "%", ""]),
        "volume": random.choice([random.randrange(100), random.random(), -1, 1e20, 0]),
        "user_id": random.choice([None, "u1", "u2"]),
        "project_id": random.choice([None, "p1", "p2"]),
        "resource_id": resource_id,
        "timestamp": f"2026-11-21T{random.randrange(24):02}:{random.randrange(60):02}:00.{random.randrange(10**6):06}",
        "resource_metadata": metadata(random) if known is None else known,
    }


def resource_id(random):
    plain = str(uuid.UUID(int=random.getrandbits(128)))
    return random.choice([plain, plain, f"host/{plain}", f"{plain}-tap0:1 é"])


@pytest.fixture(scope="session")
def definitions():
    return installed_definitions()
