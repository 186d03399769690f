"""gnudi on a database that a real Gnocchi lives in: every command stops at once, says why, and has written nothing."""

import re
import time

import psycopg2
import pytest

from support import gnudi as program
from support.http import create_policy

# Engines that do not answer are waited for much longer, by default a minute.
AT_ONCE_S = 15


def contents(database):
    """{table: its rows} of a database."""
    connection = psycopg2.connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
            found = {}
            for (table,) in cursor.fetchall():
                cursor.execute(f'SELECT CAST(t AS TEXT) FROM "{table}" t ORDER BY 1')
                found[table] = cursor.fetchall()
            return found
    finally:
        connection.close()


@pytest.mark.parametrize("command", ["upgrade", "api", "serve", "metricd", "status"])
def test_gnocchis_database_is_left_alone(gnocchi, redis, tmp_path, command):
    server = gnocchi()
    create_policy(server.client(), "kept", [("1s", None)])
    theirs = (server.directory / "gnocchi.conf").read_text(encoding="utf-8")
    database = re.search(r"^url = (\S+)$", theirs, re.M).group(1)
    before = contents(database)
    store = f"driver = redis\nredis_url = {redis.url}\nredis_prefix = left-alone-{command}\n"
    config = tmp_path / "gnudi.conf"
    config.write_text(f"[indexer]\nurl = {database}\n[incoming]\n{store}[storage]\n{store}", encoding="utf-8")
    began = time.monotonic()
    done = program.run(command, "--config-file", config, timeout_s=AT_ONCE_S)
    assert time.monotonic() - began < AT_ONCE_S
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert f"{config}:2: [indexer] url" in last
    assert "the database holds tables of Gnocchi (alembic_version, archive_policy," in last
    assert contents(database) == before
