"""Rows of an Engram table."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.e4m3 import decode_e4m3
from tilelang_ops.numeric.e8m0 import decode_e8m0

_THREADS = 128
_COLUMNS = 8


def engram_lookup_kernel(arch: str, dim: int) -> Any:
    """Eight columns a thread. The table may lie in pinned host memory: every byte asked for is read once."""
    num_rows, table_rows = T.dynamic("num_rows"), T.dynamic("table_rows")
    chunks, groups = -(-dim // _COLUMNS), -(-dim // 32)
    width = 8 if dim % 8 == 0 else 1
    store = 4 if dim % 4 == 0 else 1

    @T.prim_func
    def engram_lookup(
        rows: T.Tensor((num_rows,), "int64"),
        codes: T.Tensor((table_rows, dim), "uint8"),
        scales: T.Tensor((table_rows, groups), "uint8"),
        out: T.Tensor((num_rows, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(num_rows * chunks, _THREADS), threads=_THREADS) as block:
            packed = T.alloc_local((_COLUMNS,), "uint8")
            values = T.alloc_local((_COLUMNS,), "float32")
            scale = T.alloc_local((1,), "int32")
            table_row = T.alloc_local((1,), "int64")
            index = block * _THREADS + T.get_thread_binding()
            row = index // chunks
            column = index % chunks * _COLUMNS
            if row < num_rows:
                table_row[0] = rows[row]
                for i in T.unroll(_COLUMNS):
                    values[i] = T.float32(0)
                if table_row[0] >= T.int64(0):
                    for part in T.unroll(_COLUMNS // width):
                        if column + part * width < dim:
                            for i in T.vectorized(width):
                                packed[part * width + i] = codes[table_row[0], column + part * width + i]
                    scale[0] = T.Cast("int32", scales[table_row[0], column // 32])
                    for i in T.unroll(_COLUMNS):
                        values[i] = decode_e4m3(packed[i]) * decode_e8m0(scale[0])
                for part in T.unroll(_COLUMNS // store):
                    if column + part * store < dim:
                        for i in T.vectorized(store):
                            out[row, column + part * store + i] = values[part * store + i]

    return engram_lookup


def engram_lookup(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """rows int64 [n] (-1: zeros), codes uint8 [V, hd], scales uint8 [V, ceil(hd/32)], both readable by the device ->
    float32 [n, hd].
    """
    dim = codes.shape[1]
    out = torch.empty((rows.shape[0], dim), dtype=torch.float32, device=rows.device)
    if rows.shape[0]:
        compiled(engram_lookup_kernel, arch_of(rows.device), dim=dim)(rows, codes, scales, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One, if the model has Engram layers."""
    if sizes.engram_max_ngram_size < 2:
        return []
    return [KernelSpec("engram.engram_lookup", engram_lookup_kernel, {"dim": sizes.engram_head_dim})]
