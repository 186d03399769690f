"""The content of a server before the requests of the matrix: archive policies, a rule, types, resources and metrics of two projects,
with measures. Created on gnudi and on Gnocchi by the same requests."""

import itertools
import re
import uuid

from auth.cloud import NOBODY, Caller
from support.process import wait_until

PROCESSED_TIMEOUT_S = 120
MEASURED = ["metric", "metric_service", "metric_beta", "metric_moved"]
ADMIN_POLICY = {"definition": [{"granularity": "1m", "points": 1000}], "aggregation_methods": ["mean", "max"]}
START = "2026-03-01T00:00:00"

# Values that occur nowhere else, so that an answer shows whose measures are in it.
VALUES = {"metric": 70001.0, "metric made by a service": 70002.0, "metric of the other project": 70004.0,
          "metric made by a service, handed over": 70008.0}


class World:
    """`ids` are what `<name>` stands for in requests; `labels` name what an answer shows."""

    def __init__(self, server, people):
        self.server, self.people = server, people
        self.callers = {name: Caller(server, token) for name, token in people.tokens.items()}
        self.numbers = itertools.count()
        self.ids = {"alpha": people.alpha.id, "beta": people.beta.id}
        self.labels = {}
        self._build()

    def _build(self):
        admin = self.callers["admin"]
        for name in ["p", "q"]:
            admin.post("/v1/archive_policy", {"name": name, **ADMIN_POLICY}).expect(201)
        rule = {"name": "r", "metric_pattern": "ruled*", "archive_policy_name": "p"}
        admin.post("/v1/archive_policy_rule", rule).expect(201)
        for name in ["t", "u", "spare"]:
            attributes = {"flavor": {"type": "string", "required": False}}
            admin.post("/v1/resource_type", {"name": name, "attributes": attributes}).expect(201)
        self._resource("maker", "res", "resource", "alpha", "metric")
        # As Ceilometer makes them: the service is the creator, the project the owner.
        self._resource("service", "res_service", "resource made by a service", "alpha", "metric_service")
        self._resource("other project", "res_beta", "resource of the other project", "beta", "metric_beta")
        alone = self.callers["maker"].post("/v1/metric", {"archive_policy_name": "p"}).expect(201).json()["id"]
        self._name("alone", "metric without a resource", alone)
        self._hand_over()
        for metric, value in zip(MEASURED, VALUES.values()):
            measures = [{"timestamp": START, "value": value}]
            admin.post(f"/v1/metric/{self.ids[metric]}/measures", measures).expect(202)
        wait_until(self._processed, PROCESSED_TIMEOUT_S, "the measures")

    def _processed(self):
        path = "/v1/metric/{}/measures?refresh=true"
        return all(self.callers["admin"].get(path.format(self.ids[name])).expect(200).json() for name in MEASURED)

    def _hand_over(self):
        """A resource that was the project's and is the other's, as a volume is that changes hands."""
        service, id = self.callers["service"], str(uuid.uuid5(uuid.NAMESPACE_OID, "res_moved"))
        body = {"id": id, "project_id": self.ids["alpha"], "flavor": "before-the-move",
                "metrics": {"moved": {"archive_policy_name": "p"}}}
        made = service.post("/v1/resource/t", body).expect(201).json()
        service.patch(f"/v1/resource/t/{id}", {"project_id": self.ids["beta"], "flavor": "after-the-move"}).expect(200)
        self.ids |= {"res_moved": id, "metric_moved": made["metrics"]["moved"]}
        self.labels["before-the-move"] = "resource made by a service, handed over later"
        self.labels["after-the-move"] = "resource of the other project, which it was handed over to"

    def _resource(self, caller, name, label, project, metric):
        id = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        body = {"id": id, "project_id": self.ids[project], "metrics": {"m": {"archive_policy_name": "p"}}}
        made = self.callers[caller].post("/v1/resource/t", body).expect(201).json()
        self._name(name, label, id)
        self._name(metric, label.replace("resource", "metric"), made["metrics"]["m"])

    def _name(self, name, label, id):
        self.ids[name] = id
        self.labels[id] = label

    def ask(self, row, caller):
        """Sends a row's request as a caller; the status, and what of the world the answer shows."""
        ids = dict(self.ids)
        text = row.text()
        number = next(self.numbers)
        for name in sorted(set(re.findall(r"<(fresh_\w+|new)>", text))):
            # Who is nobody gets no further than that.
            ids[name] = getattr(self, f"_{name}")(number) if caller not in NOBODY else "nothing"
        answer = row.send(self.callers[caller], lambda part: re.sub(r"<(\w+)>", lambda found: ids[found[1]], part))
        return answer.status, self.shown(answer)

    def shown(self, answer):
        """Labels of the resources, metrics and measures that a successful answer has in it, or how many it deleted."""
        if answer.status >= 300:
            return frozenset()
        text = answer.body.decode()
        deleted = re.fullmatch(r'{"deleted": (\d+)}', text.strip())
        if deleted:
            return frozenset([deleted[1]])
        found = {label for id, label in self.labels.items() if id in text}
        found |= {f"measures of {label}" for label, value in VALUES.items() if str(value) in text}
        return frozenset(found)

    def _new(self, number):
        return f"new{number}"

    def _fresh_metric(self, number, caller="maker"):
        return self.callers[caller].post("/v1/metric", {"archive_policy_name": "p"}).expect(201).json()["id"]

    def _fresh_annotation(self, number, caller="maker"):
        path = f"/v1/resource/t/{self.ids['res']}/annotation"
        return self.callers[caller].post(path, {"text": f"number {number}"}).expect(201).json()["id"]

    def _fresh_service_annotation(self, number):
        return self._fresh_annotation(number, "service")

    def _fresh_other_metric(self, number):
        return self._fresh_metric(number, "other project")

    def _fresh_res(self, number, caller="maker", project="alpha"):
        body = {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"fresh{number}{caller}")), "project_id": self.ids[project],
                "metrics": {"m": {"archive_policy_name": "p"}}}
        return self.callers[caller].post("/v1/resource/u", body).expect(201).json()["id"]

    def _fresh_other_res(self, number):
        return self._fresh_res(number, "other project", "beta")

    def _fresh_policy(self, number):
        name = f"policy{number}"
        self.callers["admin"].post("/v1/archive_policy", {"name": name, **ADMIN_POLICY}).expect(201)
        return name

    def _fresh_rule(self, number):
        rule = {"name": f"rule{number}", "metric_pattern": f"never{number}*", "archive_policy_name": "q"}
        self.callers["admin"].post("/v1/archive_policy_rule", rule).expect(201)
        return rule["name"]

    def _fresh_type(self, number):
        name = f"type{number}"
        self.callers["admin"].post("/v1/resource_type", {"name": name}).expect(201)
        return name
