"""Sampling kernels against the torch sampler on the CPU: the same tokens and distributions, bit for bit."""

from __future__ import annotations

import itertools
import secrets

import pytest
import torch

from tests.gpu.poison import poisoned_memory
from tests.sampling.kernel_rows import Rows, check_draws, check_masks, check_rejection, check_sampler

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
