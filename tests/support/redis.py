"""Redis of one's own in a directory: one server, or a primary with a replica and three Sentinels.

Every write is synced (`appendfsync always`) unless told otherwise, so that what is acknowledged survives a kill.
"""

import pathlib
import subprocess

from support.process import Process, free_port, required, wait_until

START_TIMEOUT_S = 60
MASTER = "gnudi"


class Redis:
    """One server. May be killed and started again on its data."""

    def __init__(self, directory, *options, appendfsync="always"):
        for program in ["redis-server", "redis-cli"]:
            required(program, "redis-server")
        self.directory = pathlib.Path(directory)
        self.port = free_port()
        self.options = list(options)
        if appendfsync is not None:
            self.options += ["--appendonly", "yes", "--appendfsync", appendfsync]
        # What redis-cli needs besides the port, and the port without TLS.
        self.client = []
        self.plain_port = self.port
        self.process = None

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self.process = Process(
            ["redis-server", "--port", self.plain_port, "--bind", "127.0.0.1", "--dir", self.directory, "--save", "",
             "--repl-diskless-sync-delay", "0", *self.options],
            self.directory / "log",
        )
        self.process.wait_ready(lambda: self.command("ping", check=False) == "PONG", START_TIMEOUT_S)
        return self

    def restart_as_replica_of(self, primary):
        if "--replicaof" in self.options:
            at = self.options.index("--replicaof")
            del self.options[at:at + 3]
        self.options += ["--replicaof", "127.0.0.1", primary.port]
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def command(self, *words, check=True):
        """What redis-cli prints of a command."""
        done = subprocess.run(
            ["redis-cli", "-h", "127.0.0.1", "-p", str(self.port), *self.client, *map(str, words)],
            capture_output=True, text=True, timeout=30, check=False,
        )
        answer = done.stdout.strip()
        if check and (done.returncode != 0 or answer.startswith("ERR")):
            raise RuntimeError(f"redis {words}: {done.stdout}{done.stderr}")
        return answer

    def kill(self):
        if self.process is not None:
            self.process.kill()

    stop = kill


class RedisSentinel:
    """A primary, a replica, and three Sentinels that make the replica the primary when that is gone for a second."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.servers = []
        self.sentinels = []

    def start(self):
        primary = Redis(self.directory / "primary").start()
        self.servers = [primary]
        self.servers.append(Redis(self.directory / "replica", "--replicaof", "127.0.0.1", primary.port).start())
        wait_until(lambda: "state=online" in primary.command("info", "replication"), START_TIMEOUT_S, "the replica")
        for index in range(3):
            self.sentinels.append(self._sentinel(index, primary.port))
        wait_until(self._complete, START_TIMEOUT_S, "the Sentinels")
        return self

    def _sentinel(self, index, port):
        directory = self.directory / f"sentinel{index}"
        directory.mkdir(parents=True)
        conf = directory / "sentinel.conf"
        conf.write_text(
            f"sentinel monitor {MASTER} 127.0.0.1 {port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} 1000\n"
            f"sentinel failover-timeout {MASTER} 5000\n"
        )
        sentinel = Redis(directory, appendfsync=None)
        sentinel.process = Process(
            ["redis-server", conf, "--sentinel", "--port", sentinel.port, "--bind", "127.0.0.1", "--dir", directory],
            directory / "log",
        )
        sentinel.process.wait_ready(lambda: sentinel.command("ping", check=False) == "PONG", START_TIMEOUT_S)
        return sentinel

    def _complete(self):
        def knows_all(sentinel):
            words = sentinel.command("sentinel", "master", MASTER).split("\n")
            facts = dict(zip(words[::2], words[1::2]))
            return facts.get("num-slaves") == "1" and facts.get("num-other-sentinels") == "2"

        return all(knows_all(sentinel) for sentinel in self.sentinels)

    @property
    def url(self):
        """As Gnocchi writes it: one Sentinel first, the others as fallbacks."""
        first, *others = [f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels]
        fallbacks = "".join(f"&sentinel_fallback={other}" for other in others)
        return f"redis://{first}?sentinel={MASTER}{fallbacks}"

    def primary(self):
        """The server that the Sentinels call the primary now."""
        words = self.sentinels[0].command("sentinel", "get-master-addr-by-name", MASTER).split("\n")
        return next(server for server in self.servers if str(server.port) == words[1])

    def fail_over(self):
        """Kills the primary, and waits until the Sentinels name another, and the old one is its replica and up to date: a second
        failure before that would be one too many for two servers."""
        old = self.primary()
        old.kill()
        wait_until(lambda: self.primary() is not old, START_TIMEOUT_S, "another primary")
        new = self.primary()
        old.restart_as_replica_of(new)
        wait_until(lambda: "state=online" in new.command("info", "replication"), START_TIMEOUT_S, "the replica")

    def stop(self):
        for server in [*self.sentinels, *self.servers]:
            server.kill()
