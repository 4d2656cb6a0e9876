"""Attention over gathered keys with warps that decode and warps that multiply: the fast form of SM90."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.attention.key_stream import KeyStream
from tilelang_ops.attention.key_words import PRELUDE
from tilelang_ops.attention.packed_keys import FP4_GROUP16, FP8_GROUP32, KEYS, vector_words, word_bytes, word_dtype
from tilelang_ops.attention.split_join import JOIN_PRELUDE
from tilelang_ops.attention.tile_products import HEADS, TileProducts
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.processors import num_processors

_ARCH = "sm_90a"
# Of a thread. Two warpgroups multiply and one decodes; together they may not ask for more than the 3 * 168 that a block
# of 384 threads starts with: a thread that asks for more than is left waits for ever.
_CONSUMER_REGISTERS, _PRODUCER_REGISTERS = 208, 88
_PRODUCER_WARPS = 4
# Splits of a row's keys, and the share of the multiprocessors that clusters of so many thread blocks can fill: each
# lies within a group of 14 to 18 multiprocessors.
_SPLITS = {8: 0.84, 4: 0.9, 2: 1.0}


def has_sm90_form(num_heads: int, dim: int, arch: str) -> bool:
    """Whether this kernel takes heads of that number and width: packed vectors are made of whole 16-byte parts."""
    whole = all(vector_words(layout, dim) * word_bytes(layout, dim) % 16 == 0 for layout in (FP8_GROUP32, FP4_GROUP16))
    return arch == _ARCH and num_heads % HEADS == 0 and dim % 256 == 0 and dim <= 512 and whole


def sparse_attention_sm90(
    q: torch.Tensor,
    window: torch.Tensor,
    window_index: torch.Tensor,
    cache: torch.Tensor,
    block_ids: torch.Tensor,
    first_block: torch.Tensor,
    picks: torch.Tensor,
    sink: torch.Tensor,
    *,
    entry_layout: str,
    num_picks: int,
    unit_entries: int,
    scale: float,
    batch_invariant: bool,
) -> torch.Tensor:
    """`sparse_attention` where `has_sm90_form`, of at least one row.

    Args:
        window: int32 words [M, words] of 16-byte aligned vectors, as is `cache`.
        num_picks: 0 for a window alone; the operands of entries are then stand-ins.
        batch_invariant: one thread block a row, whatever the number of rows.
    """
    num_rows, num_heads, dim = q.shape
    items, out = num_rows * (num_heads // HEADS), torch.empty_like(q)
    tiles = -(-window_index.shape[1] // KEYS) + -(-num_picks // KEYS)
    at_once = num_processors(q.device)
    splits = 1 if batch_invariant else best_splits(items, tiles, at_once)
    statics = {"num_heads": num_heads, "dim": dim, "entry_layout": entry_layout, "has_entries": num_picks > 0}
    kernel = compiled(sparse_attention_sm90_kernel, _ARCH, **statics, splits=splits)
    shift = unit_entries.bit_length() - 1 if unit_entries & (unit_entries - 1) == 0 else -1
    programs = min(items, at_once) if splits == 1 else items
    sources = (window, window_index, cache, block_ids, first_block, picks)
    kernel(q, *sources, sink, out, programs, unit_entries, shift, scale)
    return out


def best_splits(items: int, tiles: int, at_once: int) -> int:
    """As many as keep every thread block running at once, on `at_once` multiprocessors, with tiles of its own.

    Args:
        items: blocks of heads of all rows.
        tiles: of a row's keys.
    """
    return next((n for n, share in _SPLITS.items() if n <= tiles and items * n <= share * at_once), 1)


def sparse_attention_sm90_kernel(
    arch: str,
    num_heads: int,
    dim: int,
    entry_layout: str,
    has_entries: bool,
    splits: int,
) -> Any:
    """Persistent thread blocks, one a multiprocessor: two warpgroups multiply, one gathers and decodes keys.

    Tile i of a row's keys (window first, then entries) is in buffer i % 2; warpgroup i % 2 makes its logits and softmax
    weights, and each warpgroup adds the weighted values of all tiles for its half of the columns: weights change hands
    in shared memory. So one warpgroup's softmax is covered by the other's products. Keys and queries are float16, in
    which packed vectors (FP4 ones divided by 2^FOLD) are exact, and so are bf16 queries of magnitudes 2^-17 .. 65504;
    weights are rounded to float16 (2e-4 of the output).

    The softmax reference of a head follows its running maximum only when that has passed it by 2^8: the output is then
    scaled, which is seldom, and no maximum is waited for otherwise. The sink joins at the end.

    With `splits` > 1 that many thread blocks, a cluster, share a row's tiles and then each join a slice of its columns.

    Args:
        arch: "sm_90a".
        num_heads: a multiple of HEADS.
        dim: 256 or 512.
        splits: thread blocks of a row: 1, 2, 4 or 8.
    """
    num_rows, num_vectors, num_blocks, width, num_picks, num_units = (
        T.dynamic("num_rows"),
        T.dynamic("num_vectors"),
        T.dynamic("num_blocks"),
        T.dynamic("width"),
        T.dynamic("num_picks"),
        T.dynamic("num_units"),
    )
    head_blocks = num_heads // HEADS
    is_fp4 = has_entries and entry_layout == FP4_GROUP16
    keys_of = KeyStream(dim, entry_layout, has_entries, _PRODUCER_WARPS, eager=not is_fp4)
    stream, chunks = keys_of.run(), keys_of.chunks
    consume = TileProducts(head_blocks, dim, splits, folds=is_fp4).run()
    half_dim = dim // 2

    @T.prim_func
    def sparse_attention_sm90(
        q: T.Tensor((num_rows, num_heads, dim), "bfloat16"),
        window: T.Tensor((num_vectors, vector_words(FP8_GROUP32, dim)), word_dtype(FP8_GROUP32, dim)),
        window_index: T.Tensor((num_rows, width), "int64"),
        cache: T.Tensor((num_units, vector_words(entry_layout, dim)), word_dtype(entry_layout, dim)),
        block_ids: T.Tensor((num_blocks,), "int64"),
        first_block: T.Tensor((num_rows,), "int64"),
        picks: T.Tensor((num_rows, num_picks), "int64"),
        sink: T.Tensor((num_heads,), "float32"),
        out: T.Tensor((num_rows, num_heads, dim), "bfloat16"),
        num_programs: T.int32,
        unit_entries: T.int32,
        unit_shift: T.int32,
        scale: T.float32,
    ):
        with T.Kernel(
            num_programs * splits,
            threads=256 + 32 * _PRODUCER_WARPS,
            prelude=PRELUDE + (JOIN_PRELUDE if splits > 1 else ""),
            cluster_dims=splits,
        ) as program:
            q_half = T.alloc_shared((HEADS, dim), "float16")
            tiles = T.alloc_shared((2, KEYS, dim), "float16")
            weights = T.alloc_shared((2, HEADS, KEYS), "float16")
            bias = T.alloc_shared((2, KEYS), "float32")
            shared_reference = T.alloc_shared((2, HEADS), "float32")
            shared_total = T.alloc_shared((2, HEADS), "float32")
            stats = T.alloc_shared((2, HEADS), "float32")
            factors = T.alloc_shared((splits * HEADS,), "float32")
            q_raw = T.view(q_half, (HEADS, dim), "bfloat16")
            stage = T.view(tiles, (2, KEYS, dim), "bfloat16")
            q_loaded = T.alloc_barrier(1)
            q_ready = T.alloc_barrier(8)
            full = T.alloc_barrier([_PRODUCER_WARPS] * (2 * chunks))
            empty = T.alloc_barrier([4] * 4)
            ready = T.alloc_barrier([4] * 2)
            thread = T.get_thread_binding()
            rank = program % splits
            first_item = program // splits
            trips = T.alloc_var("int32")
            trips = T.ceildiv(num_rows * head_blocks - first_item, num_programs)
            window_tiles = T.ceildiv(width, KEYS)
            row_tiles = window_tiles + (T.ceildiv(num_picks, KEYS) if has_entries else 0)
            tiles_each = T.ceildiv(row_tiles, splits)
            first_tile = rank * tiles_each
            num_tiles = T.max(T.min(row_tiles - first_tile, tiles_each), 0) if splits > 1 else row_tiles
            first_folded = window_tiles - first_tile
            shared = (q, q_half, q_raw, tiles, weights, bias, shared_reference, shared_total)
            joint = (stage, stats, factors)
            barriers = (q_loaded, full, empty, ready, q_ready)
            items = (trips, first_item, num_programs, head_blocks)
            if thread < 128:
                T.set_max_nreg(_CONSUMER_REGISTERS, 1)
                logits = T.alloc_fragment((HEADS, KEYS), "float32")
                output = T.alloc_fragment((HEADS, half_dim), "float32")
                total = T.alloc_fragment((HEADS,), "float32")
                reference = T.alloc_fragment((HEADS,), "float32")
                latest = T.alloc_fragment((HEADS,), "float32")
                shrink = T.alloc_fragment((HEADS,), "float32")
                tile_max = T.alloc_fragment((HEADS,), "float32")
                tile_sum = T.alloc_fragment((HEADS,), "float32")
                frags = (logits, output, total, reference, latest, shrink, tile_max, tile_sum)
                operands = (shared, barriers, frags)
                consume(0, thread, items, num_tiles, first_folded, scale, rank, sink, out, joint, operands)
            elif thread < 256:
                T.set_max_nreg(_CONSUMER_REGISTERS, 1)
                logits_1 = T.alloc_fragment((HEADS, KEYS), "float32")
                output_1 = T.alloc_fragment((HEADS, half_dim), "float32")
                total_1 = T.alloc_fragment((HEADS,), "float32")
                reference_1 = T.alloc_fragment((HEADS,), "float32")
                latest_1 = T.alloc_fragment((HEADS,), "float32")
                shrink_1 = T.alloc_fragment((HEADS,), "float32")
                tile_max_1 = T.alloc_fragment((HEADS,), "float32")
                tile_sum_1 = T.alloc_fragment((HEADS,), "float32")
                frags_1 = (logits_1, output_1, total_1, reference_1, latest_1, shrink_1, tile_max_1, tile_sum_1)
                operands_1 = (shared, barriers, frags_1)
                consume(1, thread - 128, items, num_tiles, first_folded, scale, rank, sink, out, joint, operands_1)
            else:
                T.set_max_nreg(_PRODUCER_REGISTERS, 0)
                stream(
                    thread - 256,
                    (window_tiles, num_tiles, first_tile),
                    items,
                    (window, window_index, cache, block_ids, first_block, picks, unit_entries, unit_shift),
                    tiles,
                    bias,
                    full,
                    empty,
                )
                if splits > 1:
                    T.cluster_sync()
                    T.cluster_sync()

    # Every wait is written out: one that the compiler adds would stop the warpgroups from passing each other.
    return sparse_attention_sm90.with_attr("tilelang_pass_configs", {"tl.disable_thread_storage_sync": True})


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """For the two cache layouts and for the window alone, each with every number of splits; SM90 alone."""
    sources = [(FP4_GROUP16, True), (FP8_GROUP32, True), (FP8_GROUP32, False)]
    if not has_sm90_form(sizes.num_heads, sizes.head_dim, _ARCH):
        return []
    return [
        KernelSpec(
            f"attention.sparse_attention.sm90.{'whole' if splits == 1 else 'cluster'}",
            sparse_attention_sm90_kernel,
            {
                "num_heads": sizes.num_heads,
                "dim": sizes.head_dim,
                "entry_layout": layout,
                "has_entries": has_entries,
                "splits": splits,
            },
            instructions={_ARCH: "wgmma"},
            arches=(_ARCH,),
        )
        for layout, has_entries in sources
        for splits in (1, *_SPLITS)
    ]
