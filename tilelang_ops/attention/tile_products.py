"""The consumers of an attention kernel: two warpgroups that multiply decoded keys and hand each other weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.attention.key_words import FOLD
from tilelang_ops.attention.packed_keys import KEYS

HEADS = 64  # of a thread block: the M of one warpgroup's product
_LOG2_E = 1.4426950408889634
# A base-2 logit may pass the reference by so much before the output is scaled down: weights stay below 256.
_SLACK = 8.0
_NO_KEYS = -1e30  # reference before the first key


@dataclass(frozen=True)
class TileProducts:
    """Static shape of the consumers.

    Attributes:
        head_blocks: blocks of HEADS heads of a row.
        dim: columns, 256 or 512.
        splits: thread blocks, a cluster, that share a row's tiles.
        folds: whether entries are FP4, which are 2^-FOLD of their values: their logits are scaled up, and so are the
            weights of their values.
    """

    head_blocks: int
    dim: int
    splits: int
    folds: bool

    def run(self) -> Any:
        """The macro that one warpgroup runs; see its arguments."""
        head_blocks, dim, splits, chunks = self.head_blocks, self.dim, self.splits, self.dim // 128
        half_dim, tile_bytes = dim // 2, KEYS * dim * 2
        folds = self.folds

        @T.macro
        def load_query(q: Any, q_raw: Any, q_loaded: Any, item: Any, lane: Any):
            """By one warp."""
            T.tma_copy(
                q[item // head_blocks, item % head_blocks * HEADS : item % head_blocks * HEADS + HEADS, 0:dim],
                q_raw,
                barrier=q_loaded,
                leader_scope_threads=32,
            )
            T.sync_warp()
            if lane == 0:
                T.barrier_arrive(q_loaded)

        @T.macro
        def arrive(barriers: Any, number: Any, lane: Any):
            T.sync_warp()
            if lane == 0:
                T.barrier_arrive(barriers[number])

        @T.macro
        def rescale(output: Any, latest: Any, reference: Any, shrink: Any):
            """Output from `reference` to `latest` = reference + log2(1 / shrink)."""
            changed = T.alloc_var("int32", init=0)
            for i in T.Parallel(HEADS):
                changed = changed | T.Cast("int32", latest[i] != reference[i])
            if T.any_sync(changed) != 0:
                for i, j in T.Parallel(HEADS, half_dim):
                    output[i, j] *= shrink[i]
                for i in T.Parallel(HEADS):
                    reference[i] = latest[i]

        @T.macro
        def follow(side: int, shared_reference: Any, output: Any, total: Any, latest: Any, reference: Any, shrink: Any):
            """Output and total to the reference that the weights of `side` were made with."""
            for i in T.Parallel(HEADS):
                latest[i] = shared_reference[side, i]
            for i in T.Parallel(HEADS):
                shrink[i] = T.call_extern("float32", "attn_exp2", reference[i] - latest[i])
            for i in T.Parallel(HEADS):
                total[i] *= shrink[i]
            rescale(output, latest, reference, shrink)

        @T.macro
        def own_tile(
            wg: int,
            has_previous: bool,
            is_folded: Any,
            turns: Any,
            is_last: Any,
            following: Any,
            place: Any,
            operands: Any,
        ):
            """Logits, weights and values of tile i of this warpgroup, with the values of tile i - 1 of the other."""
            factor, warp, lane = place
            gain = T.alloc_var("float32")
            boost = T.alloc_var("float32")
            unboost = T.alloc_var("float32")
            gain = factor
            if folds:
                gain = T.if_then_else(is_folded, factor * T.float32(2.0**FOLD), factor)
                boost = T.if_then_else(is_folded, T.float32(FOLD), T.float32(0))
                unboost = T.if_then_else(is_folded, T.float32(2.0**-FOLD), T.float32(1))
            shared, barriers, frags = operands
            q, q_half, q_raw, tiles, weights, bias, shared_reference, shared_total = shared
            q_loaded, full, empty, ready, q_ready = barriers
            logits, output, total, reference, latest, shrink, tile_max, tile_sum = frags
            turn, other_turn = turns
            next_item, has_next = following
            for c in T.unroll(chunks):
                T.barrier_wait(full[wg * chunks + c], turn % 2)
                T.wgmma_gemm(
                    q_half[:, c * 128 : c * 128 + 128],
                    tiles[wg, :, c * 128 : c * 128 + 128],
                    logits,
                    transpose_B=True,
                    clear_accum=(c == 0),
                )
            if has_previous:
                T.barrier_wait(ready[1 - wg], other_turn % 2)
                T.sync_warp()
                follow(1 - wg, shared_reference, output, total, latest, reference, shrink)
                T.wgmma_gemm(weights[1 - wg, :, :], tiles[1 - wg, :, wg * half_dim : (wg + 1) * half_dim], output)
            T.wait_wgmma(0)
            if has_previous:
                arrive(empty, (1 - wg) * 2 + wg, lane)
            for i, j in T.Parallel(HEADS, KEYS):
                logits[i, j] = logits[i, j] * gain + bias[wg, j]
            T.reduce_max(logits, tile_max, dim=1, clear=True)
            for i in T.Parallel(HEADS):
                latest[i] = T.if_then_else(tile_max[i] > reference[i] + _SLACK, tile_max[i], reference[i])
            for i, j in T.Parallel(HEADS, KEYS):
                logits[i, j] = T.call_extern(
                    "float32", "attn_exp2", logits[i, j] - ((latest[i] - boost) if folds else latest[i])
                )
            T.copy(logits, weights[wg, :, :])
            T.reduce_sum(logits, tile_sum, dim=1)
            if folds:
                for i in T.Parallel(HEADS):
                    tile_sum[i] = tile_sum[i] * unboost
            for i in T.Parallel(HEADS):
                shrink[i] = T.call_extern("float32", "attn_exp2", reference[i] - latest[i])
            for i in T.Parallel(HEADS):
                total[i] = total[i] * shrink[i] + tile_sum[i]
            for i in T.Parallel(HEADS):
                shared_reference[wg, i] = latest[i]
            for i in T.Parallel(HEADS):
                shared_total[wg, i] = total[i]
            T.fence_proxy_async()
            arrive(ready, wg, lane)
            rescale(output, latest, reference, shrink)
            T.barrier_wait(ready[wg], turn % 2)
            T.sync_warp()
            T.wgmma_gemm(weights[wg, :, :], tiles[wg, :, wg * half_dim : (wg + 1) * half_dim], output)
            if is_last and has_next and warp == 0:
                load_query(q, q_raw, q_loaded, next_item, lane)
            T.wait_wgmma(0)
            if not is_last:
                arrive(empty, wg * 2 + wg, lane)

        @T.macro
        def consume(
            wg: int,
            thread: Any,
            items: Any,
            num_tiles: Any,
            first_folded: Any,
            scale: Any,
            rank: Any,
            sink: Any,
            out: Any,
            joint: Any,
            operands: Any,
        ):
            """All tiles of a thread block's items, by one of the two warpgroups.

            Args:
                thread: of the warpgroup, from 0.
                items: trips, first_item, item_step, head_blocks, as in `KeyStream`.
                num_tiles: of the thread block.
                first_folded: the first of its tiles that holds FP4 keys.
                rank: of the thread block in its cluster.
                joint: stage, bf16 view of the tiles; stats and factors for the cluster.
                operands: what lies in shared memory, barriers, and fragments.
            """
            trips, first_item, item_step = items[0], items[1], items[2]
            stage, stats, factors = joint
            shared, barriers, frags = operands
            q, q_half, q_raw, tiles, weights, bias, shared_reference, shared_total = shared
            q_loaded, full, empty, ready, q_ready = barriers
            logits, output, total, reference, latest, shrink, tile_max, tile_sum = frags
            warp, lane = thread // 32, thread % 32
            factor = scale * _LOG2_E
            own, others = (num_tiles + 1 - wg) // 2, (num_tiles + wg) // 2
            last_side = (num_tiles + 1) % 2
            place = (factor, warp, lane)
            if wg == 0 and warp == 0 and num_tiles > 0:
                load_query(q, q_raw, q_loaded, first_item, lane)
            for trip in T.serial(trips):
                item = first_item + trip * item_step
                following = (item + item_step, trip + 1 < trips)
                T.clear(output)
                T.clear(total)
                T.fill(reference, _NO_KEYS)
                if num_tiles > 0:
                    T.barrier_wait(q_loaded, trip % 2)
                    T.sync_warp()
                    for s in T.unroll(dim // 32):
                        T.call_extern(
                            "void",
                            "attn_query_to_half",
                            T.address_of(q_half[0, 0]),
                            wg * (tile_bytes // 2) + s * 2048 + thread * 16,
                        )
                    T.fence_proxy_async()
                    arrive(q_ready, 0, lane)
                    if splits == 1 and trip > 0:
                        if warp == 0:
                            T.tma_store_wait(0)
                        T.sync_threads(1 + wg, 128)
                        arrive(empty, last_side * 2 + wg, lane)
                    T.barrier_wait(q_ready, trip % 2)
                    if wg == 0:
                        own_tile(
                            wg, False, first_folded <= 0, (trip * own, 0), num_tiles == 1, following, place, operands
                        )
                    for j in T.serial(1 - wg, own):
                        own_tile(
                            wg,
                            True,
                            2 * j + wg >= first_folded,
                            (trip * own + j, trip * others + j - 1 + wg),
                            2 * j + wg == num_tiles - 1,
                            following,
                            place,
                            operands,
                        )
                    if last_side != wg:
                        T.barrier_wait(ready[1 - wg], (trip * others + others - 1) % 2)
                        T.sync_warp()
                        follow(1 - wg, shared_reference, output, total, latest, reference, shrink)
                        T.wgmma_gemm(
                            weights[1 - wg, :, :], tiles[1 - wg, :, wg * half_dim : (wg + 1) * half_dim], output
                        )
                        T.wait_wgmma(0)
                    if others > 0:
                        for i in T.Parallel(HEADS):
                            shrink[i] = T.call_extern(
                                "float32", "attn_exp2", shared_reference[1 - wg, i] - reference[i]
                            )
                        for i in T.Parallel(HEADS):
                            total[i] += shared_total[1 - wg, i] * shrink[i]
                if splits == 1:
                    for i in T.Parallel(HEADS):
                        total[i] += T.call_extern(
                            "float32",
                            "attn_exp2",
                            sink[item % head_blocks * HEADS + i] * _LOG2_E - reference[i],
                        )
                    for i in T.Parallel(HEADS):
                        shrink[i] = 1.0 / total[i]
                    for i, j in T.Parallel(HEADS, half_dim):
                        output[i, j] *= shrink[i]
                    T.sync_threads(1 + wg, 128)  # one warp's products may end before another's, whose values these are
                    T.copy(output, stage[last_side, :, wg * half_dim : (wg + 1) * half_dim])
                    T.fence_proxy_async()
                    T.sync_threads(1 + wg, 128)
                    if warp == 0:
                        T.tma_copy(
                            stage[last_side, :, wg * half_dim : (wg + 1) * half_dim],
                            out[
                                item // head_blocks,
                                item % head_blocks * HEADS : item % head_blocks * HEADS + HEADS,
                                wg * half_dim : (wg + 1) * half_dim,
                            ],
                            leader_scope_threads=32,
                        )
                else:
                    if wg == 0:
                        for i in T.Parallel(HEADS):
                            stats[0, i] = reference[i]
                        for i in T.Parallel(HEADS):
                            stats[1, i] = total[i]
                    T.sync_threads(1, 256)
                    T.call_extern(
                        "void",
                        "attn_keep",
                        output.data,
                        T.address_of(tiles[0, 0, 0]),
                        wg,
                        dim,
                        thread,
                    )
                    T.cluster_sync()
                    if wg == 0 and thread < HEADS:
                        T.call_extern(
                            "void",
                            "attn_factors",
                            T.address_of(stats[0, 0]),
                            T.address_of(factors[0]),
                            sink[item % head_blocks * HEADS + thread] * _LOG2_E,
                            thread,
                            splits,
                        )
                    T.sync_threads(1, 256)
                    T.call_extern(
                        "void",
                        "attn_join",
                        T.address_of(tiles[0, 0, 0]),
                        T.address_of(factors[0]),
                        out.data,
                        T.Cast("int64", item) * (HEADS * dim),
                        dim,
                        splits,
                        rank,
                        wg * 128 + thread,
                    )
                    T.cluster_sync()
            if splits == 1 and warp == 0:
                T.tma_store_wait(0)

        return consume
