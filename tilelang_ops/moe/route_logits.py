"""Router logits: products of bf16 rows with the gate matrix, accumulated in float32."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_FEW_ROWS = 32
_TILE, _STEP = 64, 64
_WARPS = 4


def route_logits_kernel(arch: str, dim: int, num_experts: int) -> Any:
    """logits f32 [T, E] by tiles of 64 rows and 64 experts."""
    num_rows = T.dynamic("num_rows")

    @T.prim_func
    def route_logits(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        gate: T.Tensor((num_experts, dim), "bfloat16"),
        logits: T.Tensor((num_rows, num_experts), "float32"),
    ):
        with T.Kernel(T.ceildiv(num_rows, _TILE), T.ceildiv(num_experts, _TILE), threads=128) as (tile, part):
            rows = T.alloc_shared((_TILE, _STEP), "bfloat16")
            experts = T.alloc_shared((_TILE, _STEP), "bfloat16")
            acc = T.alloc_fragment((_TILE, _TILE), "float32")
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(dim, _STEP), num_stages=3):
                T.copy(x[tile * _TILE, step * _STEP], rows)
                T.copy(gate[part * _TILE, step * _STEP], experts)
                T.gemm(rows, experts, acc, transpose_B=True)
            T.copy(acc, logits[tile * _TILE, part * _TILE])

    return route_logits


def route_logits_few_kernel(arch: str, dim: int, num_experts: int) -> Any:
    """The same for few rows: a warp a row and expert, eight columns a lane at a time."""
    num_rows = T.dynamic("num_rows")

    @T.prim_func
    def route_logits_few(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        gate: T.Tensor((num_experts, dim), "bfloat16"),
        logits: T.Tensor((num_rows, num_experts), "float32"),
    ):
        with T.Kernel(T.ceildiv(num_experts, _WARPS), num_rows, threads=_WARPS * 32) as (part, row):
            thread = T.get_thread_binding()
            values = T.alloc_local((8,), "bfloat16")
            weights = T.alloc_local((8,), "bfloat16")
            total = T.alloc_local((1,), "float32")
            expert = part * _WARPS + thread // 32
            total[0] = 0.0
            for step in T.serial(T.ceildiv(dim, 256)):
                column = step * 256 + thread % 32 * 8
                if (column < dim) & (expert < num_experts):
                    for v in T.vectorized(8):
                        values[v] = x[row, column + v]
                    for v in T.vectorized(8):
                        weights[v] = gate[expert, column + v]
                    for v in T.unroll(8):
                        total[0] += T.Cast("float32", values[v]) * T.Cast("float32", weights[v])
            total[0] = T.warp_reduce_sum(total[0])
            if (thread % 32 == 0) & (expert < num_experts):
                logits[row, expert] = total[0]

    return route_logits_few


def route_logits(x: torch.Tensor, gate: torch.Tensor, *, batch_invariant: bool) -> torch.Tensor:
    """x bf16 [T, D], gate bf16 [E, D], D a multiple of 32 -> float32 [T, E]."""
    logits = torch.empty((x.shape[0], gate.shape[0]), dtype=torch.float32, device=x.device)
    if x.shape[0]:
        few = x.shape[0] <= _FEW_ROWS and not batch_invariant
        factory = route_logits_few_kernel if few else route_logits_kernel
        compiled(factory, arch_of(x.device), dim=x.shape[1], num_experts=gate.shape[0])(x, gate, logits)
    return logits


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both forms for the main model's and the draft's experts."""
    note = "SM100: mma.sync, as the product is small beside its sublayer"
    return [
        KernelSpec(f"moe.{name}", factory, {"dim": sizes.hidden_size, "num_experts": experts}, instructions, text)
        for experts in sorted({sizes.num_experts, sizes.draft_num_experts} - {0})
        for name, factory, instructions, text in (
            ("route_logits", route_logits_kernel, {"sm_90a": "wgmma"}, note),
            ("route_logits_few", route_logits_few_kernel, {}, "matrix times few rows: bound by memory"),
        )
    ]
