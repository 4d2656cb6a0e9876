"""Random rows for the sampling kernels, and their comparison with the torch sampler, on a GPU or interpreted."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.sampling.fixed_point import draw
from deepinfer.sampling.purpose import Purpose
from deepinfer.sampling.rejection import judge_drafts
from deepinfer.sampling.rng import random_uint64
from deepinfer.sampling.row_rules import row_rule
from deepinfer.sampling.transform import transform
from deepinfer.sampling_params import SamplingParams
from tests.sampling.requests import make_request, make_sampler


def random_logits(seed: int, count: int, vocab: int) -> torch.Tensor:
    """float32 [count, vocab] of all kinds: flat, steep, tied, with -inf, with one token, with NaN and infinities."""
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
    bad = torch.rand(count, generator=gen)
    rows[bad < 0.03, vocab // 2] = torch.nan
    rows[(bad >= 0.03) & (bad < 0.06), vocab - 1] = torch.inf
    rows[(bad >= 0.06) & (bad < 0.09)] = -torch.inf
    return rows


def random_params(rng: np.random.Generator, vocab: int) -> SamplingParams:
    """Any mix of temperature and filters."""
    return SamplingParams(
        temperature=float(rng.choice([0.0, 1e-5, 0.01, 0.3, 0.7, 1.0, 2.0, 50.0, 1e30, 1e38])),
        min_p=float(rng.choice([0.0, 0.0, 1e-6, 0.02, 0.5, 1.0])),
        top_p=float(rng.choice([1.0, 1.0, 0.9, 0.5, 0.999999, 1e-9, rng.random() * 0.99 + 0.01])),
        top_k=int(rng.choice([0, 0, 1, 2, 5, 64, vocab - 1, vocab, 10 * vocab])),
    )


class Rows:
    """Rows with random parameters and keys, and what the torch sampler makes of them on the CPU.

    Attributes:
        logits: float32 [n, V + padding], the padding finite.
        rules: int64 [n, 7].
        tokens: int64 [n], -1 for a row that cannot be sampled.
        drawn: rows that are drawn.
        weights: int64 [len(drawn), V] of those.
    """

    def __init__(self, seed: int, count: int, vocab: int, padding: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.logits = torch.cat((random_logits(seed, count, vocab), torch.ones(count, padding)), dim=1)
        self.params = [random_params(rng, vocab) for _ in range(count)]
        self.keys = [(int(rng.integers(2**64, dtype=np.uint64)), int(rng.integers(2**64, dtype=np.uint64)), int(i))
                     for i in rng.integers(0, 2**31, count)]  # fmt: skip
        rules = [row_rule(p, key[0], key[1]) for p, key in zip(self.params, self.keys, strict=True)]
        self.rules = torch.from_numpy(np.stack(rules)) if rules else torch.empty((0, 7), dtype=torch.int64)
        self.rules[:, 2] = torch.tensor([key[2] for key in self.keys])
        usable = self.logits[:, :vocab]
        is_whole = torch.isfinite(self.logits.amax(dim=1)) & torch.isfinite(usable.amax(dim=1))
        self.tokens = torch.where(is_whole, usable.nan_to_num(-torch.inf).argmax(dim=1), -1)
        takes_argmax = [p.greedy or p.top_k == 1 for p in self.params]
        self.drawn = [row for row in range(count) if is_whole[row] and not takes_argmax[row]]
        self.weights = torch.empty((0, vocab), dtype=torch.int64)
        if self.drawn:
            self.weights = transform(usable[self.drawn], [self.params[row] for row in self.drawn]).weights
            self.tokens[self.drawn] = draw(self.weights, self.words(Purpose.SAMPLE))

    def words(self, purpose: Purpose, lane: int = 0) -> np.ndarray:
        """Random words of the drawn rows."""
        seeds, hashes, indices = zip(*(self.keys[row] for row in self.drawn), strict=True)
        return random_uint64(seeds, hashes, indices, purpose, lane)


def check_draws(rows: Rows, vocab: int, device: torch.device) -> None:
    """Tokens and distributions of the kernels are those of the torch sampler."""
    from tilelang_ops.sampling.draw_rows import draw_rows
    from tilelang_ops.sampling.kept_weights import kept_weights
    from tilelang_ops.sampling.row_rule import SAMPLE, stream

    logits, rules = rows.logits.to(device), rows.rules.to(device)
    drawn = draw_rows(logits, rules, vocab, stream_word=stream(SAMPLE))
    tokens = drawn.tokens.cpu()
    wrong = (tokens != rows.tokens).nonzero().flatten().tolist()
    assert not wrong, [(i, rows.params[i], int(tokens[i]), int(rows.tokens[i])) for i in wrong[:3]]
    weights = torch.full((len(rules) + 1, vocab), -1, dtype=torch.int64, device=device)
    numbers = torch.arange(len(rules), device=device)
    kept_weights(logits, rules, drawn, torch.where(numbers % 7 == 3, -1, numbers + 1), weights)
    assert (weights[0] == -1).all() and (weights[1:][3::7] == -1).all(), "no place, no weights"
    kept_weights(logits, rules, drawn, torch.where(numbers % 7 == 3, numbers + 1, -1), weights)
    kept = weights[1:].cpu()[rows.drawn]
    differ = (kept != rows.weights).any(dim=1).nonzero().flatten().tolist()
    assert not differ, [(rows.params[rows.drawn[i]], (kept[i] != rows.weights[i]).nonzero()[:5]) for i in differ[:3]]


def check_rejection(seed: int, count: int, vocab: int, device: torch.device) -> tuple[int, int]:
    """Proposals and verdicts of the kernels are those of the torch sampler; drafts are near or far from the target.

    Returns how many drafts were accepted and how many were not.
    """
    from tilelang_ops.sampling.draw_weights import draw_weights
    from tilelang_ops.sampling.judge_drafts import judge_drafts as judge
    from tilelang_ops.sampling.row_rule import DRAFT, stream

    rows = Rows(seed, count, vocab)
    gen = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(rows.drawn), vocab, generator=gen) * torch.rand(len(rows.drawn), 1, generator=gen) ** 2
    drafted = transform(rows.logits[rows.drawn] + noise, [rows.params[row] for row in rows.drawn]).weights
    equal = torch.rand(len(rows.drawn), generator=gen) < 0.2
    drafted = torch.where(equal[:, None], rows.weights, drafted).to(torch.float32)
    want = draw(drafted.to(torch.int64), rows.words(Purpose.DRAFT, 3))
    rules = rows.rules[rows.drawn].to(device)
    places, tokens = torch.arange(len(want), device=device).flip(0), torch.full_like(want, -5).to(device)
    places[::5] = -1
    draw_weights(drafted.flip(0).to(device), places, rules, tokens, stream_word=stream(DRAFT, 3))
    assert_where(places >= 0, tokens, want, -5)
    coins, words = rows.words(Purpose.ACCEPT), rows.words(Purpose.RESIDUAL)
    verdict = judge_drafts(rows.weights, drafted, want, coins, words)
    tokens = torch.full_like(tokens, -5)
    judge(rows.weights.to(device), drafted.flip(0).to(device), places, want.to(device), rules, tokens)
    assert_where(places >= 0, tokens, verdict, -5)
    num_accepted = int((verdict == want).sum())
    return num_accepted, len(want) - num_accepted


def assert_where(is_written: torch.Tensor, got: torch.Tensor, want: torch.Tensor, before: int) -> None:
    """Values `want` where they were to be written, elsewhere those of before."""
    expected = torch.where(is_written.cpu(), want, before)
    assert torch.equal(got.cpu(), expected), (got.cpu() != expected).nonzero()[:5]


def check_sampler(seed: int, count: int, vocab: int, device: torch.device) -> None:
    """The GPU's sampler gives what `Sampler` does: tokens, errors, drafts of both kinds and verdicts about them."""
    from deepinfer.sampling.cuda_sampler import CudaSampler
    from deepinfer.sampling.step_sampler import StepSampler

    rng, num_valid = np.random.default_rng(seed), vocab - 3
    logits = random_logits(seed, count, vocab)
    logits[rng.integers(0, count), -1] = torch.inf  # behind the tokenizer's ids
    given = random_logits(seed + 1, count, vocab)
    given[~torch.isfinite(given[:, :num_valid].amax(dim=1))] = 0.0
    requests = []
    for row in range(count):
        params = random_params(rng, vocab)
        extra = [{}, {}, {"logit_bias": {1: 2.0}}, {"logprobs": 1}][int(rng.integers(4))]
        fields = {name: getattr(params, name) for name in ("temperature", "min_p", "top_p", "top_k")} | extra
        requests.append(make_request(row, prompt=[row, 3], seed=int(rng.integers(2**62)), **fields))
    ids, indices = list(range(count)), [int(index) for index in rng.integers(0, 1000, count)]
    sampler = make_sampler(requests, num_valid)
    kernels = CudaSampler(make_sampler([], num_valid), device)
    for request in requests:
        kernels.add(request)
    rules, nowhere = kernels.rules(ids, indices), torch.full((count,), -1, device=device)
    drafted = StepSampler(num_valid, None).draft(given.to(device), rules, 2, nowhere)[0].tolist()
    assert drafted == sampler.draft(given, ids, [index + 2 for index in indices])
    proposed = kernels.propose(given.to(device), ids, indices, 1)
    expected = sampler.propose(given, ids, indices, 1)
    for mine, theirs in zip(proposed, expected, strict=True):
        assert mine.token_id == theirs.token_id
        assert (mine.weights is None) == (theirs.weights is None)
        assert mine.weights is None or torch.equal(mine.weights.cpu(), theirs.weights)
    for drafts in (None, [expected, proposed]):
        theirs, mine = (None, None) if drafts is None else drafts
        want = sampler.sample(logits, ids, indices, [()] * count, theirs)
        got = kernels.sample(logits.to(device), ids, indices, [()] * count, mine)
        for place, (item, other) in enumerate(zip(got, want, strict=True)):
            assert type(item) is type(other), (place, item, other)
            if isinstance(item, Exception):
                assert str(item) == str(other)
            else:
                assert (item.token_id, item.logprob, item.rank) == (other.token_id, other.logprob, other.rank), place


def check_masks(seed: int, count: int, vocab: int, device: torch.device) -> None:
    """A packed mask bans exactly the tokens whose bit is 0."""
    from tilelang_ops.sampling.mask_logits import mask_logits

    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.standard_normal((count, vocab + 5)).astype(np.float32))
    masks = rng.integers(-(2**31), 2**31, (count, -(-vocab // 32))).astype(np.int32)
    allowed = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")[:, :vocab].astype(bool)
    got = logits.to(device)
    mask_logits(got[:, :vocab], torch.from_numpy(masks).to(device))
    logits[:, :vocab].masked_fill_(torch.from_numpy(~allowed), -torch.inf)
    assert torch.equal(got.cpu(), logits)
