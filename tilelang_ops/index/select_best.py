"""The best of a row's bf16 scores, exactly, in ascending order: all of a row's scores stay in registers."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.index.key_words import WORDS_ARCH, takes_words
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 1024
_WARPS = _THREADS // 32
_QUADS = 4  # 32-bit words of a load: eight scores
_LOADS = (1, 2, 4)
_LISTED = 4096  # scores at the lower bound and above that fit in shared memory
_NEVER = 0x80  # order of -inf; no score that may be chosen has it, or less


def _most_columns(loads: int) -> int:
    """Scores that one thread block takes."""
    return _THREADS * 8 * loads


def select_best_kernel(arch: str, loads: int, mapping: str, partial: bool, block_size: int, of_blocks: bool) -> Any:
    """The k best of up to 8,192 * `loads` scores; equal ones go to the first column, -inf to none.

    The k-th largest of the maxima of some groups of scores is a lower bound of the k-th best; what reaches it is listed
    in shared memory, and the k-th best is found among that, bit by bit, by counting. Then the chosen ones are written
    in the order of their columns.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        loads: of eight scores a thread.
        mapping: what a column is: "column" itself; an entry of a candidate block ("candidates") of `block_size`; or
            what `listed` says ("listed").
        partial: a thread block takes a part of the columns and gives its best scores too, for another round.
        block_size: of candidate blocks.
        of_blocks: choose blocks, of which there are ceil(num_visible / block_size); many, so that each of a thread's
            loads gives a maximum to the bound.
    """
    num_rows, octets, k = T.dynamic("num_rows"), T.dynamic("octets"), T.dynamic("k")
    num_candidates, parts = T.dynamic("num_candidates"), T.dynamic("parts")
    words, width, groups = loads * _QUADS, _most_columns(loads), loads if of_blocks else 1

    @T.macro
    def ordered(word: Any) -> Any:
        """Two bf16 scores to 16-bit numbers of the same order; both zeros are 0x8000."""
        magnitude = word & T.uint32(0x7FFF7FFF)
        negative = ((word >> T.uint32(15)) & T.uint32(0x00010001)) * T.uint32(0xFFFF)
        return ((T.uint32(0x80008000) - magnitude) & negative) | ((T.uint32(0x80008000) + magnitude) & ~negative)

    @T.macro
    def scan_warp(value: Any, lane: Any) -> None:
        """Inclusive sum over the lanes of a warp, in place."""
        for i in T.unroll(5):
            moved = T.alloc_var("int32")
            moved = T.shfl_up(value[0], 1 << i)
            if lane >= (1 << i):
                value[0] = value[0] + moved

    @T.prim_func
    def select_best(
        scores: T.Tensor((num_rows, octets, 8), "bfloat16"),
        num_visible: T.Tensor((num_rows,), "int64"),
        candidates: T.Tensor((num_rows, num_candidates), "int64"),
        listed: T.Tensor((num_rows, octets * 8) if mapping == "listed" else (1, 1), "int32"),
        chosen: T.Tensor((num_rows, parts, k), "int32" if partial else "int64"),
        best: T.Tensor((num_rows, parts, k) if partial else (1, 1, 1), "bfloat16"),
        num_columns: T.int32,
        least: T.int32,
    ):
        with T.Kernel(parts, num_rows, threads=_THREADS) as (part, row):
            keys = T.alloc_local((words,), "uint32")
            loaded = T.alloc_local((8,), "bfloat16")
            loaded_words = T.view(loaded, (_QUADS,), "uint32")
            maxima = T.alloc_local((groups,), "int32")
            near = T.alloc_local((_LISTED // _THREADS,), "int32")
            found = T.alloc_shared((_LISTED,), "int32")
            counter = T.alloc_shared((17,), "int32")
            of_warp = T.alloc_shared((_WARPS,), "int32")
            marks = T.alloc_local((1,), "int32")
            visible, count, low, cut = (T.alloc_var("int32") for _ in range(4))
            trial, total, own, place = (T.alloc_var("int32") for _ in range(4))
            mask, above, tied = (T.alloc_var("uint32") for _ in range(3))
            room, key, base = (T.alloc_var("int32") for _ in range(3))
            thread = T.get_thread_binding()
            lane, warp = thread % 32, thread // 32
            visible = T.Cast("int32", num_visible[row])
            count = num_columns
            if mapping == "column":
                count = T.min(num_columns, T.ceildiv(visible, block_size) if of_blocks else visible)
            count = T.max(T.min(count - part * width, width), 0)
            if visible <= least:
                count = 0
            first = warp * (256 * loads) + lane * 8  # of a thread in its part of the columns
            for i in T.unroll(loads):
                for n in T.unroll(_QUADS):
                    keys[i * _QUADS + n] = T.uint32(0)
                if first + i * 256 < count:
                    for v in T.vectorized(8):
                        loaded[v] = scores[row, (part * width + first + i * 256) // 8, v]
                    for n in T.unroll(_QUADS):
                        keys[i * _QUADS + n] = ordered(loaded_words[n])
                        if first + i * 256 + 2 * n >= count:
                            keys[i * _QUADS + n] = T.uint32(0)
                        if first + i * 256 + 2 * n + 1 >= count:
                            keys[i * _QUADS + n] = keys[i * _QUADS + n] & T.uint32(0xFFFF)
            if thread < 17:
                counter[thread] = 0
            for g in T.unroll(groups):
                mask = T.uint32(0)
                for n in T.unroll(words // groups):
                    mask = T.call_extern("uint32", "__vmaxu2", mask, keys[g * (words // groups) + n])
                maxima[g] = T.max(T.Cast("int32", mask & T.uint32(0xFFFF)), T.Cast("int32", mask >> T.uint32(16)))
            low = 0
            for bit in T.serial(16):
                trial = low | (0x8000 >> bit)
                total = 0
                for g in T.unroll(groups):
                    total = total + T.syncthreads_count(maxima[g] >= trial)
                if total >= k:
                    low = trial
            low = T.max(low, _NEVER + 1)
            # one bit for each score that reaches the bound
            mask = T.uint32(0)
            for n in T.unroll(words):
                if T.Cast("int32", keys[n] & T.uint32(0xFFFF)) >= low:
                    mask = mask | T.uint32(1 << (2 * n))
                if T.Cast("int32", keys[n] >> T.uint32(16)) >= low:
                    mask = mask | T.uint32(2 << (2 * n))
            own = T.popcount(mask)
            marks[0] = own
            scan_warp(marks, lane)
            base = 0
            if lane == 31:
                base = T.atomic_add(counter[16], marks[0], return_prev=True)
            base = T.shfl_sync(base, 31) + marks[0] - own
            T.sync_threads()
            total = counter[16]
            cut = low - 1
            if total > k and total <= _LISTED:
                for n in T.unroll(words):
                    for e in T.unroll(2):
                        if (mask >> T.uint32(2 * n + e)) & T.uint32(1) != T.uint32(0):
                            found[base] = T.Cast("int32", (keys[n] >> T.uint32(16 * e)) & T.uint32(0xFFFF))
                            base = base + 1
                T.sync_threads()
                for i in T.unroll(_LISTED // _THREADS):
                    near[i] = 0
                    if i * _THREADS + thread < total:
                        near[i] = found[i * _THREADS + thread]
                cut = 0
                for bit in T.serial(16):
                    trial = cut | (0x8000 >> bit)
                    own = 0
                    for i in T.serial(T.ceildiv(total, _THREADS)):
                        key = near[0]
                        if i == 1:
                            key = near[1]
                        if i == 2:
                            key = near[2]
                        if i == 3:
                            key = near[3]
                        own = own + T.syncthreads_count(key >= trial)
                    if own >= k:
                        cut = trial
            if total > _LISTED:
                cut = 0
                for bit in T.serial(16):
                    trial = cut | (0x8000 >> bit)
                    own = 0
                    for n in T.unroll(words):
                        own = own + T.Cast("int32", T.Cast("int32", keys[n] & T.uint32(0xFFFF)) >= trial)
                        own = own + T.Cast("int32", T.Cast("int32", keys[n] >> T.uint32(16)) >= trial)
                    own = T.warp_reduce_sum(own)
                    if lane == 0:
                        T.atomic_add(counter[bit], own)
                    T.sync_threads()
                    if counter[bit] >= k:
                        cut = trial
                cut = T.max(cut, _NEVER)
            above = T.uint32(0)
            tied = T.uint32(0)
            for n in T.unroll(words):
                for e in T.unroll(2):
                    key = T.Cast("int32", (keys[n] >> T.uint32(16 * e)) & T.uint32(0xFFFF))
                    if key > cut:
                        above = above | T.uint32((1 << e) << (2 * n))
                    if key == cut and cut > _NEVER:
                        tied = tied | T.uint32((1 << e) << (2 * n))
            own = T.popcount(above) + T.popcount(tied) * 65536
            own = T.warp_reduce_sum(own)
            T.sync_threads()
            if lane == 0:
                of_warp[warp] = own
            T.sync_threads()
            total = of_warp[lane]
            own = T.warp_reduce_sum(total & 65535)
            room = k - own  # of the scores equal to the k-th best
            key = T.warp_reduce_sum(total >> 16)
            total = own + T.min(key, room)  # chosen
            own = of_warp[lane]
            own = T.if_then_else(lane < warp, own, 0)
            base = T.warp_reduce_sum(own & 65535)
            place = T.warp_reduce_sum(own >> 16)
            for i in T.unroll(loads):
                own = T.popcount((above >> T.uint32(8 * i)) & T.uint32(255))
                own = own + T.popcount((tied >> T.uint32(8 * i)) & T.uint32(255)) * 65536
                marks[0] = own
                scan_warp(marks, lane)
                key = base + (marks[0] & 65535) - (own & 65535)
                own = place + (marks[0] >> 16) - (own >> 16)
                for v in T.unroll(8):
                    is_above = (above >> T.uint32(8 * i + v)) & T.uint32(1) != T.uint32(0)
                    is_tied = (tied >> T.uint32(8 * i + v)) & T.uint32(1) != T.uint32(0)
                    if is_above or (is_tied and own < room):
                        trial = key + T.min(own, room)
                        if trial < k:
                            column = part * width + first + i * 256 + v
                            if mapping == "candidates":
                                block = candidates[row, column // block_size]
                                chosen[row, part, trial] = T.Cast(
                                    chosen.dtype, block * block_size + T.Cast("int64", column % block_size)
                                )
                            elif mapping == "listed":
                                chosen[row, part, trial] = T.Cast(chosen.dtype, listed[row, column])
                            else:
                                chosen[row, part, trial] = T.Cast(chosen.dtype, column)
                            if partial:
                                best[row, part, trial] = scores[row, column // 8, column % 8]
                    key = key + T.Cast("int32", is_above)
                    own = own + T.Cast("int32", is_tied)
                own = T.shfl_sync(marks[0], 31)
                base = base + (own & 65535)
                place = place + (own >> 16)
            if visible <= least:
                total = 0
            for i in T.serial(T.ceildiv(k, _THREADS)):
                place = i * _THREADS + thread
                if place < k and place >= total:
                    chosen[row, part, place] = T.Cast(chosen.dtype, -1)
                    if partial:
                        best[row, part, place] = T.reinterpret(T.uint16(0xFF80), "bfloat16")  # -inf
                    elif not of_blocks and visible <= least and place < visible:
                        chosen[row, part, place] = T.Cast(chosen.dtype, place)

    return select_best


def select_best(
    scores: torch.Tensor,
    num_visible: torch.Tensor,
    k: int,
    *,
    num_columns: int,
    least: int,
    candidates: torch.Tensor | None = None,
    block_size: int = 0,
    of_blocks: bool = False,
) -> torch.Tensor:
    """The k best columns of every row.

    Args:
        scores: bf16 [T, N] contiguous without NaN, N a multiple of 8; columns from a row's number of entries (or
            blocks) on are not looked at.
        num_visible: int64 [T].
        k: most columns per row.
        num_columns: most that a row has, at most N.
        least: rows that see no more entries take them all (or no blocks).
        candidates: int64 [T, B]: columns are the entries of these blocks of `block_size`, all `num_columns` of them.
        block_size: entries per block.
        of_blocks: columns are blocks.

    Returns:
        int64 [T, k], ascending, -1 behind the last one; equal scores go to the first column, -inf to none.
    """
    num_rows, device = scores.shape[0], scores.device
    mapping = "column" if candidates is None else "candidates"
    other = num_visible.unsqueeze(1) if candidates is None else candidates
    listed = torch.empty(1, 1, dtype=torch.int32, device=device)
    while True:
        loads = next((n for n in _LOADS if _most_columns(n) >= num_columns), _LOADS[-1])
        parts = max(1, -(-num_columns // _most_columns(loads)))
        partial = parts > 1
        chosen = torch.empty(num_rows, parts, k, dtype=torch.int32 if partial else torch.int64, device=device)
        best = torch.empty(chosen.shape if partial else (1, 1, 1), dtype=torch.bfloat16, device=device)
        if chosen.numel() == 0:
            return torch.empty(num_rows, k, dtype=torch.int64, device=device)
        kernel = compiled(
            select_best_kernel,
            arch_of(device),
            loads=loads,
            mapping=mapping,
            partial=partial,
            block_size=block_size,
            of_blocks=of_blocks,
        )
        kernel(scores.view(num_rows, -1, 8), num_visible, other, listed, chosen, best, num_columns, least)
        if not partial:
            return chosen[:, 0]
        padding = -parts * k % 8
        scores = torch.nn.functional.pad(best.view(num_rows, -1), (0, padding), value=-torch.inf)
        listed = torch.nn.functional.pad(chosen.view(num_rows, -1), (0, padding), value=-1)
        num_columns, mapping, block_size = parts * k, "listed", 0


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Entries of all and of candidate blocks, candidate blocks, and the second round behind parts of many columns."""
    if not takes_words(sizes.index_n_heads, sizes.index_head_dim):
        return []
    size, whole = sizes.candidate_block_size, [(loads, False) for loads in _LOADS]
    parts, again = (_LOADS[-1], True), whole[:2]
    forms = [("", "column", 0, False, [*whole, parts]), (".candidates", "candidates", size, False, whole)]
    forms += [(".blocks", "column", size, True, [*whole, parts])]
    forms += [(".again", "listed", 0, of_blocks, again) for of_blocks in (False, True)]
    return [
        KernelSpec(
            f"index.select_best{form}",
            select_best_kernel,
            {
                "loads": loads,
                "mapping": mapping,
                "partial": partial,
                "block_size": block_size,
                "of_blocks": of_blocks,
            },
            arches=(WORDS_ARCH,),
        )
        for form, mapping, block_size, of_blocks, shapes in forms
        for loads, partial in shapes
    ]
