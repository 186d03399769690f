"""Random requests that are slightly wrong: gnudi accepts those that Gnocchi accepts, with the same results, and no others."""

import pytest

from differential import aggregate_world, player, policy_world, resource_world
from differential.mutations import Mutations

ROUNDS = 5


@pytest.mark.parametrize("world", [policy_world, resource_world, aggregate_world], ids=["policies", "resources", "aggregates"])
def test_changed_requests_have_the_same_results(sides, world, rounds, seed, pytestconfig):
    def steps(number):
        return Mutations(number).steps(world.World(number).steps())

    def prepare(side):
        # A changed request may have made types of other names.
        side.client.request("DELETE", "/v1/resource/generic", {"!=": {"original_resource_id": "-"}}).expect(200)
        for kind in side.client.get("/v1/resource_type").expect(200).json():
            if kind["name"] != "generic":
                player.delete(side.client, "/v1/resource_type", kind["name"])
        world.prepare(side)

    player.compare(steps, prepare, *sides, seed, rounds, pytestconfig.getoption("oracle"))
    for side in sides:
        prepare(side)
