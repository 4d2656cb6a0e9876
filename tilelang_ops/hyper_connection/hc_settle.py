"""Hyper-connections, second half of a step: the norm of what was read, and the weights of the next read and write."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.hyper_connection.hc_advance import MAX_STREAMS, num_splits
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.block_sum import row_threads
from tilelang_ops.numeric.exponential import exp

_LANES = 32
_COLUMNS = 8  # of a thread at a time: 16 bytes


def hc_settle_kernel(arch: str, dim: int, num_streams: int, sinkhorn_iters: int, norms: bool) -> Any:
    """One block a row: adds the partial sums of `advance` in order; one warp makes the gates and the matrix from them,
    an entry a lane, while the others norm.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        dim: columns a stream, a multiple of 8.
        num_streams: S, at most 4.
        sinkhorn_iters: column passes.
        norms: ``x = read * rsqrt(mean(read^2) + norm_eps) * weight`` is wanted. Else `read`, `weight` and `x` are not
            touched.
    """
    num_rows = T.dynamic("num_rows")
    size, outputs = num_streams, num_streams * (num_streams + 2)
    splits, threads = num_splits(dim), max(64, row_threads(dim, _COLUMNS))
    warps, turns = threads // _LANES, -(-splits // (threads // _LANES))
    stride = threads * _COLUMNS
    steps = -(-dim // stride)

    @T.macro
    def gather(target: Any, value: Any, first: Any, pace: int, largest: bool) -> None:
        """Sum or maximum of the lanes first, first + pace, ..., `size` of them."""
        target[0] = T.shfl_sync(value[0], first)
        for i in range(1, size):
            other = T.shfl_sync(value[0], first + i * pace)
            target[0] = T.max(target[0], other) if largest else target[0] + other

    @T.macro
    def mix(
        sums: Any, base: Any, scale: Any, pre: Any, post: Any, comb: Any, row: Any, eps: Any, norm_eps: Any, lane: Any
    ):
        """A lane an output: read gates, write gates, matrix."""
        value = T.alloc_local((1,), "float32")
        total = T.alloc_local((1,), "float32")
        entry = T.alloc_var("int32")
        value[0] = 0.0
        if lane < outputs:
            value[0] = sums[lane] * T.rsqrt(sums[outputs] / T.float32(size * dim) + norm_eps)
            value[0] = value[0] * scale[T.min(lane // size, 2)] + base[lane]
        entry = T.max(lane - 2 * size, 0)
        row_first = 2 * size + T.min(entry // size, size - 1) * size
        column_first = 2 * size + entry % size
        gather(total, value, row_first, 1, True)
        value[0] = exp(T.if_then_else(lane < 2 * size, -value[0], value[0] - total[0]))
        if lane < size:
            pre[row, lane] = T.ieee_frcp(T.float32(1) + value[0]) + eps
        elif lane < 2 * size:
            post[row, lane - size] = T.ieee_frcp(T.float32(1) + value[0]) * T.float32(2)
        gather(total, value, row_first, 1, False)
        value[0] = value[0] * T.fast_rcp(total[0]) + eps
        gather(total, value, column_first, size, False)
        value[0] = value[0] * T.fast_rcp(total[0] + eps)
        for _ in T.serial(sinkhorn_iters - 1):
            gather(total, value, row_first, 1, False)
            value[0] = value[0] * T.fast_rcp(total[0] + eps)
            gather(total, value, column_first, size, False)
            value[0] = value[0] * T.fast_rcp(total[0] + eps)
        if lane >= 2 * size and lane < outputs:
            comb[row, entry // size, entry % size] = value[0]

    @T.prim_func
    def hc_settle(
        partial: T.Tensor((num_rows, splits, outputs + 2), "float32"),
        base: T.Tensor((outputs,), "float32"),
        scale: T.Tensor((3,), "float32"),
        read: T.Tensor((num_rows, dim) if norms else (1, 1), "bfloat16"),
        weight: T.Tensor((dim if norms else 1,), "bfloat16"),
        pre: T.Tensor((num_rows, size), "float32"),
        post: T.Tensor((num_rows, size), "float32"),
        comb: T.Tensor((num_rows, size, size), "float32"),
        x: T.Tensor((num_rows, dim) if norms else (1, 1), "bfloat16"),
        eps: T.float32,
        norm_eps: T.float32,
    ):
        with T.Kernel(num_rows, threads=threads) as row:
            of_warp = T.alloc_shared((warps, _LANES), "float32")
            sums = T.alloc_shared((_LANES,), "float32")
            parts = T.alloc_local((turns,), "float32")
            loaded = T.alloc_local((steps * _COLUMNS,), "bfloat16")
            factors = T.alloc_local((steps * _COLUMNS,), "bfloat16")
            values = T.alloc_local((_COLUMNS,), "bfloat16")
            total = T.alloc_local((1,), "float32")
            factor = T.alloc_local((1,), "float32")
            thread = T.get_thread_binding()
            lane, warp = thread % _LANES, thread // _LANES
            first = thread * _COLUMNS
            if norms:
                for step in T.unroll(steps):
                    if first + step * stride < dim:
                        for i in T.vectorized(_COLUMNS):
                            factors[step * _COLUMNS + i] = weight[first + step * stride + i]
            for i in T.unroll(turns):
                parts[i] = 0.0
                if lane < outputs + 2 and i * warps + warp < splits:
                    parts[i] = partial[row, i * warps + warp, lane]
            if norms:
                for step in T.unroll(steps):
                    if first + step * stride < dim:
                        for i in T.vectorized(_COLUMNS):
                            loaded[step * _COLUMNS + i] = read[row, first + step * stride + i]
            total[0] = 0.0
            for i in T.unroll(turns):
                total[0] += parts[i]
            of_warp[warp, lane] = total[0]
            T.sync_threads()
            if warp == 0:
                total[0] = 0.0
                for i in T.unroll(warps):
                    total[0] += of_warp[i, lane]
                sums[lane] = total[0]
            T.sync_threads()
            if norms:
                factor[0] = T.rsqrt(sums[outputs + 1] / T.float32(dim) + norm_eps)
                for step in T.unroll(steps):
                    if first + step * stride < dim:
                        for i in T.unroll(_COLUMNS):
                            values[i] = T.Cast(
                                "bfloat16",
                                T.Cast("float32", loaded[step * _COLUMNS + i])
                                * factor[0]
                                * T.Cast("float32", factors[step * _COLUMNS + i]),
                            )
                        for i in T.vectorized(_COLUMNS):
                            x[row, first + step * stride + i] = values[i]
            if warp == warps - 1:
                mix(sums, base, scale, pre, post, comb, row, eps, norm_eps, lane)

    return hc_settle


def settle(
    partial: torch.Tensor,
    reading: tuple[torch.Tensor, torch.Tensor] | None,
    base: torch.Tensor,
    scale: torch.Tensor,
    *,
    dim: int,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Second launch of `hc_step`, of at least one row.

    Args:
        partial: float32 [T, num_splits(D), S*(S+2)+2] of `advance`.
        reading: what was read, bf16 [T, D], and the norm's weight, bf16 [D]; or None.
        base: float32 [S*(S+2)].
        scale: float32 [3].
        dim: D, a multiple of 8.
        sinkhorn_iters: column passes.
        eps: added to gates and sums.
        norm_eps: added to mean squares.

    Returns:
        x bf16 [T, D] (None without `reading`); pre [T, S], post [T, S], comb [T, S, S], float32.
    """
    num_rows = partial.shape[0]
    size = next(n for n in range(1, MAX_STREAMS + 1) if n * (n + 2) == base.shape[0])
    pre, post = base.new_empty(num_rows, size), base.new_empty(num_rows, size)
    comb = base.new_empty(num_rows, size, size)
    statics = {"dim": dim, "num_streams": size, "sinkhorn_iters": sinkhorn_iters, "norms": reading is not None}
    nothing = base.view(torch.bfloat16)[:1]  # for arguments that are not touched
    read, weight = reading or (nothing[None], nothing)
    x = None if reading is None else torch.empty_like(read)
    kernel = compiled(hc_settle_kernel, arch_of(partial.device), **statics)
    kernel(partial, base, scale, read, weight, pre, post, comb, read if x is None else x, eps, norm_eps)
    return x, pre, post, comb


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """With and without a norm."""
    if sizes.num_streams > MAX_STREAMS:
        return []
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams, "sinkhorn_iters": sizes.sinkhorn_iters}
    return [
        KernelSpec(f"hyper_connection.hc_settle.{form}", hc_settle_kernel, statics | {"norms": norms})
        for form, norms in (("mix", False), ("norm", True))
    ]
