"""Which configurations of shared engines are refused, and that no password is ever shown."""

import pathlib
import subprocess

import pytest

from support import gnudi as program
from support.process import free_port
from support.redis import Redis

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "deploy" / "config").glob("*.conf"))
PASSWORD = "hunter2"
INDEX = f"[indexer]\nurl = postgresql://u:{PASSWORD}@127.0.0.1:1/d\n"
NOWHERE = f"redis_url = redis://:{PASSWORD}@127.0.0.1:1\n"
# How long engines are waited for that do not come: the second time, longer than those that are there may take on a busy machine.
START_TIMEOUTS_S = [1, 20]


def run(tmp_path, text, *command):
    config = tmp_path / "gnocchi.conf"
    config.write_text(text)
    return program.run(*(command or ("metricd",)), "--config-file", config)


@pytest.mark.parametrize("text, parts", [
    (f"{INDEX}", ["[storage] driver = local", "[indexer] url"]),
    (f"{INDEX}[storage]\ndriver = redis\n[incoming]\ndriver = local\n", [":6: [incoming] driver = local"]),
    (f"{INDEX}[storage]\ndriver = file\n", [":4: [storage] driver = file", "file_basepath"]),
    (f"[storage]\ndriver = redis\n{NOWHERE}", [":2: [storage] driver = redis", "[indexer] url"]),
    (f"[storage]\ndriver = tape\n{NOWHERE}", [":2: [storage] driver = tape", "redis, ceph"]),
    (f"[indexer]\nurl = oracle://u:{PASSWORD}@h/d\n", [":2: [indexer] url", "postgresql://"]),
    (f"[indexer]\nurl = u:{PASSWORD}@h/d\n", [":2: [indexer] url"]),
    (f"[indexer]\nurl = postgresql://u:{PASSWORD}@h\n[storage]\ndriver = redis\n", [":2: [indexer] url", "database"]),
    (f"[indexer]\nurl = postgresql://u:{PASSWORD}@h:x/d\n[storage]\ndriver = redis\n", [":2: [indexer] url"]),
    (f"[DEFAULT]\ncoordination_url = zookeeper://u:{PASSWORD}@h\n", [":2: [DEFAULT] coordination_url", "zookeeper"]),
    (f"[storage]\nredis_url {PASSWORD}\n", ["line 2"]),
    (f"{PASSWORD}\n", ["line 1"]),
])
def test_what_does_not_fit_is_refused_with_its_place(tmp_path, text, parts):
    for command in ("metricd", "api", "upgrade", "split-sacks", "status"):
        done = run(tmp_path, text, command)
        assert done.returncode not in (0, None)
        for part in [str(tmp_path / "gnocchi.conf"), *parts]:
            assert part in done.stderr, done.stderr
        assert PASSWORD not in done.stdout + done.stderr and "panicked" not in done.stderr


@pytest.mark.parametrize("command", ["api", "metricd", "upgrade"])
def test_an_engine_that_is_down_is_waited_for_and_then_given_up(tmp_path, command):
    text = f"[DEFAULT]\nstart_timeout = 1\n{INDEX}[storage]\ndriver = redis\n{NOWHERE}"
    done = run(tmp_path, text, command)
    assert done.returncode not in (0, None)
    for part in ("gnocchi.conf:4: [indexer] url", "127.0.0.1:1", "start_timeout", "given up after 1 s"):
        assert part in done.stderr, done.stderr
    assert PASSWORD not in done.stderr
    # One line for the wait and one for the end, however often it was tried.
    assert len(done.stderr.splitlines()) <= 4, done.stderr


def test_commands_for_people_do_not_wait(tmp_path):
    text = f"{INDEX}[storage]\ndriver = redis\n{NOWHERE}"
    for command in ("status", "split-sacks"):
        done = run(tmp_path, text, command)
        assert done.returncode not in (0, None)
        assert "[indexer] url" in done.stderr and PASSWORD not in done.stderr


@pytest.mark.parametrize("url, reason", [
    ("postgresql://nobody-known:wrong@{host}/none", "nobody-known"),
    ("{own}-none", "does not exist"),
])
def test_a_login_that_is_refused_is_not_tried_again(tmp_path, postgres, url, reason):
    own = postgres.create_database(f"refusing-{len(reason)}")
    wrong = url.format(own=own, host=own.split("@")[-1].split("/")[0])
    done = run(tmp_path, f"[DEFAULT]\nstart_timeout = 60\n[indexer]\nurl = {wrong}\n[storage]\ndriver = redis\n{NOWHERE}", "upgrade")
    assert done.returncode == 1 and "given up" not in done.stderr and "tried again" not in done.stderr, done.stderr
    assert reason in done.stderr


def test_to_look_prepares_nothing(tmp_path, postgres):
    database = postgres.create_database("unprepared")
    text = f"[indexer]\nurl = {database}\n[storage]\ndriver = redis\n{NOWHERE}"
    for _ in range(2):
        done = run(tmp_path, text, "status")
        assert done.returncode == 3 and "[indexer] url: no store was prepared here: run `gnudi upgrade`" in done.stderr, done.stderr


def test_a_redis_that_is_down_is_named(tmp_path, postgres):
    database = postgres.create_database("down")
    text = (f"[indexer]\nurl = {database}\n"
            f"[storage]\ndriver = redis\nredis_url = redis://:{PASSWORD}@127.0.0.1:{free_port()}\n")
    for start_timeout_s in START_TIMEOUTS_S:
        done = run(tmp_path, f"[DEFAULT]\nstart_timeout = {start_timeout_s}\n{text}", "upgrade")
        if "[storage] driver" in done.stderr:
            break
    assert done.returncode not in (0, None)
    assert "[storage] driver" in done.stderr and "redis" in done.stderr and "given up" in done.stderr, done.stderr
    assert PASSWORD not in done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_name_no_option_that_there_is_not(tmp_path, example):
    """Each gets as far as the engine that is not there, or the store in a directory that this test does not have."""
    text = example.read_text().replace("[DEFAULT]\n", "")
    text = text.replace("example.net", "invalid").replace("/var/lib/gnudi", str(tmp_path / "data"))
    done = run(tmp_path, f"[DEFAULT]\nstart_timeout = 0\n{text}", "upgrade")
    assert "no such option" not in done.stderr and "without effect" not in done.stderr, done.stderr
    assert "PASSWORD" not in done.stderr
    assert done.returncode == 0 if "postgresql" not in text and "mysql" not in text else "[indexer] url" in done.stderr


def test_there_are_examples():
    assert len(EXAMPLES) >= 9


def test_printed_options_have_no_values(tmp_path, monkeypatch):
    monkeypatch.setenv("OS_STORAGE__REDIS_URL", f"redis://:{PASSWORD}@h")
    printed = program.run("config")
    assert printed.returncode == 0
    assert PASSWORD not in printed.stdout
    for option in ("redis_url", "ceph_pool", "s3_bucket_prefix", "swift_authurl", "coordination_url", "lease_seconds"):
        assert f"#{option} = " in printed.stdout


def test_nothing_shows_a_password_of_running_processes(cloud, postgres, redis, tmp_path):
    """Logs at level debug, pages, status, and what the system tells of the processes."""
    database = postgres.create_database("secretive")
    with_password = database.replace("postgresql://", "postgresql+psycopg2://")
    user, rest = with_password.split("://")[1].split("@", 1)
    name = user.split(":")[0]
    text = (f"[DEFAULT]\ndebug = true\n[indexer]\nurl = postgresql+psycopg2://{name}:{PASSWORD}@{rest}\n"
            f"[storage]\ndriver = redis\nredis_url = {redis.url}?sentinel_password={PASSWORD}\nredis_prefix = secretive\n")
    made = cloud(text)
    client = made.client()
    shown = [client.get(path).body.decode(errors="replace") for path in ("/metrics", "/v1/status", "/debug/cluster")]
    shown.append(made.run("status", "--format", "json").stdout)
    for process in [*made.apis, *made.workers]:
        shown.append(pathlib.Path(f"/proc/{process.process.pid}/cmdline").read_text())
        shown.append(subprocess.run(["ps", "-o", "args=", "-p", str(process.process.pid)], capture_output=True,
                                    text=True, check=True).stdout)
        shown.append(process.log())
    for text in shown:
        assert PASSWORD not in text


def test_durability_is_not_promised_in_vain(tmp_path, postgres):
    """A server that syncs once a second is used, and said to be one; `durability = disk` refuses it."""
    redis = Redis(tmp_path / "redis", appendfsync="everysec").start()
    try:
        text = (f"[indexer]\nurl = {postgres.create_database('durability')}\n"
                f"[storage]\ndriver = redis\nredis_url = {redis.url}\n[incoming]\n")
        done = run(tmp_path, text, "upgrade")
        assert done.returncode == 0, done.stderr
        assert "everysec" in done.stderr and done.stderr.count("accepted measures can be lost with its host") == 1
        done = run(tmp_path, text + "durability = disk\n", "upgrade")
        assert done.returncode == 1
        assert ":7: [incoming] durability = disk cannot be promised" in done.stderr
        assert "appendfsync everysec" in done.stderr
        redis.command("config", "set", "appendfsync", "always")
        done = run(tmp_path, text + "durability = disk\n", "upgrade")
        assert done.returncode == 0, done.stderr
    finally:
        redis.stop()


def test_replicas_that_are_asked_for_are_waited_for(tmp_path, postgres, redis):
    text = (f"[indexer]\nurl = {postgres.create_database('replicas')}\n"
            f"[storage]\ndriver = redis\nredis_url = {redis.url}\nredis_prefix = replicas\nredis_replicas_min = ")
    done = run(tmp_path, text + "0\n", "upgrade")
    assert done.returncode == 0, done.stderr
    for start_timeout_s in START_TIMEOUTS_S:
        done = run(tmp_path, f"[DEFAULT]\nstart_timeout = {start_timeout_s}\n{text}1\n", "upgrade")
        if "replicas have it" in done.stderr:
            break
    assert done.returncode == 1
    assert "0 of 1 replicas have it" in done.stderr
