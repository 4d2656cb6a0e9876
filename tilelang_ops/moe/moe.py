"""Mixture of experts: routed FP4 experts and the shared FP8 expert of a step's rows."""

import torch

from tilelang_ops.jit.arch import arch_of, is_sm100
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.combine import combine
from tilelang_ops.moe.expert_weights import ExpertWeights, Packed
from tilelang_ops.moe.few_experts import few_experts, few_specs, takes_few
from tilelang_ops.moe.shared_expert import shared_expert
from tilelang_ops.moe.stream_experts import stream_experts, stream_specs
from tilelang_ops.moe.tile_experts import tile_experts, tile_specs

_MAX_ASSIGNMENTS = 1 << 16  # of one pass: bounds its workspace, and element counts stay below 2^31


def moe(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    routed: tuple[Packed, ...],
    shared: tuple[Packed, ...] | None,
    *,
    limit: float,
    batch_invariant: bool = False,
    likely: int | None = None,
) -> torch.Tensor:
    """Sum of the chosen experts' outputs, each rounded to bf16, rank by rank, and the shared expert's; rounded once.

    Inputs and hidden vectors pass Q8/32. Weights are read as the checkpoint packs them, and nothing is densified.

    Args:
        x: bf16 [T, D] contiguous; D and I are multiples of 32.
        ids: int64 [T, k] experts, best first.
        weights: float32 [T, k].
        routed: (codes, scales) of w1, w3 and w2, see `ExpertWeights`.
        shared: the same of the shared expert, which with k = 0 is alone. None: each pick's output by itself; an id of
            -1 is no pick, and its output is whatever was there.
        limit: swiglu_limit.
        batch_invariant: one order of sums for all numbers of rows: the form for many.
        likely: about how many ids are picks, to choose the form by; None: all.

    Returns:
        bf16 [T, D]; without a shared expert [T * k, D].
    """
    rows_per_pass = max(1, _MAX_ASSIGNMENTS // max(ids.shape[1], 1))
    if x.shape[0] == 0:
        return torch.empty_like(x)
    if shared is not None and not ids.shape[1] and not batch_invariant:
        return shared_expert(x, shared, limit)
    experts = ExpertWeights(routed, shared)
    likely = ids.numel() if likely is None else likely
    if x.shape[0] <= rows_per_pass:
        return _one_pass(x, ids, weights, experts, limit, batch_invariant, likely)
    parts = zip(x.split(rows_per_pass), ids.split(rows_per_pass), weights.split(rows_per_pass), strict=True)
    same = (experts, limit, batch_invariant)
    return torch.cat([_one_pass(*part, *same, -(-likely * len(part[0]) // len(x))) for part in parts])


def _one_pass(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    experts: ExpertWeights,
    limit: float,
    batch_invariant: bool,
    likely: int,
) -> torch.Tensor:
    num_rows, top_k = ids.shape
    if not batch_invariant and takes_few(likely, experts):
        out = few_experts(x, ids, weights, experts, limit, likely)
    elif is_sm100(arch_of(x.device)):
        out = tile_experts(x, ids, weights, experts, limit, batch_invariant)
    else:
        out = stream_experts(x, ids, weights, experts, limit, likely)
    if not top_k or experts.shared is None:
        return out
    return combine(out[: num_rows * top_k].view(num_rows, top_k, -1), out[num_rows * top_k :])


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Few rows; many on SM90; many on SM100."""
    widths = sizes.hidden_size, sizes.moe_intermediate_size
    if any(width % 32 for width in widths):  # the reference op runs
        return []
    return [*few_specs(*widths), *stream_specs(*widths), *tile_specs(*widths)]
