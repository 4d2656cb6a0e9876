"""Adds the Engram value to the streams, gated by how well each stream matches its key."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.block_sum import block_sum, row_threads
from tilelang_ops.numeric.exponential import sigmoid

_COLUMNS = 8


def engram_gate_kernel(arch: str, dim: int, num_streams: int, key_stride: int, value_stride: int) -> Any:
    """One block a stream of a row; its values stay in registers between the dot products and the addition.

    `key_stride` and `value_stride` are elements from row to row, multiples of 8.
    """
    num_rows = T.dynamic("num_rows")
    threads = row_threads(dim, _COLUMNS)
    stride = threads * _COLUMNS
    steps = -(-dim // stride)
    total = block_sum(threads)

    @T.prim_func
    def engram_gate(
        streams: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
        keys: T.StridedTensor((num_rows, num_streams, dim), (key_stride, dim, 1), "bfloat16"),
        value: T.StridedTensor((num_rows, dim), (value_stride, 1), "bfloat16"),
        q_weight: T.Tensor((num_streams, dim), "bfloat16"),
        k_weight: T.Tensor((num_streams, dim), "bfloat16"),
        out: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
        eps: T.float32,
    ):
        with T.Kernel(num_rows, num_streams, threads=threads) as (row, stream):
            r = T.alloc_local((steps * _COLUMNS,), "float32")
            k = T.alloc_local((_COLUMNS,), "float32")
            loaded = T.alloc_local((2 * _COLUMNS,), "bfloat16")
            squares_r = T.alloc_local((1,), "float32")
            squares_k = T.alloc_local((1,), "float32")
            dot = T.alloc_local((1,), "float32")
            scratch_r = T.alloc_shared((threads // 32,), "float32")
            scratch_k = T.alloc_shared((threads // 32,), "float32")
            scratch_dot = T.alloc_shared((threads // 32,), "float32")
            first = T.get_thread_binding() * _COLUMNS
            squares_r[0] = T.float32(0)
            squares_k[0] = T.float32(0)
            dot[0] = T.float32(0)
            for step in T.unroll(steps):
                if first + step * stride < dim:
                    for i in T.vectorized(_COLUMNS):
                        r[step * _COLUMNS + i] = T.Cast("float32", streams[row, stream, first + step * stride + i])
                    for i in T.vectorized(_COLUMNS):
                        k[i] = T.Cast("float32", keys[row, stream, first + step * stride + i])
                    for i in T.vectorized(_COLUMNS):
                        loaded[i] = q_weight[stream, first + step * stride + i]
                    for i in T.vectorized(_COLUMNS):
                        loaded[_COLUMNS + i] = k_weight[stream, first + step * stride + i]
                    for i in T.unroll(_COLUMNS):
                        weight = T.Cast("float32", loaded[i]) * T.Cast("float32", loaded[_COLUMNS + i])
                        squares_r[0] = squares_r[0] + r[step * _COLUMNS + i] * r[step * _COLUMNS + i]
                        squares_k[0] = squares_k[0] + k[i] * k[i]
                        dot[0] = dot[0] + T.ieee_mul(r[step * _COLUMNS + i], weight) * k[i]
            total(squares_r, scratch_r)
            total(squares_k, scratch_k)
            total(dot, scratch_dot)
            dot[0] = dot[0] * T.rsqrt(squares_r[0] / T.float32(dim) + eps)
            dot[0] = dot[0] * T.rsqrt(squares_k[0] / T.float32(dim) + eps) * T.float32(dim**-0.5)
            # NaN stays: it is not below 1e-6.
            squares_r[0] = T.abs(dot[0])
            if squares_r[0] < T.float32(1e-6):
                squares_r[0] = T.float32(1e-6)
            squares_r[0] = T.sqrt(squares_r[0])
            if T.reinterpret(dot[0], "int32") < 0:
                squares_r[0] = -squares_r[0]
            squares_r[0] = sigmoid(squares_r[0])
            for step in T.unroll(steps):
                if first + step * stride < dim:
                    for i in T.vectorized(_COLUMNS):
                        loaded[i] = value[row, first + step * stride + i]
                    for i in T.unroll(_COLUMNS):
                        loaded[i] = T.Cast(
                            "bfloat16",
                            T.ieee_add(r[step * _COLUMNS + i], T.ieee_mul(squares_r[0], T.Cast("float32", loaded[i]))),
                        )
                    for i in T.vectorized(_COLUMNS):
                        out[row, stream, first + step * stride + i] = loaded[i]

    return engram_gate


def engram_gate(
    streams: torch.Tensor,
    keys: torch.Tensor,
    value: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    *,
    eps: float,
) -> torch.Tensor:
    """``streams + sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6))) * value``.

    Args:
        streams: bf16 [T, S, D] contiguous, D a multiple of 8.
        keys: bf16 [T, S, D]; its rows may lie apart (columns of a wider matrix), at a multiple of 8.
        value: bf16 [T, D], likewise.
        q_weight: bf16 [S, D].
        k_weight: bf16 [S, D].
        eps: of the norms.

    Returns:
        bf16 [T, S, D].
    """
    out = torch.empty_like(streams)
    if streams.shape[0] == 1:  # its strides mean nothing: those of the kernel for more rows
        num_streams, dim = streams.shape[1:]
        stride = (num_streams + 1) * dim
        keys, value = keys.as_strided(keys.shape, (stride, dim, 1)), value.as_strided(value.shape, (stride, 1))
    if streams.shape[0]:
        kernel = compiled(
            engram_gate_kernel,
            arch_of(streams.device),
            dim=streams.shape[2],
            num_streams=streams.shape[1],
            key_stride=keys.stride(0),
            value_stride=value.stride(0),
        )
        kernel(streams, keys, value, q_weight, k_weight, out, eps)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One, if the model has Engram layers: keys and value are columns of one projection."""
    if sizes.engram_max_ngram_size < 2:
        return []
    stride = (sizes.num_streams + 1) * sizes.hidden_size
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams, "key_stride": stride, "value_stride": stride}
    return [KernelSpec("engram.engram_gate", engram_gate_kernel, statics)]
