"""`zaqar://`, with a login of system scope and the agent's own client certificate: a stand-in for Keystone and Zaqar refuses all others."""

import json

import pytest

from support.certificates import Certificates
from support.http_stand_in import HttpStandIn
from support.process import wait_until
from telemetry.agents import QUEUE, notify, polled, sample

PIPELINE = """sources: [{name: s, meters: ['*'], sinks: [k]}]
sinks: [{name: k, publishers: ['zaqar://?queue=the%20queue&ttl=77']}]
"""


class Cloud(HttpStandIn):
    """Keystone at /v3, Zaqar beside it. `statuses`: what the next posts are answered with."""

    def __init__(self, certificates):
        super().__init__(context=certificates.mutual())
        self.logins, self.posts, self.statuses = [], [], []

    def respond(self, method, path, headers, body):
        body = json.loads(body)
        if path == "/v3/auth/tokens":
            self.logins.append(body["auth"])
            endpoint = {"interface": "public", "region": "R", "url": f"{self.url}/"}
            catalog = [{"type": "messaging", "name": "zaqar", "endpoints": [endpoint]}]
            token = {"expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2098-01-01T00:00:00.000000Z", "catalog": catalog}
            return 201, {"X-Subject-Token": f"token-{len(self.logins)}"}, {"token": token}
        self.posts.append((path, headers["X-Auth-Token"], headers["Client-ID"], body))
        status = self.statuses.pop(0) if self.statuses else 201
        return status, {}, {"resources": []}


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path / "certificates")


@pytest.fixture
def cloud(certificates):
    with Cloud(certificates) as cloud:
        yield cloud


def config(cloud, certificates, more=""):
    return (f"[notification]\npipelines = meter\n[service_credentials]\nauth_type = password\nauth_url = {cloud.url}\nusername = ceilometer\n"
            f"password = pw\nsystem_scope = all\ncafile = {certificates.root}\n{more}")


def test_samples_go_to_a_queue(rabbitmq, agent, cloud, certificates):
    own = f"certfile = {certificates.certificate}\nkeyfile = {certificates.key}\n"
    ours = agent(rabbitmq, config=config(cloud, certificates, own), pipeline=PIPELINE).start()
    cloud.statuses = [503, 401]
    notify(rabbitmq.url(), [polled([sample("r-1", volume=5), sample("r-2", volume=6)])])
    wait_until(lambda: ours.figure("acknowledged") >= 1, 60, "a message")
    assert ours.stop() == 0
    rabbitmq.wait_empty([QUEUE])
    # Again after the first, and with another token after the second.
    assert [token for _, token, _, _ in cloud.posts] == ["token-1", "token-1", "token-2"]
    path, _, client, body = cloud.posts[-1]
    assert path == "/v2/queues/the%20queue/messages" and len(client) == 32
    assert [(message["ttl"], message["body"]["resource_id"], message["body"]["volume"]) for message in body["messages"]] == [
        (77, "r-1", 5), (77, "r-2", 6)]
    assert cloud.logins[0]["scope"] == {"system": {"all": True}}


def test_who_has_no_certificate_is_not_let_in(rabbitmq, agent, cloud, certificates):
    ours = agent(rabbitmq, config=config(cloud, certificates), pipeline=PIPELINE).start()
    notify(rabbitmq.url(), [polled([sample("r-1", volume=5)])])
    wait_until(lambda: "cannot publish" in ours.log(), 60, "a warning")
    assert not cloud.logins and ours.figure("acknowledged") == 0
    ours.kill()
