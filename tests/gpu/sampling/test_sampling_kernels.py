"""Sampling kernels against the torch sampler on the CPU: the same tokens and distributions, bit for bit."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.gpu.poison import poisoned_memory
from tests.sampling.draft_loop import check_draft_loop
from tests.sampling.kernel_rows import Rows, check_draws, check_masks, check_rejection, check_sampler, random_logits
from tests.sampling.requests import make_request, make_sampler

_SEEDS = itertools.count(secrets.randbelow(2**31))


@pytest.mark.parametrize(
    ("count", "vocab", "padding"),
    [(0, 50, 0), (1, 2, 0), (300, 50, 3), (200, 4096, 0), (100, 3262, 834), (100, 4097, 63), (40, 129_280, 0)],
)
def test_draws(device: torch.device, count: int, vocab: int, padding: int):
    for _ in range(2):
        seed = next(_SEEDS)
        print("seed", seed)
        rows = Rows(seed, count, vocab, padding)
        with poisoned_memory():
            for _ in range(3):
                check_draws(rows, vocab, device)


@pytest.mark.parametrize(("count", "vocab"), [(300, 50), (100, 4096), (32, 129_280)])
def test_rejection(device: torch.device, count: int, vocab: int):
    for _ in range(3):
        seed = next(_SEEDS)
        print("seed", seed)
        assert min(check_rejection(seed, count, vocab, device)) > 0


@pytest.mark.parametrize(("count", "vocab"), [(0, 5), (1, 1), (3, 33), (17, 4096), (9, 129_280)])
def test_masks(device: torch.device, count: int, vocab: int):
    check_masks(next(_SEEDS), count, vocab, device)


@pytest.mark.parametrize(("count", "vocab"), [(1, 50), (300, 50), (100, 4096), (24, 129_280)])
def test_sampler(device: torch.device, count: int, vocab: int):
    for _ in range(2):
        seed = next(_SEEDS)
        print("seed", seed)
        check_sampler(seed, count, vocab, device)


@pytest.mark.parametrize(("count", "vocab"), [(1, 20), (40, 1000)])
def test_draft_loop(device: torch.device, count: int, vocab: int):
    for _ in range(2):
        seed = next(_SEEDS)
        print("seed", seed)
        check_draft_loop(seed, count, vocab, device)


def test_every_rule_of_a_row_on_the_gpu(device: torch.device):
    """Bans, bias, penalties and a grammar's mask change logits on the GPU as they do on the CPU."""
    from deepinfer.sampling.cuda_sampler import CudaSampler

    rng, vocab, num_valid = np.random.default_rng(next(_SEEDS)), 200, 197
    rules = {
        "allowed_token_ids": sorted(int(i) for i in rng.choice(num_valid, 100, replace=False)),
        "logit_bias": {int(i): float(rng.standard_normal()) for i in rng.choice(num_valid, 20, replace=False)},
        "presence_penalty": 0.3,
        "frequency_penalty": 0.7,
        "repetition_penalty": 1.3,
        "min_tokens": 5,
        "first_n_token_no_eos": 5,
        "logprobs": 3,
        "temperature": 0.8,
        "top_p": 0.9,
    }
    generated = [int(token) for token in rng.integers(0, vocab, 4)]
    matcher = MaskMatcher(rng.integers(-(2**31), 2**31, -(-vocab // 32)).astype(np.int32))
    for names in (*([name] for name in rules), list(rules)):
        for new_matcher in (None, lambda: matcher):
            request = make_request(0, prompt=[3, 5], stop_token_ids=[7], **{name: rules[name] for name in names})
            request = replace(request, new_matcher=new_matcher)
            logits = random_logits(next(_SEEDS), 1, vocab).nan_to_num(0.0).clamp(-50.0, 50.0)
            results = []
            for place in (torch.device("cpu"), device):
                matcher.num_accepted = len(generated)
                sampler = CudaSampler(make_sampler([], num_valid, [9]), place) if place == device else None
                sampler = sampler or make_sampler([], num_valid, [9])
                sampler.add(request)
                results.append(sampler.sample(logits.to(place), [0], [len(generated)], [generated])[0])
            mine, theirs = results[1], results[0]
            assert (mine.token_id, mine.logprob, mine.rank) == (theirs.token_id, theirs.logprob, theirs.rank), names


class MaskMatcher:
    """A grammar that always allows the same tokens."""

    is_constrained, is_complete, is_terminated = True, False, False

    def __init__(self, mask: np.ndarray) -> None:
        self.num_accepted = 0
        self._mask = mask

    def fill_mask(self, mask: np.ndarray) -> bool:
        mask[:] = self._mask[: len(mask)]
        return True

    def accept(self, token_id: int) -> bool:
        self.num_accepted += 1
        return True

    def rollback(self, num_tokens: int) -> None:
        self.num_accepted -= num_tokens
