"""Hyper-connections: the read, write and mixing weights of one sublayer."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.exponential import exp, sigmoid

_NOTE = "the mixing matrix is float32 and its product feeds exponentials: float32 multiply-adds, no tensor cores"
_COLUMNS = 8  # of a lane at a time
_STEPS = 2
_SPLIT_COLUMNS = 32 * _COLUMNS * _STEPS  # columns of a block: a warp's lanes hold them in registers
_ROWS = 8  # of a block
_WARPS = 4  # of a block; each takes every fourth row of the matrix
_FINISH_ROWS = 8  # of a block of the second kernel, one warp each


def num_splits(width: int) -> int:
    """Parts of the flattened streams whose partial products are added in order by the second kernel."""
    return -(-width // _SPLIT_COLUMNS)


def hc_project_kernel(arch: str, dim: int, num_streams: int) -> Any:
    """Partial products ``fn @ f`` and sums of squares of one part of the columns, in float32.

    A lane holds sixteen columns of eight rows and multiplies them with row after row of `fn`; the lanes are then added
    up. The order of a sum does not depend on the number of rows.
    """
    num_rows = T.dynamic("num_rows")
    width, outputs = num_streams * dim, num_streams * (num_streams + 2)
    splits = num_splits(width)

    @T.prim_func
    def hc_project(
        streams: T.Tensor((num_rows, width), "bfloat16"),
        fn: T.Tensor((outputs, width), "float32"),
        partial: T.Tensor((num_rows, splits, outputs + 1), "float32"),
    ):
        with T.Kernel(T.ceildiv(num_rows, _ROWS), splits, threads=32 * _WARPS) as (block, split):
            values = T.alloc_local((_ROWS * _STEPS * _COLUMNS,), "float32")
            factors = T.alloc_local((_STEPS * _COLUMNS,), "float32")
            total = T.alloc_local((1,), "float32")
            lane = T.get_thread_binding() % 32
            warp = T.get_thread_binding() // 32
            first = split * _SPLIT_COLUMNS + lane * _COLUMNS
            for i in T.unroll(_ROWS * _STEPS * _COLUMNS):
                values[i] = T.float32(0)
            for r in T.unroll(_ROWS):
                for step in T.unroll(_STEPS):
                    if block * _ROWS + r < num_rows and first + step * 32 * _COLUMNS < width:
                        for i in T.vectorized(_COLUMNS):
                            values[(r * _STEPS + step) * _COLUMNS + i] = T.Cast(
                                "float32", streams[block * _ROWS + r, first + step * 32 * _COLUMNS + i]
                            )
            for turn in T.serial(-(-(outputs + 1) // _WARPS)):
                output = turn * _WARPS + warp
                for i in T.unroll(_STEPS * _COLUMNS):
                    factors[i] = T.float32(0)
                if output < outputs:
                    for step in T.unroll(_STEPS):
                        if first + step * 32 * _COLUMNS < width:
                            for part in T.unroll(_COLUMNS // 4):
                                for i in T.vectorized(4):
                                    factors[step * _COLUMNS + part * 4 + i] = fn[
                                        output, first + step * 32 * _COLUMNS + part * 4 + i
                                    ]
                for r in T.unroll(_ROWS):
                    if block * _ROWS + r < num_rows:
                        total[0] = T.float32(0)
                        for i in T.unroll(_STEPS * _COLUMNS):
                            if output < outputs:
                                total[0] = total[0] + factors[i] * values[r * _STEPS * _COLUMNS + i]
                            else:
                                square = values[r * _STEPS * _COLUMNS + i] * values[r * _STEPS * _COLUMNS + i]
                                total[0] = total[0] + square
                        total[0] = T.warp_reduce_sum(total[0])
                        if lane == 0 and output <= outputs:
                            partial[block * _ROWS + r, split, output] = total[0]

    return hc_project


def hc_finish_kernel(arch: str, dim: int, num_streams: int, sinkhorn_iters: int) -> Any:
    """Adds the parts, norms, and makes the gates: a warp a row for the sums, then a thread a row for the matrix."""
    num_rows = T.dynamic("num_rows")
    size, outputs = num_streams, num_streams * (num_streams + 2)
    splits = num_splits(num_streams * dim)

    @T.macro
    def divide_rows(a: Any, sums: Any, eps: Any):
        for i in T.unroll(size):
            sums[i] = a[i * size]
            for j in T.unroll(1, size):
                sums[i] = sums[i] + a[i * size + j]
            sums[i] = T.float32(1) / (sums[i] + eps)
        for i in T.unroll(size * size):
            a[i] = a[i] * sums[i // size]

    @T.macro
    def divide_columns(a: Any, sums: Any, eps: Any):
        for j in T.unroll(size):
            sums[j] = a[j]
            for i in T.unroll(1, size):
                sums[j] = sums[j] + a[i * size + j]
            sums[j] = T.float32(1) / (sums[j] + eps)
        for i in T.unroll(size * size):
            a[i] = a[i] * sums[i % size]

    @T.prim_func
    def hc_finish(
        partial: T.Tensor((num_rows, splits, outputs + 1), "float32"),
        base: T.Tensor((outputs,), "float32"),
        scale: T.Tensor((3,), "float32"),
        pre: T.Tensor((num_rows, size), "float32"),
        post: T.Tensor((num_rows, size), "float32"),
        comb: T.Tensor((num_rows, size, size), "float32"),
        eps: T.float32,
        norm_eps: T.float32,
    ):
        with T.Kernel(T.ceildiv(num_rows, _FINISH_ROWS), threads=32 * _FINISH_ROWS) as block:
            sums = T.alloc_shared((_FINISH_ROWS, outputs + 1), "float32")
            total = T.alloc_local((1,), "float32")
            norm = T.alloc_local((1,), "float32")
            a = T.alloc_local((size * size,), "float32")
            largest = T.alloc_local((1,), "float32")
            inverse = T.alloc_local((size,), "float32")
            thread = T.get_thread_binding()
            for turn in T.serial(-(-(outputs + 1) // 32)):
                if thread % 32 + turn * 32 <= outputs and block * _FINISH_ROWS + thread // 32 < num_rows:
                    total[0] = T.float32(0)
                    for split in T.serial(splits):
                        total[0] = (
                            total[0] + partial[block * _FINISH_ROWS + thread // 32, split, thread % 32 + turn * 32]
                        )
                    sums[thread // 32, thread % 32 + turn * 32] = total[0]
            T.sync_threads()
            row = block * _FINISH_ROWS + thread
            if thread < _FINISH_ROWS and row < num_rows:
                norm[0] = T.rsqrt(sums[thread, outputs] / T.float32(size * dim) + norm_eps)
                for i in T.unroll(size):
                    pre[row, i] = sigmoid(sums[thread, i] * norm[0] * scale[0] + base[i]) + eps
                    post[row, i] = sigmoid(sums[thread, size + i] * norm[0] * scale[1] + base[size + i]) * T.float32(2)
                for i in T.unroll(size * size):
                    a[i] = sums[thread, 2 * size + i] * norm[0] * scale[2] + base[2 * size + i]
                for i in T.unroll(size):
                    largest[0] = a[i * size]
                    for j in T.unroll(1, size):
                        largest[0] = T.max(largest[0], a[i * size + j])
                    for j in T.unroll(size):
                        a[i * size + j] = exp(a[i * size + j] - largest[0])
                divide_rows(a, inverse, T.float32(0))
                for i in T.unroll(size * size):
                    a[i] = a[i] + eps
                divide_columns(a, inverse, eps)
                for _ in T.serial(sinkhorn_iters - 1):
                    divide_rows(a, inverse, eps)
                    divide_columns(a, inverse, eps)
                for i in T.unroll(size):
                    for j in T.unroll(size):
                        comb[row, i, j] = a[i * size + j]

    return hc_finish


def hc_mix(
    streams: torch.Tensor,
    fn: torch.Tensor,
    base: torch.Tensor,
    scale: torch.Tensor,
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Projection of the normed, flattened streams, sigmoid gates and a Sinkhorn-normalised matrix.

    Args:
        streams: bf16 [T, S, D] contiguous, D a multiple of 8.
        fn: float32 [S*(S+2), S*D].
        base: float32 [S*(S+2)].
        scale: float32 [3].
        sinkhorn_iters: column passes.
        eps: added to gates and sums.
        norm_eps: added to the mean square.

    Returns:
        pre [T, S], post [T, S], comb [T, S, S], float32.
    """
    num_rows, size, dim = streams.shape
    arch = arch_of(streams.device)
    pre, post = fn.new_empty(num_rows, size), fn.new_empty(num_rows, size)
    comb = fn.new_empty(num_rows, size, size)
    if num_rows:
        partial = fn.new_empty(num_rows, num_splits(size * dim), size * (size + 2) + 1)
        compiled(hc_project_kernel, arch, dim=dim, num_streams=size)(streams.view(num_rows, size * dim), fn, partial)
        finish = compiled(hc_finish_kernel, arch, dim=dim, num_streams=size, sinkhorn_iters=sinkhorn_iters)
        finish(partial, base, scale, pre, post, comb, eps, norm_eps)
    return pre, post, comb


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The projection and what follows it."""
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams}
    finish = {**statics, "sinkhorn_iters": sizes.sinkhorn_iters}
    return [
        KernelSpec("hyper_connection.hc_mix.project", hc_project_kernel, statics, note=_NOTE),
        KernelSpec("hyper_connection.hc_mix.finish", hc_finish_kernel, finish),
    ]
