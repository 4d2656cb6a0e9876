"""Hyper-connections between two sublayers: write, read with norm, mix."""

from __future__ import annotations

import torch

from deepinfer.ops.primitive_ops import PrimitiveOps


def hc_step(
    ops: PrimitiveOps,
    streams: torch.Tensor,
    pre: torch.Tensor,
    update: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    weight: torch.Tensor,
    mixing: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
    out_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """`hc_write` of a sublayer's output, then `hc_read_norm` and `hc_mix` of the new streams (spec/model.md 3).

    Args:
        ops: has `hc_write`, `hc_read_norm` and `hc_mix`.
        streams: bf16 or float32 [T, S, D].
        pre: float32 [T, S] weights of the read.
        update: out [T, D], post float32 [T, S] and comb float32 [T, S, S] of the write; None: the streams stay.
        weight: bf16 or float32 [D] of the norm.
        mixing: fn float32 [S*(S+2), S*D], base float32 [S*(S+2)] and scale float32 [3].
        sinkhorn_iters: column passes of the normalisation.
        eps: hc_eps.
        norm_eps: rms_norm_eps, of the norm and of the mixing.
        out_dtype: bf16 or float32, the activation dtype.

    Returns:
        new streams like `streams` (those given, without `update`), x out_dtype [T, D] that the next sublayer reads, and
        its weights pre [T, S], post [T, S], comb [T, S, S], float32.
    """
    new = streams if update is None else ops.hc_write(streams, *update)
    x = ops.hc_read_norm(new, pre, weight, norm_eps, out_dtype)
    return new, x, *ops.hc_mix(new, *mixing, sinkhorn_iters=sinkhorn_iters, eps=eps, norm_eps=norm_eps)
