"""Random requests about resources and their types: `test_resources.py` sends them to both servers."""

import random
import urllib.parse

from differential.filters import STRINGS, TIMES, Filters, spell
from differential.step import Step

USERS = ["admin", "alice:project", "bob", "admin"]
TYPES = ["fuzz_vm", "fuzzdisk"]
ATTRIBUTES = ["display", "flavor", "size", "host", "seen", "active", "note_2"]
KINDS = ["string", "uuid", "number", "bool", "datetime"]
TEXT_IDS = ["fuzz-1", "fuzz 2", "fuzz.é", "fuzz:4"]
UUIDS = [f"f0220000-0000-4000-8000-00000000000{digit}" for digit in range(5)]
UNKNOWN = "f0220000-0000-4000-8000-0000000000ff"
NUMBERS = [0, 1, 2.5, -1, 10, 1e6, 0.1, 1.0]
METRICS = ["cpu", "disk.io", "m é"]
POLICIES = ["fuzz-a", "fuzz-b"]
STEPS_MAX = 28
PATCH_TYPE = {"Content-Type": "application/json-patch+json"}
CREATORS = {"created_by_user_id": "creator", "created_by_project_id": "creator"}
GENERIC = {"id": "id", "original_resource_id": "text", "user_id": "text", "project_id": "text", "type": "text",
           "creator": "text", "started_at": "time", "ended_at": "time", "lifespan": "span", **CREATORS}
VIRTUAL = ["lifespan", *CREATORS]
FIELD_KINDS = {"string": "text", "uuid": "uuid", "number": "number", "bool": "bool", "datetime": "time"}
SORTS = ["started_at", "started_at:desc", "original_resource_id", "id:desc", "type", "revision_start:desc"]
# Where nulls come is the database's choice unless the request says it; Gnocchi's next pages lose them.
NULLABLE = ["ended_at", "user_id", "project_id"]
NULLS = ["asc-nullsfirst", "asc-nullslast", "desc-nullsfirst", "desc-nullslast"]


def prepare(side):
    """Removes what an earlier sequence has left, and what it was made of."""
    client = side.client
    for policy in POLICIES:
        client.post("/v1/archive_policy", {"name": policy, "definition": [{"granularity": 60}],
                                           "aggregation_methods": ["mean", "max"]}).expect(201, 409)
    client.request("DELETE", "/v1/resource/generic", {"!=": {"original_resource_id": "-"}}).expect(200)
    for name in TYPES:
        client.delete(f"/v1/resource_type/{name}").expect(204, 404)


class World:
    """Makes one sequence; remembers what should exist, so that most requests find something."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.types = {}
        # {id: (type, creator)} of the resources that should exist.
        self.known = {}
        self.filters = Filters(self.rng, [*UUIDS, *TEXT_IDS], UUIDS)

    def steps(self):
        steps = [self.create_type() for _ in range(self.rng.randint(1, 2))]
        steps += [self.create() for _ in range(self.rng.randint(2, 5))]
        makers = [(self.create, 4), (self.patch, 6), (self.search, 8), (self.list, 3), (self.show, 4), (self.history, 4),
                  (self.metrics, 4), (self.delete, 2), (self.delete_many, 1), (self.create_type, 1),
                  (self.patch_type, 3), (self.show_types, 1), (self.delete_type, 1), (self.batch, 2)]
        for _ in range(self.rng.randint(8, STEPS_MAX)):
            maker = self.rng.choices([maker for maker, _ in makers], [weight for _, weight in makers])[0]
            made = maker()
            steps += made if isinstance(made, list) else [made]
        return steps

    # Types.

    def attribute(self, update=False):
        rng = self.rng
        kind = rng.choice(KINDS)
        made = {"type": kind}
        if rng.random() < 0.7:
            made["required"] = rng.random() < 0.4
        odd = rng.random() < 0.05
        if kind == "string" and rng.random() < 0.5:
            low, high = rng.choice([(2, 1), (0, 300), (-1, 5)] if odd else [(0, 1), (0, 5), (1, 5), (2, 256)])
            made |= {"min_length": low, "max_length": high}
        if kind == "number" and rng.random() < 0.5:
            low, high = rng.choice([(3, 1), ("0", 5)] if odd else [(0, 10), (-5.5, 2.5), (None, 1e9), (0, None)])
            made |= {"min": low, "max": high}
        if update and rng.random() < 0.7:
            made["options"] = {"fill": self.attribute_value(made)} if rng.random() < 0.9 else {}
        return made

    def create_type(self):
        absent = [name for name in TYPES if name not in self.types]
        name = self.rng.choice(absent or TYPES)
        attributes = {key: self.attribute() for key in self.rng.sample(ATTRIBUTES, self.rng.randint(0, 4))}
        body = {"name": name, "attributes": attributes}
        if not attributes and self.rng.random() < 0.5:
            del body["attributes"]
        self.types.setdefault(name, attributes)
        return Step("POST", "/v1/resource_type", body)

    def patch_type(self):
        name = self.some_type()
        patch = []
        known = self.types.get(name, {})
        for _ in range(self.rng.choice([1, 1, 2])):
            key = self.rng.choice(ATTRIBUTES)
            if self.rng.random() < 0.6:
                made = self.attribute(update=True)
                patch.append({"op": "add", "path": f"/attributes/{key}", "value": made})
                known.setdefault(key, made)
            else:
                key = self.rng.choice(sorted(known)) if known and self.rng.random() < 0.9 else key
                patch.append({"op": "remove", "path": f"/attributes/{key}"})
                known.pop(key, None)
        return [Step("PATCH", f"/v1/resource_type/{name}", patch, headers=PATCH_TYPE),
                Step("GET", f"/v1/resource_type/{name}")]

    def show_types(self):
        return self.rng.choice([Step("GET", "/v1/resource_type"), Step("GET", "/v1/resource"),
                                Step("GET", f"/v1/resource_type/{self.some_type()}")])

    def delete_type(self):
        name = self.some_type()
        if not any(kind == name for kind, _ in self.known.values()):
            self.types.pop(name, None)
        return Step("DELETE", f"/v1/resource_type/{name}")

    def some_type(self):
        return self.rng.choice(sorted(self.types) or TYPES) if self.rng.random() < 0.95 else self.rng.choice(TYPES)

    # Resources.

    def kind(self):
        return self.rng.choice(["generic", *sorted(self.types), *sorted(self.types)])

    def rid(self):
        return self.rng.choice([*UUIDS, *TEXT_IDS] if self.rng.random() < 0.95 else [UNKNOWN, "fuzz-none"])

    def some(self):
        """(type, id, user) of a resource, mostly one that exists and may be changed by that user."""
        rng = self.rng
        if self.known and rng.random() < 0.92:
            rid = rng.choice(sorted(self.known))
            kind, creator = self.known[rid]
            user = creator if rng.random() < 0.93 else rng.choice(USERS)
            return rng.choice([kind, kind, kind, "generic"]), rid, user
        return self.kind(), self.rid(), rng.choice(USERS)

    @staticmethod
    def path(kind, rid):
        return f"/v1/resource/{kind}/{urllib.parse.quote(rid)}"

    def attribute_value(self, attribute):
        rng = self.rng
        if rng.random() < 0.04:
            return rng.choice([None, "x", 1, {}, [], True])
        kind = attribute["type"]
        if kind == "string":
            fitting = [text for text in STRINGS
                       if attribute.get("min_length", 0) <= len(text) <= attribute.get("max_length", 256)]
            return rng.choice(fitting or STRINGS)
        if kind == "uuid":
            return rng.choice([*UUIDS, UUIDS[0].upper(), UUIDS[1].replace("-", "")])
        if kind == "number":
            low, high = (bound if isinstance(bound, (int, float)) else None
                         for bound in (attribute.get("min"), attribute.get("max")))
            fitting = [number for number in NUMBERS if (low is None or number >= low) and (high is None or number <= high)]
            return rng.choice(fitting or NUMBERS)
        if kind == "bool":
            return rng.random() < 0.5
        return rng.choice(TIMES)

    def document(self, kind, create):
        """A resource's body, or part of one."""
        rng = self.rng
        body = {}
        for key, attribute in self.types.get(kind, {}).items():
            if rng.random() < (0.98 if attribute.get("required", True) and create else 0.4):
                body[key] = self.attribute_value(attribute)
        if rng.random() < 0.5:
            body["user_id"] = rng.choice([*STRINGS, None])
        if rng.random() < 0.5:
            body["project_id"] = rng.choice([*STRINGS, None])
        if rng.random() < (0.5 if create else 0.1):
            body["started_at"] = rng.choice(TIMES)
        if rng.random() < (0.4 if "started_at" in body or not create else 0.02):
            body["ended_at"] = rng.choice([*TIMES[:-2], TIMES[-2], TIMES[-2]])
        if rng.random() < 0.35:
            body["metrics"] = self.new_metrics()
        if rng.random() < 0.03:
            # One fault at a time.
            body = {"unknown": 1}
        return body

    def new_metrics(self):
        rng = self.rng
        metrics = {}
        for name in rng.sample(METRICS, rng.randint(0, 2)):
            made = {"archive_policy_name": rng.choice(POLICIES)} if rng.random() < 0.97 else {}
            if rng.random() < 0.3:
                made["unit"] = rng.choice(["B", "", "ns"])
            metrics[name] = made
            if rng.random() < 0.06:
                metrics[name] = f"<{rng.choice(UUIDS)}/{rng.choice(METRICS)}>"
        return metrics

    def create(self):
        kind, user = self.kind(), self.rng.choice(USERS)
        body = self.document(kind, create=True)
        if self.rng.random() < 0.98:
            free = [rid for rid in [*UUIDS, *TEXT_IDS] if rid not in self.known]
            body["id"] = self.rng.choice(free) if free and self.rng.random() < 0.9 else self.rid()
            self.known.setdefault(body["id"], (kind, user))
        return Step("POST", f"/v1/resource/{kind}", body, user=user)

    def patch(self):
        kind, rid, user = self.some()
        # A revision that is made through `generic` is missing from the history of the resource's own type.
        kind, _ = self.known.get(rid, (kind, user))
        body = self.document(kind, create=False)
        headers = {}
        if self.rng.random() < 0.1:
            headers = self.rng.choice([{"If-Match": "*"}, {"If-Match": '"nope"'}, {"If-None-Match": "*"},
                                       {"If-Unmodified-Since": "Tue, 01 Jan 2013 00:00:00 GMT"},
                                       {"If-Unmodified-Since": "Tue, 01 Jan 2099 00:00:00 GMT"},
                                       {"If-None-Match": '"nope"'}])
        step = Step("PATCH", self.path(kind, rid), body, user=user, headers=headers)
        return [step, Step("GET", step.path, user=user)]

    def show(self):
        headers = {}
        if self.rng.random() < 0.2:
            headers = self.rng.choice([{"If-None-Match": "*"}, {"If-None-Match": '"nope"'}, {"If-Match": '"nope"'},
                                       {"If-Modified-Since": "Tue, 01 Jan 2013 00:00:00 GMT"},
                                       {"If-Modified-Since": "Tue, 01 Jan 2099 00:00:00 GMT"}])
        kind, rid, user = self.some()
        return Step("GET", self.path(kind, rid), user=user, headers=headers)

    def delete(self):
        kind, rid, user = self.some()
        self.known.pop(rid, None)
        return Step("DELETE", self.path(kind, rid), user=user)

    def history(self):
        kind, rid, user = self.some()
        arguments = self.rng.choice([self.paging(kind), self.paging(kind), [("details", "true")]])
        return self.pages("GET", self.path(kind, rid) + "/history", arguments, None, user)

    # Lists and searches.

    def paging(self, kind):
        rng = self.rng
        arguments, sorts = [], SORTS
        if rng.random() < 0.3:
            arguments.append(("limit", rng.choice(["1", "2", "3", "1000"])))
        else:
            sorts = SORTS + [f"{name}:{way}" for name in [*NULLABLE, *self.types.get(kind, {})] for way in NULLS]
        if rng.random() < 0.4:
            arguments += [("sort", sort) for sort in rng.sample(sorts, rng.randint(1, 2))]
        return arguments

    def pages(self, method, path, arguments, body, user="admin"):
        """The first page, and with a limit the next ones."""
        query = "?" + urllib.parse.urlencode(arguments) if arguments else ""
        # With details Gnocchi reads the resources once more, and forgets their order.
        steps = [Step(method, path + query, body, user=user, unordered="details=" in query)]
        if any(name == "limit" for name, _ in arguments):
            steps += [Step(method, "<next>", body, user=user) for _ in range(3)]
        return steps

    def look(self):
        arguments = []
        if self.rng.random() < 0.3:
            arguments.append(("details", self.rng.choice(["true", "yes", "0"])))
        if self.rng.random() < 0.2:
            arguments += [("attrs", name) for name in self.rng.sample([*GENERIC, *ATTRIBUTES, "metrics"], 3)]
        return arguments

    def list(self):
        kind = self.kind()
        arguments = self.look() or self.paging(kind)
        if self.rng.random() < 0.4:
            arguments.append(("history", "true"))
        return self.pages("GET", f"/v1/resource/{kind}", arguments, None)

    def fields(self, kind):
        own = {name: FIELD_KINDS[attribute["type"]] for name, attribute in self.types.get(kind, {}).items()}
        return {**GENERIC, **own}

    def search(self):
        rng = self.rng
        kind = self.kind()
        history = rng.random() < 0.3
        fields = self.fields(kind)
        if history and rng.random() < 0.5:
            fields = {name: of for name, of in GENERIC.items() if name not in VIRTUAL}
            tree = self.filters.tree(fields)
        else:
            tree = self.filters.tree(fields, conjunction=history)
        if rng.random() < 0.02:
            tree = {"=": {"nope": 1}}
        arguments = self.look() or self.paging(kind)
        if history:
            arguments.append(("history", "true"))
        text = spell(rng, tree) if rng.random() < 0.4 else None
        if text is not None:
            return self.pages("POST", f"/v1/search/resource/{kind}", [*arguments, ("filter", text)], None)
        return self.pages("POST", f"/v1/search/resource/{kind}", arguments, tree)

    def delete_many(self):
        # Through a type Gnocchi deletes the attributes of all resources of that type, and leaves the resources.
        tree = {"and": [{"like": {"original_resource_id": "fuzz%"}}, self.filters.tree(GENERIC, depth=1)]}
        return [Step("DELETE", "/v1/resource/generic", tree), Step("GET", "/v1/resource/generic")]

    # Metrics of resources.

    def metrics(self):
        rng = self.rng
        kind, rid, user = self.some()
        path = self.path(kind, rid) + "/metric"
        choice = rng.random()
        if choice < 0.4:
            return Step("POST", path, self.new_metrics(), user=user, unordered=True)
        if choice < 0.6:
            return Step("GET", path, user=user, unordered=True)
        name = urllib.parse.quote(rng.choice(METRICS))
        if choice < 0.75:
            return Step("GET", f"{path}/{name}", user=user)
        if choice < 0.85:
            return Step("DELETE", f"{path}/{name}", user=user)
        if choice < 0.93:
            return Step("GET", f"{path}/{name}/measures", user=user)
        return Step("POST", f"{path}/{name}/measures", [{"timestamp": "2015-03-06T14:33:57", "value": 1}], user=user)

    def batch(self):
        rng = self.rng
        body, user = {}, rng.choice(USERS)
        for _ in range(rng.randint(1, 2)):
            measures = [{"timestamp": "2015-03-06T14:33:57", "value": rng.randint(0, 9)}]
            named = {}
            for name in rng.sample(METRICS, rng.randint(0, 2)):
                named[name] = measures
                if rng.random() < 0.4:
                    named[name] = {"measures": measures, "archive_policy_name": rng.choice(POLICIES)}
            _, rid, user = self.some()
            body[rid] = named
        query = rng.choice(["", "?create_metrics=true", "?create_metrics=true", "?create_metrics=false"])
        return [Step("POST", f"/v1/batch/resources/metrics/measures{query}", body, user=user),
                Step("GET", "/v1/resource/generic")]
