"""Hyper-connections: the read, write and mixing weights of one sublayer."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.exact_math import exp
from deepinfer.ops.reference.matmul import matmul_rows
from deepinfer.ops.reference.row_dot import row_dot
from deepinfer.ops.reference.sinkhorn import sinkhorn


def hc_mix(
    streams: torch.Tensor,
    fn: torch.Tensor,
    base: torch.Tensor,
    scale: torch.Tensor,
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``m = (fn @ f) * rsqrt(mean(f^2) + norm_eps)`` of the flattened streams, then gates (spec/model.md 3).

    pre = sigmoid(m * scale0 + base) + eps; post = 2 sigmoid(m * scale1 + base); comb = sinkhorn(m * scale2 + base).

    Args:
        streams: bf16 or float32 [T, S, D].
        fn: float32 [S*(S+2), S*D].
        base: float32 [S*(S+2)].
        scale: float32 [3].
        sinkhorn_iters: column passes of the normalisation.
        eps: hc_eps.
        norm_eps: rms_norm_eps.

    Returns:
        pre [T, S], post [T, S], comb [T, S, S], float32; comb's first index is contracted by `hc_write`.
    """
    num_rows, size, dim = streams.shape
    f = streams.to(torch.float32).reshape(num_rows, size * dim)
    norm = row_dot(f, f).div_(size * dim).add_(norm_eps).rsqrt_().unsqueeze(1)
    scales = torch.cat((scale[0:1].expand(size), scale[1:2].expand(size), scale[2:3].expand(size * size)))
    m = matmul_rows(f, fn).mul_(norm).mul_(scales).add_(base)
    # One exponential for both uses: e^-m for the sigmoids and e^(m - row maximum) for the softmax.
    gates, matrix = m[:, : 2 * size], m[:, 2 * size :].view(num_rows, size, size)
    gates.neg_()
    matrix.sub_(matrix.amax(-1, keepdim=True))
    e = exp(m)
    sigmoid = e[:, : 2 * size].add(1.0).reciprocal_()
    comb = sinkhorn(e[:, 2 * size :].view(num_rows, size, size), iters=sinkhorn_iters, eps=eps)
    return sigmoid[:, :size] + eps, sigmoid[:, size:] * 2.0, comb
