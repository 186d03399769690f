"""A RabbitMQ of one's own in a directory: loopback only, its own epmd, node name and home; gone when the test run ends."""

import ast
import os
import pathlib
import shutil
import socket
import subprocess

from support.process import Process, ProgramMissing, free_port, wait_until

START_TIMEOUT_S = 180
PROGRAMS = pathlib.Path("/usr/lib/rabbitmq/bin")


class Rabbitmq:
    """A node with the user `guest`; may be stopped or killed and started again on its data, on the same port."""

    def __init__(self, directory, certificates=None):
        """`certificates`: also speak TLS, with them."""
        if not (PROGRAMS / "rabbitmq-server").exists():
            raise ProgramMissing("RabbitMQ is missing: run scripts/install-test-deps, or install `rabbitmq-server`")
        self.directory = pathlib.Path(directory)
        self.certificates = certificates
        self.port, self.tls_port, self.distribution_port, self.epmd_port = (free_port() for _ in range(4))
        self.node = f"gnudi{self.port}@localhost"
        self.process = self.epmd = None

    def env(self):
        directory = self.directory
        return {
            "HOME": str(directory),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
        }

    def start(self):
        for name in ("mnesia", "log"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "vm_memory_high_watermark.absolute = 512MB",
                 "disk_free_limit.absolute = 50MB", "loopback_users.guest = true"]
        if self.certificates:
            lines += [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
                      f"ssl_options.cacertfile = {self.certificates.root}",
                      f"ssl_options.certfile = {self.certificates.certificate}",
                      f"ssl_options.keyfile = {self.certificates.key}", "ssl_options.verify = verify_none"]
        (self.directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.directory / "plugins").write_text("[].\n")
        if self.epmd is None:
            self.epmd = Process([shutil.which("epmd")], self.directory / "epmd.log", env=self.env())
        self.process = Process([PROGRAMS / "rabbitmq-server"], self.directory / "out", env=self.env())
        self.process.wait_ready(self.listening, START_TIMEOUT_S)
        return self

    def listening(self):
        try:
            with socket.create_connection(("127.0.0.1", self.tls_port if self.certificates else self.port), 1):
                return True
        except OSError:
            return False

    def stop(self):
        """Ends the node and what it started."""
        if self.process is not None and self.process.running():
            self.process.terminate(120)
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd = None

    def kill(self):
        self.process.kill()

    def restart(self):
        """A clean stop and start: durable queues and persistent messages stay."""
        self.process.terminate(120)
        self.start()

    def url(self, password="guest", tls=False):
        port = self.tls_port if tls else self.port
        return f"rabbit://guest:{password}@127.0.0.1:{port}/"

    def erlang(self, text):
        """What an expression is in the node's own language: `rabbitmqctl` takes two seconds for each answer."""
        cookie = (self.directory / ".erlang.cookie").read_text()
        done = subprocess.run(["erl_call", "-sname", self.node, "-c", cookie, "-e"], input=f"{text}.\n", env={**os.environ, **self.env()},
                              capture_output=True, text=True, timeout=120, check=True)
        answer = done.stdout.strip()
        assert answer.startswith("{ok, ") and answer.endswith("}"), answer
        return answer.removeprefix("{ok, ").removesuffix("}")

    def delete_queue(self, name):
        self.erlang(f'{{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{name}">>)), '
                    '{ok, _} = rabbit_amqqueue:delete(Queue, false, false, <<"tests">>)')

    def forget(self):
        """Deletes the virtual host with all that is in it, and disconnects its clients."""
        names = '<<"/">>, <<"tests">>'
        everything = ", ".join(['<<".*">>'] * 3)
        self.erlang(f'ok = rabbit_vhost:delete({names}), ok = rabbit_vhost:add({names}), '
                    f'rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"/">>, {everything}, <<"tests">>)')

    def listed(self, *keys):
        """{queue: its values of these keys}."""
        values = ", ".join(f"proplists:get_value({key}, Queue)" for key in keys)
        queue = f"[element(4, proplists:get_value(name, Queue)), [{values}]]"
        # "name[value,value]\n..."; no queue is an empty list.
        text = ast.literal_eval(self.erlang(
            f'lists:flatten([io_lib:format("~s~w~n", {queue}) || Queue <- rabbit_amqqueue:info_all(<<"/">>, [name, {", ".join(keys)}])])')) or ""
        rows = (row.removesuffix("]").split("[") for row in text.splitlines())
        return {name: values.split(",") for name, values in rows}

    def depths(self):
        """Messages of each queue, those that are delivered and not acknowledged included."""
        return {name: int(count) for name, (count,) in self.listed("messages").items()}

    def consumers(self):
        """How many consumers each queue has."""
        return {name: int(count) for name, (count,) in self.listed("consumers").items()}

    def kinds(self):
        """The type of each queue, and whether it outlives a restart: `("quorum", True)`."""
        short = lambda kind: kind.rsplit("_", 2)[-2] if kind.startswith("rabbit_") else kind
        return {name: (short(kind), durable == "true") for name, (kind, durable) in self.listed("type", "durable").items()}

    def wait_empty(self, queues, timeout_s=120):
        wait_until(lambda: not any(self.depths().get(queue, 0) for queue in queues), timeout_s, f"empty {queues}")
