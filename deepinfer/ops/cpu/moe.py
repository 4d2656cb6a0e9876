"""Mixture of experts: routed experts and the shared expert."""

from __future__ import annotations

from typing import TypedDict

import torch

from deepinfer._C import cpu
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.cpu.floats import as_floats
from deepinfer.ops.cpu.native_weight import native_weight

_Matrices = tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight]


class _Options(TypedDict):
    limit: float
    quantize: bool
    act_dtype: torch.dtype


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
    likely: int | None = None,
) -> torch.Tensor:
    """As `deepinfer.ops.reference.moe`: x [T, D], ids int64 [T, k], weights float32 [T, k] -> act_dtype [T, D], or
    [T * k, D] without a shared expert.
    """
    for matrices in filter(None, ((w1, w3, w2), shared)):
        _check_sizes(x, *matrices)
    assert ids.dtype == torch.int64 and weights.dtype == torch.float32 and weights.shape == ids.shape
    routed, options = (w1, w3, w2), _Options(limit=limit, quantize=quantize, act_dtype=act_dtype)
    if shared is not None:
        return _run(context, (x, ids, weights), routed, shared, options)
    flat = ids.reshape(-1)
    picks = (flat >= 0).nonzero().squeeze(1)
    rows = (x[picks // ids.shape[1]], flat[picks, None], weights.reshape(-1)[picks, None])
    outputs = x.new_zeros((flat.shape[0], x.shape[1]), dtype=act_dtype)
    outputs[picks] = _run(context, rows, routed, None, options)
    return outputs


def _run(
    context: cpu.Context,
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    routed: _Matrices,
    shared: _Matrices | None,
    options: _Options,
) -> torch.Tensor:
    """x, ids and weights of rows -> act_dtype [T, D]; without a shared expert of one pick each."""
    x, ids, weights = as_floats(rows[0]), rows[1].contiguous(), rows[2].contiguous()
    w1, w3, w2 = map(native_weight, routed)
    shared_w1, shared_w3, shared_w2 = (None,) * 3 if shared is None else map(native_weight, shared)
    out = torch.empty_like(x)
    cpu.moe(
        context,
        x=x.data_ptr(),
        ids=ids.data_ptr(),
        weights=weights.data_ptr(),
        w1=w1,
        w3=w3,
        w2=w2,
        shared_w1=shared_w1,
        shared_w3=shared_w3,
        shared_w2=shared_w2,
        out=out.data_ptr(),
        num_rows=ids.shape[0],
        top_k=ids.shape[1],
        limit=options["limit"],
        quantizes=options["quantize"],
        rounds_bf16=options["act_dtype"] == torch.bfloat16,
    )
    return out.to(options["act_dtype"])


def _check_sizes(x: torch.Tensor, w1: QuantizedWeight, w3: QuantizedWeight, w2: QuantizedWeight) -> None:
    dim, hidden = x.shape[1], w1.out_features
    sizes = [(w.out_features, w.in_features) for w in (w1, w3, w2)]
    assert sizes == [(hidden, dim), (hidden, dim), (dim, hidden)], f"x {tuple(x.shape)}, w1, w3, w2 {sizes}"
