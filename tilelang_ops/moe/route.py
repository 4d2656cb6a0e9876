"""The MoE router: scores, the best experts of each row, their weights, and how clear the choice was."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.route_logits import FEW_ROWS, num_splits, route_logits

_LANES = 32
_MANY = 4  # rows of a block where there are many, a warp each
_MOST_THREADS = 512
_NONE = 1 << 30  # id above every expert's
_LEAST = -(1 << 31)  # key of what cannot be chosen


def route_kernel(arch: str, num_experts: int, top_k: int, normalize: bool, splits: int, rows: int) -> Any:
    """The block adds up the logits and scores the experts; then one warp a row makes top_k rounds of an argmax over its
    lanes, and one more for the margin. Keys are integers in the order of the floats, which the lanes compare in one
    instruction.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        num_experts: E.
        top_k: experts per row, at most E.
        normalize: whether the weights are divided by their sum.
        splits: parts of a logit.
        rows: of a block.
    """
    num_rows = T.dynamic("num_rows")
    slots = tuple(range(-(-num_experts // _LANES)))
    rounds = tuple(range(top_k + (1 if num_experts > top_k else 0)))
    ranks = tuple(range(top_k))
    threads = _LANES * (_MANY if rows > 1 else min(_MOST_THREADS // _LANES, len(slots)))
    places = rows * num_experts

    @T.macro
    def score(logits: Any, bias: Any, scores: Any, biased: Any, block: Any, num_rows: Any, thread: Any) -> None:
        """Scores of all experts of the block's rows, without and with the bias."""
        parts = T.alloc_local((splits,), "float32")
        logit = T.alloc_var("float32")
        for i in T.unroll(-(-places // threads)):
            place = i * threads + thread
            row, expert = block * rows + place // num_experts, place % num_experts
            if place < places and row < num_rows:
                for z in T.unroll(splits):
                    parts[z] = logits[row, z, expert]
                logit = parts[0]
                for z in T.unroll(1, splits):
                    logit = logit + parts[z]
                softplus = T.max(logit, 0.0) + T.log1p(T.exp(-T.abs(logit)))
                scores[place // num_experts, expert] = T.sqrt(softplus)
                biased[place // num_experts, expert] = T.sqrt(softplus) + bias[expert]

    @T.prim_func
    def route(
        logits: T.Tensor((num_rows, splits, num_experts), "float32"),
        bias: T.Tensor((num_experts,), "float32"),
        ids: T.Tensor((num_rows, top_k), "int64"),
        weights: T.Tensor((num_rows, top_k), "float32"),
        margin: T.Tensor((num_rows,), "float32"),
        scaling: T.float32,
    ):
        with T.Kernel(T.ceildiv(num_rows, rows), threads=threads) as block:
            scores = T.alloc_shared((rows, num_experts), "float32")
            biased = T.alloc_shared((rows, num_experts), "float32")
            keys = T.alloc_local((len(slots),), "int32")
            picked = T.alloc_local((len(rounds),), "int32")
            found = T.alloc_local((top_k,), "float32")  # its score without the bias
            terms = T.alloc_local((top_k,), "float32")
            clear = T.alloc_local((2,), "float32")  # biased scores of the last choice and the next one
            best = T.alloc_var("int32")
            best_id = T.alloc_var("int32")
            top = T.alloc_var("int32")
            bits = T.alloc_var("int32")
            thread = T.get_thread_binding()
            lane, warp = thread % _LANES, thread // _LANES
            row = block * rows + warp
            score(logits, bias, scores, biased, block, num_rows, thread)
            T.sync_threads()
            if warp < rows and row < num_rows:
                for s in slots:
                    keys[s] = _LEAST
                    if s * _LANES + lane < num_experts and biased[warp, s * _LANES + lane] > -T.infinity("float32"):
                        bits = T.reinterpret(biased[warp, s * _LANES + lane], "int32")
                        keys[s] = bits ^ ((bits >> 31) & 0x7FFFFFFF)
                for r in rounds:
                    best = _LEAST
                    best_id = _NONE
                    for s in slots:
                        if keys[s] > best:
                            best = keys[s]
                            best_id = s * _LANES + lane
                    top = T.warp_reduce_max(best)
                    picked[r] = T.warp_reduce_min(T.if_then_else(best == top, best_id, _NONE))
                    for s in slots:
                        if picked[r] == s * _LANES + lane:
                            keys[s] = _LEAST
                if lane == 0:
                    for r in ranks:
                        found[r] = 0.0
                        if picked[r] < num_experts:
                            found[r] = scores[warp, picked[r]]
                        terms[r] = found[r]
                    for size in _tree_sizes(top_k):
                        for r in tuple(range(size[1] - size[0])):
                            terms[r] += terms[size[0] + r]
                    for r in ranks:
                        # Scores that are all NaN pick nothing: an id that exists keeps later reads in bounds.
                        ids[row, r] = T.Cast("int64", T.min(picked[r], num_experts - 1))
                        weights[row, r] = (found[r] / (terms[0] + 1e-20) if normalize else found[r]) * scaling
                    margin[row] = T.infinity("float32")
                    if num_experts > top_k:
                        for n in tuple(range(2)):
                            clear[n] = -T.infinity("float32")
                            if picked[len(rounds) - 2 + n] < num_experts:
                                clear[n] = biased[warp, picked[len(rounds) - 2 + n]]
                        margin[row] = clear[0] - clear[1]

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
        statics = {"num_experts": gate.shape[0], "top_k": top_k, "normalize": normalize, "splits": logits.shape[1]}
        rows = _MANY if num_rows > FEW_ROWS else 1
        compiled(route_kernel, arch_of(x.device), **statics, rows=rows)(logits, bias, ids, weights, margin, scaling)
    return ids, weights, margin


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The main model's and the draft's experts."""
    pairs = {
        (sizes.num_experts, sizes.num_experts_per_tok),
        (sizes.draft_num_experts, sizes.draft_num_experts_per_tok),
    }
    forms = {(num_splits(sizes.hidden_size), 1), (1, 1), (1, _MANY)}
    return [
        KernelSpec(
            "moe.route",
            route_kernel,
            {"num_experts": experts, "top_k": top_k, "normalize": True, "splits": splits, "rows": rows},
        )
        for experts, top_k in sorted(pairs)
        if experts
        for splits, rows in sorted(forms)
    ]
