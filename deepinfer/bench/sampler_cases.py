"""Sampling of plain rows by kernels: greedy, and draws with and without filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import torch

from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.sampling.draw_kinds import DrawKinds
from deepinfer.sampling.row_rules import row_rule
from deepinfer.sampling.row_words import RowWords
from deepinfer.sampling_params import SamplingParams

_LIKELY: Final = 16  # tokens of a row that stand out, as after a text; the others are noise
_PARAMS: Final = {
    "greedy": SamplingParams(temperature=0.0),
    "temperature": SamplingParams(temperature=0.8),
    "top-p": SamplingParams(temperature=0.8, top_p=0.95),
    "top-p and top-k": SamplingParams(temperature=0.8, top_p=0.95, top_k=50),
}


def sampler_cases(config: DeepSeekV41Config, random: RandomOperands) -> Iterator[OpCase]:
    """One for each kind of rows; a step of `StepBench` has the greedy one. The kernels need a GPU."""
    for use, params in _PARAMS.items():
        prepare = partial(_sample, config.vocab_size, random, params)
        yield OpCase("sample_rows", use, int(params.greedy), prepare, False, _draw)


def _draw(logits: torch.Tensor, rules: RowWords, num_ids: int) -> object:
    from deepinfer.sampling.device_draws import draw_tokens  # which loads kernels

    return draw_tokens(logits, rules, num_ids)


def _sample(vocab: int, random: RandomOperands, params: SamplingParams) -> Callable[[int], Operands]:
    def operands(rows: int) -> Operands:
        logits = random.floats(rows, vocab).mul_(2)
        likely = random.integers(vocab, rows, _LIKELY)
        logits.scatter_(1, likely, random.floats(rows, _LIKELY).mul_(3).add_(15))
        words = np.stack([row_rule(params, seed, seed) for seed in range(rows)])
        rules = RowWords(torch.from_numpy(words).to(random.device), DrawKinds.of(words, vocab))
        return (logits, rules, vocab), {}

    return operands
