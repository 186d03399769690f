"""The stores that a Gnocchi is imported into, the servers on them with their journals, and the arguments of `gnudi export` for both."""

from support.cloud import Cloud


class Embedded:
    """One `gnudi serve`."""

    def __init__(self, gnudi, directory):
        self.make, self.data_dir, self.journals = gnudi, directory / "data", [directory / "journal"]
        self.arguments = ["--data-dir", self.data_dir]
        self.server = None

    def serve(self, is_journaled=True):
        config = f"[incoming]\njournal = {self.journals[0]}\n" if is_journaled else ""
        self.server = self.make(data_dir=self.data_dir, config=config, arguments=["--skip-archive-policies-creation"])

    def clients(self):
        return [self.server.client()]

    def crash(self):
        self.server.kill()
        self.server.start()

    def stop(self):
        assert self.server.stop() == 0


class Shared:
    """Two `gnudi api` with a journal each, and a `gnudi metricd`."""

    def __init__(self, directory, sections):
        self.config = sections
        self.cloud = Cloud(directory / "cloud", sections, apis=2)
        self.journals = [api.directory / "journal" for api in self.cloud.apis]
        target = directory / "target.conf"
        target.write_text(sections, encoding="utf-8")
        self.arguments = ["--target", target]

    def serve(self, is_journaled=True):
        for api, journal in zip(self.cloud.apis, self.journals):
            api.env = {"OS_INCOMING__JOURNAL": str(journal)} if is_journaled else None
        self.cloud.upgrade_arguments = ["--skip-archive-policies-creation"]
        self.cloud.start()

    def clients(self):
        return [api.client() for api in self.cloud.apis]

    def crash(self):
        for api in self.cloud.apis:
            api.kill()
            api.restart()

    def stop(self):
        for process in [*self.cloud.apis, *self.cloud.workers]:
            assert process.stop() == 0, process.log()[-3000:]
