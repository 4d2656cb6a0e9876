"""The step estimator equals a count row by row, key by key and tensor by tensor."""

from __future__ import annotations

import random
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest

from deepinfer._C import Scheduler, SchedulerConfig, SequenceRows, SequenceSpec, StepCost, StepEstimator
from deepinfer.checkpoint.writer import complete_engram_fields
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.worker.kv_cache import cache_table
from deepinfer.worker.model_shape import model_shape
from tests.support.random_config import random_config
from tests.support.step_count import Rows, StepCount
from tests.support.tiny_config import tiny_config

MACS = ("fp8", "experts", "index", "bf16", "fp32", "attention")
BYTES = ("weight_bytes", "cache_read_bytes", "cache_written_bytes", "activation_bytes")
TOKENIZER = files("deepinfer") / "data/mini/tokenizer.json"


def parse(values: dict) -> DeepSeekV41Config:
    return DeepSeekV41Config.from_dict(complete_engram_fields(values, str(TOKENIZER)))


def config_of(seed: int) -> DeepSeekV41Config:
    """Every third one is the tiny config with its draft model, the others are random layouts; one has no candidates."""
    values = random_config(seed) if seed % 3 else tiny_config(tie_word_embeddings=bool(seed % 2))
    values["text_config"]["vocab_size"] = 4096
    if seed == 3:
        values["text_config"]["candidate_source_layer_id"] = None
        for name in ("candidate_topk_blocks", "candidate_block_size"):
            del values["text_config"][name]
    return parse(values)


def random_rows(rng: random.Random) -> Rows:
    context, rows = rng.choice([0, 0, rng.randint(1, 80)]), rng.choice([1, 1, rng.randint(2, 60)])
    window = rng.choice([0, rng.randint(0, context)])
    entries = rng.choice([0, rng.randint(0, (context + rows) // 12) * 12])
    return Rows(context, rows, rng.choice([0, rng.randint(0, 90)]), rng.randint(0, min(rows, 3)), window, entries)


def as_dict(cost: StepCost) -> dict[str, float]:
    return {name: getattr(cost, name) for name in MACS + BYTES}


def expected(counts: Counter[str]) -> dict[str, float]:
    return {name: float(counts[name]) for name in MACS + BYTES}


@pytest.mark.parametrize("seed", range(18))
def test_target_pass_equals_brute_force(seed: int) -> None:
    rng, config = random.Random(seed), config_of(seed)
    num_drafts = rng.choice([0, 3]) if config.num_nextn_predict_layers else 0
    numerics = rng.choice([Numerics.OFFICIAL, Numerics.FP32])
    table = cache_table(config, numerics, "auto", 12, num_drafts)
    shape = model_shape(config, numerics, table, num_drafts)
    for yoco in ("off", "mask", "compact"):
        sequences = [random_rows(rng) for _ in range(rng.randint(1, 3))]
        slow = StepCount(config, table, yoco, num_drafts, 2 if numerics is Numerics.OFFICIAL else 4)
        rows = [SequenceRows(**s._asdict()) for s in sequences]
        assert as_dict(StepEstimator(shape, yoco).target_pass(rows)) == expected(slow.target(sequences)), sequences


@pytest.mark.parametrize("num_drafts", [1, 3, 5])
def test_draft_pass_equals_brute_force(num_drafts: int) -> None:
    config = config_of(0)
    table = cache_table(config, Numerics.OFFICIAL, "auto", 12, num_drafts)
    estimator = StepEstimator(model_shape(config, Numerics.OFFICIAL, table, num_drafts))
    for positions in ([], [0], [3, 40, 7], [100] * 4):
        slow = StepCount(config, table, "off", num_drafts)
        assert as_dict(estimator.draft_pass(positions)) == expected(slow.draft(positions))


def test_views_are_sums_of_the_classes() -> None:
    config = config_of(0)
    table = cache_table(config, Numerics.OFFICIAL, "auto", 12, 0)
    cost = StepEstimator(model_shape(config, Numerics.OFFICIAL, table)).target_pass(
        [SequenceRows(context_len=50, num_rows=9, num_logit_rows=1)]
    )
    assert cost.macs == sum(getattr(cost, name) for name in MACS) and cost.flops == 2 * cost.macs
    assert cost.bytes == sum(getattr(cost, name) for name in BYTES)
    weighted = 0.5 * cost.index + cost.fp8 + cost.experts + 2 * (cost.bf16 + cost.attention) + 4 * cost.fp32
    assert cost.fp8_equivalent_flops == 2 * weighted


def test_scheduler_sums_up_its_plans() -> None:
    """Chunks, a fork, drafts and YOCO: stats() has the sum over the plans, and nothing before an estimator is set."""
    config = config_of(0)
    table = cache_table(config, Numerics.OFFICIAL, "auto", 12, 2)
    estimator = StepEstimator(model_shape(config, Numerics.OFFICIAL, table, 2), "compact")
    scheduler = Scheduler(SchedulerConfig(64, 12, 8, 8, 16, 16, 200, num_drafts=2, keep_tokens=11))
    sums: Counter[str] = Counter()
    for round_number in range(2):
        scheduler.add(
            SequenceSpec(round_number, np.arange(40, dtype=np.int32), 6, [], fork_seq_ids=[10 + round_number])
        )
        while scheduler.has_unfinished():
            plan = scheduler.schedule()
            counts = np.where(plan.samples, 1 + np.diff(plan.cu_forks), 0)
            num_owners = int(counts.sum())
            if round_number:
                sums += brute_force(config, table, plan)
            drafts = np.full((num_owners, 2), 7, dtype=np.int32)
            cu_tokens = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            scheduler.update(plan.step_id, np.full(num_owners, 5, dtype=np.int32), cu_tokens, drafts)
        if round_number == 0:
            assert scheduler.stats().cost.macs == 0 and scheduler.stats().cost.bytes == 0
            scheduler.set_estimator(estimator)
    assert scheduler.stats().num_drafts_verified > 0
    assert as_dict(scheduler.stats().cost) == expected(sums)


def brute_force(config: DeepSeekV41Config, table: tuple, plan) -> Counter[str]:
    lengths, rows, positions = np.diff(plan.cu_seqlens_q).tolist(), [], []
    for i, length in enumerate(lengths):
        logits = 1 + int(plan.num_drafts[i]) if plan.samples[i] else 0
        starts = (int(plan.window_starts[i]), int(plan.entry_starts[i]))
        rows.append(Rows(int(plan.context_lens[i]), length, int(plan.consumer_starts[i]), logits, *starts))
        if plan.samples[i] and plan.make_drafts:
            forks = int(plan.cu_forks[i + 1] - plan.cu_forks[i])
            positions += [int(plan.context_lens[i]) + length - 1] * (1 + forks)
    draft = StepCount(config, table, "compact", 2).draft(positions)
    return StepCount(config, table, "compact", 2).target(rows) + draft


def test_wrong_sizes_are_named() -> None:
    config = config_of(0)
    shape = model_shape(config, Numerics.OFFICIAL, cache_table(config, Numerics.OFFICIAL, "auto", 12))
    shape.candidate_block_size = 0
    with pytest.raises(ValueError, match="candidate_block_size is 0; it must be at least 1"):
        StepEstimator(shape)
    with pytest.raises(ValueError, match="yoco is 'on'; it must be off, mask or compact"):
        StepEstimator(shape, "on")
