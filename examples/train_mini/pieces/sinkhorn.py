"""Sinkhorn normalisation, with a cheap gradient."""

from __future__ import annotations

from typing import Any

import torch

_SWEEPS = 12  # of the backward pass


class Sinkhorn(torch.autograd.Function):
    """Doubly stochastic matrices [n, S, S] from logits.

    The backward pass takes the result as converged: at the fixed point each normalisation removes the component along
    its own axis, in log space.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, rounds: int, eps: float) -> torch.Tensor:
        if logits.is_cuda:
            from examples.train_mini.pieces.sinkhorn_kernels import balance_forward

            balanced = balance_forward(logits, rounds, eps)
        else:
            balanced = _balance(logits, rounds, eps)
        ctx.save_for_backward(balanced)
        return balanced

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (balanced,) = ctx.saved_tensors
        if gradient.is_cuda:
            from examples.train_mini.pieces.sinkhorn_kernels import balance_backward

            return balance_backward(balanced, gradient, _SWEEPS), None, None
        result = gradient * balanced
        for _ in range(_SWEEPS):
            result = result - balanced * result.sum(-2, keepdim=True)
            result = result - balanced * result.sum(-1, keepdim=True)
        return result, None, None


def _balance(logits: torch.Tensor, rounds: int, eps: float) -> torch.Tensor:
    balanced = torch.softmax(logits, -1) + eps
    balanced = balanced / (balanced.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        balanced = balanced / (balanced.sum(-1, keepdim=True) + eps)
        balanced = balanced / (balanced.sum(-2, keepdim=True) + eps)
    return balanced
