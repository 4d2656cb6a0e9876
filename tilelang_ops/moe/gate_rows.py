"""The gated activation between an expert's products, of whole rows."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.gated_hidden import gated_value

_THREADS = 128


def gate_rows_kernel(arch: str, dim: int) -> Any:
    """out[t] = bf16(silu(min(gate[t], limit)) * clamp(up[t], -limit, limit)); eight columns a thread."""
    num_rows = T.dynamic("num_rows")

    @T.prim_func
    def gate_rows(
        gate: T.Tensor((num_rows, dim), "bfloat16"),
        up: T.Tensor((num_rows, dim), "bfloat16"),
        out: T.Tensor((num_rows, dim), "bfloat16"),
        limit: T.float32,
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * 8), threads=_THREADS) as (row, part):
            column = part * _THREADS * 8 + T.get_thread_binding() * 8
            gates, ups = (T.alloc_local((8,), "bfloat16") for _ in range(2))
            if column < dim:
                for v in T.vectorized(8):
                    gates[v] = gate[row, column + v]
                for v in T.vectorized(8):
                    ups[v] = up[row, column + v]
                for v in T.unroll(8):
                    value = gated_value(T.Cast("float32", gates[v]), T.Cast("float32", ups[v]), T.float32(1.0), limit)
                    gates[v] = T.Cast("bfloat16", value)
                for v in T.vectorized(8):
                    out[row, column + v] = gates[v]

    return gate_rows


def gate_rows(gate: torch.Tensor, up: torch.Tensor, limit: float) -> torch.Tensor:
    """bf16 [T, I] of gate and up bf16 [T, I], contiguous, I a multiple of 8; `limit` is swiglu_limit."""
    out = torch.empty_like(gate)
    if gate.shape[0]:
        compiled(gate_rows_kernel, arch_of(gate.device), dim=gate.shape[1])(gate, up, out, limit)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One, where the experts have kernels."""
    if sizes.moe_intermediate_size % 32:
        return []
    return [KernelSpec("moe.gate_rows", gate_rows_kernel, {"dim": sizes.moe_intermediate_size})]
