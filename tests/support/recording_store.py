"""A stand-in for Gnocchi that records requests and answers as Gnocchi would: with unknown resources, resources that somebody else creates
first, refused ones, and failures for a time.

It does not aggregate: tests of that use a real one.
"""

import json
import threading
import urllib.parse

from support.http_stand_in import HttpStandIn


class RecordingStore(HttpStandIn):
    """`exists`: ids of resources that are there from the start; `taken`: ids that are there only once somebody tries to create
    them (409); `refused`: ids that can't be created (400). `found`: what a search answers, by type.
    `statuses`: with which status creations and changes of ids are refused."""

    def __init__(self, exists=(), taken=(), refused=(), found=None, bad_ids=(), statuses=None):
        super().__init__()
        self.exists, self.taken, self.refused = set(exists), set(taken), set(refused)
        self.found = found or {}
        self.statuses = statuses or {}
        self.bad_ids = set(bad_ids)
        self.requests = []
        # Accepted ones: (resource, metric) -> {"measures", "archive_policy_name", "unit"}.
        self.metrics = {}
        # What the resources would hold, as far as requests say it.
        self.attributes = {}
        # (status, headers) of answers to come before any other, for what is posted in batches.
        self.troubles = []
        self.lock = threading.Lock()

    def respond(self, method, path, headers, body):
        body = json.loads(body) if body else None
        path = urllib.parse.unquote(path).rstrip("?/")
        with self.lock:
            status, answer, more = self.answer(method, path, body)
            self.requests.append((method, path, body, status, headers_of(headers)))
        return status, more, answer

    def answer(self, method, path, body):
        parts = path.strip("/").split("/")
        if parts[:2] == ["v1", "batch"]:
            if self.troubles:
                status, headers = self.troubles.pop(0)
                return status, {"code": status, "description": "trouble", "title": "Trouble"}, headers
            return (*self.batch(body), {})
        if parts[:2] == ["v1", "archive_policy"]:
            return 409, error(409, f"Archive policy {body['name']} already exists"), {}
        if parts[:2] == ["v1", "search"]:
            return 200, [{"type": parts[3], **one} for one in self.found.get(parts[3], [])], {}
        rid = body["id"] if method == "POST" else parts[-1]
        if rid in self.statuses:
            return self.statuses[rid], error(self.statuses[rid], f"{rid} is refused"), {}
        if method == "POST":
            return (*self.create(body), {})
        if method == "PATCH":
            return (*self.patch(parts[3], body), {})
        return 404, error(404, "nothing here"), {}

    def batch(self, body):
        # As Gnocchi, which names neither the resource nor the reason well.
        if self.bad_ids & body.keys():
            return 400, error(400, "unexpected measures format")
        unknown = [rid for rid in body if rid not in self.exists]
        if unknown:
            detail = [{"resource_id": rid, "original_resource_id": rid} for rid in sorted(unknown)]
            return 400, error(400, {"cause": "Unknown resources", "detail": detail})
        for rid, metrics in body.items():
            for name, metric in metrics.items():
                kept = self.metrics.setdefault((rid, name), {**metric, "measures": []})
                kept["measures"] += metric["measures"]
        return 202, None

    def create(self, body):
        rid = body["id"]
        if rid in self.refused:
            return 400, error(400, "Invalid input: required key not provided @ data['name']")
        if rid in self.exists or rid in self.taken:
            self.exists.add(rid)
            return 409, error(409, f"Resource {rid} already exists")
        self.exists.add(rid)
        self.attributes[rid] = dict(body)
        return 201, body

    def patch(self, rid, body):
        if rid not in self.exists:
            return 404, error(404, f"Resource {rid} does not exist")
        self.attributes.setdefault(rid, {}).update(body)
        return 200, {"id": rid}

    def of(self, method, prefix="/v1/resource/"):
        """(path, body) of the requests of a method, each as often as it was made."""
        return [(path, body) for made, path, body, _, _ in self.requests if made == method and path.startswith(prefix)]


def error(code, description):
    return {"code": code, "title": "Error", "description": description}


def canonical(items):
    """Sorted JSON of each item, sorted: a set that may hold an item twice."""
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def headers_of(headers):
    """With names in lower case."""
    return {name.lower(): value for name, value in headers.items()}
