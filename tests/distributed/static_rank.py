"""Runs on a rank: an engine whose decode steps run from static tensors, as on a GPU; and the exchange of such steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.core.cache_spec import KVRounding
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.distributed.row_packing import RowPacking
from deepinfer.distributed.take_turns import take_turns
from deepinfer.ops import reference
from deepinfer.worker.static_decoder import StaticDecoder
from tests.distributed import rank_engine
from tests.support.static_engine import static_engine

DIM, PICKS = 64, 3


def run_static_rank(
    rank: int, with_kernels: bool, *case: Any
) -> tuple[dict[int, Any], list[tuple[int, int]], tuple[int, ...]]:
    """`run_rank`, and how many decode steps were padded, how many were not, how many had only others' rows, and how
    many were also sampled there.
    """
    num_parts = 0
    take_part = StaticDecoder.take_part

    def counted(decoder: StaticDecoder) -> None:
        nonlocal num_parts
        num_parts += 1
        take_part(decoder)

    with pytest.MonkeyPatch.context() as patch, static_engine(patch, with_kernels) as steps:
        patch.setattr(StaticDecoder, "take_part", counted)
        outputs, moves = rank_engine.run_rank(rank, *case)
    return outputs, moves, (steps.num_padded, steps.num_whole, num_parts, steps.num_chosen)


def exchange_both_ways(rank: int, size: int, num_experts: int, num_redundant: int, quantize: bool) -> int:
    """Random rows through both exchanges and several placements; AssertionError at the first difference. The picks."""
    comm = RankGroups.join(ParallelConfig(size, expert_parallel_size=size), rank, torch.device("cpu")).experts
    assert comm is not None
    exchange = ExpertExchange(comm, num_experts, num_redundant)
    packing = RowPacking(DIM, quantize, torch.bfloat16 if quantize else torch.float32)
    gen, own = torch.Generator().manual_seed(8), torch.Generator().manual_seed(rank)  # the same on all ranks; not so
    factors = torch.rand(num_experts, generator=gen) + 0.5
    num_picks = 0

    def compute(x: torch.Tensor, slots: torch.Tensor, weights: torch.Tensor, *_: int) -> torch.Tensor:
        """Every expert multiplies by a number of its own; nothing comes of a pick that is none."""
        experts = torch.tensor(exchange.own_experts)[slots]
        values = x[:, None] * (factors[experts] * weights)[..., None]
        return torch.where(slots[..., None] >= 0, values, torch.nan).flatten(0, 1).to(packing.act_dtype)

    for num_rows in (1, 5, 16):
        num_places = exchange.placement.num_physical
        more = torch.randint(0, num_experts, (num_places - num_experts,), generator=gen)
        row = torch.cat((torch.arange(num_experts), more))[torch.randperm(num_places, generator=gen)]
        exchange.place_by(ExpertPlacement.of_physical(row[None].numpy(), num_experts, size))
        num_real = int(torch.randint(0, num_rows + 1, (1,), generator=own)) if rank else 0
        x = torch.randn(num_rows, DIM, generator=own).to(packing.act_dtype)
        if quantize:  # as the experts would: rows travel so in one of the exchanges alone
            x = reference.round_vectors(x, KVRounding.FP8_GROUP32).to(packing.act_dtype)
        ids = torch.rand(num_rows, num_experts, generator=own).topk(PICKS).indices
        weights = torch.rand(num_rows, PICKS, generator=own)
        x[num_real:] = torch.nan
        real = slice(0, num_real)
        targets = exchange.begin(ids[real])
        (want,) = take_turns([exchange.run(targets, x[real], weights[real], packing, compute)])
        counted = exchange.table.take_counts([exchange.table])
        is_real = torch.arange(num_rows) < num_real
        got = exchange.static.run((x, ids, weights), is_real, compute)
        assert torch.equal(got[real], want) and not want.isnan().any(), (num_rows, num_real)
        assert (exchange.table.take_counts([exchange.table]) == counted).all()
        num_picks += int(counted.sum())
    return num_picks
