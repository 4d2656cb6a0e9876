"""Runs on a rank: an engine whose decode steps run from static tensors, as on a GPU; and the exchange of such steps."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.sync_guard import SYNC_GUARD, forbid_device_sync
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.distributed.row_packing import RowPacking
from deepinfer.distributed.take_turns import take_turns
from deepinfer.ops import reference
from deepinfer.worker.captured_calls import CapturedCalls
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.static_decoder import StaticDecoder
from tests.distributed import rank_engine
from tests.distributed.rank_world import device_of
from tests.support.static_engine import static_engine

DIM, PICKS = 64, 3
ACT = {False: torch.float32, True: torch.bfloat16}


def run_static_rank(
    rank: int, with_kernels: bool, case: rank_engine.RankCase
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
        outputs, moves = rank_engine.run_rank(rank, case)
    return outputs, moves, (steps.num_padded, steps.num_whole, num_parts, steps.num_chosen)


def exchange_both_ways(rank: int, size: int, experts: tuple[int, int], quantize: bool, device: str = "cpu") -> int:
    """Random rows through both exchanges and several placements of (experts, redundant ones); AssertionError at the
    first difference. On a GPU the static one is replayed from CUDA graphs. Returns how many picks there were.
    """
    place = device_of(device, rank)
    groups = RankGroups.join(ParallelConfig(size, expert_parallel_size=size), rank, place)
    comm = groups.experts or groups.lockstep  # one rank has a group of its own alone
    comm.meet(place)
    ways = _BothWays(ExpertExchange(comm, *experts, place), RowPacking(DIM, quantize, ACT[quantize]), place)
    gen, own = torch.Generator().manual_seed(8), torch.Generator().manual_seed(rank)  # the same on all ranks; not so
    num_picks, is_idle = 0, size > 1 and rank == 0
    for num_rows in (1, 5, 16):
        for _ in range(3):
            ways.move(gen)
            num_picks += ways.check(
                num_rows, 0 if is_idle else int(torch.randint(0, num_rows + 1, (1,), generator=own)), own
            )
    return num_picks


def forbidden_sync(patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    """Where nobody may wait for a GPU."""
    patch.setattr(SYNC_GUARD, "enabled", True)
    return forbid_device_sync()


class _BothWays:
    """One layer whose experts multiply by a number each."""

    def __init__(self, exchange: ExpertExchange, packing: RowPacking, device: torch.device) -> None:
        self._exchange, self._packing, self._device = exchange, packing, device
        self._calls = CapturedCalls(device) if device.type == "cuda" else EagerCalls()
        self._inputs: dict[int, tuple[torch.Tensor, ...]] = {}
        self._factors = torch.arange(exchange.num_experts, device=device) / 4 + 1
        self._own = torch.tensor(exchange.own_experts, device=device)

    def move(self, gen: torch.Generator) -> None:
        """To a random placement."""
        num_experts, num_places = self._exchange.num_experts, self._exchange.placement.num_physical
        more = torch.randint(0, num_experts, (num_places - num_experts,), generator=gen)
        row = torch.cat((torch.arange(num_experts), more))[torch.randperm(num_places, generator=gen)]
        ranks = self._exchange.placement.num_ranks
        self._exchange.place_by(ExpertPlacement.of_physical(row[None].numpy(), num_experts, ranks))
        self._own.copy_(torch.tensor(self._exchange.own_experts))

    def check(self, num_rows: int, num_real: int, gen: torch.Generator) -> int:
        """Picks of `num_real` random rows, the others being padding."""
        x, ids, weights, is_real, got = self._static(num_rows)
        values = torch.randn(num_rows, DIM, generator=gen)
        if self._packing.quantize:  # as the experts would: rows travel so in one of the exchanges alone
            values = reference.round_vectors(values, KVRounding.FP8_GROUP32)
        values[num_real:] = torch.nan
        x.copy_(values)
        ids.copy_(torch.rand(num_rows, self._exchange.num_experts, generator=gen).topk(PICKS).indices)
        weights.copy_(torch.rand(num_rows, PICKS, generator=gen))
        is_real.copy_(torch.arange(num_rows) < num_real)
        table, real = self._exchange.table, slice(0, num_real)
        targets = self._exchange.begin(ids[real])
        (want,) = take_turns([self._exchange.run(targets, x[real], weights[real], self._packing, self._compute)])
        counted = table.take_counts([table]).take()
        with pytest.MonkeyPatch.context() as patch, forbidden_sync(patch):
            self._calls.run(
                num_rows, lambda: got.copy_(self._exchange.static.run((x, ids, weights), is_real, self._compute))
            )
        assert torch.equal(got[real], want) and not want.isnan().any(), (num_rows, num_real)
        assert (table.take_counts([table]).take() == counted).all()
        return int(counted.sum())

    def _static(self, num_rows: int) -> tuple[torch.Tensor, ...]:
        if num_rows not in self._inputs:
            act, device = self._packing.act_dtype, self._device
            self._inputs[num_rows] = (
                torch.zeros(num_rows, DIM, dtype=act, device=device),
                torch.zeros(num_rows, PICKS, dtype=torch.int64, device=device),
                torch.zeros(num_rows, PICKS, device=device),
                torch.zeros(num_rows, dtype=torch.bool, device=device),
                torch.zeros(num_rows, PICKS, DIM, dtype=act, device=device),
            )
        return self._inputs[num_rows]

    def _compute(self, x: torch.Tensor, slots: torch.Tensor, weights: torch.Tensor, **_: int) -> torch.Tensor:
        """Nothing comes of a pick that is none."""
        values = x[:, None] * (self._factors[self._own[slots]] * weights)[..., None]
        return torch.where(slots[..., None] >= 0, values, torch.nan).flatten(0, 1).to(self._packing.act_dtype)
