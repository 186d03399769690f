"""Basic authentication: with a password file, written by `gnudi passwd`, and without one."""

import concurrent.futures
import os
import pty
import signal
import stat
import subprocess
import termios
import threading
import time

import pytest

from support import gnudi as program
from support.http import Client, basic
from support.process import Process, free_port, wait_until

SOON_S = 60

# bcrypt, cost 4, of "secret".
SECRET = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"


@pytest.fixture
def passwords(tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"# who may call\nadmin:{SECRET}\njd:{SECRET.replace('$2b$', '$2y$')}\n")
    return path


def status(client, *credentials):
    return client.get("/v1/archive_policy", headers=basic(*credentials)).status


def test_only_the_right_password_opens(gnudi, passwords):
    server = gnudi(config=f"[api]\npassword_file = {passwords}\n")
    client = server.client()
    for _ in range(2):
        assert status(client, "admin", "secret") == 200
        assert status(client, "jd", "secret") == 200
        for wrong in [("admin", ""), ("admin", "Secret"), ("jd", "secret "), ("nobody", "secret"), ("", "secret")]:
            assert status(client, *wrong) == 401, wrong
    assert client.get("/v1/archive_policy", headers={"Authorization": None}).status == 401
    assert client.get("/healthcheck", headers={"Authorization": None}).status == 200
    policy = {"name": "x", "definition": [{"granularity": "1s", "points": 1}]}
    assert client.post("/v1/archive_policy", policy, headers=basic("jd", "secret")).status == 403
    assert client.post("/v1/archive_policy", policy, headers=basic("admin", "wrong")).status == 401
    assert client.post("/v1/archive_policy", policy, headers=basic("admin", "secret")).status == 201


def test_a_page_of_another_origin_changes_nothing(gnudi):
    """A form needs no preflight, and `http://admin:@127.0.0.1:8041/` logs in."""
    allowed = "https://grafana.example.net"
    client = gnudi(config=f"[cors]\nallowed_origin = {allowed}\n").client()
    for site, origin, expected in [("cross-site", "https://other.example.net", 403), ("cross-site", "null", 403), ("cross-site", allowed, 204),
                                   ("same-origin", "http://127.0.0.1", 204), (None, None, 204)]:
        headers = {"Sec-Fetch-Site": site, "Origin": origin, "Content-Type": None}
        answer = client.post("/api/v1/admin/tsdb/delete_series?match[]=x", headers=headers)
        assert answer.status == expected, (site, origin)
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://other.example.net"}
    assert client.get("/v1/archive_policy", headers=headers).status == 200


def test_guesses_from_one_address_keep_no_other_waiting(gnudi, tmp_path):
    path = tmp_path / "passwords"
    for user in ["admin", "jd"]:
        assert passwd(path, user, b"secret").returncode == 0
    server = gnudi(config=f"[api]\npassword_file = {path}\n")
    is_over, checked = threading.Event(), []

    def client(source):
        return Client("127.0.0.1", server.port, source=source)

    def guess(number):
        guesser, answers = client("127.0.0.1"), set()
        while not is_over.is_set():
            answer = status(guesser, "jd" if number % 2 else f"user{number}", f"guess{number}")
            answers.add(answer)
            if answer == 401:
                checked.append(number)
        return answers

    def kept_waiting(number):
        """How much longer it takes to be checked than to be answered without a check, from an address of one's own, in seconds."""
        newcomer = client(f"127.0.0.{2 + number}")
        durations = []
        for user, expected in [("admin", 200), ("admin", 200)] if number == 0 else [(f"stranger{number}", 401), (None, 401)]:
            began = time.monotonic()
            headers = {"Authorization": None} if user is None else basic(user, "secret")
            assert newcomer.get("/v1/archive_policy", headers=headers).status == expected
            durations.append(time.monotonic() - began)
        return durations[0] - durations[1]

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        guesses = [pool.submit(guess, number) for number in range(200)]
        try:
            began = time.monotonic()
            time.sleep(1)
            wait_until(lambda: len(checked) > 10, SOON_S, "guesses")
            check_s = (time.monotonic() - began) / len(checked)
            # In their queue there are 32 at a time. A machine that stands still keeps everybody waiting: then another comes.
            assert any(kept_waiting(number) < 16 * check_s for number in range(5))
            assert status(client("127.0.0.1"), "admin", "secret") == 200, "who was right before does not wait"
        finally:
            is_over.set()
        assert set.union(*(guess.result() for guess in guesses)) <= {401, 503}


def test_the_machines_own_figures_arrive_all_the_same(gnudi, passwords):
    server = gnudi(config=f"[api]\npassword_file = {passwords}\n[host]\ninterval = 1\n", host_metrics=True)
    client = server.client()
    wait_until(lambda: client.get("/v1/metric", headers=basic("admin", "secret")).expect(200).json(), SOON_S, "metrics")


@pytest.mark.parametrize("text, line", [
    ("admin", 1),
    ("\nadmin:secret\n", 2),
    (f"admin:{SECRET}\nadmin:{SECRET}\n", 2),
    (f":{SECRET}\n", 1),
])
def test_a_bad_file_stops_the_start_and_is_named(tmp_path, text, line):
    path = tmp_path / "passwords"
    path.write_text(text)
    done = program.run("serve", "--password-file", path, "--data-dir", tmp_path / "data", "--without", "host",
                       "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert f"{path}, line {line}" in done.stderr
    assert "secret" not in done.stderr


def test_a_missing_file_stops_the_start(tmp_path):
    done = program.run("serve", "--password-file", tmp_path / "nothing", "--data-dir", tmp_path / "data",
                       "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, None)
    assert "nothing" in done.stderr


def passwd(path, user, password, *arguments):
    """Runs `gnudi passwd`, which takes the password from standard input."""
    return subprocess.run([program.binary(), "passwd", path, user, *arguments], input=password, capture_output=True,
                          timeout=SOON_S, check=False)


def test_passwd_writes_what_the_server_reads_again(gnudi, tmp_path):
    path = tmp_path / "passwords"
    assert passwd(path, "admin", b"secret\n").returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "$argon2id$v=19$m=19456,t=2,p=1$" in path.read_text() and "secret" not in path.read_text()
    server = gnudi(config=f"[api]\npassword_file = {path}\n")
    client = server.client()
    assert status(client, "admin", "secret") == 200
    assert status(client, "jd", "x") == 401

    path.write_text(f"# of the cloud\n{path.read_text()}")
    assert passwd(path, "jd", "pässword with spaces\r\n".encode()).returncode == 0
    # Without a signal, as soon as it is noticed.
    wait_until(lambda: status(client, "jd", "pässword with spaces") == 200, SOON_S, "the new user")
    assert path.read_text().startswith("# of the cloud\nadmin:$argon2id$")
    assert "passwords were reloaded" in server.log()

    assert passwd(path, "admin", b"another").returncode == 0
    assert passwd(path, "jd", b"", "--delete").returncode == 0
    server.process.child.send_signal(signal.SIGHUP)
    wait_until(lambda: status(client, "admin", "another") == 200, SOON_S, "the new password")
    assert status(client, "admin", "secret") == 401
    assert status(client, "jd", "pässword with spaces") == 401

    path.write_text("admin:nonsense\n")
    server.process.child.send_signal(signal.SIGHUP)
    wait_until(lambda: "cannot reload the passwords" in server.log(), SOON_S, "the refusal of a bad file")
    assert status(client, "admin", "another") == 200
    assert "nonsense" not in server.log() and "another" not in server.log()
    assert server.stop() == 0


@pytest.mark.parametrize("user, password, arguments, part", [
    ("jd", b"", [], "the password is empty"),
    ("jd", b"\nsecret\n", [], "the password is empty"),
    ("jd", b"x" * 1025, [], "more than 1024 bytes"),
    ("j:d", b"secret", [], "no colons"),
    ("", b"secret", [], "name is empty"),
    ("nobody", b"", ["--delete"], "there is no user nobody"),
])
def test_passwd_refuses_and_changes_nothing(passwords, user, password, arguments, part):
    before = passwords.read_bytes()
    done = passwd(passwords, user, password, *arguments)
    assert done.returncode not in (0, None)
    assert part in done.stderr.decode()
    assert passwords.read_bytes() == before
    assert [path.name for path in passwords.parent.iterdir()] == [passwords.name]


def typed(path, *words):
    """Runs `gnudi passwd` on a terminal, types each of the words at a question; the exit status and what the terminal showed."""
    master, slave = pty.openpty()
    shown = b""
    try:
        child = subprocess.Popen([program.binary(), "passwd", path, "jd"], stdin=slave, stdout=slave, stderr=slave,
                                 start_new_session=True)
        for number, word in enumerate(words, 1):
            while shown.count(b": ") < number or termios.tcgetattr(slave)[3] & termios.ECHO:
                if shown.count(b": ") < number:
                    shown += os.read(master, 1024)
            os.write(master, word)
        status = child.wait(SOON_S)
        assert termios.tcgetattr(slave)[3] & termios.ECHO, "the terminal shows what is typed again"
        os.set_blocking(master, False)
        try:
            shown += os.read(master, 4096)
        except BlockingIOError:
            pass
        return status, shown
    finally:
        os.close(slave)
        os.close(master)


def test_passwd_asks_twice_on_a_terminal_and_shows_nothing(tmp_path):
    path = tmp_path / "passwords"
    status, shown = typed(path, b"hunter2\r", b"hunter3\r")
    assert status != 0 and b"not the same" in shown and not path.exists()
    status, shown = typed(path, b"hun\x03")
    assert status != 0 and b"interrupted" in shown and not path.exists()
    status, shown = typed(path, b"hunter2\r", b"hunter2\r")
    assert status == 0 and path.read_text().startswith("jd:$argon2id$")
    assert b"hunter" not in shown


def test_two_changes_at_once_are_both_kept(tmp_path):
    path = tmp_path / "passwords"
    users = [f"user{number}" for number in range(6)]
    children = [subprocess.Popen([program.binary(), "passwd", path, user], stdin=subprocess.PIPE) for user in users]
    for child in children:
        child.stdin.write(b"secret")
        child.stdin.close()
    assert [child.wait(SOON_S) for child in children] == [0] * len(users)
    assert sorted(line.split(":")[0] for line in path.read_text().splitlines()) == users


def test_without_passwords_only_loopback_is_served(tmp_path, passwords):
    def serve(*arguments):
        command = ["serve", "--data-dir", tmp_path / "data", "--without", "host", "--listen", f"0.0.0.0:{free_port()}"]
        return [*command, *arguments]

    done = program.run(*serve())
    assert done.returncode not in (0, None)
    assert "is not loopback" in done.stderr and "gnudi passwd" in done.stderr
    for arguments in (["--password-file", passwords], ["--allow-open-access"]):
        process = Process([program.binary(), *serve(*arguments)], tmp_path / arguments[0].strip("-"))
        try:
            process.wait_ready(lambda: "serving HTTP" in process.log(), SOON_S)
        finally:
            process.kill()
