"""Hyper-connections: the streams after a sublayer."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.bmm_rows import bmm_rows


def hc_write(streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """``new[j] = post[j] * out + sum_i comb[i][j] * streams[i]`` in float32, rounded once (spec/model.md 3, Write).

    Every row is a product of its own, [S, S] x [S, D], so rows are independent.

    Args:
        streams: bf16 or float32 [T, S, D].
        out: bf16 or float32 [T, D], the sublayer's output.
        post: float32 [T, S].
        comb: float32 [T, S, S]; its first index is contracted.

    Returns:
        [T, S, D], dtype of `streams`.
    """
    size = streams.shape[1]
    streams_f32, padding = streams.to(torch.float32), -size % 4
    if padding:  # unaligned rows may take another code path
        streams_f32, post = F.pad(streams_f32, (0, 0, 0, padding)), F.pad(post, (0, padding))
        comb = F.pad(comb, (0, padding, 0, padding))
    own = post.unsqueeze(-1) * out.unsqueeze(1)
    return bmm_rows(comb.transpose(1, 2), streams_f32, own)[:, :size].to(streams.dtype)
