"""Every op of a model at its true shapes, from its config alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from deepinfer.bench.attention_cases import attention_cases
from deepinfer.bench.cache_cases import cache_cases
from deepinfer.bench.engram_cases import engram_cases
from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.product_cases import product_cases
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.model_config import DeepSeekV41Config


def model_cases(
    config: DeepSeekV41Config, random: RandomOperands, context_len: int, rows_per_seq: int = 1
) -> list[OpCase]:
    """The uses that this model has of the ops of the contract on one rank, its draft model's where the shapes differ.

    Args:
        config: sizes, numerics "official".
        random: operands.
        context_len: tokens before the rows.
        rows_per_seq: rows of a step that belong to one sequence.
    """
    return [
        *_stream_cases(config, random),
        *_mixing_cases(config, random),
        *_query_cases(config, random),
        *product_cases(config, random),
        *cache_cases(config, random),
        *attention_cases(config, random, context_len, rows_per_seq),
        *engram_cases(config, random),
    ]


def _stream_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """Residual streams."""
    streams, dim, layers = config.hc_mult, config.hidden_size, config.num_hidden_layers
    act = random.activations

    def write(rows: int) -> Operands:
        gains = (random.floats(rows, streams), random.floats(rows, streams, streams))
        return (act(rows, streams, dim), act(rows, dim), *gains), {}

    def read_norm(rows: int) -> Operands:
        return (
            act(rows, streams, dim),
            random.floats(rows, streams),
            act(dim),
            config.rms_norm_eps,
            torch.bfloat16,
        ), {}

    def mean(rows: int) -> Operands:
        return (act(rows, streams, dim), random.floats(rows, streams), torch.float32), {}

    def gather(rows: int) -> Operands:
        return (act(rows, streams, dim), torch.arange(rows, device=random.device)), {}

    def embedding() -> Callable[[int], Operands]:
        table = act(config.vocab_size, dim)
        return lambda rows: ((random.integers(config.vocab_size, rows), table, streams, table.dtype), {})

    yield OpCase("expand_embedding", "embedding", 1, embedding, True)
    yield OpCase("hc_read_norm", "head", 1, lambda: read_norm, False)
    yield OpCase("hc_write", "out of a layer", layers, lambda: write, False)
    yield OpCase("gather_rows", "streams of sampled rows", 1, lambda: gather, False)
    if config.num_nextn_predict_layers:
        yield OpCase("hc_read", "stream mean, for drafts", len(config.dspark_target_layer_ids), lambda: mean, False)


def _mixing_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """Residual streams, with the matrix that mixes them."""
    streams, dim, layers = config.hc_mult, config.hidden_size, config.num_hidden_layers
    mixes, act, eps = streams * (streams + 2), random.activations, config.rms_norm_eps
    options = {"sinkhorn_iters": config.hc_sinkhorn_iters, "eps": config.hc_eps, "norm_eps": eps}

    def mixing() -> tuple[torch.Tensor, ...]:
        return random.floats(mixes, streams * dim), random.floats(mixes), random.floats(3)

    def mix(rows: int) -> Operands:
        return (act(rows, streams, dim), *mixing()), options

    def step(rows: int) -> Operands:
        update = (act(rows, dim), random.floats(rows, streams), random.floats(rows, streams, streams))
        read = (act(rows, streams, dim), random.floats(rows, streams))
        return (*read, update, act(dim), mixing()), {**options, "out_dtype": torch.bfloat16}

    def enter(rows: int) -> Operands:
        (values, pre, _, *rest), step_options = step(rows)
        return (values, pre, None, *rest), step_options

    yield OpCase("hc_step", "from attention to MoE", layers, lambda: step, True)
    yield OpCase("hc_step", "into a layer", layers, lambda: enter, True)
    yield OpCase("hc_mix", "behind a compact prefill's kept rows", 1, lambda: mix, True)


def _query_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """Norm and rotation."""
    heads, act, layers = (config.num_attention_heads, config.head_dim), random.activations, config.num_hidden_layers

    def norm(rows: int) -> Operands:
        return (act(rows, config.q_lora_rank), act(config.q_lora_rank), config.rms_norm_eps, torch.bfloat16), {}

    def rotate(rows: int) -> Operands:
        return (act(rows, *heads), *random.angles(rows, config.qk_rope_head_dim)), {}

    yield OpCase("rms_norm", "low-rank query", layers, lambda: norm, False)
    yield OpCase("apply_rope", "query heads", layers, lambda: rotate, False)
