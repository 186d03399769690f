"""gnudi as several processes on shared engines: any number of `gnudi api` and `gnudi metricd` with one configuration."""

import json
import pathlib

from support import gnudi
from support.gnudi import START_TIMEOUT_S, Gnudi
from support.process import Process, Program


class Api(Gnudi):
    """One `gnudi api` on a free loopback port."""

    def __init__(self, directory, config, arguments=(), prefix=""):
        super().__init__(directory, config, arguments, prefix)

    def command(self):
        command = [gnudi.binary(), "api", "--config-file", self.config_path, "--listen", f"127.0.0.1:{self.port}"]
        command += ["--path-prefix", self.prefix] if self.prefix else []
        return command + self.arguments

    def restart(self):
        """Starts it again on the same port, after it was stopped or killed."""
        self.process = Process(self.command(), self.log_path, env=self.env)
        self.process.wait_ready(self.healthy, START_TIMEOUT_S)
        return self


class Metricd(Program):
    """One `gnudi metricd`."""

    def __init__(self, directory, config):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config_path = self.directory / "gnocchi.conf"
        self.config_path.write_text(config)
        self.log_path = self.directory / "log"

    def start(self):
        self.process = Process([gnudi.binary(), "metricd", "--config-file", self.config_path], self.log_path)
        return self

    def signal(self, number):
        self.process.child.send_signal(number)


class Cloud:
    """`apis` and `workers` processes; `upgrade` arguments go to the `gnudi upgrade` that comes first, `arguments` to each API."""

    def __init__(self, directory, config, apis=1, workers=1, prefix="", upgrade=(), arguments=()):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config, self.prefix, self.upgrade_arguments = config, prefix, list(upgrade)
        self.config_path = self.directory / "gnocchi.conf"
        self.config_path.write_text(config)
        self.apis = [Api(self.directory / f"api{index}", config, arguments, prefix) for index in range(apis)]
        self.workers = [Metricd(self.directory / f"metricd{index}", config) for index in range(workers)]

    def run(self, *arguments, timeout_s=120):
        """Runs a command of gnudi with the cloud's configuration, to its end."""
        verb, *others = arguments
        return gnudi.run(verb, "--config-file", self.config_path, *others, timeout_s=timeout_s)

    def start(self):
        done = self.run("upgrade", *self.upgrade_arguments)
        assert done.returncode == 0, done.stderr
        for process in self.workers:
            process.start()
        for api in self.apis:
            api.start()
        return self

    def sacks(self):
        """How many sacks there are now."""
        done = self.run("status", "--format", "json")
        assert done.returncode == 0, done.stderr + self.logs()
        return json.loads(done.stdout)["sacks"]

    @property
    def port(self):
        return self.apis[0].port

    def client(self, index=0, **kwargs):
        return self.apis[index].client(**kwargs)

    def stop(self):
        """Kills what still runs."""
        for process in [*self.apis, *self.workers]:
            process.end()

    def logs(self):
        """The ends of all logs, for a failure's message."""
        processes = [*self.apis, *self.workers]
        return "\n".join(f"--- {process.directory.name}\n{process.log()[-3000:]}" for process in processes)
