"""Mixture of experts: routed experts and the shared expert."""

from __future__ import annotations

from typing import TypedDict

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.reference.expert_layout import ExpertLayout
from deepinfer.ops.reference.expert_matmul import expert_matmul
from deepinfer.ops.reference.expert_mlp import expert_mlp
from deepinfer.ops.reference.gated_hidden import gated_hidden
from deepinfer.ops.reference.quantized_linear import quantized_linear
from deepinfer.ops.reference.round_vectors import round_vectors
from deepinfer.ops.reference.sum_experts import sum_experts


class _Options(TypedDict):
    limit: float
    quantize: bool
    act_dtype: torch.dtype


def moe(
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
    """Sum of the chosen experts' outputs and the shared expert's (spec/model.md 8).

    Each expert's output is rounded to act_dtype; they are added in float32, rank by rank (best first), then the shared
    expert; one rounding at the end.

    Args:
        x: bf16 or float32 [T, D].
        ids: int64 [T, k] experts, best first; k = 0 for the shared expert alone.
        weights: float32 [T, k].
        w1: gate stack [E, I, D].
        w3: up stack [E, I, D].
        w2: down stack [E, D, I].
        shared: (w1, w3, w2) of the shared expert, of the same sizes. None: each pick's output by itself, [T * k, D]; an
            id of -1 is no pick, and gets zeros.
        limit: swiglu_limit.
        quantize: whether inputs and hidden vectors pass Q8/32.
        act_dtype: bf16 or float32.
        likely: how many ids are picks, about; a hint that is not needed here.

    Returns:
        act_dtype [T, D], or [T * k, D] without a shared expert.
    """
    num_rows, top_k = ids.shape
    if num_rows == 0:
        return x.to(act_dtype)
    x = round_vectors(x, KVRounding.FP8_GROUP32 if quantize else KVRounding.NONE)
    options: _Options = {"limit": limit, "quantize": quantize, "act_dtype": act_dtype}
    if shared is None:
        return _routed(x, ids, weights, (w1, w3, w2), options)
    if top_k == 0:
        return expert_mlp(x, *shared, None, **options).to(act_dtype)
    layout = ExpertLayout.from_assignments(ids.reshape(-1), w1.codes.shape[0])
    rows = x.repeat_interleave(top_k, 0)
    gate, up = expert_matmul(rows, (w1, w3), layout)
    # The shared expert's rows follow the routed ones through the elementwise part, with weight one.
    shared_gate = quantized_linear(x, shared[0], quantize=False, out_dtype=torch.float32)
    shared_up = quantized_linear(x, shared[1], quantize=False, out_dtype=torch.float32)
    row_weight = torch.cat((weights.reshape(-1), weights.new_ones(num_rows)))
    hidden = gated_hidden(torch.cat((gate, shared_gate)), torch.cat((up, shared_up)), row_weight, **options)
    (routed,) = expert_matmul(hidden[: num_rows * top_k], (w2,), layout)
    routed = routed.to(act_dtype).view(num_rows, top_k, -1)
    down = quantized_linear(hidden[num_rows * top_k :], shared[2], quantize=False, out_dtype=act_dtype)
    return sum_experts(routed, down)


def _routed(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    stacks: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight],
    options: _Options,
) -> torch.Tensor:
    """Outputs act_dtype [T * k, D] of each pick, ids [T, k], for rows that have passed Q8/32; zeros for an id of -1."""
    ids, top_k = ids.reshape(-1), ids.shape[1]
    outputs = x.new_zeros((ids.shape[0], x.shape[1]), dtype=options["act_dtype"])
    picks = (ids >= 0).nonzero().squeeze(1)
    if picks.shape[0]:
        layout = ExpertLayout.from_assignments(ids[picks], stacks[0].codes.shape[0])
        gate, up = expert_matmul(x[picks // top_k], stacks[:2], layout)
        hidden = gated_hidden(gate, up, weights.reshape(-1)[picks], **options)
        (routed,) = expert_matmul(hidden, stacks[2:], layout)
        outputs[picks] = routed.to(options["act_dtype"])
    return outputs
