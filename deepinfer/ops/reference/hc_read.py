"""Hyper-connections: the vector a sublayer reads from the streams."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.tree_sum import tree_sum


def hc_read(streams: torch.Tensor, pre: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """``sum_i pre[i] * streams[i]`` in float32, rounded once (spec/model.md 3, Read).

    Args:
        streams: bf16 or float32 [T, S, D].
        pre: float32 [T, S].
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, D].
    """
    return tree_sum(streams * pre.unsqueeze(-1), dim=1).to(out_dtype)
