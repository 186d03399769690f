"""A small HTTP client that sends exactly the bytes that a test gives it, also malformed requests.

One `Client` keeps one connection and belongs to one thread.
"""

import base64
import http.client
import json
import time

LEASE_LIMIT_S = 60
JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def basic(user, password=""):
    """The header of basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Answer:
    """Status, headers (names in lower case) and body bytes of one response."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def expect(self, *statuses):
        """Itself, if the status is one of these."""
        assert self.status in statuses, f"status {self.status}, expected {statuses}: {self.body[:500]!r}"
        return self

    def __repr__(self):
        return f"<{self.status} {self.body[:200]!r}>"


class Client:
    """Requests to one server as one user (`admin` unless told; None: no authorization header), from the address `source` if given."""

    def __init__(self, host, port, prefix="", user="admin", timeout_s=30, source=None):
        self.host, self.port, self.prefix, self.user, self.timeout_s = host, port, prefix, user, timeout_s
        self.source = source
        self.connection = None

    def as_user(self, user):
        return Client(self.host, self.port, self.prefix, user, self.timeout_s, self.source)

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def request(self, method, path, body=None, headers=None):
        """Sends `body` (bytes as they are, anything else as JSON) and answers the whole response.

        `headers` replace the usual ones (JSON both ways and basic authentication) one by one; None removes one.
        A connection that the server closed while it was idle is opened again once.
        """
        wanted = dict(JSON_HEADERS)
        if self.user is not None:
            wanted.update(basic(self.user))
        wanted.update(headers or {})
        wanted = {name: value for name, value in wanted.items() if value is not None}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        reused = self.connection is not None
        try:
            return self._exchange(method, path, body, wanted)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            if not reused:
                raise
            return self._exchange(method, path, body, wanted)
        except BaseException:
            self.close()
            raise

    def _exchange(self, method, path, body, headers):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s,
                                                         source_address=self.source and (self.source, 0))
        self.connection.request(method, self.prefix + path, body=body, headers=headers)
        response = self.connection.getresponse()
        answer = Answer(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read(),
        )
        if response.will_close:
            self.close()
        return answer

    def answers(self, path="/healthcheck", status=200):
        """Whether the server is there and answers with the status; the connection is closed."""
        try:
            return self.get(path).status == status
        except OSError:
            return False
        finally:
            self.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body=None, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def patch(self, path, body=None, **kwargs):
        return self.request("PATCH", path, body, **kwargs)

    def delete(self, path, **kwargs):
        return self.request("DELETE", path, **kwargs)


def create_policy(client, name, definition, **more):
    """Creates an archive policy; `definition` is a list of (granularity, points or None)."""
    items = [{"granularity": g} if p is None else {"granularity": g, "points": p} for g, p in definition]
    return client.post("/v1/archive_policy", {"name": name, "definition": items, **more}).expect(201).json()


def create_policy_with_rule(client, name="all", definition=(("1s", 3600),), pattern="*", **more):
    """Creates an archive policy, and a rule of that name which gives it to the metrics that match the pattern."""
    create_policy(client, name, definition, **more)
    client.post("/v1/archive_policy_rule", {"name": name, "metric_pattern": pattern, "archive_policy_name": name}).expect(201)


def create_metric(client, policy, **more):
    """The id of a new metric."""
    return client.post("/v1/metric", {"archive_policy_name": policy, **more}).expect(201).json()["id"]


def post_seconds(client, metric, seconds):
    """Posts a measure at each of these Unix times, with the time as its value."""
    measures = [{"timestamp": second, "value": second} for second in seconds]
    client.post(f"/v1/metric/{metric}/measures", measures).expect(202)


def get_patiently(client, path):
    """What is read once the sack has an owner: the lease of a worker that was killed lasts on."""
    end = time.monotonic() + LEASE_LIMIT_S
    while (answer := client.get(path)).status == 503 and time.monotonic() < end:
        time.sleep(0.1)
    return answer.expect(200).json()


def figure(client, name):
    """A figure of a server's /metrics that has no labels; None where there is none of the name."""
    for line in client.get("/metrics").expect(200).body.decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    return None


def get_seconds(client, metric):
    """The values that `post_seconds` posted to a metric with aggregates of 1 s."""
    points = get_patiently(client, f"/v1/metric/{metric}/measures?refresh=true&aggregation=sum&granularity=1")
    return [int(value) for _, _, value in points]
