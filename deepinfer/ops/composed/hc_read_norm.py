"""Hyper-connections: the normed vector that a sublayer reads from the streams."""

from __future__ import annotations

import torch

from deepinfer.ops.primitive_ops import PrimitiveOps


def hc_read_norm(
    ops: PrimitiveOps,
    streams: torch.Tensor,
    pre: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """`hc_read`, rounded to the activation dtype, then `rms_norm` (spec/model.md 3).

    Args:
        ops: has `hc_read` and `rms_norm`.
        streams: bf16 or float32 [T, S, D].
        pre: float32 [T, S].
        weight: bf16 or float32 [D] of the norm.
        eps: added to the mean square.
        out_dtype: bf16 or float32, the activation dtype.

    Returns:
        out_dtype [T, D].
    """
    return ops.rms_norm(ops.hc_read(streams, pre, out_dtype), weight, eps, out_dtype)
