"""Profiles: GET /debug/flamegraph and `gnudi profile` on the real binary, idle and under load."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import xml.etree.ElementTree as ElementTree

import pytest

from support import gnudi as program
from support.http import basic, create_metric, create_policy
from support.process import free_port, listens, wait_until

pytestmark = pytest.mark.slow

PATH = "/debug/flamegraph"
SVG = "{http://www.w3.org/2000/svg}"
# Enough that a request is mostly scanning and not waiting.
MEASURES = 5000
THREADS = ["api", "metricd", "sqlx-sqlite"]
# The scanner of measures, the HTTP server, the store, the index.
PARTS = ["api/src/measures/scan", "hyper-", "drivers/src/", "sqlite3"]
PROFILES_MAX = 8
# What the load beside it takes. The debug information would be 100 MB, a fixed table of stacks 250.
LEFT_BYTES_MAX = 48 << 20
# Profiles one after the other under load.
ROUNDS = 8
TEST_ROUNDS = 3
# Of what is waited for. A profile that goes on without its client takes longer.
SOON_S, LONG_PROFILE_S = 40, 60
# Shorter than a profile of which no duration is named.
AT_ONCE_S = 5
TRIES = 5


@pytest.fixture
def load():
    """Starts clients that push measures and create metrics until the test ends; fails where one was refused."""
    stop, threads, failures = threading.Event(), [], []

    def start(server, pushers=2, creators=1):
        client = server.client()
        create_policy(client, "load", [("1m", None)])
        metrics = [create_metric(client, "load") for _ in range(20)]
        measures = [{"timestamp": 1_600_000_000 + 10 * n, "value": n * 0.37} for n in range(MEASURES)]

        def work(number, step):
            own = server.client(timeout_s=60)
            turn = number
            try:
                while not stop.is_set():
                    step(own, turn)
                    turn += 1
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        def push(own, turn):
            # A full backlog is an answer of a healthy server.
            path = f"/v1/metric/{metrics[turn % len(metrics)]}/measures"
            if own.post(path, measures).expect(202, 429).status == 429:
                time.sleep(0.05)

        def create(own, _):
            create_metric(own, "load")

        for number, step in enumerate([push] * pushers + [create] * creators):
            thread = threading.Thread(target=work, args=(number, step))
            thread.start()
            threads.append(thread)

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def bars(svg):
    """[(name, samples)] of a flame graph, which must be well-formed."""
    root = ElementTree.fromstring(svg)
    assert root.tag == SVG + "svg"
    found = []
    for group in root.iter(SVG + "g"):
        title = group.find(SVG + "title").text
        name, _, count = title.rpartition("\n")
        assert int(count.split()[0]) == int(group.get("data-n"))
        found.append((name, int(group.get("data-n"))))
    return found


def test_it_shows_the_threads_and_functions_that_work(gnudi, load):
    server = gnudi()
    load(server)
    client = server.client(timeout_s=60)
    found = []
    missing = {*THREADS, *PARTS}
    # On a busy machine a few seconds may hold few samples.
    for _ in range(PROFILES_MAX):
        answer = client.get(PATH + "?seconds=3&frequency=250").expect(200)
        assert answer.headers["content-type"] == "image/svg+xml"
        found += bars(answer.body)
        missing = {part for part in missing if not any(part in name for name, _ in found)}
        if not missing:
            break
    assert not missing, found[:50]
    names = [name for name, _ in found]
    # Nearly everything is below one of the threads that are known.
    known = sum(samples for name, samples in found if name.startswith((*THREADS, "gnudi-incoming")) and "(" not in name)
    assert known > 0.8 * sum(samples for name, samples in found if name == "all threads"), found[:20]
    assert not any("_ZN" in name or name.startswith("_R") for name in names), "mangled"


def test_profiles_one_after_the_other_under_load(gnudi, load, rounds):
    server = gnudi()
    load(server)
    client = server.client(timeout_s=60)
    profiles = [client.get(PATH + "?seconds=1&frequency=1000").expect(200).body for _ in range(rounds)]
    # In a single second on a busy machine the server may have no turn.
    assert any(map(bars, profiles))
    assert server.process.running()
    assert b"gnudi_incoming_poisoned 0" in client.get("/metrics").body


def test_a_profile_leaves_no_debug_information_behind(gnudi, load):
    """That of the whole program would come to the memory that the sampler keeps."""
    server = gnudi()
    load(server, pushers=1)
    client = server.client(timeout_s=60)
    path = PATH + "?seconds=1&frequency=1000"
    before = server.process.memory_bytes("RssAnon")
    wait_until(lambda: bars(client.get(path).expect(200).body), 60, "a profile with samples")
    assert server.process.memory_bytes("RssAnon") - before < LEFT_BYTES_MAX
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    assert not children.exists() or not children.read_text().split()


def test_at_rest_it_is_empty_and_says_so(gnudi):
    answer = gnudi().client().get(PATH + "?seconds=1&frequency=1").expect(200)
    assert b"No samples" in answer.body
    assert not bars(answer.body)


@pytest.mark.parametrize("arguments", [
    "seconds=0", "seconds=61", "seconds=-1", "seconds=", "seconds=1.5", "seconds=x", "seconds=1&seconds=1",
    "frequency=0", "frequency=1001", "frequency=1e2", "minutes=1", "seconds=%00", "seconds=99999999999999999999",
])
def test_bad_arguments_are_named_at_once(server, arguments):
    client = server.client()
    for _ in range(TRIES):
        began = time.monotonic()
        description = client.get(f"{PATH}?{arguments}").expect(400).json()["description"]
        took_s = time.monotonic() - began
        if took_s < AT_ONCE_S:
            break
    assert took_s < AT_ONCE_S
    assert description["detail"] == arguments.partition("=")[0]
    assert description["reason"]


def test_it_is_for_administrators(server):
    client = server.client()
    assert client.get(PATH, headers=basic("joe")).status == 403
    assert client.get(PATH, headers={"Authorization": None}).status == 401
    for method in ("POST", "HEAD", "DELETE"):
        answer = client.request(method, PATH)
        assert (answer.status, answer.headers["allow"]) == (405, "GET")


@contextlib.contextmanager
def under_way(client, ask):
    """What `ask` returns, a block, once the profile that it asks for is being taken. Only another one shows that: where it was first,
    the one that was asked for was refused, and is asked for again."""
    end = time.monotonic() + SOON_S
    while True:
        with ask() as asking:
            time.sleep(0.5)
            if client.get(PATH + "?seconds=1").status == 409:
                yield asking
                return
        assert time.monotonic() < end, "no profile begins"


def test_one_at_a_time_and_a_client_that_goes_away_makes_room(gnudi):
    server = gnudi()
    client = server.client(timeout_s=60)
    head = f"GET {PATH}?seconds={LONG_PROFILE_S} HTTP/1.1\r\nHost: x\r\nAuthorization: {basic('admin')['Authorization']}\r\n\r\n"

    @contextlib.contextmanager
    def asked():
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head.encode())
            yield connection

    with under_way(client, asked):
        refused = client.get(PATH + "?seconds=1").expect(409)
        assert "already" in refused.json()["description"]
        done = profile(server, "--seconds", 1, "-o", server.directory / "p.svg")
        assert (done.returncode, done.stdout) == (1, "")
        assert "is taking a profile already" in done.stderr
        assert not (server.directory / "p.svg").exists()
    wait_until(lambda: client.get(PATH + "?seconds=1").status == 200, SOON_S, "a profile after one whose client went away")


def profile(server, *arguments, **more):
    return program.run("profile", "--endpoint", f"http://127.0.0.1:{server.port}{server.prefix}", *arguments,
                       timeout_s=120, **more)


def test_gnudi_profile_writes_the_file(gnudi, load, tmp_path):
    server = gnudi(prefix="/gnocchi")
    load(server)

    def has_samples(path, *arguments):
        # In a single second on a busy machine the server may have no turn.
        done = profile(server, "--seconds", 1, *arguments, directory=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert arguments or path.name in done.stdout
        return bars(path.read_bytes())

    wait_until(lambda: has_samples(tmp_path / "gnudi-profile.svg"), 60, "a profile with samples")
    chosen = tmp_path / "chosen.svg"
    chosen.write_text("an older one, which is longer" * 100_000)
    wait_until(lambda: has_samples(chosen, "--frequency", 500, "-o", chosen), 60, "a profile with samples")


def test_gnudi_profile_says_in_a_line_what_is_wrong(gnudi, tmp_path):
    server = gnudi()
    kept = tmp_path / "kept.svg"
    kept.write_text("kept")

    def complaint(*arguments, status=1):
        done = profile(server, *arguments)
        assert (done.returncode, done.stdout) == (status, ""), done
        return done.stderr

    assert "administrators only, and joe is none" in complaint("--user", "joe", "-o", kept)
    assert kept.read_text() == "kept"
    assert "cannot be written" in complaint("-o", tmp_path / "no" / "where.svg")
    assert "cannot be written" in complaint("-o", tmp_path)
    for wrong in (["--seconds", "0"], ["--seconds", "61"], ["--frequency", "x"]):
        assert wrong[0] in complaint(*wrong, status=2)
    for url, text in [
        (f"http://127.0.0.1:{free_port()}", "no answer from"),
        (f"http://127.0.0.1:{server.port}/other", "has no /debug/flamegraph"),
        (f"https://127.0.0.1:{free_port()}", "no answer from"),
        ("ftp://127.0.0.1", "the scheme must be http"),
    ]:
        done = program.run("profile", "--endpoint", url, "-o", tmp_path / "new.svg")
        assert done.returncode == 1 and text in done.stderr, done
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new.svg").exists()


@pytest.mark.parametrize("grace_s, is_interrupted", [(1, False), (LONG_PROFILE_S, True)])
def test_a_stop_ends_a_profile_in_time(gnudi, grace_s, is_interrupted):
    """In the time for requests in progress, or at a SIGINT."""
    server = gnudi(config=f"[DEFAULT]\ngraceful_shutdown_timeout = {grace_s}\n")
    command = [program.binary(), "profile", "--endpoint", f"http://127.0.0.1:{server.port}", "--seconds", LONG_PROFILE_S,
               "-o", server.directory / "p.svg"]

    @contextlib.contextmanager
    def asked():
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, env=os.environ) as asking:
            try:
                yield asking
            finally:
                asking.kill()

    with under_way(server.client(timeout_s=60), asked) as asking:
        if is_interrupted:
            server.process.child.send_signal(signal.SIGTERM)
            wait_until(lambda: not listens(server.port), SOON_S, "the server stops")
            server.process.child.send_signal(signal.SIGINT)
        # This SIGTERM has no effect after another.
        assert server.process.terminate(timeout_s=SOON_S) == 0
        assert "no answer from" in asking.communicate(timeout=60)[1]
    assert not (server.directory / "p.svg").exists()
