"""Mixture of experts: routed experts and the shared expert."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.cpu.floats import as_floats
from deepinfer.ops.cpu.native_weight import native_weight


def moe(
    context: cpu.Context,
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w1: QuantizedWeight,
    w3: QuantizedWeight,
    w2: QuantizedWeight,
    shared: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight] | None,
    *,
    limit: float,
    quantize: bool,
    act_dtype: torch.dtype,
) -> torch.Tensor:
    """As `deepinfer.ops.reference.moe`: x [T, D], ids int64 [T, k], weights float32 [T, k] -> act_dtype [T, D]."""
    for matrices in filter(None, ((w1, w3, w2), shared)):
        _check_sizes(x, *matrices)
    num_rows, top_k = ids.shape
    assert ids.dtype == torch.int64 and weights.dtype == torch.float32 and weights.shape == ids.shape
    x, ids, weights = as_floats(x), ids.contiguous(), weights.contiguous()
    shared_w1, shared_w3, shared_w2 = (None,) * 3 if shared is None else map(native_weight, shared)
    out = torch.empty_like(x)
    cpu.moe(
        context,
        x=x.data_ptr(),
        ids=ids.data_ptr(),
        weights=weights.data_ptr(),
        w1=native_weight(w1),
        w3=native_weight(w3),
        w2=native_weight(w2),
        shared_w1=shared_w1,
        shared_w3=shared_w3,
        shared_w2=shared_w2,
        out=out.data_ptr(),
        num_rows=num_rows,
        top_k=top_k,
        limit=limit,
        quantizes=quantize,
        rounds_bf16=act_dtype == torch.bfloat16,
    )
    return out.to(act_dtype)


def _check_sizes(x: torch.Tensor, w1: QuantizedWeight, w3: QuantizedWeight, w2: QuantizedWeight) -> None:
    dim, hidden = x.shape[1], w1.out_features
    sizes = [(w.out_features, w.in_features) for w in (w1, w3, w2)]
    assert sizes == [(hidden, dim), (hidden, dim), (dim, hidden)], f"x {tuple(x.shape)}, w1, w3, w2 {sizes}"
