"""The op contract over TileLang kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.cuda.grouped_linear import grouped_linear
from deepinfer.ops.cuda.linear import linear
from deepinfer.ops.cuda.quantized_linear import quantized_linear
from deepinfer.ops.cuda.rms_norm import rms_norm
from deepinfer.ops.cuda.rotate_grouped_linear import rotate_grouped_linear

_OPS = (rms_norm,)
_PRODUCTS = (grouped_linear, linear, quantized_linear, rotate_grouped_linear)  # with forms for few and many rows


def cuda_ops(batch_invariant: bool) -> Ops:
    """`deepinfer.ops.Ops` for CUDA tensors; arguments and results are described there.

    Kernels are written for bf16 activations (numerics "official"). In the float32 modes, and for cache formats that
    are not packed, an op takes the reference's form, which runs on a GPU too.

    Args:
        batch_invariant: every op then has one form for all numbers of rows.
    """
    bound: dict[str, Callable[..., Any]] = {function.__name__: function for function in _OPS}
    bound |= {function.__name__: partial(function, batch_invariant) for function in _PRODUCTS}
    names = [name for name in vars(Ops) if not name.startswith("_")]
    return cast(Ops, SimpleNamespace(**{name: bound.get(name, getattr(reference, name)) for name in names}))
