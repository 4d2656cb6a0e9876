"""The native sampling kernels give the tokens, ranks and log-probabilities of the torch code, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.argmax_rows import argmax_rows
from deepinfer.ops.cpu.draw_rows import draw_rows
from deepinfer.ops.cpu.score_tokens import score_tokens
from deepinfer.sampling.fixed_point import FRACTION_BITS, draw
from deepinfer.sampling.logprobs import log_softmax
from deepinfer.sampling.token_order import ranks_of
from deepinfer.sampling.transform import transform
from deepinfer.sampling_params import SamplingParams

CONTEXT = cpu.Context(2)
ISAS = ["scalar", "avx2", "avx512", "avx512_bf16"]


def _context(isa: str) -> cpu.Context:
    try:
        return cpu.Context(1, isa)
    except ValueError as error:
        pytest.skip(str(error))


def _rows(seed: int, count: int, vocab: int) -> torch.Tensor:
    """Rows of all kinds: flat, steep, tied, with -inf, with one token."""
    gen = torch.Generator().manual_seed(seed)
    spread = torch.tensor([0.0, 1e-30, 0.3, 3.0, 30.0, 1e4])[torch.randint(0, 6, (count, 1), generator=gen)]
    rows = torch.randn(count, vocab, generator=gen) * spread
    tied = torch.rand(count, 1, generator=gen) < 0.3
    rows = torch.where(tied, (rows * 2).round() / 2, rows)
    banned = torch.rand(count, vocab, generator=gen) < torch.rand(count, 1, generator=gen) ** 3
    rows = rows.masked_fill(banned, -torch.inf)
    rows[:, int(torch.randint(0, vocab, (1,), generator=gen))] = 0.25  # each row keeps a finite maximum
    rows[torch.rand(count, generator=gen) < 0.1] *= -1.0
    rows[rows == torch.inf] = -0.0
    return rows


def _params(rng: np.random.Generator, vocab: int) -> SamplingParams:
    return SamplingParams(
        temperature=float(rng.choice([1e-5, 0.01, 0.3, 0.7, 1.0, 2.0, 50.0, 1e30, 1e38])),
        min_p=float(rng.choice([0.0, 0.0, 1e-6, 0.02, 0.5, 1.0])),
        top_p=float(rng.choice([1.0, 1.0, 0.9, 0.5, 0.999999, 1e-9, rng.random() * 0.99 + 0.01])),
        top_k=int(rng.choice([0, 0, 2, 5, 64, vocab - 1, vocab, 10 * vocab])),
    )


def _draw_row(params: SamplingParams, word: int) -> cpu.DrawRow:
    return cpu.DrawRow(
        temperature=min(params.temperature, 1e30),
        min_weight=int(params.min_p * 2**FRACTION_BITS),
        top_p=params.top_p,
        top_k=params.top_k,
        word=word,
    )


def _check(context: cpu.Context, seed: int, count: int, vocab: int) -> None:
    rng = np.random.default_rng(seed)
    logits, params = _rows(seed, count, vocab), [_params(rng, vocab) for _ in range(count)]
    words = rng.integers(0, 2**64, count, dtype=np.uint64)
    words[: count // 8] = np.where(words[: count // 8] % np.uint64(2), np.uint64(2**64 - 1), np.uint64(0))
    distribution = transform(logits, params)
    want = draw(distribution.weights, words)
    padded = torch.full((count, vocab + 3), torch.nan)
    padded[:, :vocab] = logits
    rows = [_draw_row(p, int(word)) for p, word in zip(params, words, strict=True)]
    got, logprobs = draw_rows(context, padded[:, :vocab], rows)
    wrong = (got != want).nonzero().flatten().tolist()
    assert not wrong, [(params[i], int(got[i]), int(want[i])) for i in wrong[:3]]
    assert torch.equal(logprobs, distribution.log_probs().gather(1, want[:, None])[:, 0])


@pytest.mark.parametrize("vocab", [2, 15, 16, 50, 700, 4096])
def test_draws_are_those_of_torch(vocab: int):
    for seed in range(4):
        _check(CONTEXT, seed * 100 + vocab, 200 if vocab < 4096 else 60, vocab)


@pytest.mark.parametrize("isa", ISAS)
def test_draws_on_every_instruction_set(isa: str):
    _check(_context(isa), 7, 100, 300)


def test_a_large_vocabulary():
    _check(CONTEXT, 11, 6, 129_280)


def test_too_many_ids():
    with pytest.raises(ValueError, match="num_ids = 4194305"):
        draw_rows(CONTEXT, torch.zeros(1, 2**22 + 1), [_draw_row(SamplingParams(), 0)])


@pytest.mark.parametrize("vocab", [1, 2, 31, 32, 33, 5000])
def test_argmax(vocab: int):
    logits = _rows(vocab, 300, vocab)
    logits[0], logits[1, 0], logits[2] = torch.nan, torch.inf, -torch.inf
    logits[3, vocab - 1] = torch.nan
    logits[4] = 0.0
    logits[4, vocab // 2 :] = -0.0
    tokens, is_finite = argmax_rows(CONTEXT, logits)
    assert torch.equal(is_finite, torch.isfinite(logits.amax(dim=-1)))
    assert torch.equal(tokens[is_finite], logits.argmax(dim=-1)[is_finite])


@pytest.mark.parametrize(("vocab", "num_ids"), [(1, 1), (17, 15), (64, 64), (4096, 3262)])
def test_raw_scores(vocab: int, num_ids: int):
    logits = _rows(vocab, 100, vocab)
    ids = torch.randint(0, num_ids, (100,), generator=torch.Generator().manual_seed(0))
    logprobs, ranks = score_tokens(CONTEXT, logits, ids, num_ids)
    assert torch.equal(logprobs, log_softmax(logits).gather(1, ids[:, None])[:, 0])
    assert torch.equal(ranks, ranks_of(logits[:, :num_ids], ids))
