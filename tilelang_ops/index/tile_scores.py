"""Scores of index keys for many rows that share them: a thread block keeps its decoded keys and goes through rows."""

from typing import Any

import tilelang.language as T
import torch
from tilelang.layout import make_swizzled_layout

from tilelang_ops.index.index_scores import PagedKeys
from tilelang_ops.index.key_words import KEYS, WORDS_ARCH, decode_row, key_words, padded_heads, takes_words
from tilelang_ops.index.row_scores import multiply_keys, scores_emitter, sum_heads
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.processors import num_processors

_LANES = 32
_GROUPS = 4  # of four warps, in a thread block
_TILE = KEYS * _GROUPS
_STAGES = 4  # pairs of rows on their way
_ROWS = 2  # of a product
_MOST_COLUMNS = 128  # of a product: a float32 register of a lane for every two
_QUERY_BYTES = 160 * 1024  # of shared memory
_LEAST_ROWS, _MOST_ROWS = 8, 64  # that the keys of a thread block serve


def takes_tiles(num_heads: int, dim: int) -> bool:
    """Whether this kernel takes so many heads and columns: two rows' queries in registers and in shared memory."""
    columns = _ROWS * padded_heads(num_heads)
    fits = columns <= _MOST_COLUMNS and _STAGES * columns * dim * 2 <= _QUERY_BYTES
    return takes_words(num_heads, dim) and fits


def tile_scores_kernel(arch: str, num_heads: int, dim: int, entries_per_block: int) -> Any:
    """``bf16(scale * sum_h w[h] relu(q[h] . key))`` of a tile of entries, two rows after two rows.

    Each group of four warps has 64 keys, decoded, as operand registers. One more warp brings the queries, those of two
    rows side by side for one product, and head weights into shared memory. What rows see and where their keys begin is
    loaded for a warp's lanes at once. Keys are loaded again when the next rows belong to another sequence or see
    entries that the last row of the block's rows did not promise; two rows of different sequences are done one after
    the other, each with its own keys. Bits are those of `row_scores_kernel`.

    Args:
        arch: "sm_90a".
        num_heads: Hi, a multiple of 4.
        dim: columns of a key, a multiple of 128.
        entries_per_block: of a page.
    """
    num_rows, num_units, num_ids = T.dynamic("num_rows"), T.dynamic("num_units"), T.dynamic("num_ids")
    stride, num_queries = T.dynamic("stride"), T.dynamic("num_queries")
    warpgroups, stages, tile = _GROUPS, _STAGES, _TILE
    columns, words = padded_heads(num_heads), key_words(dim)
    lane_words, lane_scales = dim // 32, dim // 128
    padded = -(-columns // 32) * 32

    @T.macro
    def load_keys(data: Any, block_ids: Any, pairs: Any, key: Any, first: Any, bound: Any, lane: Any) -> None:
        """A lane's quarters of keys `key` and `key + 8`, decoded; zeros from `bound` on."""
        code_words = T.alloc_local((lane_words,), "uint32")
        scale_bytes = T.alloc_local((lane_scales,), "uint32")
        page = T.alloc_var("int32")
        for half in T.unroll(2):
            entry = key + half * 8
            for n in T.unroll(lane_words):
                code_words[n] = T.uint32(0)
            for n in T.unroll(lane_scales):
                scale_bytes[n] = T.uint32(0)
            if entry < bound:
                page = T.Cast("int32", block_ids[first + entry // entries_per_block])
                if page >= 0 and page < num_units:
                    base = entry % entries_per_block * words
                    for n in T.unroll(lane_words):
                        code_words[n] = data[page, base + lane % 4 * lane_words + n]
                    for n in T.unroll(lane_scales):
                        byte = lane % 4 * lane_scales + n
                        word = data[page, base + dim // 8 + byte // 4]
                        scale_bytes[n] = (word >> T.Cast("uint32", byte % 4 * 8)) & T.uint32(255)
            decode_row(code_words, scale_bytes, pairs, half, dim)

    @T.macro
    def see_pair(rows: Any, ahead: Any, g: Any, limits: Any, lane: Any, seen: Any, starts: Any) -> None:
        """What both rows of pair g see, 0 for one that is left out; where `starts` is given, where their keys begin."""
        num_visible, first_block = rows
        begin, last, least = limits
        if g % (_LANES // _ROWS) == 0:
            row = begin + g * _ROWS + lane
            mine = T.alloc_var("int32")
            mine = T.min(row, last)
            ahead[0] = T.Cast("int32", num_visible[mine])
            ahead[1] = T.Cast("int32", first_block[mine])
            if row > last or ahead[0] <= least:
                ahead[0] = 0
        for r in T.unroll(_ROWS):
            seen[r] = T.shfl_sync(ahead[0], g % (_LANES // _ROWS) * _ROWS + r)
            if starts is not None:
                starts[r] = T.shfl_sync(ahead[1], g % (_LANES // _ROWS) * _ROWS + r)

    @T.prim_func
    def tile_scores(
        q: T.Tensor((num_queries, dim), "bfloat16"),
        head_weights: T.Tensor((num_rows, num_heads), "float32"),
        data: T.Tensor((num_units, entries_per_block * words), "uint32"),
        block_ids: T.Tensor((num_ids,), "int64"),
        first_block: T.Tensor((num_rows,), "int64"),
        num_visible: T.Tensor((num_rows,), "int64"),
        scores: T.Tensor((num_rows, stride), "bfloat16"),
        num_tiles: T.int32,
        rows_per_block: T.int32,
        least: T.int32,
        scale: T.float32,
    ):
        with T.Kernel(num_tiles, T.ceildiv(num_rows, rows_per_block), threads=128 * warpgroups + _LANES) as (
            part,
            rank,
        ):
            query = T.alloc_shared((stages, _ROWS * columns, dim), "bfloat16")
            weight_rows = T.alloc_shared((stages * _ROWS, padded), "float32")
            full = T.alloc_barrier([_LANES] * stages)
            free = T.alloc_barrier([4 * warpgroups] * stages)
            pairs = T.alloc_local((dim // 4,), "uint32")
            product = T.alloc_local((_ROWS * columns // 2,), "float32")
            weights = T.alloc_local((columns // 4,), "float32")
            sums = T.alloc_local((2 * _ROWS,), "float32")
            seen = T.alloc_local((_ROWS,), "int32")
            starts = T.alloc_local((_ROWS,), "int32")
            ahead = T.alloc_local((2,), "int32")
            need, bound, turn, last_seen = (T.alloc_var("int32") for _ in range(4))
            held_end, passes, shown = (T.alloc_var("int32") for _ in range(3))
            first, held_first, last_first = (T.alloc_var("int32") for _ in range(3))
            value = T.alloc_var("float32")
            thread = T.get_thread_binding()
            lane, inside = thread % _LANES, thread % 128
            layout = make_swizzled_layout(query)
            T.annotate_layout({query: layout})
            emitter = scores_emitter(_ROWS * columns, dim, inside)
            begin = rank * rows_per_block
            last = T.min(begin + rows_per_block, num_rows) - 1
            turn = 0
            if thread >= 128 * warpgroups:
                for g in T.serial(T.ceildiv(last + 1 - begin, _ROWS)):
                    row = begin + g * _ROWS
                    see_pair((num_visible, first_block), ahead, g, (begin, last, least), lane, seen, None)
                    if part * tile < T.max(seen[0], seen[1]):
                        T.mbarrier_wait_parity(free[turn % stages], (turn // stages & 1) ^ 1)
                        T.tma_copy(
                            q[row * columns : row * columns + _ROWS * columns, :],
                            query[turn % stages, :, :],
                            barrier=full[turn % stages],
                            leader_scope_threads=_LANES,
                        )
                        for r in T.unroll(_ROWS):
                            place = turn % stages * _ROWS + r
                            T.tma_copy(
                                head_weights[T.min(row + r, last) : T.min(row + r, last) + 1, :],
                                weight_rows[place : place + 1, 0:num_heads],
                                barrier=full[turn % stages],
                                leader_scope_threads=_LANES,
                            )
                        T.mbarrier_arrive(full[turn % stages])
                        turn = turn + 1
            else:
                held_first = -1
                held_end = 0
                last_first = T.Cast("int32", first_block[last])
                last_seen = T.Cast("int32", num_visible[last])
                key = part * tile + thread // _LANES * 16 + lane // 4
                for g in T.serial(T.ceildiv(last + 1 - begin, _ROWS)):
                    row = begin + g * _ROWS
                    see_pair((num_visible, first_block), ahead, g, (begin, last, least), lane, seen, starts)
                    if part * tile < T.max(seen[0], seen[1]):
                        T.mbarrier_wait_parity(full[turn % stages], turn // stages & 1)
                        passes = T.if_then_else(starts[0] == starts[1], 1, 2)
                        for p in T.serial(passes):
                            first = T.if_then_else(p == 0, starts[0], starts[1])
                            need = T.if_then_else(p == 0, seen[0], seen[1])
                            if passes == 1:
                                need = T.max(seen[0], seen[1])
                            if part * tile < need:
                                if first != held_first or T.min(need, (part + 1) * tile) > held_end:
                                    bound = need
                                    if last_first == first:
                                        bound = T.max(bound, last_seen)
                                    bound = T.min(bound, (part + 1) * tile)
                                    load_keys(data, block_ids, pairs, key, first, bound, lane)
                                    held_first = first
                                    held_end = bound
                                multiply_keys(emitter, layout, pairs, query[turn % stages, :, :], product)
                                for r in T.unroll(_ROWS):
                                    for j, e in T.grid(columns // 8, 2):
                                        weights[j * 2 + e] = 0.0
                                        if j * 8 + lane % 4 * 2 + e < num_heads:
                                            weights[j * 2 + e] = weight_rows[
                                                turn % stages * _ROWS + r, j * 8 + lane % 4 * 2 + e
                                            ]
                                    sum_heads(product, weights, sums, columns, r)
                                # The four lanes of a row of keys have the same sums: each stores one of them.
                                slot = key + lane % 2 * 8
                                value = T.if_then_else(
                                    lane % 4 < 2,
                                    T.if_then_else(lane % 2 == 0, sums[0], sums[1]),
                                    T.if_then_else(lane % 2 == 0, sums[2], sums[3]),
                                ) * (scale * 0.5)
                                shown = T.if_then_else(lane % 4 < 2, seen[0], seen[1])
                                if part * tile < shown and (passes == 1 or lane % 4 // 2 == p):
                                    scores[row + lane % 4 // 2, slot] = T.Cast(
                                        "bfloat16",
                                        T.if_then_else((slot < shown) & ~T.isnan(value), value, -T.infinity("float32")),
                                    )
                                T.sync_warp()
                        if lane == 0:
                            T.mbarrier_arrive(free[turn % stages])
                        turn = turn + 1

    # The rows' queries are handed over by barriers of their own; one of the whole block would stop the loading warp.
    return tile_scores.with_attr("tilelang_pass_configs", {"tl.disable_thread_storage_sync": True})


def tile_scores(
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: PagedKeys,
    num_visible: torch.Tensor,
    *,
    max_visible: int,
    scale: float,
    least: int = 0,
) -> torch.Tensor:
    """`row_scores` of every entry, with the same bits, for rows that mostly share their keys with their neighbours.

    Heads and columns are those of `takes_tiles`.

    Returns:
        bf16 [T, columns], columns a multiple of 256; those from a row's num_visible on hold -inf or anything.
    """
    (num_rows, _, dim), (units, size, _) = q.shape, keys.data.shape
    num_tiles = -(-max_visible // _TILE)
    scores = torch.empty(num_rows, num_tiles * _TILE, dtype=torch.bfloat16, device=q.device)
    if scores.numel() == 0:
        return scores
    kernel = compiled(
        tile_scores_kernel, arch_of(q.device), num_heads=head_weights.shape[1], dim=dim, entries_per_block=size
    )
    kernel(
        q.view(-1, dim),
        head_weights,
        keys.data.view(torch.uint32).view(units, -1),
        keys.block_ids,
        keys.first_block,
        num_visible,
        scores,
        num_tiles,
        max(_LEAST_ROWS, min(_MOST_ROWS, num_rows * num_tiles // num_processors(q.device))),
        least,
        scale,
    )
    return scores


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both compression ratios."""
    if not takes_tiles(sizes.index_n_heads, sizes.index_head_dim):
        return []
    shape = {"num_heads": sizes.index_n_heads, "dim": sizes.index_head_dim}
    return [
        KernelSpec(
            "index.tile_scores",
            tile_scores_kernel,
            shape | {"entries_per_block": sizes.block_size // ratio},
            {WORDS_ARCH: "wgmma"},
            arches=(WORDS_ARCH,),
        )
        for ratio in (1, 2)
    ]
