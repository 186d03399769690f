"""The program under test: where its binary is, and one running server.

`GNUDI_BIN` names another binary than target/debug/gnudi.
"""

import os
import pathlib
import subprocess

from support.http import Client
from support.process import Process, Program, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60
# Of a command that is run to its end.
RUN_TIMEOUT_S = 60


def binary():
    """The gnudi binary; says in one line how to build it if it isn't there."""
    path = pathlib.Path(os.environ.get("GNUDI_BIN", ROOT / "target" / "debug" / "gnudi")).resolve()
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make development` first")
    return path


def example(crate, name):
    """The newest build of a crate's example program; `cargo test` builds it, `cargo build --examples` too."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "examples" / name for profile in ("debug", "quick", "release")]
    found = [path for path in built if path.exists()]
    assert found, f"no example program: cargo build -p {crate} --example {name}"
    return max(found, key=lambda path: path.stat().st_mtime)


def benchmark_binary():
    """The gnudi-benchmark beside the gnudi binary."""
    path = binary().with_name("gnudi-benchmark")
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make development` first")
    return path


def run(*arguments, name="gnudi", env=None, timeout_s=RUN_TIMEOUT_S, directory=None):
    """Runs gnudi to its end and answers the completed process (stdout and stderr as text).

    `name` other than gnudi: run through a link of that name, made in `directory`.
    """
    program = binary()
    if name != "gnudi":
        link = pathlib.Path(directory) / name
        if not link.is_symlink():
            link.symlink_to(program)
        program = link
    return _run(program, arguments, env, timeout_s, directory)


def run_benchmark(*arguments, env=None, timeout_s=RUN_TIMEOUT_S):
    """As `run`, for gnudi-benchmark."""
    return _run(benchmark_binary(), arguments, env, timeout_s, None)


def _run(program, arguments, env, timeout_s, directory):
    return subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(env or {})},
        cwd=directory,
        check=False,
    )


class Gnudi(Program):
    """One `gnudi serve` on a free loopback port; may be stopped or killed and started again on its data."""

    def __init__(self, directory, config="", arguments=(), prefix="", env=None, data_dir=None,
                 host_metrics=False):
        """`config` is the text of the configuration file; `arguments` go to the command line as they are.

        `host_metrics`: let it collect this machine's own figures.
        """
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.data_dir = pathlib.Path(data_dir) if data_dir else self.directory / "data"
        self.config_path = self.directory / "gnocchi.conf"
        self.config_path.write_text(config)
        self.arguments, self.prefix, self.env, self.host_metrics = list(arguments), prefix, env, host_metrics
        self.log_path = self.directory / "log"
        self.port = None

    def command(self):
        command = [binary(), "serve", "--config-file", self.config_path, "--data-dir", self.data_dir]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        command += [] if self.host_metrics else ["--without", "host"]
        if self.prefix:
            command += ["--path-prefix", self.prefix]
        return command + self.arguments

    def spawn(self):
        """Starts the process and doesn't wait for it."""
        self.port = free_port()
        self.process = Process(self.command(), self.log_path, env=self.env)
        return self

    def start(self):
        """Starts it and waits until it is healthy."""
        self.spawn()
        self.process.wait_ready(self.healthy, START_TIMEOUT_S)
        return self

    def healthy(self):
        return self.client(timeout_s=2).answers()

    def client(self, user="admin", timeout_s=30):
        return Client("127.0.0.1", self.port, self.prefix, user, timeout_s)

    def __enter__(self):
        return self.start()

    def __exit__(self, error_type, *_):
        if self.process is not None and self.process.running():
            self.process.kill() if error_type else self.stop()
