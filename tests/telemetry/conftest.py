"""gnudi's programs and Ceilometer's, one process each for a module's tests; a broker that is empty for each module, and agents that end
with their test."""

import pytest

from support import ceilometer_oracle
from support.certificates import Certificates
from support.process import running
from support.rabbitmq import Rabbitmq
from telemetry.agents import Agent, CeilometerAgent
from telemetry.polling import Reader


@pytest.fixture(scope="module")
def ours(module_path):
    side = ceilometer_oracle.ours(module_path / "ours")
    yield side
    side.stop()


@pytest.fixture(scope="module")
def theirs(module_path):
    side = ceilometer_oracle.theirs(module_path / "theirs")
    yield side
    side.stop()


@pytest.fixture(scope="session")
def node(shared_dir):
    """The node of the modules about notifications, which also speaks TLS; a test that stops it must start it again."""
    certificates = Certificates(shared_dir / "rabbitmq-certificates")
    for path in certificates.directory.iterdir():
        path.chmod(0o644)
    yield from running(Rabbitmq(shared_dir / "rabbitmq", certificates))


@pytest.fixture(scope="module")
def rabbitmq(node):
    """The node as new for each module, so that none sees another's queues: starting one takes longer than most tests."""
    node.forget()
    return node


def agents_of(kind, directory):
    """For a fixture: makes agents, and ends them with the test."""
    agents = []

    def make(*args, **kwargs):
        made = kind(directory.with_name(f"{directory.name}-{len(agents)}"), *args, **kwargs)
        agents.append(made)
        return made

    yield make
    for made in agents:
        made.end()


@pytest.fixture
def agent(tmp_path):
    """Makes agents: `agent(broker, config=..., ...)` answers one that is not started yet."""
    yield from agents_of(Agent, tmp_path / "agent")


@pytest.fixture(scope="session")
def bus(shared_dir):
    """One node for all modules about polling, and that about Keystone: each of their tests has topics of its own."""
    yield from running(Rabbitmq(shared_dir / "bus"))


@pytest.fixture(scope="session")
def reader(bus):
    """Reads what polling agents publish to `bus`."""
    reader = Reader(bus)
    try:
        yield reader.wait_ready()
    finally:
        reader.stop()


@pytest.fixture
def ceilometer_agent(tmp_path):
    """As `agent`, for Ceilometer's own."""
    yield from agents_of(CeilometerAgent, tmp_path / "ceilometer")
