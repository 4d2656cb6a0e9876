"""The op contract over TileLang kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.cuda.rms_norm import rms_norm

_OPS = (rms_norm,)


def cuda_ops(batch_invariant: bool) -> Ops:
    """`deepinfer.ops.Ops` for CUDA tensors; arguments and results are described there.

    Kernels are written for bf16 activations (numerics "official"). In the float32 modes, and for cache formats that
    are not packed, an op takes the reference's form, which runs on a GPU too.

    Args:
        batch_invariant: every op then has one form for all numbers of rows.
    """
    bound = {function.__name__: function for function in _OPS}
    names = [name for name in vars(Ops) if not name.startswith("_")]
    return cast(Ops, SimpleNamespace(**{name: bound.get(name, getattr(reference, name)) for name in names}))
