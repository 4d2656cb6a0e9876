"""Attention of every row's heads over window vectors and selected cache entries, one softmax with a sink."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.attention.combine_splits import combine_splits
from tilelang_ops.attention.packed_keys import (
    FP4_GROUP16,
    FP8_GROUP32,
    KEYS,
    load_entries,
    load_window,
    num_slots,
    unpack,
    vector_words,
    word_bytes,
    word_dtype,
)
from tilelang_ops.attention.sparse_attention_sm90 import has_sm90_form, sparse_attention_sm90
from tilelang_ops.jit.arch import ARCHES, arch_of, is_sm100
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.processors import num_processors

HEADS = 64  # heads of one thread block: the M of one warpgroup's product
_LOG2_E = 1.4426950408889634
_FEW = 0.25  # multiprocessors' share that thread blocks of a tile each may fill, and be faster than SM90's clusters
_MAX_SPLIT_BLOCKS = 132  # thread blocks up to which keys are split: one for each multiprocessor of an H200


def has_kernel(dim: int, arch: str) -> bool:
    """Whether there is a kernel for heads of `dim`: a tile's keys and a head block's queries fit into shared memory."""
    return dim in (64, 128, 256, 512) if is_sm100(arch) else dim <= 512 and dim % 32 == 0


def sparse_attention_kernel(
    arch: str, num_heads: int, dim: int, entry_layout: str, has_entries: bool, split: bool
) -> Any:
    """One row's heads against tiles of KEYS keys, gathered by index and decoded to bf16 in shared memory.

    A thread block walks all tiles of its row (window first, then entries) with an online softmax, or with `split` takes
    tile number blockIdx.z alone and leaves its maximum, sum and unscaled output to `combine_splits`. The next tile's
    packed bytes are in flight while the current tile is multiplied. The sink opens the softmax: the running maximum
    starts at its logit and the running sum at 1 (in the first split; at 0 in the others), so that a row without keys
    gives 0 and no maximum is ever -inf. Softmax weights enter the second product as two bf16 parts: with one the output
    is 1.5e-3 from the exact result, with two 2e-6 (bf16 rounding of the output: 1.7e-3). On sm_90a both products are
    wgmma with the accumulators in registers; on sm_100a they are tcgen05 into tensor memory, the output being added up
    in registers, for a dim of 64, 128, 256 or 512 (compiled, never run).
    """
    num_rows, num_vectors, num_blocks, width, num_picks = (
        T.dynamic("num_rows"),
        T.dynamic("num_vectors"),
        T.dynamic("num_blocks"),
        T.dynamic("width"),
        T.dynamic("num_picks"),
    )
    num_units, num_outputs, num_stats = T.dynamic("num_units"), T.dynamic("num_outputs"), T.dynamic("num_stats")
    head_blocks = -(-num_heads // HEADS)
    threads = 128 if dim <= 128 else 512 if is_sm100(arch) and dim > 256 else 256
    slots = max(num_slots(FP8_GROUP32, dim, threads), num_slots(entry_layout, dim, threads))
    tcgen05 = is_sm100(arch)

    @T.macro
    def load_tile(tile: Any, window_tiles: Any, place: Any, vectors: Any, entries: Any, registers: Any) -> None:
        """Tile number `tile` of a row's keys into registers: of the window, or of the entries behind it."""
        if tile < window_tiles:
            load_window(dim, threads, tile, *place, *vectors, *registers)
        elif has_entries:
            load_entries(entry_layout, dim, threads, tile - window_tiles, *place, *entries, *registers)

    @T.prim_func
    def sparse_attention(
        q: T.Tensor((num_rows, num_heads, dim), "bfloat16"),
        window: T.Tensor((num_vectors, vector_words(FP8_GROUP32, dim)), word_dtype(FP8_GROUP32, dim)),
        window_index: T.Tensor((num_rows, width), "int64"),
        cache: T.Tensor((num_units, vector_words(entry_layout, dim)), word_dtype(entry_layout, dim)),
        block_ids: T.Tensor((num_blocks,), "int64"),
        first_block: T.Tensor((num_rows,), "int64"),
        picks: T.Tensor((num_rows, num_picks), "int64"),
        sink: T.Tensor((num_heads,), "float32"),
        out: T.Tensor((num_outputs, num_heads, dim), "float32" if split else "bfloat16"),
        stats: T.Tensor((num_stats, num_heads), "float32"),
        num_splits: T.int32,
        unit_entries: T.int32,
        scale: T.float32,
    ):
        with T.Kernel(num_rows, head_blocks, num_splits, threads=threads) as (row, head_block, part):
            q_shared = T.alloc_shared((HEADS, dim), "bfloat16")
            keys = T.alloc_shared((KEYS, dim), "bfloat16")
            weights_high = T.alloc_shared((HEADS, KEYS), "bfloat16")
            weights_low = T.alloc_shared((HEADS, KEYS), "bfloat16")
            bias = T.alloc_shared((KEYS,), "float32")
            codes = T.alloc_local((slots * 4,), "int32")
            scales = T.alloc_local((slots,), "int32")
            weights = T.alloc_fragment((HEADS, KEYS), "float32")
            output = T.alloc_fragment((HEADS, dim), "float32")
            maximum = T.alloc_fragment((HEADS,), "float32")
            previous = T.alloc_fragment((HEADS,), "float32")
            shrink = T.alloc_fragment((HEADS,), "float32")
            total = T.alloc_fragment((HEADS,), "float32")
            tile_total = T.alloc_fragment((HEADS,), "float32")
            if tcgen05:
                logits_tmem = T.alloc_tmem((HEADS, KEYS), "float32")
                output_tmem = T.alloc_tmem((HEADS, dim), "float32")
                logits_done = T.alloc_barrier(1)
                output_done = T.alloc_barrier(1)
                addend = T.alloc_fragment((HEADS, dim), "float32")
            tid = T.get_thread_binding()
            first_head = head_block * HEADS
            window_tiles = T.ceildiv(width, KEYS)
            begin = part if split else 0
            end = part + 1 if split else window_tiles + (T.ceildiv(num_picks, KEYS) if has_entries else 0)

            load_tile(
                begin,
                window_tiles,
                (row, tid),
                (window, window_index),
                (cache, block_ids, first_block, picks, unit_entries),
                (codes, scales),
            )
            for i, j in T.Parallel(HEADS, dim):
                q_shared[i, j] = T.if_then_else(first_head + i < num_heads, q[row, first_head + i, j], T.bfloat16(0))
            T.fill(output, 0)
            for i in T.Parallel(HEADS):
                maximum[i] = T.if_then_else(first_head + i < num_heads, sink[first_head + i], 0.0) * _LOG2_E
                total[i] = T.if_then_else(part == 0, 1.0, 0.0)

            for tile in T.serial(begin, end):
                if tile < window_tiles:
                    unpack(FP8_GROUP32, dim, threads, tid, codes, scales, keys, bias)
                elif has_entries:
                    unpack(entry_layout, dim, threads, tid, codes, scales, keys, bias)
                T.fence_proxy_async()
                T.sync_threads()
                if tile + 1 < end:
                    load_tile(
                        tile + 1,
                        window_tiles,
                        (row, tid),
                        (window, window_index),
                        (cache, block_ids, first_block, picks, unit_entries),
                        (codes, scales),
                    )
                if tcgen05:
                    T.tcgen05_gemm(q_shared, keys, logits_tmem, transpose_B=True, mbar=logits_done, clear_accum=True)
                    T.mbarrier_wait_parity(logits_done, (tile - begin) % 2)
                    T.copy(logits_tmem, weights)
                else:
                    T.gemm(q_shared, keys, weights, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(HEADS, KEYS):
                    weights[i, j] = weights[i, j] * (scale * _LOG2_E) + bias[j]
                T.copy(maximum, previous)
                T.reduce_max(weights, maximum, dim=1, clear=False)
                for i in T.Parallel(HEADS):
                    shrink[i] = T.exp2(previous[i] - maximum[i])
                for i, j in T.Parallel(HEADS, KEYS):
                    weights[i, j] = T.exp2(weights[i, j] - maximum[i])
                T.reduce_sum(weights, tile_total, dim=1)
                for i in T.Parallel(HEADS):
                    total[i] = total[i] * shrink[i] + tile_total[i]
                T.copy(weights, weights_high)
                for i, j in T.Parallel(HEADS, KEYS):
                    weights[i, j] -= T.Cast("float32", T.Cast("bfloat16", weights[i, j]))
                T.copy(weights, weights_low)
                T.fence_proxy_async()
                T.sync_threads()
                for i, j in T.Parallel(HEADS, dim):
                    output[i, j] *= shrink[i]
                if tcgen05:
                    T.tcgen05_gemm(weights_high, keys, output_tmem, mbar=None, clear_accum=True)
                    T.tcgen05_gemm(weights_low, keys, output_tmem, mbar=output_done)
                    T.mbarrier_wait_parity(output_done, (tile - begin) % 2)
                    T.copy(output_tmem, addend)
                    for i, j in T.Parallel(HEADS, dim):
                        output[i, j] += addend[i, j]
                else:
                    T.gemm(weights_high, keys, output)
                    T.gemm(weights_low, keys, output)

            if split:
                for i, j in T.Parallel(HEADS, dim):
                    if first_head + i < num_heads:
                        out[row * num_splits + part, first_head + i, j] = output[i, j]
                for i in T.Parallel(HEADS):
                    if first_head + i < num_heads:
                        stats[(row * num_splits + part) * 2, first_head + i] = maximum[i]
                        stats[(row * num_splits + part) * 2 + 1, first_head + i] = total[i]
            else:
                for i, j in T.Parallel(HEADS, dim):
                    if first_head + i < num_heads:
                        out[row, first_head + i, j] = T.Cast("bfloat16", output[i, j] / total[i])

    return sparse_attention


def sparse_attention(
    q: torch.Tensor,
    window: torch.Tensor,
    window_index: torch.Tensor,
    cache: torch.Tensor | None,
    block_ids: torch.Tensor | None,
    first_block: torch.Tensor | None,
    picks: torch.Tensor | None,
    sink: torch.Tensor,
    *,
    entry_layout: str,
    scale: float,
    batch_invariant: bool,
) -> torch.Tensor:
    """One softmax over window vectors, picked entries and a sink logit; keys are also the values.

    Args:
        q: bf16 [T, H, d] contiguous, with a d that `has_kernel`.
        window: uint8 [M, bytes] contiguous packed Q8/32 vectors.
        window_index: int64 [T, W], W >= 1, rows of `window`; -1 for absent.
        cache: uint8 [units, entries, bytes] contiguous packed vectors of `entry_layout`; None for window only, as are
            the next three.
        block_ids: int64 [B]: units in the order of entries.
        first_block: int64 [T]: place in `block_ids` of each row's first block.
        picks: int64 [T, K] entry numbers below 2^31; -1 for absent.
        sink: float32 [H] logits, not scaled.
        entry_layout: FP4_GROUP16 or FP8_GROUP32.
        scale: factor of q . k.
        batch_invariant: never split a row's keys, so that its bits do not depend on the number of rows.

    Returns:
        bf16 [T, H, d].
    """
    num_rows, num_heads, dim = q.shape
    if num_rows == 0:
        return torch.empty_like(q)
    has_entries = cache is not None and picks is not None and block_ids is not None and first_block is not None
    if not has_entries or not picks.shape[1] or not block_ids.shape[0]:  # stand-ins of the right shapes, never read
        entry_layout, cache, num_picks, unit_entries = FP8_GROUP32, window, 0, 1
        block_ids = first_block = window_index.view(-1)[:num_rows]
        picks = window_index
    else:
        num_picks, unit_entries = picks.shape[1], cache.shape[1]
    window, cache = _words(window, FP8_GROUP32, dim), _words(cache, entry_layout, dim)
    num_splits = -(-window_index.shape[1] // KEYS) + -(-num_picks // KEYS)
    blocks = num_rows * -(-num_heads // HEADS)
    if has_sm90_form(num_heads, dim, arch_of(q.device)) and (
        batch_invariant or num_splits == 1 or blocks * num_splits > _FEW * num_processors(q.device)
    ):
        return sparse_attention_sm90(
            q,
            window,
            window_index,
            cache,
            block_ids,
            first_block,
            picks,
            sink,
            entry_layout=entry_layout,
            num_picks=num_picks,
            unit_entries=unit_entries,
            scale=scale,
            batch_invariant=batch_invariant,
        )
    split = not batch_invariant and 1 < num_splits <= _MAX_SPLIT_BLOCKS // blocks
    if split:
        out = torch.empty(num_rows, num_splits, num_heads, dim, dtype=torch.float32, device=q.device)
        stats = torch.empty(num_rows, num_splits, 2, num_heads, dtype=torch.float32, device=q.device)
    else:
        out, stats, num_splits = torch.empty_like(q), sink, 1
    statics = {"num_heads": num_heads, "dim": dim, "entry_layout": entry_layout, "has_entries": num_picks > 0}
    kernel = compiled(sparse_attention_kernel, arch_of(q.device), **statics, split=split)
    kernel(
        q,
        window,
        window_index,
        cache,
        block_ids,
        first_block,
        picks,
        sink,
        out.view(-1, num_heads, dim),
        stats.view(-1, num_heads),
        num_splits,
        unit_entries,
        scale,
    )
    return combine_splits(out, stats) if split else out


def _words(data: torch.Tensor, layout: str, dim: int) -> torch.Tensor:
    """Packed vectors uint8 [..., bytes] as kernels take them: [vectors, words]."""
    dtype = torch.int32 if word_bytes(layout, dim) == 4 else torch.uint8
    return data.view(dtype).view(-1, vector_words(layout, dim))


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Whole and split forms, each for the two cache layouts and for the window alone."""
    sources = [(FP4_GROUP16, True), (FP8_GROUP32, True), (FP8_GROUP32, False)]
    arches = tuple(arch for arch in ARCHES if has_kernel(sizes.head_dim, arch))
    return [
        KernelSpec(
            f"attention.sparse_attention.{'split' if split else 'whole'}",
            sparse_attention_kernel,
            {
                "num_heads": sizes.num_heads,
                "dim": sizes.head_dim,
                "entry_layout": layout,
                "has_entries": has_entries,
                "split": split,
            },
            instructions={"sm_90a": "wgmma", "sm_100a": "tcgen05"},
            arches=arches,
        )
        for split in (False, True)
        for layout, has_entries in sources
    ]
