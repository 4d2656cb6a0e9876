"""Hyper-connections: the streams after a sublayer."""

from __future__ import annotations

import torch


def hc_write(streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """``new[j] = post[j] * out + sum_i comb[i][j] * streams[i]`` in float32, rounded once (spec/model.md 3, Write).

    Args:
        streams: bf16 or float32 [T, S, D].
        out: bf16 or float32 [T, D], the sublayer's output.
        post: float32 [T, S].
        comb: float32 [T, S, S]; its first index is contracted.

    Returns:
        [T, S, D], dtype of `streams`.
    """
    result = post.unsqueeze(-1) * out.unsqueeze(1)
    for i in range(streams.shape[1]):
        result.add_(comb[:, i].unsqueeze(-1) * streams[:, i : i + 1])
    return result.to(streams.dtype)
