"""Several polling agents, gnudi's and Ceilometer's, that find each other through a real Redis or etcd: each instance is polled by one of
them, once a round; when one leaves or dies, the others take over."""

import time

import pytest

from support.process import free_port
from telemetry import polling
from telemetry.polling import domain, instance_id, samples, source

TIMEOUT_S = 120
INTERVAL_S = 1
LEASE_S = 4
#: Rounds, renewals and slow processors need some time of their own.
LEEWAY_S = 3
#: Of whom nobody should wait for.
LONG_LEASE_S = 120
#: So many that each of three agents has some, whatever the hashes.
INSTANCES = 40


class Group:
    """Agents of one machine that share the work. Each says in its samples who it is."""

    def __init__(self, directory, broker, topic, reader, url):
        self.directory, self.broker, self.topic, self.reader, self.url = directory, broker, topic, reader, url
        self.agents, self.lease_s = {}, LEASE_S

    def start(self, name, host="cmp1", agent=polling.ours, lease_s=None):
        uri = polling.libvirt(self.directory, [domain(number) for number in range(1, INSTANCES + 1)])
        conf = polling.configure(
            self.directory / f"{self.topic}-{name}", self.broker, self.topic, [source("power.state", interval=INTERVAL_S)], {
                "DEFAULT": {"libvirt_uri": uri, "host": host, "sample_source": name},
                "polling": {"jitter": 0.01},
                "coordination": {"backend_url": f"{self.url}?membership_timeout={lease_s or self.lease_s}"},
            })
        self.agents[name] = agent(conf, self.directory / f"{self.topic}-{name}.log")

    def since(self, moment):
        """{agent: {moment: [instances]}} of the rounds that began after a moment."""
        rounds = {}
        for sample in samples(self.reader.messages(self.topic)):
            if sample["timestamp"] > moment:
                rounds.setdefault(sample["source"], {}).setdefault(sample["timestamp"], []).append(sample["resource_id"])
        return rounds

    def shares(self, moment, names):
        """Each agent's instances, if these agents polled each instance exactly once a round in at least two rounds each."""
        rounds = {name: rounds for name, rounds in self.since(moment).items() if name in names}
        if rounds.keys() != set(names) or any(len(of_one) < 2 for of_one in rounds.values()):
            return None
        shares = {name: sorted(next(iter(of_one.values()))) for name, of_one in rounds.items()}
        same = all(sorted(polled) == shares[name] for name, of_one in rounds.items() for polled in of_one.values())
        whole = sorted(instance for share in shares.values() for instance in share)
        return shares if same and whole == ALL else None

    def settled(self, names):
        """Their shares, once they are all of it; tells when. Windows begin anew until they are."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            moment = now()
            tried = time.monotonic()
            while time.monotonic() < tried + 30 * INTERVAL_S:
                if shares := self.shares(moment, names):
                    return shares
                if len(self.since(moment)) and any(len(of_one) > 3 for of_one in self.since(moment).values()):
                    break
                time.sleep(0.1)
        logs = "\n".join(agent.log()[-1500:] for agent in self.agents.values())
        counts = {name: [len(polled) for polled in of_one.values()] for name, of_one in self.since(moment).items()}
        raise AssertionError(f"{self.topic}: not each instance by one of {names}: {counts}\n{logs}")

    def taken_over(self, names, before_s, since):
        """When, in seconds since a moment of `time.monotonic()`, these first polled everything."""
        began = now()
        while time.monotonic() < since + before_s:
            polled = {instance for name, of_one in self.since(began).items() if name in names
                      for instances in of_one.values() for instance in instances}
            if sorted(polled) == ALL:
                return time.monotonic() - since
            time.sleep(0.05)
        log = self.agents[names[0]].log()[-2000:]
        raise AssertionError(f"{self.topic}: {names} have not taken over within {before_s} s: {log}")

    def stop(self):
        for agent in self.agents.values():
            agent.kill()


ALL = [instance_id(number) for number in range(1, INSTANCES + 1)]


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 1_000_000:06}"


@pytest.fixture
def groups(bus, reader, redis, etcd, tmp_path):
    urls = {"partition-redis": redis.url, "partition-etcd": etcd.url}
    made = [Group(tmp_path / topic, bus, topic, reader, url) for topic, url in urls.items()]
    for group in made:
        group.directory.mkdir()
    yield made
    for group in made:
        group.stop()


def test_agents_share_the_work_and_take_over(groups):
    for group in groups:
        for name in ("a", "b", "c"):
            group.start(name, lease_s=LONG_LEASE_S if name == "b" else LEASE_S)
    # Another machine's instances are nobody's but its own agent's.
    groups[0].start("elsewhere", host="cmp2")
    before = [group.settled(["a", "b", "c"]) for group in groups]
    assert groups[0].settled(["elsewhere"]) == {"elsewhere": ALL}
    for group, shares in zip(groups, before):
        # One group after the other: the time that the first takes is none of the second's. Where the machine stands still, a lease may
        # have been over before, or all be late: once more.
        for _ in range(3):
            killed = time.monotonic()
            group.agents["a"].kill()
            # Nobody knows of it before the lease is over.
            took_s = group.taken_over(["b", "c"], TIMEOUT_S / 2, killed)
            if 1 < took_s < LEASE_S + INTERVAL_S + LEEWAY_S:
                break
            group.start("a")
            group.settled(["a", "b", "c"])
        else:
            raise AssertionError(f"the others take over {took_s} s after a death")
        after = group.settled(["b", "c"])
        for name in ("b", "c"):
            assert set(shares[name]) <= set(after[name]), "whose agent lives stays where it is"
    for group in groups:
        left = time.monotonic()
        assert group.agents["b"].terminate(60) == 0
        assert group.taken_over(["c"], LONG_LEASE_S / 2, left) < LONG_LEASE_S / 2


def test_ceilometers_agents_are_in_the_same_group(groups):
    """Each instance is polled by one of them, whosever agent it is, while Ceilometer's agents make place for gnudi's."""
    # One after the other: tooz never sees a member that joins while it sets up its ring, between its list and its watch.
    started = []
    for name, agent in (("theirs", polling.theirs), ("also theirs", polling.theirs), ("ours", polling.ours)):
        started.append(name)
        for group in groups:
            # Ceilometer's agents do not join again once their lease has expired, and renew it late on a busy machine.
            group.lease_s = 3 * LEASE_S
            group.start(name, agent=agent)
        for group in groups:
            group.settled(started)
    for group in groups:
        before = group.settled(["theirs", "also theirs", "ours"])
        assert all(len(share) >= 2 for share in before.values()), before
    for group in groups:
        group.agents["theirs"].terminate()
        group.start("also ours")
    for group in groups:
        group.settled(["also theirs", "ours", "also ours"])
        group.agents["also theirs"].kill()
    for group in groups:
        group.settled(["ours", "also ours"])


def test_an_agent_that_never_found_the_others_polls_everything(bus, reader, tmp_path):
    topic = "partition-alone"
    conf = polling.configure(tmp_path, bus, topic, [source("power.state")], {
        "DEFAULT": {"libvirt_uri": polling.libvirt(tmp_path, [domain(1), domain(2)])},
        "coordination": {"backend_url": f"redis://127.0.0.1:{free_port()}"},
    })
    told = polling.poll_once(conf)
    assert {one["resource_id"] for one in samples(reader.until(topic, lambda got: len(got) >= 2))} == set(ALL[:2])
    assert "the coordinator does not answer" in told
