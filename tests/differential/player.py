"""Sends a sequence of requests to two servers, finds the first step that they answer differently, and minimises the sequence.

Before answers are compared, values that each server chooses itself are replaced: metric ids by `<RESOURCE/NAME>`, current times by
`<now>`, revision numbers by `@n`, the address by `SERVER`.
"""

import dataclasses
import datetime
import json
import math
import re
import urllib.parse

from differential import leeway

HEADERS = ["content-type", "location", "link", "allow", "www-authenticate"]
PRESENT = ["etag", "last-modified"]
# Lists that Gnocchi makes of sets.
SETS = {"aggregation_methods"}
ARGUMENTS = {"attrs", "details", "filter", "history", "limit", "marker", "sort"}
NOW_MAX_S = 2 * 3600
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")
NAME = re.compile(r"<[^<>]*/[^<>]*>|<m-[^<>]*>")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
REVISION = re.compile(r"(@|%40)\d+")
SHRINK_REPLAYS_MAX = 120
SHOWN_MAX = 4000
UNKNOWN_METRIC = "00000000-0000-4000-8000-00000000dead"


@dataclasses.dataclass
class Outcome:
    """What one server answered, without what it chose for itself."""

    status: int
    headers: dict
    body: object

    def __str__(self):
        return f"{self.status} {self.headers} {json.dumps(self.body)}"[:SHOWN_MAX]


@dataclasses.dataclass
class Difference:
    """The first request that the servers answered differently, and all before it."""

    steps: list
    ours: Outcome
    theirs: Outcome
    why: str

    def __str__(self):
        lines = [f"{number}. {step}" for number, step in enumerate(self.steps)]
        return "\n".join([*lines, f"differs: {self.why}", f"  gnudi:   {self.ours}", f"  gnocchi: {self.theirs}"])


class Side:
    """One server, and the names of the metrics that it made."""

    def __init__(self, client):
        self.client, self.users, self.ids, self.names = client, {}, {}, {}
        self.cursor = None

    def start(self):
        self.ids, self.names, self.cursor = {}, {}, None

    def as_user(self, user):
        if user not in self.users:
            self.users[user] = self.client.as_user(user)
        return self.users[user]

    def play(self, step):
        """The outcome of one step; a page that has a next one is followed by `<next>`."""
        path = self.with_ids(step.path)
        if "<next>" in path:
            if self.cursor is None:
                return None
            path = self.cursor
        body = step.text()
        if body is not None:
            body = self.with_ids(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        answer = self.as_user(step.user).request(step.method, path, body, step.headers)
        content = self.content(answer)
        link = answer.headers.get("link", "")
        self.cursor = None
        if "<" in link:
            self.cursor = link[1:link.index(">")].partition(f":{self.client.port}")[2]
        for metric in step.refresh:
            self.as_user("admin").get(self.with_ids(f"/v1/metric/{metric}/measures?refresh=true")).expect(200, 404)
        headers = {name: self.plain(answer.headers[name]) for name in HEADERS if name in answer.headers}
        if "link" in headers:
            headers["link"] = next_page(headers["link"])
        headers |= {name: "present" for name in PRESENT if name in answer.headers}
        return Outcome(answer.status, headers, self.normal(content, step.unordered))

    def content(self, answer):
        if not answer.body:
            return None
        text = answer.body.decode("utf-8", "replace")
        if "json" not in answer.headers.get("content-type", ""):
            return text
        content = json.loads(text)
        self.learn(content)
        return content

    def learn(self, content):
        """Names the metrics of an answer."""
        if isinstance(content, list):
            for item in content:
                self.learn(item)
        if not isinstance(content, dict):
            return
        if isinstance(content.get("metrics"), dict) and "id" in content:
            for name, id in content["metrics"].items():
                self.name(id, f"<{content['id']}/{name}>")
        if "archive_policy" in content or "archive_policy_name" in content:
            resource = content.get("resource_id")
            if resource is None and isinstance(content.get("resource"), dict):
                resource = content["resource"].get("id")
            if "id" in content and content["id"] not in self.names:
                owner = f"<{resource}/{content.get('name')}>" if resource else f"<m-{content.get('name')}>"
                self.name(content["id"], owner)
        for value in content.values():
            if isinstance(value, (list, dict)):
                self.learn(value)

    def name(self, id, name):
        if id not in self.names:
            self.names[id] = name
            self.ids[name] = id

    def with_ids(self, text):
        return NAME.sub(lambda match: self.ids.get(match.group(), UNKNOWN_METRIC), text)

    def plain(self, text):
        """A text without ids, times and the address of this server."""
        text = ID.sub(lambda match: self.names.get(match.group(), match.group()), text)
        text = TIME.sub(lambda match: "<now>" if is_now(match.group()) else match.group(), text)
        return text.replace(f"127.0.0.1:{self.client.port}", "SERVER")

    def normal(self, content, unordered):
        if isinstance(content, str):
            return self.plain(content)
        if isinstance(content, list):
            items = [self.normal(item, unordered) for item in content]
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if unordered else items
        if isinstance(content, dict):
            return {self.plain(key): self.normal(value, unordered or key in SETS) for key, value in content.items()}
        return content


def delete(client, collection, name):
    """Removes what has a name, if it may be removed."""
    client.delete(f"{collection}/{urllib.parse.quote(name, safe='')}").expect(204, 400, 404)


def next_page(link):
    """A Link header without revision numbers, and without the body, which Gnocchi repeats in it."""
    address, _, rest = link.partition(">")
    path, _, query = address.partition("?")
    kept = [part for part in query.split("&") if part.partition("=")[0] in ARGUMENTS]
    # `:` and `%3A` are the same path.
    return REVISION.sub("@n", f"{urllib.parse.unquote(path)}?{'&'.join(kept)}>{rest}")


def is_now(text):
    moment = datetime.datetime.fromisoformat(text)
    return abs((moment - datetime.datetime.now(datetime.timezone.utc)).total_seconds()) < NOW_MAX_S


def same_content(ours, theirs, about):
    """Whether two answers are the same; numbers may differ by `about` of themselves."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same_content(ours[key], theirs[key], about) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same_content(a, b, about) for a, b in zip(ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or abs(ours - theirs) <= about * max(abs(ours), abs(theirs))
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


def same_error(ours, theirs):
    """Whether two errors say the same; of several things that are wrong they may name another order."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return ours == theirs
    if leeway.open_text(theirs) or leeway.is_a_missing_key(ours) and leeway.is_a_missing_key(theirs):
        return all(ours.get(key) == theirs.get(key) for key in ("code", "title"))
    return in_order(ours) == in_order(theirs)


def in_order(content):
    if isinstance(content, list):
        return sorted((in_order(item) for item in content), key=json.dumps)
    if isinstance(content, dict):
        return {key: in_order(value) for key, value in content.items()}
    return content


def both_refuse_mutated(step, ours, theirs):
    """Whether both refuse a request that may have several faults."""
    return step.mutated and ours.status in leeway.ANY_4XX and theirs.status in leeway.ANY_4XX


def why_different(step, ours, theirs, oracle):
    """(What differs, or None; whether the sequence may go on: after a request that one of them failed it may not.)"""
    if ours is None or theirs is None:
        return (None if ours is theirs else "one has a next page, the other has not"), True
    if oracle and ours.status >= 500:
        return None if theirs.status >= 500 else "one fails", False
    allowed = leeway.find(step, theirs)
    if allowed is not None:
        fine = allowed.accepts(ours, theirs) or oracle and ours.status == theirs.status or both_refuse_mutated(step, ours, theirs)
        return None if fine else f"not what leeway {allowed.name!r} allows", ours.status == theirs.status and not allowed.parts
    if both_refuse_mutated(step, ours, theirs):
        return None, True
    if ours.status != theirs.status:
        return "status", True
    if ours.status >= 400:
        if not same_error(ours.body, theirs.body):
            return "body", True
    elif not same_content(ours.body, theirs.body, step.about):
        return "body", True
    if ours.headers != theirs.headers:
        return "headers", True
    return None, True


def first_difference(steps, prepare, ours, theirs, oracle=False):
    """The first step that the sides `ours` and `theirs` answer differently, or None. `prepare` empties a side."""
    for side in (ours, theirs):
        side.start()
        prepare(side)
    for number, step in enumerate(steps):
        got, wanted = ours.play(step), theirs.play(step)
        why, go_on = why_different(step, got, wanted, oracle)
        if why is not None:
            return Difference(steps[:number + 1], got, wanted, why)
        if not go_on:
            return None
    return None


def shrink(difference, prepare, ours, theirs):
    """The shortest sequence found that still differs."""
    replays, progress = 0, True
    while progress and replays < SHRINK_REPLAYS_MAX:
        progress = False
        steps = difference.steps
        size = max(len(steps) // 2, 1)
        while size and not progress and replays < SHRINK_REPLAYS_MAX:
            for start in range(0, len(steps) - 1, size):
                replays += 1
                fewer = steps[:start] + steps[min(start + size, len(steps) - 1):]
                found = first_difference(fewer, prepare, ours, theirs)
                if found is not None and found.why == difference.why:
                    difference, progress = found, True
                    break
            size //= 2
    return difference


def compare(make_steps, prepare, ours, theirs, seed, rounds, oracle=False):
    """Plays `rounds` random sequences; fails at the first that differs, made smaller."""
    for number in range(rounds):
        difference = first_difference(make_steps(seed + number), prepare, ours, theirs, oracle)
        if difference is not None:
            difference = shrink(difference, prepare, ours, theirs)
            raise AssertionError(f"round seed {seed + number} differs\n{difference}")
