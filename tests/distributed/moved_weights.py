"""Runs on a rank: weights that tell which expert they are of, through a chain of random placements."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.distributed.expert_balancer import ExpertBalancer
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.rank_groups import RankGroups
from tests.distributed.rank_world import device_of


def follow_placements(rank: int, kind: str, size: int, num_experts: int, num_redundant: int) -> int:
    """Move two layers through random placements; AssertionError at the first wrong weight. Weights moved in all."""
    device = device_of(kind, rank)
    comm = RankGroups.join(ParallelConfig(size, expert_parallel_size=size), rank, device).experts
    assert comm is not None
    layers = [ExpertExchange(comm, num_experts, num_redundant, device) for _ in range(2)]
    for layer, exchange in enumerate(layers):
        exchange.weights = expected(exchange.own_experts, layer, device)
    balancer = ExpertBalancer(comm, layers, interval=100, num_steps=4)
    rng = np.random.default_rng(5)  # the same on every rank
    num_places = layers[0].placement.num_physical
    for _ in range(8):
        rows = [rng.permutation(num_experts).tolist() for _ in layers]
        rows = [rng.permutation(row + rng.integers(0, num_experts, num_places - num_experts).tolist()) for row in rows]
        balancer.move(ExpertPlacement.of_physical(np.stack(rows), num_experts, size))
        for layer, exchange in enumerate(layers):
            own = rows[layer][rank * len(exchange.own_experts) :][: len(exchange.own_experts)].tolist()
            assert exchange.own_experts == own
            for got, want in zip(exchange.weights, expected(own, layer, device), strict=True):
                assert torch.equal(got.float(), want.float()), (rank, layer)
    return balancer.num_moved


def expected(experts: list[int], layer: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Weights of experts: bytes, and bf16 of another shape."""
    numbers = torch.tensor(experts, device=device)
    codes = (10 * numbers + layer).to(torch.uint8)[:, None].repeat(1, 7)
    return codes, (numbers + 100.0 * layer).to(torch.bfloat16)[:, None, None].repeat(1, 3, 2)
