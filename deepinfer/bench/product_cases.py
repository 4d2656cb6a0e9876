"""Products with weights: projections, experts and head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.model_config import DeepSeekV41Config

_ACT = torch.bfloat16


def product_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """One case for each shape of the layers, of the head, and of the draft model."""
    for use, count, num_out, num_in in _fp8_shapes(config):
        if count:
            yield OpCase("quantized_linear", use, count, partial(_fp8, random, num_out, num_in), True)
    for use, count, num_out, num_in, dtype in _plain_shapes(config):
        if count:
            yield OpCase("linear", use, count, partial(_plain, random, num_out, num_in, dtype), True)
    layers = config.num_hidden_layers
    yield OpCase("rotate_grouped_linear", "output down", layers, partial(_output, config, random), True)
    for draft, count, experts in _expert_counts(config):
        yield OpCase("route", f"{draft}router", count, partial(_router, config, random, experts), True)
        yield OpCase("moe", f"{draft}experts", count, partial(_experts, config, random, experts), True)


def _expert_counts(config: DeepSeekV41Config) -> Iterator[tuple[str, int, tuple[int, int]]]:
    """(prefix of the use, calls, (experts, picked by a row))."""
    yield "", config.num_hidden_layers, (config.n_routed_experts, config.num_experts_per_tok)
    if stages := config.num_nextn_predict_layers:
        yield "draft ", stages, (config.dspark_n_routed_experts, config.dspark_num_experts_per_tok)


def _fp8_shapes(config: DeepSeekV41Config) -> Iterator[tuple[str, int, int, int]]:
    """(use, calls, out, in)."""
    layers, dim, rank = config.num_hidden_layers, config.hidden_size, config.q_lora_rank
    memory = (config.engram_max_ngram_size - 1) * config.engram_n_heads * config.engram_head_dim
    index_layers = sum(plan.owns_index for plan in config.layer_plans)
    yield "query down", layers, rank, dim
    yield "query up", layers, config.num_attention_heads * config.head_dim, rank
    yield "window vector", layers, config.head_dim, dim
    yield "output up", layers, dim, config.o_groups * config.o_lora_rank
    yield "index query", index_layers, config.index_n_heads * config.index_head_dim, rank
    yield "engram", len(config.engram_layer_ids), (config.hc_mult + 1) * dim, memory
    yield "draft features", bool(config.num_nextn_predict_layers), dim, len(config.dspark_target_layer_ids) * dim


def _plain_shapes(config: DeepSeekV41Config) -> Iterator[tuple[str, int, int, int, torch.dtype]]:
    """(use, calls, out, in, result)."""
    dim, plans = config.hidden_size, config.layer_plans
    sources = [plan.ratio for plan in plans if plan.owns_kv]
    yield "compressor, ratio 1", sources.count(1), config.head_dim, dim, _ACT
    yield "compressor, pairs", 2 * sources.count(2), config.head_dim, dim, torch.float32
    yield "index key", len(sources), config.index_head_dim, config.head_dim, _ACT
    yield "index head weights", sum(plan.owns_index for plan in plans), config.index_n_heads, dim, _ACT
    yield "head", 1, config.vocab_size, dim, torch.float32
    drafts = config.dspark_block_size if config.num_nextn_predict_layers else 0
    yield "draft Markov head", drafts, config.vocab_size, config.dspark_markov_rank, torch.float32


def _fp8(random: RandomOperands, num_out: int, num_in: int) -> Callable[[int], Operands]:
    def operands(rows: int) -> Operands:
        args = (random.activations(rows, num_in), random.fp8(num_out, num_in))
        return args, {"quantize": True, "out_dtype": _ACT}

    return operands


def _plain(random: RandomOperands, num_out: int, num_in: int, dtype: torch.dtype) -> Callable[[int], Operands]:
    return lambda rows: ((random.activations(rows, num_in), random.activations(num_out, num_in), dtype), {})


def _output(config: DeepSeekV41Config, random: RandomOperands) -> Callable[[int], Operands]:
    heads, dim, groups = config.num_attention_heads, config.head_dim, config.o_groups

    def operands(rows: int) -> Operands:
        weight = random.fp8(groups * config.o_lora_rank, heads // groups * dim)
        args = (random.activations(rows, heads, dim), *random.angles(rows, config.qk_rope_head_dim), weight)
        return args, {"num_groups": groups, "quantize": True, "out_dtype": _ACT}

    return operands


def _router(config: DeepSeekV41Config, random: RandomOperands, counts: tuple[int, int]) -> Callable[[int], Operands]:
    (experts, picks), dim = counts, config.hidden_size
    options = {
        "top_k": picks,
        "scaling": config.routed_scaling_factor,
        "normalize": config.norm_topk_prob,
    }

    def operands(rows: int) -> Operands:
        return (random.activations(rows, dim), random.activations(experts, dim), random.floats(experts)), options

    return operands


def _experts(config: DeepSeekV41Config, random: RandomOperands, counts: tuple[int, int]) -> Callable[[int], Operands]:
    """All calls share the experts; every row picks its own at random."""
    (experts, picks), dim, hidden = counts, config.hidden_size, config.moe_intermediate_size
    routed = (*(random.fp4(experts, hidden, dim) for _ in range(2)), random.fp4(experts, dim, hidden))
    shared = (random.fp8(hidden, dim), random.fp8(hidden, dim), random.fp8(dim, hidden))

    def operands(rows: int) -> Operands:
        ids, weights = random.distinct(experts, rows, picks), random.floats(rows, picks).abs()
        options = {"limit": config.swiglu_limit, "quantize": True, "act_dtype": _ACT}
        return (random.activations(rows, dim), ids, weights, *routed, shared), options

    return operands
