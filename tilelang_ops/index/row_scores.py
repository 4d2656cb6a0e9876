"""Scores of index keys for rows that do not share them: every row goes through its own keys."""

import math
from typing import Any

import tilelang.language as T
import torch
from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter
from tilelang.layout import make_swizzled_layout
from tilelang.utils.language import to_buffer_region

from tilelang_ops.index.index_scores import PagedKeys
from tilelang_ops.index.key_words import KEYS, WORDS_ARCH, decode_row, key_words, padded_heads, takes_words
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.processors import num_processors

_LANES = 32
_GROUPS = 2  # of four warps, in a thread block
_STEP = KEYS * _GROUPS
_STAGES = 4  # of 64 keys on their way, for each group
_BLOCKS = 3  # thread blocks of a multiprocessor
_BUSY = 24  # groups of four warps for a multiprocessor: many more than run at once, so that the last ones end together
_LEAST_STEPS = 4  # of a thread block


def scores_emitter(columns: int, dim: int, thread: Any) -> TensorCoreIntrinEmitter:
    """Products of 64 decoded keys of a group of four warps with `columns` query heads."""
    return TensorCoreIntrinEmitter(
        a_dtype="bfloat16",
        b_dtype="bfloat16",
        accum_dtype="float32",
        b_transposed=True,
        block_row_warps=4,
        block_col_warps=1,
        warp_row_tiles=16,
        warp_col_tiles=columns,
        chunk=dim,
        thread_var=thread,
    )


def multiply_keys(emitter: TensorCoreIntrinEmitter, layout: Any, pairs: Any, query: Any, product: Any) -> Any:
    """A macro call: product = keys (bf16 pairs in registers) times the query heads in shared memory, and the wait."""
    emitter._assign_b_shared_layout(layout)
    region = to_buffer_region(query)
    params = emitter.compute_wgmma_b_desc_params(region)
    steps, accumulators = emitter.wgmma_num_k_atoms, emitter.wgmma_inst_n // 2
    panel, in_panel = params.k_panel_stride(emitter.wgmma_inst_n), params.k_atom_size

    @T.macro
    def multiply(pairs: Any, product: Any) -> None:
        desc = T.alloc_wgmma_desc()
        emitter.init_wgmma_b_desc(desc, region, params)
        T.warpgroup_fence_operand(pairs, num_regs=steps * 4)
        T.warpgroup_fence_operand(product, num_regs=accumulators)
        T.warpgroup_arrive()
        for step in T.unroll(steps):
            T.ptx_wgmma_rs(
                "float32",
                emitter.wgmma_prefix,
                True,
                emitter.a_dtype_abbrv,
                emitter.b_dtype_abbrv,
                emitter.accum_dtype_abbrv,
                pairs.data,
                step * 4,
                desc.data,
                (step // in_panel * panel + step % in_panel * 16) * 2 >> 4,
                product.data,
                0,
                T.Select(step > 0, 1, 0),
                1,
                1,
            )
        T.warpgroup_commit_batch()
        T.warpgroup_wait(0)
        T.warpgroup_fence_operand(product, num_regs=accumulators)
        T.warpgroup_fence_operand(pairs, num_regs=steps * 4)

    return multiply(pairs, product)


@T.macro
def sum_heads(product: Any, weights: Any, sums: Any, columns: int, rank: int = 0) -> None:
    """sums[2 rank + half] = 2 * sum over heads of weight * relu(product), the same in the four lanes of a row.

    2 relu(x) is x + |x|: an instruction less, the same bits, and NaN stays. `rank` counts rows of queries whose heads
    lie side by side.
    """
    for half in T.unroll(2):
        sums[rank * 2 + half] = 0.0
        for j in T.unroll(columns // 8):
            for e in T.unroll(2):
                value = product[rank * (columns // 2) + j * 4 + half * 2 + e]
                sums[rank * 2 + half] += (value + T.abs(value)) * weights[j * 2 + e]
        sums[rank * 2 + half] += T.shfl_xor(sums[rank * 2 + half], 1)
        sums[rank * 2 + half] += T.shfl_xor(sums[rank * 2 + half], 2)


def row_scores_kernel(
    arch: str,
    num_heads: int,
    dim: int,
    entries_per_block: int,
    block_size: int,
) -> Any:
    """``bf16(scale * sum_h w[h] relu(q[h] . key))`` of a stretch of one row's entries.

    Groups of four warps take 64 entries in turn. Packed keys come into shared memory some steps ahead; a lane decodes a
    quarter of two keys into operand registers, and the tensor cores multiply them with the row's heads.

    Args:
        arch: "sm_90a".
        num_heads: Hi.
        dim: columns of a key, a multiple of 128.
        entries_per_block: of a page.
        block_size: 0: column n of the scores is entry n. Otherwise the scores are those of a row's candidate blocks.
    """
    num_rows, num_units, num_ids = T.dynamic("num_rows"), T.dynamic("num_units"), T.dynamic("num_ids")
    num_candidates, stride = T.dynamic("num_candidates"), T.dynamic("stride")
    gathered = block_size > 0
    columns, words = padded_heads(num_heads), key_words(dim)
    warpgroups, stages = _GROUPS, _STAGES
    run = math.gcd(entries_per_block, block_size or KEYS, KEYS)  # keys that lie side by side for sure
    runs, run_words = KEYS // run, run * words
    inner = math.gcd(run_words, 64)
    unit = max(32, inner)
    chunk_rows, pitch_rows = run_words // inner, -(-run_words // unit) * unit // inner
    lane_words, lane_scales = dim // 32, dim // 128

    @T.macro
    def entry_of(candidates: Any, row: Any, slot: Any, visible: Any, entry: Any) -> None:
        """Number of the entry of a column, -1 if the row does not see it."""
        entry[0] = slot
        if gathered:
            entry[0] = -1
            if slot // block_size < num_candidates:
                entry[0] = T.Cast("int32", candidates[row, slot // block_size])
                if entry[0] >= 0:
                    entry[0] = entry[0] * block_size + slot % block_size
        if entry[0] >= visible:
            entry[0] = -1

    @T.macro
    def load(
        data: Any,
        block_ids: Any,
        candidates: Any,
        raw: Any,
        full: Any,
        row: Any,
        slot: Any,
        first: Any,
        visible: Any,
        place: Any,
    ):
        """The packed keys of 64 columns on their way into a stage; by one warp."""
        entry = T.alloc_local((1,), "int32")
        page = T.alloc_var("int32")
        for r in T.unroll(runs):
            entry_of(candidates, row, slot + r * run, visible, entry)
            if entry[0] >= 0:
                page = T.Cast("int32", block_ids[first + entry[0] // entries_per_block])
                if page >= 0 and page < num_units:
                    begin = entry[0] % entries_per_block // run * chunk_rows
                    T.tma_copy(
                        data[page : page + 1, begin : begin + chunk_rows, :],
                        raw[place * runs + r : place * runs + r + 1, 0:chunk_rows, :],
                        barrier=full[place],
                        leader_scope_threads=_LANES,
                    )
        T.mbarrier_arrive(full[place])

    @T.prim_func
    def row_scores(
        q: T.Tensor((num_rows, columns, dim), "bfloat16"),
        head_weights: T.Tensor((num_rows, num_heads), "float32"),
        data: T.Tensor((num_units, entries_per_block * words // inner, inner), "uint32"),
        block_ids: T.Tensor((num_ids,), "int64"),
        first_block: T.Tensor((num_rows,), "int64"),
        num_visible: T.Tensor((num_rows,), "int64"),
        candidates: T.Tensor((num_rows, num_candidates), "int64"),
        scores: T.Tensor((num_rows, stride), "bfloat16"),
        num_slots: T.int32,
        slots_per_block: T.int32,
        least: T.int32,
        scale: T.float32,
    ):
        with T.Kernel(T.ceildiv(num_slots, slots_per_block), num_rows, threads=128 * warpgroups) as (part, row):
            T.annotate_min_blocks_per_sm(_BLOCKS)
            raw = T.alloc_shared((warpgroups * stages * runs, pitch_rows, inner), "uint32")
            query = T.alloc_shared((columns, dim), "bfloat16")
            full = T.alloc_barrier([_LANES] * (warpgroups * stages))
            code_words = T.alloc_local((lane_words,), "uint32")
            scale_bytes = T.alloc_local((lane_scales,), "uint32")
            pairs = T.alloc_local((dim // 4,), "uint32")
            product = T.alloc_local((columns // 2,), "float32")
            weights = T.alloc_local((columns // 4,), "float32")
            sums = T.alloc_local((2,), "float32")
            entry = T.alloc_local((1,), "int32")
            visible = T.alloc_var("int32")
            last = T.alloc_var("int32")
            count = T.alloc_var("int32")
            first = T.alloc_var("int64")
            thread = T.get_thread_binding()
            warpgroup, inside = thread // 128, thread % 128
            lane, warp = thread % _LANES, inside // _LANES
            layout = make_swizzled_layout(query)
            T.annotate_layout({query: layout})
            emitter = scores_emitter(columns, dim, inside)
            visible = T.Cast("int32", num_visible[row])
            first = first_block[row]
            last = T.min((part + 1) * slots_per_block, num_slots if gathered else T.min(num_slots, visible))
            # columns of this group of warps: from its first 64 in steps of `warpgroups` times 64
            begin = part * slots_per_block + warpgroup * KEYS
            count = 0
            if visible > least:
                count = T.max(T.ceildiv(last - begin, KEYS * warpgroups), 0)
            if inside < _LANES:
                for m in T.unroll(stages):
                    if m < count:
                        slot = begin + m * KEYS * warpgroups
                        load(data, block_ids, candidates, raw, full, row, slot, first, visible, warpgroup * stages + m)
            for h, d in T.Parallel(columns, dim):
                query[h, d] = q[row, h, d]
            T.fence_proxy_async()
            T.sync_threads()
            for j, e in T.grid(columns // 8, 2):
                weights[j * 2 + e] = 0.0
                if j * 8 + lane % 4 * 2 + e < num_heads:
                    weights[j * 2 + e] = head_weights[row, j * 8 + lane % 4 * 2 + e]
            for m in T.serial(count):
                place = warpgroup * stages + m % stages
                T.mbarrier_wait_parity(full[place], m // stages & 1)
                for half in T.unroll(2):
                    key = warp * 16 + half * 8 + lane // 4
                    base = key % run * words
                    for n in T.unroll(lane_words):
                        word = base + lane % 4 * lane_words + n
                        code_words[n] = T.lds32(raw[place * runs + key // run, word // inner, word % inner])
                    for n in T.unroll(lane_scales):
                        byte = lane % 4 * lane_scales + n
                        word = base + dim // 8 + byte // 4
                        scale_bytes[n] = (
                            T.lds32(raw[place * runs + key // run, word // inner, word % inner])
                            >> T.Cast("uint32", byte % 4 * 8)
                        ) & T.uint32(255)
                    decode_row(code_words, scale_bytes, pairs, half, dim)
                T.sync_threads(warpgroup + 1, 128)
                if inside < _LANES and m + stages < count:
                    slot = begin + (m + stages) * KEYS * warpgroups
                    load(data, block_ids, candidates, raw, full, row, slot, first, visible, place)
                multiply_keys(emitter, layout, pairs, query, product)
                sum_heads(product, weights, sums, columns)
                if lane % 4 < 2:
                    slot = begin + m * KEYS * warpgroups + warp * 16 + lane % 4 * 8 + lane // 4
                    entry_of(candidates, row, slot, visible, entry)
                    value = T.if_then_else(lane % 4 == 0, sums[0], sums[1]) * (scale * 0.5)
                    if slot < stride:
                        scores[row, slot] = T.Cast(
                            "bfloat16", T.if_then_else((entry[0] >= 0) & ~T.isnan(value), value, -T.infinity("float32"))
                        )

    # Groups of warps take different numbers of steps: they must not meet at a barrier of the whole block in the loop.
    return row_scores.with_attr("tilelang_pass_configs", {"tl.disable_thread_storage_sync": True})


def row_scores(
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: PagedKeys,
    num_visible: torch.Tensor,
    candidates: torch.Tensor | None = None,
    *,
    max_visible: int,
    scale: float,
    block_size: int = 0,
    least: int = 0,
) -> torch.Tensor:
    """Scores of every visible entry, or of the candidate blocks' entries, of rows that need not share their keys.

    Args:
        q: bf16 [T, heads, di] of `arrange_queries`.
        head_weights: float32 [T, Hi] contiguous.
        keys: the packed keys.
        num_visible: int64 [T], at most `max_visible`.
        candidates: int64 [T, B] block numbers, ascending, -1 padded; None: every entry.
        max_visible: known to the host.
        scale: constant factor.
        block_size: entries of a candidate block.
        least: rows that see no more than this are left out.

    Returns:
        bf16 [T, columns], columns a multiple of 128; NaN scores are -inf. Without candidates column n is entry n; those
        from a row's num_visible on hold anything. With candidates column j is entry ``j % block_size`` of the block
        ``candidates[:, j // block_size]``, -inf where there is none; those behind the last one that there can be hold
        anything. Rows left out hold anything.
    """
    (num_rows, _, dim), (units, size, _) = q.shape, keys.data.shape
    block_size = 0 if candidates is None else block_size
    slots = max_visible if candidates is None else min(candidates.shape[1], -(-max_visible // block_size)) * block_size
    stride = -(-slots // _STEP) * _STEP
    scores = torch.empty(num_rows, stride, dtype=torch.bfloat16, device=q.device)
    if scores.numel() == 0:
        return scores
    inner = math.gcd(math.gcd(size, block_size or KEYS, KEYS) * key_words(dim), 64)
    steps = max(_LEAST_STEPS, -(-stride * num_rows // (KEYS * _BUSY * num_processors(q.device))))
    kernel = compiled(
        row_scores_kernel,
        arch_of(q.device),
        num_heads=head_weights.shape[1],
        dim=dim,
        entries_per_block=size,
        block_size=block_size,
    )
    kernel(
        q,
        head_weights,
        keys.data.view(torch.uint32).view(units, -1, inner),
        keys.block_ids,
        keys.first_block,
        num_visible,
        num_visible.unsqueeze(1) if candidates is None else candidates,
        scores,
        slots,
        min(stride, steps * _STEP),
        least,
        scale,
    )
    return scores


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Every entry of both compression ratios, and the candidate blocks of ratio 1."""
    if not takes_words(sizes.index_n_heads, sizes.index_head_dim):
        return []
    shape = {"num_heads": sizes.index_n_heads, "dim": sizes.index_head_dim}
    return [
        KernelSpec(
            f"index.row_scores{form}",
            row_scores_kernel,
            shape | {"entries_per_block": sizes.block_size // ratio, "block_size": block_size},
            {WORDS_ARCH: "wgmma"},
            arches=(WORDS_ARCH,),
        )
        for form, ratio, block_size in (("", 1, 0), ("", 2, 0), (".candidates", 1, sizes.candidate_block_size))
    ]
