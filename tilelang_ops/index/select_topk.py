"""The best entries (or blocks) of every row, exactly, in ascending order."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 1024
_WARPS = _THREADS // 32  # as many as a warp has lanes: one shuffle scan goes over all warps
_BINS = 2 * _THREADS  # of the first two digits, 11 bits each; the last has 10
_NEVER = -(2**31) + 1  # order of NaN and -inf; no other score has it


def _order(value: Any) -> Any:
    """int32 that compares as the score does: +0 and -0 alike, NaN and -inf below all others."""
    bits = T.reinterpret(value, "int32")
    signed = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return T.if_then_else(value == 0, 0, T.if_then_else(value > -T.infinity("float32"), signed, _NEVER))


def select_topk_kernel(arch: str, block_size: int, of_blocks: bool) -> Any:
    """Radix select over the scores' bits, then a compaction in the order of the columns; one row a thread block.

    Histograms of three digits narrow down the k-th best score; all above it is chosen, and of the scores equal to it
    the first ones.

    Args:
        block_size: 0: column n is entry n. Otherwise columns are the entries of candidate blocks (or, with
            `of_blocks`, blocks themselves) of this size.
        of_blocks: choose blocks, ceil(num_visible / block_size) of them in a row.
    """
    num_rows, num_quads, k = T.dynamic("num_rows"), T.dynamic("num_quads"), T.dynamic("k")
    num_candidates = T.dynamic("num_candidates")
    gathered = block_size > 0 and not of_blocks

    @T.macro
    def scan_warp(value: Any, lane: Any) -> None:
        """Inclusive sum over the lanes of a warp, in place."""
        for i in T.unroll(5):
            moved = T.alloc_var("int32")
            moved = T.shfl_up(value[0], 1 << i)
            if lane >= (1 << i):
                value[0] = value[0] + moved

    @T.macro
    def load_quad(scores: Any, quad: Any, row: Any, place: Any, count: Any) -> None:
        """Four columns; those from `count` on as NaN, which is never chosen."""
        if place * 4 < count:
            for v in T.vectorized(4):
                quad[v] = scores[row, place, v]
        for v in T.unroll(4):
            if place * 4 + v >= count:
                quad[v] = T.reinterpret(T.int32(0x7FC00000), "float32")

    @T.macro
    def find_digit(
        scores: Any,
        histogram: Any,
        totals: Any,
        found: Any,
        quad: Any,
        state: Any,
        row: Any,
        count: Any,
        tx: Any,
        step: Any,
    ) -> None:
        """Extend the prefix of the k-th best score, state[0], by its next digit; state[1]: how many are left to find.

        state[2] is 0 once it is clear that every score but NaN and -inf is chosen.
        """
        sums = T.alloc_local((1,), "int32")
        key = T.alloc_var("int32")
        shift = T.alloc_var("int32")
        first = T.alloc_var("int32")
        second = T.alloc_var("int32")
        ahead = T.alloc_var("int32")
        shift = T.max(21 - 11 * step, 0)
        for i in T.unroll(2):
            histogram[i * _THREADS + tx] = 0
        if tx == 0:
            found[0] = -1
        T.sync_threads()
        for i in T.serial(T.ceildiv(count * state[2], 4 * _THREADS)):
            load_quad(scores, quad, row, i * _THREADS + tx, count)
            for v in T.unroll(4):
                key = _order(quad[v])
                if key != _NEVER and (step == 0 or (key >> (32 - 11 * step)) == state[0]):
                    # The first digit holds the sign, of which the negative half comes first.
                    digit = (key >> shift) + T.if_then_else(step == 0, _BINS // 2, 0)
                    T.atomic_add(histogram[digit & T.if_then_else(step == 2, _BINS // 2 - 1, _BINS - 1)], 1)
        T.sync_threads()
        first = histogram[_BINS - 1 - 2 * tx]
        second = histogram[_BINS - 2 - 2 * tx]
        sums[0] = first + second
        scan_warp(sums, tx % 32)
        if tx % 32 == 31:
            totals[tx // 32] = sums[0]
        T.sync_threads()
        ahead = T.warp_reduce_sum(T.if_then_else(tx % 32 < tx // 32, totals[tx % 32], 0))
        ahead = ahead + sums[0] - first - second
        if ahead < state[1] and state[1] <= ahead + first + second:
            found[0] = T.if_then_else(state[1] <= ahead + first, _BINS - 1 - 2 * tx, _BINS - 2 - 2 * tx)
            found[1] = state[1] - ahead - T.if_then_else(state[1] <= ahead + first, 0, first)
        T.sync_threads()
        if found[0] < 0:
            state[2] = 0
        else:
            state[0] = (state[0] << T.if_then_else(step == 2, 10, 11)) | found[0]
            state[1] = found[1]
        if step == 0:
            state[0] = state[0] - _BINS // 2
        T.sync_threads()

    @T.prim_func
    def select_topk(
        scores: T.Tensor((num_rows, num_quads, 4), "float32"),
        num_visible: T.Tensor((num_rows,), "int64"),
        candidates: T.Tensor((num_rows, num_candidates), "int64"),
        chosen: T.Tensor((num_rows, k), "int64"),
        num_slots: T.int32,
        least: T.int32,
    ):
        with T.Kernel(num_rows, threads=_THREADS) as row:
            tx = T.get_thread_binding()
            histogram = T.alloc_shared((_BINS,), "int32")
            above_of = T.alloc_shared((_WARPS,), "int32")
            tied_of = T.alloc_shared((_WARPS,), "int32")
            found = T.alloc_shared((2,), "int32")
            quad = T.alloc_local((4,), "float32")
            state = T.alloc_local((3,), "int32")
            marks = T.alloc_local((1,), "int32")  # of a lane: scores above, and scores tied times 2^16
            visible = T.alloc_var("int32")
            count = T.alloc_var("int32")
            above = T.alloc_var("int32", init=0)
            tied = T.alloc_var("int32", init=0)
            total = T.alloc_var("int32")
            room = T.alloc_var("int32")
            visible = T.Cast("int32", num_visible[row])
            count = num_slots if gathered else visible
            if of_blocks:
                count = T.ceildiv(visible, block_size)
            if visible <= least:
                count = 0  # all that is visible, or no block, see the end
            state[0] = 0
            state[1] = k
            state[2] = 1
            for step in T.serial(3):
                find_digit(scores, histogram, above_of, found, quad, state, row, count, tx, step)
            if state[2] == 0:
                state[0] = _NEVER
            room = state[1] * state[2]  # of the scores equal to state[0]
            rounds = T.alloc_var("int32")
            start = T.alloc_var("int32")
            rounds = T.ceildiv(count, 4 * _THREADS)
            start = tx // 32 * rounds * 32 + tx % 32  # every warp has its stretch of columns
            for i in T.serial(rounds):
                load_quad(scores, quad, row, start + i * 32, count)
                for v in T.unroll(4):
                    key = T.alloc_var("int32")
                    key = _order(quad[v])
                    above = above + T.Cast("int32", key > state[0])
                    tied = tied + T.Cast("int32", key == state[0])
            above = T.warp_reduce_sum(above)
            tied = T.warp_reduce_sum(tied)
            if tx % 32 == 0:
                above_of[tx // 32] = above
                tied_of[tx // 32] = tied
            T.sync_threads()
            total = T.warp_reduce_sum(above_of[tx % 32]) + T.min(T.warp_reduce_sum(tied_of[tx % 32]), room)
            above = T.warp_reduce_sum(T.if_then_else(tx % 32 < tx // 32, above_of[tx % 32], 0))
            tied = T.warp_reduce_sum(T.if_then_else(tx % 32 < tx // 32, tied_of[tx % 32], 0))
            for i in T.serial(rounds):
                load_quad(scores, quad, row, start + i * 32, count)
                own = T.alloc_var("int32")
                own = 0
                for v in T.unroll(4):
                    key = T.alloc_var("int32")
                    key = _order(quad[v])
                    own = own + T.Cast("int32", key > state[0]) + T.Cast("int32", key == state[0]) * 65536
                marks[0] = own
                scan_warp(marks, tx % 32)
                own = marks[0] - own
                for v in T.unroll(4):
                    key = T.alloc_var("int32")
                    place = T.alloc_var("int32")
                    key = _order(quad[v])
                    place = above + (own & 65535) + T.min(tied + (own >> 16), room)
                    if key > state[0] or (key == state[0] and tied + (own >> 16) < room):
                        column = (start + i * 32) * 4 + v
                        if place < k:
                            if gathered:
                                block = candidates[row, column // block_size]
                                chosen[row, place] = block * block_size + column % block_size
                            else:
                                chosen[row, place] = T.Cast("int64", column)
                    own = own + T.Cast("int32", key > state[0]) + T.Cast("int32", key == state[0]) * 65536
                own = T.shfl_sync(marks[0], 31)
                above = above + (own & 65535)
                tied = tied + (own >> 16)
            if visible <= least:
                total = 0
            for i in T.serial(T.ceildiv(k, _THREADS)):
                place = i * _THREADS + tx
                if place < k:
                    if place >= total:
                        chosen[row, place] = T.int64(-1)
                    if not of_blocks and visible <= least and place < visible:
                        chosen[row, place] = T.Cast("int64", place)

    return select_topk


def select_topk(scores: torch.Tensor, num_visible: torch.Tensor, k: int) -> torch.Tensor:
    """The k best entries of every row; a row that sees at most k takes them all.

    Args:
        scores: float32 [T, N] contiguous, N a multiple of 4 and at least every num_visible; what is behind a row's
            num_visible is not looked at.
        num_visible: int64 [T].
        k: most entries per row.

    Returns:
        int64 [T, k], ascending, -1 behind the last one; equal scores go to the lower number, NaN and -inf to none.
    """
    return _select(scores, num_visible, num_visible.unsqueeze(1), k, 0, None)


def select_candidates(
    scores: torch.Tensor, num_visible: torch.Tensor, candidates: torch.Tensor, k: int, *, block_size: int
) -> torch.Tensor:
    """`select_topk` among the entries of the candidate blocks.

    Args:
        scores: float32 [T, N], as `index_scores` makes them for `candidates`.
        num_visible: int64 [T].
        candidates: int64 [T, B], ascending, -1 padded.
        k: most entries per row.
        block_size: entries per block.
    """
    return _select(scores, num_visible, candidates, k, block_size, None)


def select_best_blocks(
    maxima: torch.Tensor, num_visible: torch.Tensor, k: int, *, block_size: int, least: int = 0
) -> torch.Tensor:
    """The k best blocks of every row, int64 [T, k], from the maxima of `block_maxima`.

    Rows that see no more than `least` entries get none.
    """
    return _select(maxima, num_visible, num_visible.unsqueeze(1), k, block_size, least)


def _select(
    scores: torch.Tensor,
    num_visible: torch.Tensor,
    candidates: torch.Tensor,
    k: int,
    block_size: int,
    least: int | None,
) -> torch.Tensor:
    """`least` is None for entries."""
    num_rows, num_columns = scores.shape
    chosen = torch.empty(num_rows, k, dtype=torch.int64, device=scores.device)
    if chosen.numel():
        of_blocks = least is not None
        kernel = compiled(select_topk_kernel, arch_of(scores.device), block_size=block_size, of_blocks=of_blocks)
        num_slots = min(num_columns, candidates.shape[1] * block_size)
        kernel(scores.view(num_rows, -1, 4), num_visible, candidates, chosen, num_slots, k if least is None else least)
    return chosen


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Entries of all, entries of candidate blocks, candidate blocks."""
    block_size = sizes.candidate_block_size
    forms = {"": (0, False), ".candidates": (block_size, False), ".blocks": (block_size, True)}
    return [
        KernelSpec(f"index.select_topk{form}", select_topk_kernel, {"block_size": size, "of_blocks": of_blocks})
        for form, (size, of_blocks) in forms.items()
    ]
