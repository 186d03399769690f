"""`filter_project` is looked up with the trust and the client certificate of [service_credentials], wherever the store is. The
store has its own in [gnocchi]. Neither needs certificates for plain HTTP."""

import json

import pytest

from support.certificates import Certificates
from support.http_stand_in import HttpStandIn
from support.process import wait_until
from telemetry.agents import QUEUE, notify, polled, sample

PIPELINE = """sources: [{name: s, meters: ['*'], sinks: [k]}]
sinks: [{name: k, publishers: ['gnocchi://?filter_project=own']}]
"""


class Keystone(HttpStandIn):
    """Its catalogue has a store, if there is one."""

    def __init__(self, context=None, store=None):
        super().__init__(context=context)
        self.services = {"identity": f"{self.url}/v3"} | ({"metric": store.url} if store else {})

    def respond(self, method, path, headers, body):
        if path == "/v3/auth/tokens":
            catalog = [{"type": service, "name": service, "endpoints": [{"interface": "public", "region": "R", "url": url}]}
                       for service, url in self.services.items()]
            token = {"expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2098-01-01T00:00:00.000000Z", "catalog": catalog}
            return 201, {"X-Subject-Token": "token"}, {"token": token}
        items = {"/v3/domains?name=Default": {"domains": [{"id": "d"}]},
                 "/v3/projects?name=own&domain_id=d": {"projects": [{"id": "own-id"}]},
                 # No name is that of an id.
                 "/v3/domains?name=d": {"domains": []}, "/v3/domains/d": {"domain": {"id": "d"}},
                 "/v3/projects?name=own-id&domain_id=d": {"projects": []},
                 "/v3/projects/own-id": {"project": {"id": "own-id", "domain_id": "d"}}}
        return (200, {}, items[path]) if path in items else (404, {}, {})


class Store(HttpStandIn):
    """It accepts all that is posted, and keeps the measures."""

    def __init__(self, context=None):
        super().__init__(context=context)
        self.posts = []

    def respond(self, method, path, headers, body):
        if path.startswith("/v1/batch/"):
            self.posts.append(json.loads(body))
        return (404, {}, {"code": 404}) if method == "GET" else (202, {}, {})


@pytest.mark.parametrize("is_store_secure", [False, True])
def test_private_authorities_and_client_certificates(rabbitmq, agent, tmp_path, is_store_secure):
    certificates = Certificates(tmp_path / "certificates")
    own = f"cafile = {certificates.root}\ncertfile = {certificates.certificate}\nkeyfile = {certificates.key}\n"
    context = certificates.mutual() if is_store_secure else None
    with Keystone(context=certificates.mutual()) as keystone, Store(context) as store:
        config = (f"[notification]\npipelines = meter\n[gnocchi]\nauth_type = gnocchi-basic\nendpoint = {store.url}\n"
                  f"{own if is_store_secure else ''}[service_credentials]\nauth_type = password\nauth_url = {keystone.url}/v3\n"
                  f"username = u\npassword = pw\n{own}")
        ours = agent(rabbitmq, config=config, pipeline=PIPELINE).start()
        notify(rabbitmq.url(), [polled([sample("r-1", project_id="own-id"), sample("r-2", project_id="other")])])
        wait_until(lambda: ours.figure("acknowledged") >= 1, 60, "a message")
        assert ours.stop() == 0
        rabbitmq.wait_empty([QUEUE])
        assert [list(post) for post in store.posts] == [["r-2"]]


@pytest.mark.parametrize("chosen", ["filter_project=own", "filter_project=own-id&filter_domain=d"])
def test_a_machine_without_certificates_can_use_plain_http(rabbitmq, agent, monkeypatch, chosen):
    """Project and domain may be named by their ids, as for Ceilometer."""
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    with Store() as store, Keystone(store=store) as keystone:
        login = f"auth_type = password\nauth_url = {keystone.url}/v3\nusername = u\npassword = pw\n"
        config = f"[notification]\npipelines = meter\n[gnocchi]\n{login}[service_credentials]\n{login}"
        ours = agent(rabbitmq, config=config, pipeline=PIPELINE.replace("filter_project=own", chosen)).start()
        notify(rabbitmq.url(), [polled([sample("r-1", project_id="own-id"), sample("r-2", project_id="other")])])
        wait_until(lambda: ours.figure("acknowledged") >= 1, 60, "a message")
        assert ours.stop() == 0
        assert [list(post) for post in store.posts] == [["r-2"]]
