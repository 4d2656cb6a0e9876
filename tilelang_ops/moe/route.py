"""The MoE router: scores, the best experts of each row, their weights, and how clear the choice was."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.route_logits import route_logits

_WARPS = 4
_NONE = 1 << 30  # id above every expert's


def route_kernel(arch: str, num_experts: int, top_k: int, normalize: bool) -> Any:
    """One row a warp: top_k rounds of an argmax over all lanes, and one more for the margin."""
    num_rows = T.dynamic("num_rows")
    slots = tuple(range(-(-num_experts // 32)))
    rounds = tuple(range(top_k + (1 if num_experts > top_k else 0)))
    ranks = tuple(range(top_k))

    @T.prim_func
    def route(
        logits: T.Tensor((num_rows, num_experts), "float32"),
        bias: T.Tensor((num_experts,), "float32"),
        ids: T.Tensor((num_rows, top_k), "int64"),
        weights: T.Tensor((num_rows, top_k), "float32"),
        margin: T.Tensor((num_rows,), "float32"),
        scaling: T.float32,
    ):
        with T.Kernel(T.ceildiv(num_rows, _WARPS), threads=_WARPS * 32) as block:
            thread = T.get_thread_binding()
            biased = T.alloc_local((len(slots),), "float32")
            scores = T.alloc_local((len(slots),), "float32")
            best = T.alloc_local((len(rounds),), "float32")  # biased score of each rank
            picked = T.alloc_local((len(rounds),), "int32")
            found = T.alloc_local((len(rounds),), "float32")  # its score without the bias
            terms = T.alloc_local((top_k,), "float32")
            other = T.alloc_local((1,), "float32")
            other_id = T.alloc_local((1,), "int32")
            row, lane = block * _WARPS + thread // 32, thread % 32
            for s in slots:
                biased[s] = -T.infinity("float32")
                scores[s] = 0.0
                if (row < num_rows) & (s * 32 + lane < num_experts):
                    logit = logits[row, s * 32 + lane]
                    softplus = T.max(logit, 0.0) + T.log1p(T.exp(-T.abs(logit)))
                    scores[s] = T.sqrt(softplus)
                    biased[s] = scores[s] + bias[s * 32 + lane]
            for r in rounds:
                best[r] = -T.infinity("float32")
                picked[r] = _NONE
                for s in slots:
                    if biased[s] > best[r]:
                        best[r] = biased[s]
                        picked[r] = s * 32 + lane
                for shift in (16, 8, 4, 2, 1):
                    other[0] = T.shfl_xor(best[r], shift)
                    other_id[0] = T.shfl_xor(picked[r], shift)
                    if (other[0] > best[r]) | ((other[0] == best[r]) & (other_id[0] < picked[r])):
                        best[r] = other[0]
                        picked[r] = other_id[0]
                found[r] = 0.0
                for s in slots:
                    if picked[r] == s * 32 + lane:
                        found[r] = scores[s]
                        biased[s] = -T.infinity("float32")
                found[r] = T.warp_reduce_sum(found[r])
            if (lane == 0) & (row < num_rows):
                for r in ranks:
                    terms[r] = found[r]
                for size in _tree_sizes(top_k):
                    for r in tuple(range(size[1] - size[0])):
                        terms[r] += terms[size[0] + r]
                for r in ranks:
                    # Scores that are all NaN pick nothing: an id that exists keeps later reads in bounds.
                    ids[row, r] = T.Cast("int64", T.min(picked[r], num_experts - 1))
                    weights[row, r] = (found[r] / (terms[0] + 1e-20) if normalize else found[r]) * scaling
                margin[row] = best[top_k - 1] - best[top_k] if num_experts > top_k else T.infinity("float32")

    return route


def _tree_sizes(n: int) -> tuple[tuple[int, int], ...]:
    """(half, n) of each level of the reference's `tree_sum`: terms half .. n-1 are added to the first ones."""
    levels = []
    while n > 1:
        half = 1 << ((n - 1).bit_length() - 1)
        levels.append((half, n))
        n = half
    return tuple(levels)


def route(
    x: torch.Tensor,
    gate: torch.Tensor,
    bias: torch.Tensor,
    *,
    top_k: int,
    scaling: float,
    normalize: bool,
    batch_invariant: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choose experts by ``sqrt(softplus(gate @ x)) + bias``; weigh them without the bias.

    Args:
        x: bf16 [T, D] contiguous, D a multiple of 32.
        gate: bf16 [E, D] contiguous.
        bias: float32 [E].
        top_k: experts per row, at most E.
        scaling: factor of the weights.
        normalize: whether the weights are divided by their sum (+ 1e-20) first.
        batch_invariant: one form of the product for all numbers of rows.

    Returns:
        ids int64 [T, k] best first (ties: lower id), weights float32 [T, k], margin float32 [T].
    """
    num_rows = x.shape[0]
    logits = route_logits(x, gate, batch_invariant=batch_invariant)
    ids = torch.empty((num_rows, top_k), dtype=torch.int64, device=x.device)
    weights = torch.empty((num_rows, top_k), dtype=torch.float32, device=x.device)
    margin = torch.empty((num_rows,), dtype=torch.float32, device=x.device)
    if num_rows:
        kernel = compiled(route_kernel, arch_of(x.device), num_experts=gate.shape[0], top_k=top_k, normalize=normalize)
        kernel(logits, bias, ids, weights, margin, scaling)
    return ids, weights, margin


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The main model's and the draft's experts."""
    pairs = {
        (sizes.num_experts, sizes.num_experts_per_tok),
        (sizes.draft_num_experts, sizes.draft_num_experts_per_tok),
    }
    return [
        KernelSpec("moe.route", route_kernel, {"num_experts": experts, "top_k": top_k, "normalize": True})
        for experts, top_k in sorted(pairs)
        if experts
    ]
