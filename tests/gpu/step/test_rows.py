"""Rows of decode plans, and their maps, on a GPU: the reference's, bit for bit, with outputs poisoned before."""

from __future__ import annotations

import itertools
import secrets

import pytest
import torch

from deepinfer.worker.eager_calls import EagerCalls
from tests.worker.decode_chains import Resolver, check_chain
from tests.worker.decode_maps import check_maps, check_resolved

pytest.importorskip("tilelang")
pytest.importorskip("triton")

_SEEDS = itertools.count(secrets.randbelow(2**31))


def test_chains(device: torch.device):
    from deepinfer.ops.cuda.cuda_ops import cuda_ops

    resolver = Resolver(device, EagerCalls(), cuda_ops(False))
    for seed in itertools.islice(_SEEDS, 30):
        print("seed", seed)
        check_chain(seed, resolver, num_links=5)


@pytest.mark.parametrize(
    "sizes",
    [(1, 0, 0, 1), (1, 5, 3, 6), (3, 0, 2, 5), (5, 4, 0, 9), (64, 5, 3, 200), (700, 1, 3, 703), (1200, 3, 2, 2400)],
)
def test_resolved(device: torch.device, sizes: tuple[int, int, int, int]):
    """Sequences, drafts, look-back, rows."""
    from deepinfer.ops.cuda.cuda_ops import cuda_ops

    for seed in itertools.islice(_SEEDS, 6):
        print("seed", seed)
        check_resolved(seed, sizes, cuda_ops(False), device)


@pytest.mark.parametrize("count", [0, 1, 3, 8, 77, 1000])
def test_maps(device: torch.device, count: int):
    from deepinfer.ops.cuda.cuda_ops import cuda_ops

    for seed in itertools.islice(_SEEDS, 3):
        print("seed", seed)
        check_maps(seed, count, cuda_ops(False), device)
