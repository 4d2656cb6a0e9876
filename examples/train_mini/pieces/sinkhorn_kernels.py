"""Sinkhorn normalisation of 4x4 matrices and its gradient as Triton kernels. Needs a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_MATRICES_PER_BLOCK = 128


@triton.jit
def _forward(a_ptr, m_ptr, n, eps, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offsets = t[:, None, None] * 16 + tl.arange(0, 4)[None, :, None] * 4 + tl.arange(0, 4)[None, None, :]
    is_there = (t < n)[:, None, None]
    a = tl.load(a_ptr + offsets, mask=is_there, other=0.0)
    m = tl.exp(a - tl.max(a, axis=2, keep_dims=True))
    m = m / tl.sum(m, axis=2, keep_dims=True) + eps
    m = m / (tl.sum(m, axis=1, keep_dims=True) + eps)
    for _ in tl.static_range(ROUNDS - 1):
        m = m / (tl.sum(m, axis=2, keep_dims=True) + eps)
        m = m / (tl.sum(m, axis=1, keep_dims=True) + eps)
    tl.store(m_ptr + offsets, m, mask=is_there)


@triton.jit
def _backward(m_ptr, g_ptr, o_ptr, n, SWEEPS: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offsets = t[:, None, None] * 16 + tl.arange(0, 4)[None, :, None] * 4 + tl.arange(0, 4)[None, None, :]
    is_there = (t < n)[:, None, None]
    m = tl.load(m_ptr + offsets, mask=is_there, other=0.25)
    g = tl.load(g_ptr + offsets, mask=is_there, other=0.0) * m
    for _ in tl.static_range(SWEEPS):
        g = g - m * tl.sum(g, axis=1, keep_dims=True)
        g = g - m * tl.sum(g, axis=2, keep_dims=True)
    tl.store(o_ptr + offsets, g, mask=is_there)


def balance_forward(logits: torch.Tensor, rounds: int, eps: float) -> torch.Tensor:
    """logits float32 [n, 4, 4] -> like it."""
    logits = logits.contiguous()
    balanced, count = torch.empty_like(logits), logits.shape[0]
    grid = (triton.cdiv(count, _MATRICES_PER_BLOCK),)
    _forward[grid](logits, balanced, count, eps, rounds, _MATRICES_PER_BLOCK)
    return balanced


def balance_backward(balanced: torch.Tensor, gradient: torch.Tensor, sweeps: int) -> torch.Tensor:
    """balanced and gradient float32 [n, 4, 4] -> gradient of the logits."""
    gradient = gradient.contiguous()
    result, count = torch.empty_like(balanced), balanced.shape[0]
    grid = (triton.cdiv(count, _MATRICES_PER_BLOCK),)
    _backward[grid](balanced, gradient, result, count, sweeps, _MATRICES_PER_BLOCK)
    return result
