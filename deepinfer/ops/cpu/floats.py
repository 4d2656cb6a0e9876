"""The kernels' side of a tensor: contiguous float32 (or int64) on the CPU."""

from __future__ import annotations

import torch


def as_floats(x: torch.Tensor) -> torch.Tensor:
    """`x` as contiguous float32; itself when it is that already. bf16 is widened exactly."""
    return x.to(torch.float32).contiguous()


def as_int64(x: torch.Tensor) -> torch.Tensor:
    """`x` as contiguous int64; itself when it is that already."""
    return x.to(torch.int64).contiguous()


def is_low_precision(dtype: torch.dtype) -> bool:
    """Whether results are to be rounded to bf16."""
    return dtype == torch.bfloat16
