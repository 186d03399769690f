"""gnudi on the database of a real Gnocchi: every command fails at once with the reason, and writes nothing, unless it has its own schema
there."""

import random
import re
import time

import psycopg2
import pytest

from migration.world import World, check_same, series
from support import gnudi as program
from support.http import create_policy

# Engines that do not answer are waited for much longer, by default a minute.
AT_ONCE_S = 30


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


def url_of(server):
    """Of a Gnocchi's database."""
    return re.search(r"^url = (\S+)$", (server.directory / "gnocchi.conf").read_text(encoding="utf-8"), re.M).group(1)


@pytest.mark.parametrize("command", ["upgrade", "api", "serve", "metricd", "status"])
def test_gnocchis_database_is_left_alone(gnocchi, redis, tmp_path, command):
    server = gnocchi()
    create_policy(server.client(), "kept", [("1s", None)])
    database = url_of(server)
    before = contents(database)
    store = f"driver = redis\nredis_url = {redis.url}\nredis_prefix = left-alone-{command}\n"
    config = tmp_path / "gnudi.conf"
    config.write_text(f"[indexer]\nurl = {database}\n[incoming]\n{store}[storage]\n{store}", encoding="utf-8")
    began = time.monotonic()
    done = program.run(command, "--config-file", config, timeout_s=AT_ONCE_S)
    assert time.monotonic() - began < AT_ONCE_S
    # The code of `gnudi status` says that nothing answers as gnudi.
    assert (done.returncode, done.stdout) == (2 if command == "status" else 1, "")
    last = done.stderr.splitlines()[-1]
    assert f"{config}:2: [indexer] url" in last
    assert "the database holds tables of Gnocchi (alembic_version, archive_policy," in last
    assert contents(database) == before


def test_a_schema_of_its_own_is_enough(gnocchi, cloud, redis, seed, tmp_path):
    """PostgreSQL looks for tables in the schema that is called as the user, if there is one."""
    theirs = gnocchi()
    world = World(theirs.client(), random.Random(f"schema {seed}"))
    world.make(6, 3)
    world.post([theirs.client()], world.requests(2))
    database = url_of(theirs)
    user = f"gnudi_{database.rsplit('_', 1)[1]}"
    connection = psycopg2.connect(database)
    connection.autocommit = True
    connection.cursor().execute(f"CREATE ROLE {user} LOGIN; CREATE SCHEMA {user} AUTHORIZATION {user}")
    connection.close()
    before = contents(database)
    store = f"driver = redis\nredis_url = {redis.url}\nredis_prefix = {user}\n"
    config = tmp_path / "gnudi.conf"
    config.write_text(f"[indexer]\nurl = {database.replace('postgres@', user + '@')}\n[incoming]\n{store}[storage]\n{store}", encoding="utf-8")
    done = program.run("import", "gnocchi", "--config-file", theirs.directory / "gnocchi.conf", "--target", config, timeout_s=120)
    assert (done.returncode, done.stderr) == (0, "")
    ours = cloud(config.read_text(encoding="utf-8"), upgrade=["--skip-archive-policies-creation"])
    check_same(series(ours.client(), world.metrics), series(theirs.client(), world.metrics), "series")
    assert contents(database) == before
