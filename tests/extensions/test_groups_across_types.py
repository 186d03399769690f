"""Groups in /v1/aggregates by attributes of any type, over resources of all types, compared with groups computed here."""

import random
import uuid

import pytest

from support.http import create_policy

START = 1_600_000_000
TYPES = {
    "vm": {"flavor": {"type": "string", "required": False}, "size": {"type": "number", "required": False}},
    "volume": {"flavor": {"type": "string", "required": False}, "size": {"type": "string", "required": False},
               "encrypted": {"type": "bool", "required": False}},
    "port": {},
}
SIZES = {"vm": [1, 20, 3.5], "volume": ["1", "big", "20"]}
COUNT = 60
SUM = "(aggregate sum (metric m sum))"


class World:
    """Resources of all types with a metric of one point each, whose value is the resource's number."""

    def __init__(self, server, seed):
        self.client = client = server.client()
        numbers, self.resources = random.Random(seed), []
        create_policy(client, "second", [("1s", None)], aggregation_methods=["sum"])
        for name, attributes in TYPES.items():
            client.post("/v1/resource_type", {"name": name, "attributes": attributes}).expect(201)
        for number in range(1, COUNT + 1):
            kind = numbers.choice(list(TYPES))
            choices = {"flavor": ["a", "b", "", None], "size": [*SIZES.get(kind, []), None], "encrypted": [True, False, None]}
            attributes = {name: numbers.choice(choices[name]) for name in TYPES[kind]}
            body = {"id": str(uuid.uuid4()), "project_id": numbers.choice(["p", "q", None]),
                    "metrics": {"m": {"archive_policy_name": "second"}},
                    **{name: value for name, value in attributes.items() if value is not None}}
            made = client.post(f"/v1/resource/{kind}", body).expect(201).json()
            client.post(f"/v1/metric/{made['metrics']['m']}/measures", [{"timestamp": START, "value": number}]).expect(202)
            client.get(f"/v1/metric/{made['metrics']['m']}/measures?refresh=true&aggregation=sum").expect(200)
            self.resources.append({"type": kind, "number": number, "project_id": body["project_id"], **attributes})

    def groups(self, fields, search=None, resource_type="generic", more=""):
        path = "/v1/aggregates?across_types=true&" + "&".join(f"groupby={field}" for field in fields) + more
        body = {"resource_type": resource_type, "search": search or {}, "operations": SUM}
        return self.client.post(path, body)


def place(value):
    """Where a value stands among groups: numbers, texts, nothing."""
    kind = 3 if value is None else 2 if isinstance(value, str) else 0 if isinstance(value, bool) else 1
    return kind, value if value is not None else 0


@pytest.fixture(scope="module")
def world(server):
    return World(server, 7)


@pytest.mark.parametrize("fields", [["flavor"], ["size"], ["encrypted"], ["flavor", "type"], ["size", "project_id"],
                                    ["encrypted", "flavor", "size"]])
@pytest.mark.parametrize("search, taken", [
    ({}, lambda resource: True),
    ({"=": {"project_id": "p"}}, lambda resource: resource["project_id"] == "p"),
    ({"!=": {"type": "port"}}, lambda resource: resource["type"] != "port"),
])
def test_groups_are_those_made_by_hand(world, fields, search, taken):
    expected = {}
    for resource in filter(taken, world.resources):
        key = tuple(float(value) if isinstance(value := resource.get(field), int) and not isinstance(value, bool) else value
                    for field in sorted(fields))
        expected[key] = expected.get(key, 0) + resource["number"]
    groups = world.groups(fields, search).expect(200).json()
    found = [(tuple(group["group"][field] for field in sorted(fields)), group["measures"]["measures"]["aggregated"][0][2])
             for group in groups]
    assert found == [(key, expected[key]) for key in sorted(expected, key=lambda key: [place(value) for value in key])]


def test_history_is_grouped_across_types_too(world):
    groups = world.groups(["flavor"], more="&use_history=true").expect(200).json()
    assert {group["group"]["flavor"] for group in groups} <= {"a", "b", "", None} and len(groups) > 1


@pytest.mark.parametrize("fields, resource_type", [
    (["nothing"], "generic"), (["flavor", "nothing"], "generic"), (["flavor"], "port"), (["encrypted"], "vm"), (["flavor:asc"], "generic"),
])
def test_what_no_type_has_is_refused(world, fields, resource_type):
    answer = world.groups(fields, resource_type=resource_type).expect(400).json()
    assert "Sort key supplied is invalid" in answer["description"] or "pagination" in answer["description"]


def test_without_the_argument_groups_are_as_gnocchi_has_them(world):
    body = {"resource_type": "generic", "search": {}, "operations": SUM}
    for arguments in ["", "&across_types=false", "&use_history=true"]:
        answer = world.client.post(f"/v1/aggregates?groupby=flavor{arguments}", body).expect(400).json()
        assert answer["description"] == "Invalid pagination: `Sort key supplied is invalid: flavor'"
    world.client.post("/v1/aggregates?groupby=flavor&across_types=perhaps", body).expect(400)


def test_the_older_form_groups_by_fields_of_the_type_alone(world):
    world.client.post("/v1/aggregation/resource/generic/metric/m?aggregation=sum&groupby=flavor", {}).expect(400)
    world.client.post("/v1/aggregation/resource/vm/metric/m?aggregation=sum&groupby=flavor", {}).expect(200)
