"""The memory plan says what a step takes beside weights and caches, and what the process will hold in all."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from deepinfer.config.cache_config import CacheConfig
from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError
from deepinfer.worker.decode_setup import graph_bytes
from deepinfer.worker.exchange_scratch import exchange_bytes
from deepinfer.worker.gpu_scratch import GpuScratch
from deepinfer.worker.host_memory import resident_bytes
from deepinfer.worker.kv_cache import block_bytes, cache_table, slot_bytes
from deepinfer.worker.length_fit import LengthFit
from deepinfer.worker.memory import MemoryDemand, plan_memory
from deepinfer.worker.native_scratch import NativeScratch
from deepinfer.worker.reference_scratch import ReferenceScratch

MIB = 1 << 20
CONFIG = DeepSeekV41Config.from_path(str(files("deepinfer") / "data/mini"))
SCRATCH = ReferenceScratch(CONFIG, num_rows=2048, num_seqs=4, max_len=1000)


class Probe:
    def free_bytes(self) -> int:
        return 200 * MIB

    def total_bytes(self) -> int:
        return 400 * MIB


@pytest.mark.parametrize(
    ("sizes", "measured"),
    [
        ({"num_rows": 512, "num_seqs": 1, "max_len": 2000}, 43),
        ({}, 140),
        ({"num_rows": 256, "num_seqs": 16, "max_len": 100}, 33),
        ({"num_seqs": 1, "max_len": 8000}, 154),
    ],
)
def test_estimates_are_near_what_was_measured(sizes: dict[str, Any], measured: int) -> None:
    """MiB of peak resident memory, less what was resident before the caches and less these (doc/long_context.md)."""
    assert replace(SCRATCH, **sizes).num_bytes / MIB == pytest.approx(measured, rel=1 / 3)


@pytest.mark.parametrize(
    ("sizes", "measured"),
    [((512, 1, 2000), 14), ((2048, 4, 1000), 47), ((256, 16, 100), 10), ((2048, 1, 8000), 46)],
)
def test_native_estimates_are_near_what_was_measured(sizes: tuple[int, int, int], measured: int) -> None:
    assert NativeScratch(CONFIG, *sizes).num_bytes / MIB == pytest.approx(measured, rel=1 / 3)


def test_native_scores_are_bounded_in_the_context() -> None:
    sizes = [NativeScratch(CONFIG, 512, 1, length).num_bytes for length in (2**14, 2**17, 2**20)]
    assert sizes[0] == sizes[1] == sizes[2]


def test_scratch_is_bounded_in_the_context_but_for_scores() -> None:
    """Keys come in parts; of scores there is a chunk, for very long contexts of 16 rows."""
    sizes = [replace(SCRATCH, num_seqs=1, max_len=length).num_bytes for length in (2**14, 2**17, 2**20)]
    assert sizes[1] - sizes[0] < 200 * MIB and sizes[2] - sizes[1] < 500 * MIB


def test_the_plan_tells_the_peak_and_leaves_room_for_a_step() -> None:
    table = cache_table(CONFIG, Numerics.OFFICIAL, "auto", 128)
    demand = MemoryDemand(table, 4, 1000, True, resident_bytes=300 * MIB, scratch_bytes=150 * MIB)
    plan = plan_memory(demand, CacheConfig(), Probe())
    assert plan.peak_bytes == plan.total_bytes + 450 * MIB
    assert "holds 300.00 MiB before them, and its largest step takes about 150.00 MiB" in plan.explain()
    with pytest.raises(ConfigError, match=r"(?s)do not fit into the free memory.*takes about 199.00 MiB"):
        plan_memory(replace(demand, scratch_bytes=199 * MIB), CacheConfig(kv_cache_bytes=2 * MIB), Probe())


def test_this_process_holds_something() -> None:
    assert resident_bytes() > 10 * MIB


def test_length_fit_is_tight() -> None:
    """What is said to fit does by the rules of the plan, one sequence or one block more does not."""
    table = cache_table(CONFIG, Numerics.OFFICIAL, "auto", 128)
    free = replace(SCRATCH, num_rows=512, num_seqs=1, max_len=1000).num_bytes + 8 * MIB
    fit = LengthFit.of(CONFIG, free, num_tokens=1000, num_rows=512)

    def need(num_seqs: int, length: int) -> int:
        scratch = ReferenceScratch(CONFIG, 512, num_seqs, length).num_bytes
        rotary = 2 * 2 * 4 * length * CONFIG.qk_rope_head_dim // 2
        return num_seqs * (-(-length // 128) * block_bytes(table) + slot_bytes(table)) + rotary + scratch

    assert fit.num_seqs > 1 and need(fit.num_seqs, 1000) <= free < need(fit.num_seqs + 1, 1000)
    assert need(1, fit.longest) <= free < need(1, fit.longest + 1)
    assert LengthFit.of(CONFIG, 2 * free, 1000, 512).longest == CONFIG.max_position_embeddings
    assert LengthFit.of(CONFIG, fit.scratch_bytes // 2, 1000, 512).num_seqs == 0


def test_a_gpu_leaves_room_for_its_largest_step_and_for_graphs() -> None:
    """Measured beside a GPU in tests/gpu/test_scratch.py; here: what it depends on."""
    sizes = {"num_seqs": 64, "max_len": 8256, "num_drafts": 5}
    config = DeepSeekV41Config.from_path(str(files("deepinfer") / "data/configs/deepseek-v41-flash.json"))
    prefill, decode = (GpuScratch(config, num_rows=rows, **sizes).num_bytes for rows in (8192, 384))
    assert 2 * 2**30 < prefill < 4 * 2**30
    assert decode < prefill / 3
    short = [GpuScratch(config, num_rows=rows, num_seqs=1, max_len=100).num_bytes for rows in (64, 65)]
    assert short[1] - short[0] > 25600 * 6144 / 2  # the Engram weight, recoded for the matrix library

    def graphs(**options: Any) -> int:
        return graph_bytes(EngineConfig.create(max_model_len=8192, **options).resolve(config, "cuda"), config)

    assert graphs(enforce_eager=True) == 0
    assert decode < graphs(max_num_seqs=64) < graphs(max_num_seqs=256) < 2 * prefill
    together = {"data_parallel_size": 2, "engram_parallel_size": 2, "max_num_seqs": 64}
    tables = exchange_bytes(EngineConfig.create(**together).parallel, config, 384)
    num_buckets = 4 - 1 + 64 // 8  # 1, 2, 4, and the multiples of 8
    assert graphs(**together) - graphs(max_num_seqs=64) == tables + num_buckets * 2**23
    every, scheduled = (
        graphs(max_num_seqs=64, speculative=drafts) for drafts in ({"varlen": False}, {"cost_curve": "guess"})
    )
    assert scheduled - every == num_buckets * 2**23  # forward passes that leave no draft context
