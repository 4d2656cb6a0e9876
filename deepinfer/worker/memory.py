"""Sizes the caches: from a share of a GPU's memory, from a given number of bytes, or by the rule for a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from deepinfer.config.byte_size import format_byte_size
from deepinfer.config.cache_config import CacheConfig
from deepinfer.core.cache_spec import CacheSpec
from deepinfer.errors import ConfigError
from deepinfer.logging import get_logger
from deepinfer.worker.kv_cache import block_bytes, slot_bytes
from deepinfer.worker.memory_plan import MemoryPlan

logger = get_logger(__name__)

_CPU_LIMIT = 1 << 30
_CPU_SHARE = 4  # a quarter of the usable memory
_NOISE = 0.05  # shrinking by less than this share is not somebody else's allocation
_MAX_BLOCKS = 2**31 - 1  # block tables are int32
_STATE_SHARE = 2  # state slots take at most half of a budget


class MemoryProbe(Protocol):
    """Reads the memory of a device: `HostMemoryProbe`, `GpuMemoryProbe` or a test's."""

    def free_bytes(self) -> int:
        """Bytes that could be allocated now."""
        ...

    def total_bytes(self) -> int:
        """Bytes the device has."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """What the caches are wanted for.

    Attributes:
        table: the cache table.
        max_num_seqs: sequences at once.
        max_model_len: tokens of the longest sequence.
        is_cpu: CPU rule instead of the GPU share.
        resident_bytes: what the process holds already, weights among it; only told, 0: not known.
        scratch_bytes: what the largest step takes beside that and the caches (worker/step_scratch.py); it stays free.
        num_sharing: ranks of the engine, which on a CPU share one memory.
    """

    table: tuple[CacheSpec, ...]
    max_num_seqs: int
    max_model_len: int
    is_cpu: bool
    resident_bytes: int = 0
    scratch_bytes: int = 0
    num_sharing: int = 1


def plan_memory(
    demand: MemoryDemand,
    options: CacheConfig,
    probe: MemoryProbe,
    profile: Callable[[], int] | None = None,
) -> MemoryPlan:
    """The number of blocks and slots.

    * ``kv_cache_bytes``: that many bytes of blocks; the state slots come on top.
    * CPU: what max_num_seqs sequences of max_model_len tokens need, at most 1 GiB and a quarter of the usable memory,
      which ranks share evenly (blocks and slots together; pages are touched on first use).
    * GPU: free memory less the unused share (1 - gpu_memory_utilization) of the whole, less the step's own peak.

    `profile` runs a largest step and returns its transient bytes; without it the free memory is read once. With it,
    free memory is read before and after: when it grew, somebody else freed memory, which is not ours to count on: a
    warning, and the smaller figure. When it shrank so that the first figure's plan no longer fits, ConfigError gives
    both figures and the needed size. Zero blocks is a ConfigError with the figures as well,
    and so are caches larger than the free memory.
    """
    before = after = probe.free_bytes()
    peak = demand.scratch_bytes
    if profile is not None:
        peak += profile()
        after = probe.free_bytes()
    if after > before:
        logger.warning(
            "free memory grew from %s to %s while it was measured; using the smaller figure",
            format_byte_size(before),
            format_byte_size(after),
        )
    plan = _plan(demand, options, min(before, after), probe.total_bytes(), peak)
    if after < before:
        wanted = _plan(demand, options, before, probe.total_bytes(), peak)
        _check_shrinking(before, after, wanted, peak)
        plan = plan if wanted.total_bytes > after - peak else wanted
    if plan.num_blocks < 1:
        raise ConfigError("no memory for a single cache block:\n" + plan.explain())
    if plan.total_bytes > min(before, after) - peak:
        raise ConfigError("the caches do not fit into the free memory:\n" + plan.explain())
    return plan


def _check_shrinking(before: int, after: int, wanted: MemoryPlan, peak: int) -> None:
    needed = wanted.total_bytes + peak
    if needed > after and before - after > _NOISE * before:
        raise ConfigError(
            f"free memory shrank from {format_byte_size(before)} to {format_byte_size(after)} while it was measured, "
            f"and the caches need {format_byte_size(needed)}: another process is using this device; start again when "
            "it is done, or set kv_cache_bytes or gpu_memory_utilization lower"
        )


def _plan(demand: MemoryDemand, options: CacheConfig, free: int, total: int, peak: int) -> MemoryPlan:
    per_block, per_slot = block_bytes(demand.table), slot_bytes(demand.table)
    wanted_blocks = demand.max_num_seqs * -(-demand.max_model_len // options.block_size)
    need = wanted_blocks * per_block + demand.max_num_seqs * per_slot
    reasons = [
        f"{demand.max_num_seqs} sequences of {demand.max_model_len:,} tokens need {format_byte_size(need)}",
        f"{format_byte_size(free)} are free",
    ]
    slots = demand.max_num_seqs
    if options.kv_cache_bytes is not None:
        budget = options.kv_cache_bytes
        blocks = budget // per_block if per_block else wanted_blocks
        reasons.append(f"kv_cache_bytes gives {format_byte_size(budget)} to the blocks; state slots come on top")
    else:
        budget, reason = _budget(demand, options, need, (free, total, peak))
        reasons.append(reason)
        if budget < need:
            slots = max(1, min(slots, budget // _STATE_SHARE // per_slot))
        if slots < demand.max_num_seqs:
            reasons.append(f"state slots are cut from {demand.max_num_seqs} to {slots}: at most half of the budget")
        blocks = (budget - slots * per_slot) // per_block if per_block else wanted_blocks
        blocks = max(0, min(blocks, wanted_blocks))
    blocks = min(blocks, _MAX_BLOCKS)
    sizes = (per_block, per_slot, demand.resident_bytes, demand.scratch_bytes)
    return MemoryPlan(blocks, slots, options.block_size, *sizes, tuple(reasons))


def _budget(demand: MemoryDemand, options: CacheConfig, need: int, memory: tuple[int, int, int]) -> tuple[int, str]:
    """(bytes, reason); `memory`: free, total and peak bytes."""
    free, total, peak = memory
    if demand.is_cpu:
        budget = min(need, _CPU_LIMIT, free // (_CPU_SHARE * demand.num_sharing))
        quarter = "a quarter of the free memory" + (f" over {demand.num_sharing} ranks" * (demand.num_sharing > 1))
        return budget, (
            f"CPU: the least of that need, {format_byte_size(_CPU_LIMIT)} and {quarter} is {format_byte_size(budget)}"
        )
    share = options.gpu_memory_utilization
    reserve = int(total * (1 - share))
    budget = max(0, free - reserve - peak)
    return budget, (
        f"GPU: {format_byte_size(free)} free - {format_byte_size(reserve)} kept unused "
        f"({1 - share:.0%} of {format_byte_size(total)}) - {format_byte_size(peak)} peak of a step "
        f"= {format_byte_size(budget)}"
    )
