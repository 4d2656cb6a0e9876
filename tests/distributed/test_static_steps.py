"""Ranks that share experts and decode from static tensors: the bits of one rank by itself."""

import pytest

from tests.distributed import rank_engine
from tests.distributed.equal_outputs import OPTIONS, requests
from tests.distributed.rank_world import RankWorld
from tests.distributed.static_rank import exchange_both_ways, run_static_rank
from tests.speculative.table_drafts import DRAFT, target_table
from tests.support.table_model import TableModels


def check(world, model, sizes, options, owners):
    """Of each rank: what its balancers have moved, and (padded, whole, others', sampled there) decode steps."""
    asked, options = requests(len(owners)), OPTIONS | options
    sizes = {"data_parallel_size": world.size, "expert_parallel_size": world.size, **sizes}
    want = rank_engine.run_alone(model, options, asked)
    parts = world.run(run_static_rank, False, rank_engine.RankCase(model, sizes, options, asked, owners))
    got = {number: output for outputs, _, _ in parts for number, output in outputs.items()}
    assert [got[number] for number in range(len(asked))] == want
    assert len({sum(steps[:3]) for _, _, steps in parts}) == 1, "not every rank has run every decode step"
    return [moves for _, moves, _ in parts], [steps for _, _, steps in parts]


@pytest.mark.parametrize("quantize", [False, True])
def test_exchange_of_random_rows(world4, quantize):
    """Against the exchange with the host, through random placements; rank 0 has no rows but padding."""
    for experts in ((7, 0), (8, 5)):
        counts = world4.run(exchange_both_ways, 4, experts, quantize)
        assert counts[0] == 0 < sum(counts)


@pytest.mark.parametrize(("numerics", "tables", "overlaps"), [("fp32", 1, False), ("official", 4, True)])
def test_four_ranks_of_which_two_are_idle(world4, random_model, numerics, tables, overlaps):
    """Whole Engram tables on each, or spread over all."""
    sizes = {"prefill_any_interval": 1, "engram_parallel_size": tables}
    options = {"numerics": numerics, "speculative": "off", "overlap": overlaps}
    _, steps = check(world4, str(random_model), sizes, options, [2, 0, 2, 2, 2])
    assert steps[0][0] > 0 and steps[1][:2] == steps[3][:2] == (0, 0) and steps[1][2] > 5


@pytest.mark.parametrize("overlaps", [False, True])
def test_two_ranks_with_drafts(world2, random_model, overlaps):
    """Ranks with more and fewer rows than the step has, one of them with none in the end."""
    sizes = {"prefill_any_interval": 1, "engram_parallel_size": 2}
    options = {"numerics": "fp32", "backend": "cpu", "overlap": overlaps}
    _, steps = check(world2, str(random_model), sizes, options, [0, 1, 1, 1])
    assert sum(padded for padded, *_ in steps) > 3 and steps[0][2] > 3, steps


@pytest.mark.parametrize("overlaps", [False, True])
def test_experts_that_move_between_steps(world2, random_model, overlaps):
    sizes = {"num_redundant_experts": 2, "expert_rebalance_interval": 4, "expert_load_window": 6}
    options = {"numerics": "official", "backend": "cpu", "speculative": {"varlen": False}, "overlap": overlaps}
    moves, _ = check(world2, str(random_model), sizes, options, [0, 1, 1, 0])
    assert all(of_layers[0] > 2 and of_layers[1] > 0 and of_drafts[0] > 0 for of_layers, of_drafts in moves)


@pytest.mark.slow
@pytest.mark.parametrize("overlaps", [False, True])
def test_steps_that_end_on_the_device(tmp_path, monkeypatch, overlaps):
    """Sampling, acceptance and drafts too, in Triton's interpreter; the steps of one request are the host's."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    model = str(TableModels(tmp_path).path(target_table(), draft=DRAFT))
    params = [
        {"temperature": 0, "max_tokens": 7, "ignore_eos": True},
        {"temperature": 1.0, "max_tokens": 6, "seed": 3, "stop_token_ids": [50, 1, 2]},
        {"temperature": 0.7, "max_tokens": 5, "seed": 4, "n": 2},
        {"temperature": 0.8, "max_tokens": 3, "seed": 5, "logprobs": 1},
    ]
    asked = list(zip([[5, 6, 10], [20], list(range(3, 20)), [4, 4]], params, strict=True))
    options = {"numerics": "fp32", "max_model_len": 40, "block_size": 4, "max_num_seqs": 4, "batch_invariant": False}
    options |= {"backend": "cpu", "max_prefill_chunk": 11, "speculative": {"acceptance": "rejection"}}
    options["overlap"] = overlaps
    want = rank_engine.run_alone(model, options, asked)
    sizes = {"data_parallel_size": 2, "expert_parallel_size": 2, "prefill_any_interval": 1}
    with RankWorld(2) as world:
        parts = world.run(run_static_rank, True, rank_engine.RankCase(model, sizes, options, asked, [0, 1, 1, 0]))
    got = {number: output for outputs, _, _ in parts for number, output in outputs.items()}
    assert [got[number] for number in range(len(asked))] == want
    (padded, whole, _, chosen), (other_padded, other_whole, _, other_chosen) = (steps for _, _, steps in parts)
    assert 0 < chosen < padded + whole and other_chosen > 0
    assert other_padded + other_whole - other_chosen == overlaps  # the last step has ghosts alone
