"""Ops of Engram layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import torch

from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.ngram_hash import NgramHash

TABLE_ROWS: Final = 1 << 20  # the full model's tables have 384 million: only as many as no cache holds matter


def engram_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """Hash, lookup and gate. A table in pinned host memory is a case of its own where there is a GPU."""
    count = len(config.engram_layer_ids)
    if not count:
        return
    yield OpCase("ngram_rows", "hash", count, partial(_hash, config, random), False)
    places = ("device", "pinned host") if random.device.type == "cuda" else ("device",)
    for place in places:
        yield OpCase("engram_lookup", f"{place} table", count, partial(_lookup, config, random, place), True)
    yield OpCase("engram_gate", "gate", count, partial(_gate, config, random), False)


def _hash(config: DeepSeekV41Config, random: RandomOperands) -> Callable[[int], Operands]:
    size, shape = config.engram_max_ngram_size, (config.engram_max_ngram_size - 1, config.engram_n_heads)
    primes = random.integers(config.engram_vocab_size, *shape) + config.engram_vocab_size
    hashes = NgramHash(random.integers(2**30, size) * 2 + 1, primes, random.integers(2**30, *shape), 2**32)
    return lambda rows: ((random.integers(config.engram_compressed_vocab_size, rows, size), hashes), {})


def _lookup(config: DeepSeekV41Config, random: RandomOperands, place: str) -> Callable[[int], Operands]:
    dim, per_token = config.engram_head_dim, (config.engram_max_ngram_size - 1) * config.engram_n_heads
    codes = torch.randint(0, 127, (TABLE_ROWS, dim), device=random.device, dtype=torch.uint8)
    scales = torch.randint(117, 121, (TABLE_ROWS, -(-dim // 32)), device=random.device, dtype=torch.uint8)
    if place == "pinned host":
        codes, scales = codes.cpu().pin_memory(), scales.cpu().pin_memory()
    table = (codes.view(torch.float8_e4m3fn), scales)
    return lambda rows: ((random.integers(TABLE_ROWS, rows, per_token), *table), {})


def _gate(config: DeepSeekV41Config, random: RandomOperands) -> Callable[[int], Operands]:
    streams, dim, act = config.hc_mult, config.hidden_size, random.activations

    def operands(rows: int) -> Operands:
        projected = act(rows, (streams + 1) * dim)
        keys, value = projected[:, : streams * dim].view(rows, streams, dim), projected[:, streams * dim :]
        weights = (act(streams, dim), act(streams, dim))
        return (act(rows, streams, dim), keys, value, *weights), {"eps": config.rms_norm_eps}

    return operands
