"""Hyper-connections, first half of a step: write the streams, read them, and multiply them with the mixing matrix."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.round_bf16 import round_bf16
from tilelang_ops.numeric.tree_sum import tree_sum

MAX_STREAMS = 4  # a warp's lanes hold a row's sums
_NOTE = "24 outputs of a float32 matrix, in three bf16 parts: bound by reading the streams"
_WIDTH = 64  # columns of each stream that a block goes through
_ROWS = (64, 128)  # of a block at a time
_MOST_BLOCKS = 16  # along the rows: each goes through several tiles with the matrix that it has loaded
_COLUMNS = 8  # of a thread at a time: 16 bytes
_PARTS = 3  # bf16 numbers that hold the bits of a float32


def num_splits(dim: int) -> int:
    """Parts of the columns whose partial sums `settle` adds in order."""
    return -(-dim // _WIDTH)


def hc_advance_kernel(arch: str, dim: int, num_streams: int, writes: bool, reads: bool, rows: int) -> Any:
    """One pass over some columns of all streams, `rows` rows at a time.

    The new streams are ``post[j] * out + sum_i comb[i][j] * streams[i]`` (with `writes`; else the streams as they are),
    what the next sublayer reads of them is ``sum_j pre[j] * new[j]`` (with `reads`). The new streams times the mixing
    matrix, and the sums of their squares and of the squares of what is read, are partial sums over the block's columns.

    The product runs on tensor cores: the float32 matrix is cut into three bf16 parts, which hold all its bits, and the
    streams are bf16. A row's sums do not depend on `rows` nor on the rows beside it.

    Args:
        arch: "sm_90a" or "sm_100a" (there with mma.sync).
        dim: columns a stream, a multiple of 8.
        num_streams: S, at most 4.
        writes: there is an output to write. Else `out`, `post`, `comb` and `written` are not touched.
        reads: there is a sublayer to read for. Else `pre` and `read` are not touched.
        rows: of a block at a time, 64 or 128.
    """
    num_rows = T.dynamic("num_rows")
    size, outputs = num_streams, num_streams * (num_streams + 2)
    width = _WIDTH
    splits, chunks, threads = num_splits(dim), width // _COLUMNS, 2 * rows
    columns = size * width
    policy = T.GemmWarpPolicy.FullRow
    step = -(-outputs // 8) * 8  # rows of a part of the matrix
    padded = -(-outputs // 16) * 16  # outputs of a product; those behind `outputs` are of the next part, or of nothing
    quads = outputs * columns // 4
    turns = -(-quads // threads)

    @T.macro
    def load_matrix(fn: Any, matrix: Any, first: Any, thread: Any) -> None:
        """The block's columns of the matrix, zeros where there are none."""
        for i in T.unroll(turns * 4):
            matrix[i] = 0.0
        for turn in T.unroll(turns):
            place = turn * threads + thread
            output, column = place // (columns // 4), place % (columns // 4) * 4
            if place < quads and first + column % width < dim:
                for i in T.vectorized(4):
                    matrix[turn * 4 + i] = fn[output, column // width * dim + first + column % width + i]

    @T.macro
    def store_matrix(matrix: Any, parts: Any, thread: Any) -> None:
        """As bf16 parts."""
        codes = T.alloc_local((4,), "bfloat16")
        for turn in T.unroll(turns):
            place = turn * threads + thread
            output, column = place // (columns // 4), place % (columns // 4) * 4
            for part in T.unroll(_PARTS):
                for i in T.unroll(4):
                    codes[i] = T.Cast("bfloat16", matrix[turn * 4 + i])
                    matrix[turn * 4 + i] = matrix[turn * 4 + i] - T.Cast("float32", codes[i])
                if place < quads:
                    for i in T.vectorized(4):
                        parts[part * step + output, column + i] = codes[i]

    @T.prim_func
    def hc_advance(
        streams: T.Tensor((num_rows, size * dim), "bfloat16"),
        out: T.Tensor((num_rows, dim) if writes else (1, 1), "bfloat16"),
        post: T.Tensor((num_rows, size) if writes else (1, 1), "float32"),
        comb: T.Tensor((num_rows, size, size) if writes else (1, 1, 1), "float32"),
        pre: T.Tensor((num_rows, size) if reads else (1, 1), "float32"),
        fn: T.Tensor((outputs, size * dim), "float32"),
        written: T.Tensor((num_rows, size * dim) if writes else (1, 1), "bfloat16"),
        read: T.Tensor((num_rows, dim) if reads else (1, 1), "bfloat16"),
        partial: T.Tensor((num_rows, splits, outputs + 2), "float32"),
        num_blocks: T.int32,
    ):
        with T.Kernel(splits, num_blocks, threads=threads) as (split, block):
            tile = T.alloc_shared((rows, columns), "bfloat16")
            parts = T.alloc_shared(((_PARTS - 1) * step + padded, columns), "bfloat16")
            product = T.alloc_fragment((rows, padded), "float32")
            matrix = T.alloc_local((turns * 4,), "float32")
            values = T.alloc_local((size * _COLUMNS,), "bfloat16")
            own = T.alloc_local((_COLUMNS,), "bfloat16")
            total = T.alloc_local((_COLUMNS,), "float32")
            result = T.alloc_local((size * _COLUMNS,), "bfloat16")
            seen = T.alloc_local((_COLUMNS,), "bfloat16")
            squares = T.alloc_local((2,), "float32")
            gains = T.alloc_local((2 * size,), "float32")  # of the row: post, then pre
            mixing = T.alloc_local((size * size,), "float32")
            T.annotate_min_blocks_per_sm(2 if rows > 64 else 3)
            thread = T.get_thread_binding()
            first = split * width
            load_matrix(fn, matrix, first, thread)
            for number in T.serial(T.ceildiv(T.ceildiv(num_rows, rows) - block, num_blocks)):
                start = (block + number * num_blocks) * rows
                for turn in T.unroll(rows * chunks // threads, unroll_factor=1):
                    place = turn * threads + thread
                    tile_row, chunk = place // chunks, place % chunks * _COLUMNS
                    row, column = start + tile_row, first + chunk
                    for i in T.unroll(size * _COLUMNS):
                        result[i] = T.Cast("bfloat16", 0)
                    squares[0] = 0.0
                    squares[1] = 0.0
                    if row < num_rows and column < dim:
                        for s in T.unroll(size):
                            for i in T.vectorized(_COLUMNS):
                                values[s * _COLUMNS + i] = streams[row, s * dim + column + i]
                        if writes:
                            for i in T.vectorized(_COLUMNS):
                                own[i] = out[row, column + i]
                            for i in T.vectorized(size):
                                gains[i] = post[row, i]
                            for s in T.unroll(size):
                                for i in T.vectorized(size):
                                    mixing[s * size + i] = comb[row, s, i]
                        if reads:
                            for i in T.vectorized(size):
                                gains[size + i] = pre[row, i]
                        if writes:
                            for j in T.unroll(size):
                                for i in T.unroll(_COLUMNS):
                                    total[i] = gains[j] * T.Cast("float32", own[i])
                                for s in T.unroll(size):
                                    for i in T.unroll(_COLUMNS):
                                        total[i] = total[i] + mixing[s * size + j] * T.Cast(
                                            "float32", values[s * _COLUMNS + i]
                                        )
                                for i in T.unroll(_COLUMNS):
                                    result[j * _COLUMNS + i] = T.Cast("bfloat16", total[i])
                                for i in T.vectorized(_COLUMNS):
                                    written[row, j * dim + column + i] = result[j * _COLUMNS + i]
                        else:
                            for i in T.unroll(size * _COLUMNS):
                                result[i] = values[i]
                        for i in T.unroll(size * _COLUMNS):
                            squares[0] += T.Cast("float32", result[i]) * T.Cast("float32", result[i])
                        if reads:
                            for i in T.unroll(_COLUMNS):
                                total[i] = round_bf16(
                                    tree_sum(
                                        [
                                            T.ieee_mul(T.Cast("float32", result[s * _COLUMNS + i]), gains[size + s])
                                            for s in range(size)
                                        ]
                                    )
                                )
                                squares[1] += total[i] * total[i]
                                seen[i] = T.Cast("bfloat16", total[i])
                            for i in T.vectorized(_COLUMNS):
                                read[row, column + i] = seen[i]
                    for s in T.unroll(size):
                        for i in T.vectorized(_COLUMNS):
                            tile[tile_row, s * width + chunk + i] = result[s * _COLUMNS + i]
                    for n in T.unroll(2):
                        for shift in (1, 2, 4):
                            if shift < chunks:
                                squares[n] += T.shfl_xor(squares[n], shift)
                    if chunk == 0 and row < num_rows:
                        for n in T.unroll(2):
                            partial[row, split, outputs + n] = squares[n]
                if number == 0:
                    store_matrix(matrix, parts, thread)
                T.fence_proxy_async()
                T.sync_threads()
                T.clear(product)
                for part in range(_PARTS - 1, -1, -1):  # the small parts first
                    T.gemm(tile, parts[part * step : part * step + padded, :], product, transpose_B=True, policy=policy)
                for i, j in T.Parallel(rows, padded):
                    if start + i < num_rows and j < outputs:
                        partial[start + i, split, j] = product[i, j]
                T.sync_threads()

    return hc_advance


def advance(
    streams: torch.Tensor,
    pre: torch.Tensor | None,
    update: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    fn: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """First launch of `hc_step`, of at least one row; `settle` is the second.

    Args:
        streams: bf16 [T, S, D] contiguous, D a multiple of 8, S at most 4.
        pre: float32 [T, S] read weights, or None: nothing is read.
        update: out bf16 [T, D], post float32 [T, S] and comb float32 [T, S, S] of `hc_write`, or None: the streams stay
            as they are.
        fn: float32 [S*(S+2), S*D].

    Returns:
        new streams bf16 [T, S, D] (those given, without `update`); what is read of them, bf16 [T, D], or None; partial
        sums float32 [T, num_splits(D), S*(S+2)+2].
    """
    num_rows, size, dim = streams.shape
    few, many = _ROWS
    rows = few if num_rows <= few else many
    partial = fn.new_empty(num_rows, num_splits(dim), size * (size + 2) + 2)
    no_bf16, no_floats = streams.view(-1, 1)[:1], fn.view(-1, 1)[:1]  # for arguments that are not touched
    written = streams if update is None else torch.empty_like(streams)
    read = None if pre is None else streams.new_empty(num_rows, dim)
    out, post, comb = (no_bf16, no_floats, no_floats[None]) if update is None else update
    statics = {"dim": dim, "num_streams": size, "writes": update is not None, "reads": pre is not None, "rows": rows}
    compiled(hc_advance_kernel, arch_of(streams.device), **statics)(
        streams.view(num_rows, size * dim),
        out,
        post,
        comb,
        no_floats if pre is None else pre,
        fn,
        no_bf16 if update is None else written.view(num_rows, size * dim),
        no_bf16 if read is None else read,
        partial,
        min(_MOST_BLOCKS, -(-num_rows // rows)),
    )
    return written, read, partial


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """With and without an output to write and a sublayer to read for; for few and many rows."""
    if sizes.num_streams > MAX_STREAMS:
        return []
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams}
    forms = {"mix": (False, False), "read": (False, True), "write": (True, True)}
    return [
        KernelSpec(
            f"hyper_connection.hc_advance.{form}",
            hc_advance_kernel,
            statics | {"writes": writes, "reads": reads, "rows": rows},
            {"sm_90a": "wgmma"},
            _NOTE,
        )
        for form, (writes, reads) in forms.items()
        for rows in _ROWS
    ]
