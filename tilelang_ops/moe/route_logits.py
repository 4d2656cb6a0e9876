"""Router logits: products of bf16 rows with the gate matrix, accumulated in float32."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

FEW_ROWS = 512  # up to here all multiprocessors are needed to read the gate matrix
_TILE, _STEP = 64, 64
_LANES, _SLICES, _HALVES = 32, 4, 2
_SLICE = 64  # columns of a warp: 16 of each row a lane
_SPLIT = _SLICES * _SLICE  # columns of a block
_ROWS, _EXPERTS = 8, 16  # of one matrix instruction
_ROW_TILES = (1, 2, 4, 8)  # times eight rows a block
_WIDE = 256  # experts from which a warp takes two tiles of them


def route_logits_kernel(arch: str, dim: int, num_experts: int) -> Any:
    """logits f32 [T, 1, E] by tiles of 64 rows and 64 experts."""
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


def route_logits_few_kernel(arch: str, dim: int, num_experts: int, row_tiles: int) -> Any:
    """logits[t, z, e], to be added up over z: sums over 256 columns each, so that all multiprocessors read.

    A warp multiplies 64 columns of some experts and rows: every load of its lanes is on its way before the first
    product. The columns go through the matrix instructions in an order in which the lanes' 32 bytes of a row are their
    operands. The four warps of a block's columns are added up in order: no sum depends on the number of rows.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        dim: columns, a multiple of 32.
        num_experts: E.
        row_tiles: times eight rows a block.
    """
    num_rows = T.dynamic("num_rows")
    rows, tiles = row_tiles * _ROWS, 2 if num_experts >= _WIDE else 1
    experts, splits, threads = _HALVES * tiles * _EXPERTS, num_splits(dim), _LANES * _SLICES * _HALVES

    @T.macro
    def load(gate: Any, x: Any, w: Any, v: Any, first_expert: Any, first_row: Any, column: Any, lane: Any, last: Any):
        """A lane's 16 columns of two experts a tile, and of one row a tile of rows; zeros beyond the last column."""
        if dim % _SPLIT:
            for m, h, i in T.grid(tiles, 2, 16):
                w[m, h, i] = T.Cast("bfloat16", 0)
            for n, i in T.grid(row_tiles, 16):
                v[n, i] = T.Cast("bfloat16", 0)
        if column < dim:
            for m in T.unroll(tiles):
                for h in T.unroll(2):
                    expert = T.min(first_expert + m * _EXPERTS + h * 8 + lane // 4, num_experts - 1)
                    for c in T.unroll(2):
                        for i in T.vectorized(8):
                            w[m, h, c * 8 + i] = gate[expert, column + c * 8 + i]
            for n in T.unroll(row_tiles):
                for c in T.unroll(2):
                    for i in T.vectorized(8):
                        v[n, c * 8 + i] = x[T.min(first_row + n * _ROWS + lane // 4, last), column + c * 8 + i]

    @T.prim_func
    def route_logits_few(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        gate: T.Tensor((num_experts, dim), "bfloat16"),
        logits: T.Tensor((num_rows, splits, num_experts), "float32"),
    ):
        with T.Kernel(T.ceildiv(num_experts, experts), splits, T.ceildiv(num_rows, rows), threads=threads) as (
            part,
            split,
            rank,
        ):
            T.assume(num_rows > 0)
            sums = T.alloc_shared((_SLICES, rows, experts + 4), "float32")  # padded: no bank conflicts
            w = T.alloc_local((tiles, 2, 16), "bfloat16")
            v = T.alloc_local((row_tiles, 16), "bfloat16")
            a = T.alloc_local((32,), "bfloat16")
            b = T.alloc_local((16,), "bfloat16")
            total = T.alloc_local((tiles * row_tiles * 4,), "float32")
            final = T.alloc_var("float32")
            thread = T.get_thread_binding()
            lane, warp = thread % _LANES, thread // _LANES
            first_of_warp = warp // _SLICES * tiles * _EXPERTS
            column = split * _SPLIT + warp % _SLICES * _SLICE + lane % 4 * 16
            load(gate, x, w, v, part * experts + first_of_warp, rank * rows, column, lane, num_rows - 1)
            for i in T.unroll(tiles * row_tiles * 4):
                total[i] = 0.0
            for m in T.unroll(tiles):
                for i, pair, h in T.grid(4, 2, 2):
                    for e in T.vectorized(2):
                        a[i * 8 + pair * 4 + h * 2 + e] = w[m, h, 4 * i + pair * 2 + e]
                for n in T.unroll(row_tiles):
                    for i in T.unroll(16):
                        b[i] = v[n, i]
                    for i in T.unroll(4):
                        T.ptx_mma(
                            "float32",
                            "m16n8k16",
                            "row",
                            "col",
                            "bf16",
                            "bf16",
                            "fp32",
                            a.data,
                            8 * i,
                            b.data,
                            4 * i,
                            total.data,
                            (m * row_tiles + n) * 4,
                            T.bool(False),
                        )
            for m, n, h, e in T.grid(tiles, row_tiles, 2, 2):
                sums[warp % _SLICES, n * _ROWS + lane % 4 * 2 + e, first_of_warp + m * _EXPERTS + h * 8 + lane // 4] = (
                    total[(m * row_tiles + n) * 4 + h * 2 + e]
                )
            T.sync_threads()
            for i in T.unroll(rows * experts // threads):
                expert, t = (i * threads + thread) % experts, (i * threads + thread) // experts
                final = sums[0, t, expert]
                for s in T.unroll(1, _SLICES):
                    final = final + sums[s, t, expert]
                if rank * rows + t < num_rows and part * experts + expert < num_experts:
                    logits[rank * rows + t, split, part * experts + expert] = final

    return route_logits_few


def num_splits(dim: int) -> int:
    """Parts of a logit that the form for few rows leaves to be added up."""
    return -(-dim // _SPLIT)


def route_logits(x: torch.Tensor, gate: torch.Tensor, *, batch_invariant: bool) -> torch.Tensor:
    """x bf16 [T, D], gate bf16 [E, D], D a multiple of 32 -> float32 [T, Z, E], whose sums over Z are the logits.

    Z is `num_splits(D)` for few rows; 1 for many, or with `batch_invariant`.
    """
    num_rows, (num_experts, dim) = x.shape[0], gate.shape
    few = num_rows <= FEW_ROWS and not batch_invariant
    logits = torch.empty((num_rows, num_splits(dim) if few else 1, num_experts), dtype=torch.float32, device=x.device)
    if not num_rows:
        return logits
    statics = {"dim": dim, "num_experts": num_experts}
    if few:
        row_tiles = next((n for n in _ROW_TILES if n * _ROWS >= num_rows), _ROW_TILES[-1])
        compiled(route_logits_few_kernel, arch_of(x.device), **statics, row_tiles=row_tiles)(x, gate, logits)
    else:
        compiled(route_logits_kernel, arch_of(x.device), **statics)(x, gate, logits.view(num_rows, num_experts))
    return logits


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both forms for the main model's and the draft's experts."""
    note = "SM100: mma.sync, as the product is small beside its sublayer"
    few_note = "few rows: mma.sync, straight from memory: bound by the gate's arrival"
    specs = []
    for experts in sorted({sizes.num_experts, sizes.draft_num_experts} - {0}):
        statics = {"dim": sizes.hidden_size, "num_experts": experts}
        specs.append(KernelSpec("moe.route_logits", route_logits_kernel, statics, {"sm_90a": "wgmma"}, note))
        specs += [
            KernelSpec("moe.route_logits_few", route_logits_few_kernel, statics | {"row_tiles": n}, {}, few_note)
            for n in _ROW_TILES
        ]
    return specs
