"""Scores of index keys, straight from their packed FP4 bytes in the paged cache."""

import math
from dataclasses import dataclass
from typing import Any, Self

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of, is_sm100
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

TILE = 128  # keys of one product: the rows of its left operand
_GROUP = 32  # columns per scale
_BUSY_BLOCKS = 1056  # thread blocks that fill a device of 132 multiprocessors
_MOST_ROWS = 32  # rows that one thread block goes through, so that it decodes its keys once
_WORD_TYPES = {4: torch.int32, 2: torch.int16, 1: torch.uint8}


@dataclass(frozen=True, slots=True)
class PagedKeys:
    """Packed FP4 index keys behind block tables.

    Attributes:
        data: uint8 [units, entries, bytes] contiguous: dim/2 bytes of e2m1 pairs (even column low), then dim/32 E8M0.
        block_ids: int64 [B], block tables one behind the other.
        first_block: int64 [T], where a row's table begins.
    """

    data: torch.Tensor
    block_ids: torch.Tensor
    first_block: torch.Tensor

    def rows(self, where: slice) -> Self:
        """The same keys for some of the rows."""
        return type(self)(self.data, self.block_ids, self.first_block[where])


def _load_sizes(entries_per_block: int, key_bytes: int, block_size: int) -> tuple[int, int, int]:
    """Keys that lie side by side for sure, bytes of a word, words of one load."""
    run = math.gcd(entries_per_block, block_size, TILE)
    word = math.gcd(key_bytes, 4)
    return run, word, math.gcd(run * key_bytes, 16) // word


def index_scores_kernel(arch: str, num_heads: int, dim: int, entries_per_block: int, block_size: int) -> Any:
    """``scale * sum_h w[h] relu(q[h] . key)``; a thread block holds a tile of decoded keys and goes through rows.

    One row is one product [128 keys, dim] x [dim, heads], whatever rows are beside it. Keys are decoded again when the
    next row belongs to another sequence, sees blocks that are not there yet, or has other candidates. The form for
    sm_100a (tcgen05) is compiled, never run.

    Args:
        block_size: 0: column n of the scores is entry n. Otherwise the scores are those of a row's candidate blocks,
            one behind the other, of `block_size` entries each.
    """
    num_rows, num_units, num_ids = T.dynamic("num_rows"), T.dynamic("num_units"), T.dynamic("num_ids")
    num_candidates, stride = T.dynamic("num_candidates"), T.dynamic("stride")
    tcgen05, gathered = is_sm100(arch), block_size > 0
    threads = 128 if tcgen05 else 256
    columns = -(-num_heads // 16) * 16
    key_bytes = dim // 2 + dim // _GROUP
    run, word, vector = _load_sizes(entries_per_block, key_bytes, block_size)
    key_words = key_bytes // word
    word_type = str(_WORD_TYPES[word]).removeprefix("torch.")
    run_vectors, num_vectors = run * key_words // vector, TILE * key_words // vector
    unit_vectors = entries_per_block * key_words // vector
    tile_blocks = (TILE + block_size - 1) // block_size + (TILE % block_size > 0) if gathered else 0
    octets = dim // 8  # eight columns are decoded at a time

    @T.macro
    def load_keys(
        data: Any, block_ids: Any, candidates: Any, raw: Any, row: Any, tile: Any, first: Any, visible: Any, tx: Any
    ) -> None:
        """Packed keys of a tile, as they are, into shared memory; blocks that the row does not see stay out."""
        entry = T.alloc_var("int32")
        unit = T.alloc_var("int64")
        chunk = T.alloc_var("int32")
        for step in T.unroll(-(-num_vectors // threads)):
            place = step * threads + tx
            if place < num_vectors:
                slot = tile * TILE + place // run_vectors * run
                if gathered:
                    entry = -1
                    if slot // block_size < num_candidates:
                        entry = T.Cast("int32", candidates[row, slot // block_size])
                        if entry >= 0:
                            entry = entry * block_size + slot % block_size
                else:
                    entry = slot
                if entry >= 0 and entry < visible:
                    unit = block_ids[first + entry // entries_per_block]
                    chunk = entry % entries_per_block // run * run_vectors + place % run_vectors
                    if unit >= 0 and unit < num_units and chunk >= 0 and chunk < unit_vectors:
                        for v in T.vectorized(vector):
                            raw[place * vector + v] = data[unit, chunk, v]

    @T.macro
    def decode_keys(raw: Any, keys: Any, tx: Any) -> None:
        """e2m1 * 2^s as bf16, exactly: the code's bits as a bf16 are the value times 2^-126."""
        pairs = T.alloc_local((4,), "uint32")
        values = T.view(pairs, (8,), "bfloat16")
        for step in T.unroll(-(-TILE * octets // threads)):
            place = step * threads + tx
            if place < TILE * octets:
                base, octet = place // octets * key_words, place % octets
                codes = T.alloc_var("uint32")
                codes = T.uint32(0)
                for i in T.unroll(4 // word):
                    part = T.Cast("uint32", raw[base + octet * (4 // word) + i]) & T.uint32((1 << 8 * word) - 1)
                    codes = codes | (part << T.uint32(8 * word * i))
                scale_byte = dim // 2 + octet * 8 // _GROUP
                exponent = (T.Cast("int32", raw[base + scale_byte // word]) >> (scale_byte % word * 8)) & 255
                edge = T.if_then_else(exponent == 0, 0x40, 0x7FC0)
                bits_of_scale = T.if_then_else((exponent == 0) | (exponent == 255), edge, exponent << 7)
                one = T.Cast("uint32", bits_of_scale)
                scale = T.reinterpret(one | (one << T.uint32(16)), "bfloat16x2")
                for i in T.unroll(4):
                    byte = (codes >> T.uint32(8 * i)) & T.uint32(255)
                    both = byte | (byte << T.uint32(12))  # the codes at bits 0 and 16
                    bits = ((both << T.uint32(12)) & T.uint32(0x80008000)) | (
                        (both << T.uint32(6)) & T.uint32(0x01C001C0)
                    )
                    unscaled = T.mul2(
                        T.reinterpret(bits, "bfloat16x2"), T.reinterpret(T.uint32(0x7E807E80), "bfloat16x2")
                    )
                    pairs[i] = T.reinterpret(T.mul2(unscaled, scale), "uint32")
                for v in T.vectorized(8):
                    keys[place // octets, octet * 8 + v] = values[v]

    @T.macro
    def store_scores(
        acc: Any,
        sums: Any,
        weights: Any,
        candidates: Any,
        scores: Any,
        row: Any,
        tile: Any,
        visible: Any,
        scale: Any,
        round_bf16: Any,
    ) -> None:
        """relu, head weights, sum over heads, factor, rounding, -inf at entries that the row does not see."""
        for i, h in T.Parallel(TILE, columns):
            acc[i, h] = T.if_then_else(acc[i, h] < 0, 0.0, acc[i, h]) * weights[h]  # NaN stays
        T.reduce_sum(acc, sums, dim=1)
        for i in T.Parallel(TILE):
            slot = tile * TILE + i
            scaled = sums[i] * scale
            rounded = T.if_then_else(round_bf16 != 0, T.Cast("float32", T.Cast("bfloat16", scaled)), scaled)
            if gathered:
                inside = slot // block_size < num_candidates
                block = T.Cast("int32", T.if_then_else(inside, candidates[row, slot // block_size], T.int64(-1)))
                seen = (block >= 0) & (block * block_size + slot % block_size < visible)
                scores[row, slot] = T.if_then_else(seen, rounded, -T.infinity("float32"))
            else:
                scores[row, slot] = T.if_then_else(slot < visible, rounded, -T.infinity("float32"))

    @T.prim_func
    def index_scores(
        q: T.Tensor((num_rows, num_heads, dim), "bfloat16"),
        head_weights: T.Tensor((num_rows, num_heads), "float32"),
        data: T.Tensor((num_units, unit_vectors, vector), word_type),
        block_ids: T.Tensor((num_ids,), "int64"),
        first_block: T.Tensor((num_rows,), "int64"),
        num_visible: T.Tensor((num_rows,), "int64"),
        candidates: T.Tensor((num_rows, num_candidates), "int64"),
        scores: T.Tensor((num_rows, stride), "float32"),
        num_tiles: T.int32,
        rows_per_block: T.int32,
        least: T.int32,
        scale: T.float32,
        round_bf16: T.int32,
    ):
        with T.Kernel(num_tiles, T.ceildiv(num_rows, rows_per_block), threads=threads) as (tile, part):
            tx = T.get_thread_binding()
            raw = T.alloc_shared((TILE * key_words,), word_type)
            keys = T.alloc_shared((TILE, dim), "bfloat16")
            query = T.alloc_shared((columns, dim), "bfloat16")
            weights = T.alloc_shared((columns,), "float32")
            acc = T.alloc_fragment((TILE, columns), "float32")
            sums = T.alloc_fragment((TILE,), "float32")
            held_first = T.alloc_var("int64", init=-1)
            held_end = T.alloc_var("int32", init=0)
            held_row = T.alloc_var("int32", init=0)
            stale = T.alloc_var("int32")
            visible = T.alloc_var("int32")
            first = T.alloc_var("int64")
            end = T.alloc_var("int32")
            if tcgen05:
                product = T.alloc_tmem([TILE, columns], "float32")
                done = T.alloc_barrier(1)
                phase = T.alloc_var("int32", init=0)
            if columns > num_heads:
                T.clear(query)
                T.clear(weights)
            for r in T.serial(rows_per_block):
                row = part * rows_per_block + r
                if row < num_rows:
                    visible = T.Cast("int32", num_visible[row])
                    if visible > least and (gathered or tile * TILE < visible):
                        first = first_block[row]
                        end = visible if gathered else T.min(visible, (tile + 1) * TILE)
                        if gathered:
                            stale = T.Cast("int32", first != held_first)
                            if run < block_size and visible > held_end:  # a block may be there in part
                                stale = 1
                            if tx < tile_blocks and tile * TILE // block_size + tx < num_candidates:
                                block = tile * TILE // block_size + tx
                                if candidates[row, block] != candidates[held_row, block]:
                                    stale = 1
                            stale = T.syncthreads_or(stale)
                        else:
                            stale = T.Cast("int32", (first != held_first) | (end > held_end))
                        if stale != 0:
                            load_keys(data, block_ids, candidates, raw, row, tile, first, visible, tx)
                            T.sync_threads()
                            decode_keys(raw, keys, tx)
                            held_first = first
                            held_end = T.ceildiv(end, run) * run
                            held_row = row
                        for h, d in T.Parallel(num_heads, dim):
                            query[h, d] = q[row, h, d]
                        for h in T.Parallel(num_heads):
                            weights[h] = head_weights[row, h]
                        T.fence_proxy_async()  # what was written above is read by the tensor cores
                        if tcgen05:
                            T.tcgen05_gemm(keys, query, product, transpose_B=True, clear_accum=True, mbar=done)
                            T.mbarrier_wait_parity(done, phase)
                            phase = phase ^ 1
                            T.copy(product, acc)
                        else:
                            T.gemm(
                                keys,
                                query,
                                acc,
                                transpose_B=True,
                                clear_accum=True,
                                policy=T.GemmWarpPolicy.FullRow,
                            )
                        store_scores(acc, sums, weights, candidates, scores, row, tile, visible, scale, round_bf16)

    return index_scores


def index_scores(
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: PagedKeys,
    num_visible: torch.Tensor,
    candidates: torch.Tensor | None = None,
    *,
    max_visible: int,
    scale: float,
    round_bf16: bool,
    block_size: int = 0,
    least: int = 0,
) -> torch.Tensor:
    """Scores of every visible entry, or of the candidate blocks' entries.

    Args:
        q: bf16 [T, Hi, di] contiguous.
        head_weights: float32 [T, Hi] contiguous.
        keys: the packed keys.
        num_visible: int64 [T], at most `max_visible`.
        candidates: int64 [T, B] block numbers, ascending, -1 padded; None: every entry.
        max_visible: known to the host.
        scale: constant factor.
        round_bf16: round the scaled score to bf16.
        block_size: entries of a candidate block.
        least: rows that see no more than this are left out.

    Returns:
        float32 [T, columns], columns a multiple of 128. Without candidates column n is entry n; those from a row's
        num_visible on hold -inf or anything. With candidates column j is entry ``j % block_size`` of the block
        ``candidates[:, j // block_size]``, -inf where there is none. Rows left out hold anything.
    """
    num_slots = max_visible
    if candidates is not None:
        num_slots = min(candidates.shape[1], -(-max_visible // block_size)) * block_size
    num_tiles, num_rows = -(-num_slots // TILE), q.shape[0]
    scores = torch.empty(num_rows, num_tiles * TILE, dtype=torch.float32, device=q.device)
    if scores.numel() == 0:
        return scores
    block_size = block_size if candidates is not None else 0
    _, entries_per_block, key_bytes = keys.data.shape
    _, word, vector = _load_sizes(entries_per_block, key_bytes, block_size)
    kernel = compiled(
        index_scores_kernel,
        arch_of(q.device),
        num_heads=q.shape[1],
        dim=q.shape[2],
        entries_per_block=entries_per_block,
        block_size=block_size,
    )
    rows_per_block = max(1, min(_MOST_ROWS, num_rows * num_tiles // _BUSY_BLOCKS))
    kernel(
        q,
        head_weights,
        keys.data.view(keys.data.shape[0], -1, vector * word).view(_WORD_TYPES[word]),
        keys.block_ids,
        keys.first_block,
        num_visible,
        num_visible.unsqueeze(1) if candidates is None else candidates,
        scores,
        num_tiles,
        rows_per_block,
        least,
        scale,
        int(round_bf16),
    )
    return scores


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Every entry of both compression ratios, and the candidate blocks of ratio 1."""
    note = "one tensor-core form for few and many rows, so that a row's scores never depend on the rows beside it"
    forms = [("", 1, 0), ("", 2, 0), (".candidates", 1, sizes.candidate_block_size)]
    return [
        KernelSpec(
            f"index.index_scores{form}",
            index_scores_kernel,
            {
                "num_heads": sizes.index_n_heads,
                "dim": sizes.index_head_dim,
                "entries_per_block": sizes.block_size // ratio,
                "block_size": block_size,
            },
            {"sm_90a": "wgmma", "sm_100a": "tcgen05"},
            note,
        )
        for form, ratio, block_size in forms
    ]
