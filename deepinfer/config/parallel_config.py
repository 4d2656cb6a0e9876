"""Options of parallelism: how many ranks there are, and which of them share what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from deepinfer.config.field_error import field_error
from deepinfer.config.size_limits import check_range

_MAX_RANKS: Final = 4096
_MAX_REDUNDANT: Final = 2**14
_MAX_INTERVAL: Final = 2**20
_SIZES: Final = ("data_parallel_size", "context_parallel_size", "expert_parallel_size", "engram_parallel_size")
_OVERLAPS: Final = ("auto", "on", "off")


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """Parallel group of EngineConfig. Every rank is a process with the whole model but for what is split here
    (spec/engine.md 5; there is no tensor and no pipeline parallelism).

    Attributes:
        data_parallel_size: replicas, each with requests and caches of its own.
        context_parallel_size: ranks of a replica, which share the rows of a prefill step.
        expert_parallel_size: ranks that the routed experts are spread over; divides data x context.
        engram_parallel_size: ranks that the rows of Engram tables are spread over; divides data x context. With 1
            every rank reads whole tables.
        num_redundant_experts: places for weights of a layer's routed experts beyond their number, at least; rounded up
            so that all ranks have equally many. They hold second copies; one rank by itself has none.
        expert_rebalance_interval: steps from one rearrangement of the experts by their loads to the next; 0: never, as
            where one rank has them all.
        expert_load_window: steps that a rearrangement looks back on.
        prefill_all_interval, prefill_any_interval: where ranks step together, a prefill step comes when every rank that
            has work wants one, asked again after so many decode steps, or when any rank does, after so many; and always
            when nobody decodes.
        two_batch_overlap: whether ranks that share experts compute a step in two halves, each while rows of the other
            are on their way: "auto" (where both halves of some rank have so many rows that it pays), "on" (where some
            rank has two sequences) or "off". Results do not depend on it.
    """

    data_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_parallel_size: int = 1
    engram_parallel_size: int = 1
    num_redundant_experts: int = 0
    expert_rebalance_interval: int = 0
    expert_load_window: int = 64
    prefill_all_interval: int = 1
    prefill_any_interval: int = 8
    two_batch_overlap: str = "auto"

    def __post_init__(self) -> None:
        for name in _SIZES:
            check_range(name, getattr(self, name), 1, _MAX_RANKS)
        if self.world_size > _MAX_RANKS:
            ranks = f"{self.data_parallel_size} x {self.context_parallel_size}"
            raise field_error("data_parallel_size x context_parallel_size", ranks, f"at most {_MAX_RANKS} ranks")
        for name in ("expert_parallel_size", "engram_parallel_size"):
            if self.world_size % getattr(self, name):
                expected = f"a divisor of data_parallel_size x context_parallel_size = {self.world_size}"
                raise field_error(name, getattr(self, name), expected)
        check_range("num_redundant_experts", self.num_redundant_experts, 0, _MAX_REDUNDANT)
        check_range("expert_rebalance_interval", self.expert_rebalance_interval, 0, _MAX_INTERVAL)
        for name in ("expert_load_window", "prefill_all_interval", "prefill_any_interval"):
            check_range(name, getattr(self, name), 1, _MAX_INTERVAL)
        if self.two_batch_overlap not in _OVERLAPS:
            raise field_error("two_batch_overlap", self.two_batch_overlap, f"one of {', '.join(_OVERLAPS)}")

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.data_parallel_size * self.context_parallel_size

    @property
    def lockstep_size(self) -> int:
        """Ranks, in blocks, that step together since their steps meet in collectives; 1: each on its own."""
        return math.lcm(self.context_parallel_size, self.expert_parallel_size, self.engram_parallel_size)
