"""The janitor ends and deletes resources on real servers: never those that get measures, always silent ones.

Spans are seconds of the real clock. No test depends on the order of two concurrent events: expected events are waited for, and a sender
that a busy machine has delayed for a whole span starts again.
"""

import datetime
import threading
import time
import uuid

import pytest

from support.engines import parameters, sections
from support.gnudi import Gnudi
from support.http import create_policy
from support.process import wait_until

pytestmark = pytest.mark.slow

SHARED = "postgresql+redis+redis"
POLICY = {"definition": [("1s", None)], "aggregation_methods": ["count"]}
INACTIVE_S, CLEANUP_S = 2, 6
JANITOR_S = 1
SEND_EVERY_S = 0.2
LIMIT_S = 120
TRIES = 3
YESTERDAY = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
TOMORROW = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")


def create(client, **more):
    """The ids of a new resource and of its metric."""
    body = {"id": str(uuid.uuid4()), "metrics": {"cpu": {"archive_policy_name": "life"}}, **more}
    made = client.post("/v1/resource/generic", body).expect(201).json()
    return made["id"], made["metrics"]["cpu"]


def is_gone(client, resource):
    return client.get(f"/v1/resource/generic/{resource}").expect(200, 404).status == 404


def ended_at(client, resource):
    return client.get(f"/v1/resource/generic/{resource}").expect(200).json()["ended_at"]


class Sender(threading.Thread):
    """Pushes a measure of the present moment to a metric again and again; knows the longest pause between two that were accepted, or
    before the first since `created`, or behind the last until it was stopped."""

    def __init__(self, client, metric, created):
        super().__init__(daemon=True)
        self.client, self.metric, self.created, self.stop = client, metric, created, threading.Event()
        self.accepted, self.refused, self.pause_s = 0, [], 0.0

    def run(self):
        last = self.created
        while not self.stop.is_set():
            body = [{"timestamp": time.time(), "value": 1}]
            status = self.client.post(f"/v1/metric/{self.metric}/measures", body).status
            now = time.monotonic()
            self.pause_s, last = max(self.pause_s, now - last), now
            if status == 202:
                self.accepted += 1
            else:
                self.refused.append(status)
            self.stop.wait(SEND_EVERY_S)
        self.pause_s = max(self.pause_s, time.monotonic() - last)


def count(client, metric):
    path = f"/v1/metric/{metric}/measures?refresh=true&aggregation=count"
    return sum(value for _, _, value in client.get(path).expect(200).json())


def options(inactive_s, cleanup_s):
    text = f"[metricd]\nmetric_cleanup_delay = {JANITOR_S}\nresource_cleanup_after = {cleanup_s}\n"
    return text + (f"metric_inactive_after = {inactive_s}\n" if inactive_s else "")


@pytest.fixture(params=parameters(["embedded", SHARED], ["embedded"]))
def servers(request, tmp_path):
    """Starts servers on one store, one after the other: `servers(options)` answers a client."""
    started = []
    made = sections(request, request.param) if request.param != "embedded" else None

    def start(text):
        if made is None:
            server = Gnudi(tmp_path / "gnudi", config=text)
        else:
            server = request.getfixturevalue("cloud")(text + made, apis=1, workers=1)
            started.append(server)
            return server.client()
        started.append(server)
        return server.start().client()

    yield start
    for server in started:
        if isinstance(server, Gnudi):
            server.kill()


def attempt(client):
    """Whether the run says anything: a sender that stood still for as long as a resource may be silent says nothing."""
    created = time.monotonic()
    sending, metric = create(client)
    silent, _ = create(client)
    sender = Sender(client.as_user("admin"), metric, created)
    sender.start()
    try:
        # Ended after INACTIVE_S without measures, deleted CLEANUP_S later.
        wait_until(lambda: is_gone(client, silent), LIMIT_S, "the silent resource is deleted")
        seconds = time.monotonic()
        wait_until(lambda: time.monotonic() > seconds + 2 * JANITOR_S, LIMIT_S, "two more rounds of the janitor")
        is_deleted = is_gone(client, sending)
    finally:
        sender.stop.set()
        sender.join(60)
    if sender.pause_s > CLEANUP_S / 2:
        return False
    assert not sender.refused and not is_deleted
    assert count(client, metric) == sender.accepted > 0
    return True


def test_who_sends_is_never_deleted_and_who_is_silent_is(servers):
    client = servers(options(INACTIVE_S, CLEANUP_S))
    create_policy(client, "life", **POLICY)
    assert any(attempt(client) for _ in range(TRIES)), "this machine stands still for seconds, again and again"


def test_former_revisions_are_forgotten_and_the_newest_stays(servers):
    client = servers(f"[metricd]\nmetric_cleanup_delay = {JANITOR_S}\nresource_history_retention = 1\n")
    create_policy(client, "life", **POLICY)
    changed, _ = create(client)
    kept, _ = create(client)
    for number in range(5):
        client.patch(f"/v1/resource/generic/{changed}", {"user_id": f"user {number}"}).expect(200)

    def history(resource):
        return client.get(f"/v1/resource/generic/{resource}/history").expect(200).json()

    wait_until(lambda: len(history(changed)) == 1, LIMIT_S, "former revisions are removed")
    newest, = history(changed)
    assert (newest["user_id"], newest["revision_end"]) == ("user 4", None)
    assert len(history(kept)) == 1 and newest["metrics"]
    # Those that come later are forgotten, too.
    client.patch(f"/v1/resource/generic/{changed}", {"user_id": None}).expect(200)
    wait_until(lambda: [revision["user_id"] for revision in history(changed)] == [None], LIMIT_S, "the last one is removed")


def test_revisions_stay_where_nothing_else_is_said(gnudi):
    client = gnudi(config=f"[metricd]\nmetric_cleanup_delay = {JANITOR_S}\n").client()
    made = client.post("/v1/resource/generic", {"id": str(uuid.uuid4())}).expect(201).json()["id"]
    client.patch(f"/v1/resource/generic/{made}", {"user_id": "u"}).expect(200)
    time.sleep(3 * JANITOR_S)
    assert len(client.get(f"/v1/resource/generic/{made}/history").expect(200).json()) == 2


def create_ended(client, *names):
    """{name: (resource, metric)}, which ended yesterday but for "never-ended"."""
    made = {name: create(client, started_at="2020-01-01") for name in names}
    for name in {*names} - {"never-ended"}:
        client.patch(f"/v1/resource/generic/{made[name][0]}", {"ended_at": YESTERDAY}).expect(200)
    return made


def test_measures_at_or_after_its_end_save_a_resource_that_ended_long_ago(servers):
    """The janitor starts when all is said: of four resources that ended yesterday, only those that got measures since are left."""
    client = servers("[metricd]\nmetric_cleanup_delay = 3600\n")
    create_policy(client, "life", **POLICY)
    resources = create_ended(client, "silent", "before", "at", "after", "never-ended")
    for name, timestamp in (("before", "2020-02-01T00:00:00"), ("at", YESTERDAY), ("after", TOMORROW)):
        client.post(f"/v1/metric/{resources[name][1]}/measures", [{"timestamp": timestamp, "value": 1}]).expect(202)
        assert count(client, resources[name][1]) == 1
    ends = {name: ended_at(client, resource) is not None for name, (resource, _) in resources.items()}
    assert ends == {"silent": True, "before": True, "at": False, "after": False, "never-ended": False}
    history = client.get(f"/v1/resource/generic/{resources['at'][0]}/history").expect(200).json()
    assert sorted(revision["ended_at"] is None for revision in history) == [False, True, True]


def test_the_janitor_deletes_what_ended_and_nothing_that_measures_wait_for(gnudi):
    """The same store under a server whose janitor works: measures that nobody had processed count before anything is deleted."""
    server = gnudi(config="[metricd]\ngreedy = false\nmetric_processing_delay = 3600\nmetric_cleanup_delay = 3600\n")
    client = server.client()
    create_policy(client, "life", **POLICY)
    resources = create_ended(client, "silent", "before", "after", "never-ended")
    for name, timestamp in (("before", "2020-02-01T00:00:00"), ("after", TOMORROW)):
        client.post(f"/v1/metric/{resources[name][1]}/measures", [{"timestamp": timestamp, "value": 1}]).expect(202)
    assert server.stop() == 0
    server.config_path.write_text(options(None, 60) + "greedy = false\nmetric_processing_delay = 3600\n")
    client = server.start().client()
    wait_until(lambda: is_gone(client, resources["silent"][0]) and is_gone(client, resources["before"][0]), LIMIT_S, "what ended is deleted")
    for name in ("after", "never-ended"):
        assert not is_gone(client, resources[name][0]), name
    assert ended_at(client, resources["after"][0]) is None
    assert count(client, resources["after"][1]) == 1
    client.post(f"/v1/metric/{resources['after'][1]}/measures", [{"timestamp": TOMORROW, "value": 1}]).expect(202)
