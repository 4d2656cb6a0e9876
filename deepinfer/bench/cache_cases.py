"""Ops that make the vectors of caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import KVRounding

_ACT = torch.bfloat16
_SLOTS = 512  # of the compressor's state


def cache_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """Window vectors, main entries, index keys, pairs and index queries. Every row makes one of each."""
    plans, dim, index_dim = config.layer_plans, config.head_dim, config.index_head_dim
    sources = [plan.ratio for plan in plans if plan.owns_kv]
    stored = (
        ("window", config.num_hidden_layers, dim, KVRounding.FP8_GROUP32, True),
        ("main entries", len(sources), dim, KVRounding.FP4_GROUP16, False),
        ("index keys", len(sources), index_dim, KVRounding.FP4_GROUP32, True),
    )
    for use, count, width, rounding, has_norm in stored:
        if count:
            prepare = partial(_store, config, random, width, rounding, has_norm)
            yield OpCase("store_vectors", use, count, prepare, False)
    if 2 in sources:
        yield OpCase("compress_pairs", "ratio 2", sources.count(2), partial(_pairs, random, dim), False)
    if sources:
        count = sum(plan.owns_index for plan in plans)
        yield OpCase("round_vectors", "index query", count, partial(_round, config, random), False)


def _store(
    config: DeepSeekV41Config, random: RandomOperands, dim: int, rounding: KVRounding, has_norm: bool
) -> Callable[[int], Operands]:
    def operands(rows: int) -> Operands:
        cache = random.vectors(dim, rounding, rows, 1)
        units = torch.arange(rows, device=random.device)
        where = (units, torch.zeros_like(units))
        weight = random.activations(dim) if has_norm else None
        angles = random.angles(rows, config.qk_rope_head_dim)
        options = {"eps": config.rms_norm_eps, "act_dtype": _ACT}
        return (random.activations(rows, dim), weight, *angles, cache, *where), options

    return operands


def _pairs(random: RandomOperands, dim: int) -> Callable[[int], Operands]:
    state = random.floats(_SLOTS, 2, 2, dim)

    def operands(rows: int) -> Operands:
        carried = random.integers(2 * _SLOTS, rows)
        return (random.floats(rows, 2, dim), state, torch.arange(rows, device=random.device), carried, _ACT), {}

    return operands


def _round(config: DeepSeekV41Config, random: RandomOperands) -> Callable[[int], Operands]:
    heads, dim = config.index_n_heads, config.index_head_dim
    return lambda rows: ((random.activations(rows, heads, dim), KVRounding.FP4_GROUP32), {})
