"""TLS to the engines: certificates are verified, and engines with an untrusted one are refused."""

import os
import shutil

import pytest

from support import gnudi as program
from support.certificates import Certificates
from support.http import create_metric, create_policy
from support.postgres import Postgres
from support.redis import Redis

POINTS = [["2026-01-01T00:00:00+00:00", 60.0, 1.0]]


class SecurePostgres(Postgres):
    """Takes connections from the network by TLS alone."""

    def __init__(self, directory, certificates):
        super().__init__(directory)
        self.certificates = certificates

    def options(self):
        # Its key must be its user's own.
        key = self.directory / "server.key"
        shutil.copy(self.certificates.key, key)
        key.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(key, "postgres")
        return super().options() + f" -c ssl=on -c ssl_cert_file={self.certificates.certificate} -c ssl_key_file={key}"

    def url(self, name, mode, root):
        return f"postgresql+psycopg2://postgres@127.0.0.1:{self.port}/{name}?sslmode={mode}&sslrootcert={root}"


class SecureRedis(Redis):
    def __init__(self, directory, certificates):
        super().__init__(directory)
        self.tls_port = self.port
        self.options += ["--tls-port", self.tls_port, "--tls-cert-file", certificates.certificate,
                         "--tls-key-file", certificates.key, "--tls-auth-clients", "no"]
        self.client = ["--tls", "--insecure"]
        self.plain_port = 0

    def url_trusting(self, root):
        return f"rediss://127.0.0.1:{self.tls_port}?ssl_ca_certs={root}"


@pytest.fixture(scope="module")
def certificates(shared_dir):
    return Certificates(shared_dir / "tls-engines")


@pytest.fixture(scope="module")
def strangers(shared_dir):
    return Certificates(shared_dir / "tls-strangers")


@pytest.fixture(scope="module")
def database(shared_dir, certificates):
    server = SecurePostgres(shared_dir / "pg-tls", certificates).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def secure_redis(shared_dir, certificates):
    server = SecureRedis(shared_dir / "redis-tls", certificates).start()
    yield server
    server.stop()


def config(database_url, redis_url, start_timeout_s=60):
    return f"[DEFAULT]\nstart_timeout = {start_timeout_s}\n[indexer]\nurl = {database_url}\n[storage]\ndriver = redis\nredis_url = {redis_url}\n"


def test_a_cloud_on_tls(cloud, database, secure_redis, certificates):
    database.create_database("trusted")
    url = database.url("trusted", "verify-full", certificates.root)
    made = cloud(config(url, secure_redis.url_trusting(certificates.root)))
    client = made.client()
    create_policy(client, "minutes", [("1 minute", 100)])
    metric = create_metric(client, "minutes")
    path = f"/v1/metric/{metric}/measures"
    client.post(path, [{"timestamp": "2026-01-01T00:00:00", "value": 1.0}]).expect(202)
    assert client.get(path + "?refresh=true").expect(200).json() == POINTS


@pytest.mark.parametrize("distrusted", ["database", "redis"])
def test_a_stranger_is_refused(tmp_path, database, secure_redis, certificates, strangers, distrusted):
    database.create_database(f"stranger_{distrusted}")
    roots = {"database": certificates.root, "redis": certificates.root, distrusted: strangers.root}
    url = database.url(f"stranger_{distrusted}", "verify-full", roots["database"])
    path = tmp_path / "gnocchi.conf"
    path.write_text(config(url, secure_redis.url_trusting(roots["redis"]), start_timeout_s=2))
    done = program.run("upgrade", "--config-file", path)
    assert done.returncode == 1
    assert "certificate" in done.stderr.lower(), done.stderr
