"""The API over HTTPS, and the clients that are part of the program."""

import http.client
import json
import signal
import ssl

import pytest

from support import gnudi as program
from support.certificates import Certificates
from support.gnudi import Gnudi
from support.http import basic
from support.process import wait_until

pytestmark = pytest.mark.slow

SOON_S = 60


class Secure(Gnudi):
    """`gnudi serve` that speaks HTTPS."""

    def __init__(self, directory, certificates, **kwargs):
        self.certificates = certificates
        config = f"[api]\ntls_certificate = {certificates.certificate}\ntls_key = {certificates.key}\n"
        super().__init__(directory, config, **kwargs)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def ask(self, path):
        """Status and body of a GET."""
        response, body = self.exchange("GET", path)
        return response.status, body

    def location(self, method, path, document=None):
        """Status and `Location`."""
        response, _ = self.exchange(method, path, document)
        return response.status, response.headers["Location"]

    def exchange(self, method, path, document=None):
        """As a client that trusts the root."""
        context = ssl.create_default_context(cafile=self.certificates.root)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=SOON_S, context=context)
        body = None if document is None else json.dumps(document)
        try:
            connection.request(method, path, body, {**basic("admin"), "Content-Type": "application/json"})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def healthy(self):
        try:
            return self.ask("/healthcheck")[0] == 200
        except OSError:
            return False

    def serial(self):
        """The certificate that a new connection gets."""
        return ssl.get_server_certificate(("127.0.0.1", self.port))


@pytest.fixture
def secure(tmp_path):
    with Secure(tmp_path / "secure", Certificates(tmp_path / "tls")) as server:
        yield server


def test_clients_trust_whom_they_are_told_to(secure):
    assert secure.ask("/v1/archive_policy")[0] == 200
    root = ["--cacert", secure.certificates.root]
    for trust in (root, ["--insecure"]):
        status = program.run("status", "--endpoint", secure.url, *trust)
        assert status.returncode == 0 and "sacks" in status.stdout, status.stderr
        load = program.run("benchmark", "metric", "create", "--endpoint", secure.url, "-n", "20", "-a", "low", "--keep",
                           *trust, timeout_s=60)
        assert load.returncode == 0, load.stderr
    for command in (["status"], ["benchmark", "metric", "create", "-n", "1", "-a", "low"]):
        refused = program.run(*command, "--endpoint", secure.url, timeout_s=60)
        assert refused.returncode not in (0, None) and "certificate" in refused.stderr, refused.stderr
    assert len(json.loads(secure.ask("/v1/metric")[1])) == 40


def test_links_lead_to_https(secure):
    links = json.loads(secure.ask("/v1/resource")[1])
    assert links["generic"] == f"{secure.url}/v1/resource/generic"


def test_addresses_of_what_is_made_and_redirects_lead_to_https(secure):
    status, location = secure.location("GET", "/v1")
    assert (status, location) == (302, f"{secure.url}/v1/")
    made = [("/v1/metric", {"archive_policy_name": "low"}), ("/v1/resource/generic", {"id": "tls"}),
            ("/v1/resource_type", {"name": "tls"}),
            ("/v1/archive_policy", {"name": "tls", "definition": [{"granularity": "1s", "points": 1}]}),
            ("/v1/archive_policy_rule", {"name": "tls", "metric_pattern": "*", "archive_policy_name": "tls"})]
    for path, document in made:
        status, location = secure.location("POST", path, document)
        assert status == 201 and location.startswith(f"{secure.url}{path}/"), (path, status, location)


def test_it_collects_its_own_figures(tmp_path):
    with Secure(tmp_path / "secure", Certificates(tmp_path / "tls"), host_metrics=True) as server:
        wait_until(lambda: json.loads(server.ask("/v1/metric?name=hardware.cpu.util")[1]), SOON_S, "own figures")


def test_a_renewed_certificate_is_read_on_sighup(secure):
    before = secure.serial()
    secure.certificates.renew()
    secure.process.child.send_signal(signal.SIGHUP)
    wait_until(lambda: secure.serial() != before, SOON_S, "the new certificate")
    assert secure.stop() == 0


def test_sighup_ends_no_server_without_tls(gnudi):
    server = gnudi()
    server.process.child.send_signal(signal.SIGHUP)
    assert server.client().get("/healthcheck").status == 200
    assert server.stop() == 0


@pytest.mark.parametrize("text, part", [
    ("tls_key = {key}\n", "tls_certificate"),
    ("tls_certificate = {certificate}\n", "tls_key"),
    ("tls_certificate = {certificate}\ntls_key = {root}\n", "root.pem"),
    ("tls_certificate = /nowhere.pem\ntls_key = {key}\n", "/nowhere.pem"),
])
def test_unusable_files_stop_the_start(tmp_path, text, part):
    made = Certificates(tmp_path / "tls")
    config = tmp_path / "gnocchi.conf"
    config.write_text("[api]\n" + text.format(certificate=made.certificate, key=made.key, root=made.root))
    done = program.run("serve", "--config-file", config, "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert part in done.stderr and str(config) in done.stderr, done.stderr
