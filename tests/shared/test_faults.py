"""Three API processes and four workers under load, while processes and engines fail: every acknowledged measure is in the
aggregates once, and every other answer was 503."""

import random
import signal
import time

import pytest

from shared import writers
from support.ceph import Ceph
from support.cloud import Cloud
from support.engines import parameters
from support.postgres import Postgres
from support.process import wait_until
from support.proxy import CuttingProxy, Proxy
from support.redis import Redis, RedisSentinel

LEASE_S = 2
SOON_S = 60
# A run that acknowledged next to nothing proves nothing.
ACKNOWLEDGED_MIN = 500
# What processes have in common in these tests: leases that end soon, engines that are given up soon.
COMMON = f"""\
[DEFAULT]
parallel_operations = 2
[api]
max_limit = 7
[metricd]
workers = 1
lease_seconds = {LEASE_S}
checkpoint_ms = 300
"""


@pytest.fixture
def own(request, shared_dir):
    """Starts engines that a test may break; they end with it."""
    started = []

    def start(kind, *arguments, **options):
        server = kind(shared_dir / f"own{time.monotonic_ns()}", *arguments, **options)
        started.append(server)
        return server.start()

    yield start
    for server in reversed(started):
        server.stop()


def under_load(cloud, rng, disturb):
    """Disturbs a cloud while it is written to, then checks it. The writers, for what more is to be said of them."""
    writing = writers.start(cloud, rng)
    time.sleep(1)
    disturb()
    time.sleep(1)
    wait_until(lambda: writers.acknowledged(writing) > ACKNOWLEDGED_MIN, SOON_S, "acknowledged measures")
    writers.stop(writing)
    acknowledged = writers.check(cloud, writing)
    refused = sum(sum(writer.refused.values()) for writer in writing)
    print(f"{acknowledged} measures acknowledged, none lost; {refused} requests refused")
    return writing


def config(database, incoming, storage):
    return f"{COMMON}[indexer]\nurl = {database}\n[incoming]\n{incoming}[storage]\n{storage}"


def redis_lines(server, prefix):
    return f"driver = redis\nredis_url = {server.url}\nredis_prefix = {prefix}\n"


@pytest.mark.long
def test_processes_die_and_sleep(cloud, postgres, own, seed):
    """Workers and API processes are killed, and workers stopped beyond their leases and continued."""
    rng = random.Random(seed)
    redis = own(Redis)
    database = postgres.create_database(f"processes{time.monotonic_ns()}")
    made = cloud(config(database, redis_lines(redis, "in"), redis_lines(redis, "st")), apis=3, workers=4)

    def disturb():
        for _ in range(6):
            match rng.choice(["kill worker", "stop worker", "kill api"]):
                case "kill worker":
                    worker = rng.choice(made.workers)
                    worker.kill()
                    time.sleep(rng.uniform(0, 1))
                    worker.start()
                case "stop worker":
                    worker = rng.choice(made.workers)
                    worker.signal(signal.SIGSTOP)
                    time.sleep(LEASE_S + rng.uniform(0.5, 1.5))
                    worker.signal(signal.SIGCONT)
                case "kill api":
                    api = rng.choice(made.apis)
                    api.kill()
                    time.sleep(rng.uniform(0, 0.5))
                    api.restart()
            time.sleep(rng.uniform(0.2, 1))

    under_load(made, rng, disturb)


def test_a_worker_that_slept_writes_nothing(cloud, postgres, own):
    """The only other worker takes the sacks over; the one that wakes has lost them, says so, and gets its share again."""
    redis = own(Redis)
    database = postgres.create_database(f"sleeper{time.monotonic_ns()}")
    made = cloud(config(database, redis_lines(redis, "in"), redis_lines(redis, "st")), apis=1, workers=2)
    sleeper = made.workers[0]

    def disturb():
        for _ in range(2):
            sleeper.signal(signal.SIGSTOP)
            time.sleep(2 * LEASE_S)
            sleeper.signal(signal.SIGCONT)
            time.sleep(LEASE_S)

    under_load(made, random.Random(1), disturb)
    wait_until(lambda: "session" in sleeper.log() or "lease" in sleeper.log(), SOON_S, "a line in the log")


@pytest.mark.long
def test_redis_fails_over_and_postgresql_restarts(cloud, own, seed):
    rng = random.Random(seed)
    sentinel = own(RedisSentinel)
    database = own(Postgres)
    url = database.create_database("gnudi")
    lines = redis_lines(sentinel, "both")
    made = cloud(config(url, lines, lines), apis=3, workers=4)

    def disturb():
        sentinel.fail_over()
        time.sleep(2)
        database.restart()
        time.sleep(2)
        sentinel.fail_over()
        time.sleep(2)

    under_load(made, rng, disturb)


@pytest.mark.long
def test_ceph_loses_an_osd(cloud, postgres, own, seed):
    ceph = own(Ceph, osds=2)
    database = postgres.create_database(f"osd{time.monotonic_ns()}")
    ceph.create_pool("gnudi")
    lines = f"driver = ceph\nceph_pool = gnudi\nceph_conffile = {ceph.conf}\nceph_username = admin\n"
    made = cloud(config(database, lines, lines), apis=3, workers=4)

    def disturb():
        ceph.lose_osd(1)
        time.sleep(6)

    under_load(made, random.Random(seed), disturb)


@pytest.mark.long
def test_s3_is_slow_and_answers_503(cloud, postgres, radosgw, seed):
    rng = random.Random(seed)
    proxy = Proxy(radosgw.port).start()
    database = postgres.create_database(f"slow{time.monotonic_ns()}")
    options = radosgw.s3_options.replace(f":{radosgw.port}", f":{proxy.port}")
    lines = f"driver = s3\ns3_bucket_prefix = slow{time.monotonic_ns()}\n{options}"
    made = cloud(config(database, lines, lines), apis=3, workers=4)

    def disturb():
        proxy.delay_s = 0.1
        time.sleep(3)
        proxy.delay_s = 0
        for _ in range(3):
            proxy.refuse(True)
            time.sleep(rng.uniform(0.5, 2))
            proxy.refuse(False)
            time.sleep(1)
            proxy.hang_up()
            time.sleep(0.5)

    try:
        under_load(made, rng, disturb)
        assert proxy.refused > 0, "nobody met a refusal"
    finally:
        proxy.stop()


@pytest.mark.parametrize("engine", parameters(["redis", "s3"], ["redis"]))
def test_sacks_split_while_processes_die(request, cloud, postgres, own, seed, engine):
    """The command and workers are killed at random during splits; the split ends in the end, and nothing is lost."""
    rng = random.Random(seed)
    database = postgres.create_database(f"split{time.monotonic_ns()}")
    if engine == "redis":
        redis = own(Redis)
        lines = redis_lines(redis, "in"), redis_lines(redis, "st")
    else:
        gateway = request.getfixturevalue("radosgw")
        lines = 2 * [f"driver = s3\ns3_bucket_prefix = split{time.monotonic_ns()}\n{gateway.s3_options}"]
    made = cloud(config(database, *lines), apis=3, workers=4, upgrade=["--sacks-number", "16"])

    def disturb():
        for count in [32, 64]:
            interrupted(made, rng)
            worker = rng.choice(made.workers)
            worker.kill()
            worker.start()
            done = made.run("split-sacks")
            assert done.returncode == 0, done.stderr + made.logs()
            assert made.sacks() in (count, 2 * count, 4 * count)
            time.sleep(1)

    under_load(made, rng, disturb)


def interrupted(made, rng):
    """Begins a split, and kills the command somewhere in it."""
    from support import gnudi
    from support.process import Process

    command = [gnudi.binary(), "split-sacks", "--config-file", made.config_path]
    process = Process(command, made.directory / "split.log")
    time.sleep(rng.uniform(0.005, 0.3))
    process.kill()


@pytest.mark.parametrize("combination", ["redis", "postgres"])
def test_an_engine_goes_down_and_comes_back(cloud, own, combination):
    """503 with Retry-After while it is down, and everything goes on without a restart of gnudi."""
    redis, database = own(Redis), own(Postgres)
    url = database.create_database("gnudi")
    lines = redis_lines(redis, "both")
    made = cloud(config(url, lines, lines), apis=1, workers=1)
    client = made.client(timeout_s=60)
    client.post("/v1/archive_policy", {"name": "p", "definition": [{"granularity": "1s"}]}).expect(201)
    metric = client.post("/v1/metric", {"archive_policy_name": "p"}).expect(201).json()["id"]
    path = f"/v1/metric/{metric}/measures"
    measure = [{"timestamp": "2026-01-01T00:00:00", "value": 1.0}]
    client.post(path, measure).expect(202)
    broken = redis if combination == "redis" else database
    request = (path, measure) if combination == "redis" else ("/v1/metric", {"archive_policy_name": "p"})
    broken.stop()
    answer = client.post(*request).expect(503)
    assert int(answer.headers["retry-after"]) > 0
    broken.start()
    writers.patiently(lambda: client.post(*request).expect(202, 201), made)
    points = writers.patiently(lambda: client.get(path + "?refresh=true&aggregation=count").expect(200).json(), made)
    assert len(points) == 1


# Starts that are disturbed, of the hundred messages that a start sends.
DISTURBED = 12


@pytest.mark.parametrize("broken", ["redis", "postgres"])
@pytest.mark.parametrize("command", [["upgrade"], ["metricd", "--stop-after-processing-metrics", "1"]], ids=lambda words: words[0])
def test_a_start_goes_on_after_a_lost_connection(tmp_path, redis, postgres, broken, command, seed):
    """An engine hangs up once, anywhere in the start: the program connects again, and does its work."""
    name = f"start_{broken}_{command[0]}_{seed}"
    lines = redis_lines(redis, name)
    text = config(postgres.create_database(name), lines, lines)
    port = {"redis": redis, "postgres": postgres}[broken].port

    def run(cut_at):
        proxy = CuttingProxy(port, cut_at).start()
        made = Cloud(tmp_path / f"cut-{cut_at}", text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{proxy.port}"))
        done = made.run(*command)
        proxy.stop()
        assert done.returncode == 0, f"cut at message {cut_at} of {proxy.messages}\n{done.stderr}"
        return proxy.messages

    # The first one creates the tables.
    run(0)
    messages = run(0)
    for cut_at in random.Random(seed).sample(range(1, messages + 1), min(messages, DISTURBED)):
        run(cut_at)
