"""Experts move while requests run: the right weights, and the same bits."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from deepinfer.distributed.expert_balancer import ExpertBalancer
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.place_table import PlaceTable
from tests.distributed.equal_outputs import check
from tests.distributed.moved_weights import follow_placements


@pytest.mark.parametrize(("num_experts", "num_redundant"), [(8, 0), (5, 6)])
def test_weights_follow_their_placement(world4, num_experts, num_redundant):
    moved = world4.run(follow_placements, world4.device, 4, num_experts, num_redundant)
    assert moved[0] > 8 and len(set(moved)) == 1  # every rank counts the moves of all


def test_outputs_are_the_same_behind_a_rearrangement(world2, random_model):
    sizes = {"data_parallel_size": 2, "expert_parallel_size": 2, "num_redundant_experts": 2}
    sizes |= {"expert_rebalance_interval": 4, "expert_load_window": 6}
    options = {"numerics": "official", "backend": "cpu"}
    options |= {"speculative": {"varlen": False}}
    for of_layers, of_drafts in check(world2, str(random_model), sizes, options, [0, 1, 1, 0]):
        assert of_layers[0] > 2 and of_layers[1] > 0 and of_drafts[0] > 0


def test_two_sets_of_experts_go_their_own_ways(world4, random_model):
    sizes = {
        "data_parallel_size": 4,
        "expert_parallel_size": 2,
        "expert_rebalance_interval": 5,
        "expert_load_window": 5,
    }
    moves = check(world4, str(random_model), sizes, {"numerics": "fp32", "speculative": "off"}, [0, 0, 0, 3])
    assert moves[0] == moves[1] and moves[2] == moves[3]
    assert all(balancers[0][1] > 0 for balancers in moves)


def test_a_placement_is_made_from_the_last_steps_up_to_the_newest():
    """Though counts of other steps are fetched a step later."""
    heard = []

    def sum_numbers(numbers):
        heard.append(numbers)
        return numbers

    placement = ExpertPlacement.of_physical(np.array([[0, 1]]), 2, 1)
    table = PlaceTable(placement, 0, True, torch.device("cpu"))
    exchange = SimpleNamespace(num_experts=2, placement=placement, table=table, weights=(), place_by=table.take)
    comm = SimpleNamespace(rank=0, size=1, sum_numbers=sum_numbers, move=lambda sends, receives: None)
    balancer = ExpertBalancer(comm, [exchange], interval=4, num_steps=3)
    for step in range(1, 10):
        table.count(torch.tensor([[step % 2]] * step))
        balancer.end_step()
    loads = [numbers[:, 0].tolist() for numbers in heard if numbers.ndim == 3]
    assert loads == [[[0, 1]], [[0, 3], [4, 0], [0, 5]], [[0, 7], [8, 0], [0, 9]]]
    assert balancer.num_rearranged == 3
