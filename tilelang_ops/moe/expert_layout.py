"""Sorts a step's (row, rank) assignments by expert and cuts them into tiles, on the device alone."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 256


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """Assignments in the order expert, then row, then rank; tiles of at most `tile_rows` of them, one expert each.

    Attributes:
        order: int32 [A], the assignment (row * top_k + rank) at each sorted place.
        tile_expert: int32 [tiles], its expert.
        tile_begin: int32 [tiles], its first sorted place.
        tile_count: int32 [tiles], its places; 0 for the tiles that are left over from the bound on their number.
        tile_rows: most places of a tile.
    """

    order: torch.Tensor
    tile_expert: torch.Tensor
    tile_begin: torch.Tensor
    tile_count: torch.Tensor
    tile_rows: int


def expert_layout_kernel(arch: str, num_experts: int) -> Any:
    """A counting sort, one block an expert: all count every expert, each places its own assignments.

    Counts are integers, so the atomics change nothing from run to run. A thread owns a run of neighbouring assignments,
    and the prefix sum over threads keeps their order.
    """
    num_assignments, num_tiles = T.dynamic("num_assignments"), T.dynamic("num_tiles")

    @T.prim_func
    def expert_layout(
        ids: T.Tensor((num_assignments,), "int64"),
        order: T.Tensor((num_assignments,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        tile_rows: T.int32,
    ):
        with T.Kernel(num_experts, threads=_THREADS) as expert:
            thread = T.get_thread_binding()
            counts = T.alloc_shared((num_experts,), "int32")
            mine = T.alloc_shared((_THREADS,), "int32")
            place = T.alloc_shared((2,), "int32")  # first sorted place and first tile of this block's expert
            cursor = T.alloc_local((1,), "int32")
            sums = T.alloc_local((2,), "int32")
            share = T.ceildiv(num_assignments, _THREADS)
            for i in T.serial(T.ceildiv(num_experts, _THREADS)):
                if i * _THREADS + thread < num_experts:
                    counts[i * _THREADS + thread] = 0
            T.sync_threads()
            cursor[0] = 0
            for i in T.serial(share):
                if thread * share + i < num_assignments:
                    found = T.Cast("int32", ids[thread * share + i])
                    T.atomic_add(counts[found], 1)
                    if found == expert:
                        cursor[0] += 1
            mine[thread] = cursor[0]
            T.sync_threads()
            if thread == 0:
                sums[0] = 0
                sums[1] = 0
                for i in T.serial(expert):
                    sums[0] += counts[i]
                    sums[1] += (counts[i] + (tile_rows - 1)) // tile_rows
                place[0] = sums[0]
                place[1] = sums[1]
                if expert == num_experts - 1:
                    sums[1] += (counts[expert] + (tile_rows - 1)) // tile_rows
                    for i in T.serial(num_tiles - sums[1]):
                        tile_count[sums[1] + i] = 0
                        tile_expert[sums[1] + i] = 0
                        tile_begin[sums[1] + i] = 0
            if thread == 32:
                sums[0] = 0
                for i in T.serial(_THREADS):
                    cursor[0] = mine[i]
                    mine[i] = sums[0]
                    sums[0] += cursor[0]
            T.sync_threads()
            cursor[0] = place[0] + mine[thread]
            for i in T.serial(share):
                if thread * share + i < num_assignments:
                    found = T.Cast("int32", ids[thread * share + i])
                    if found == expert:
                        order[cursor[0]] = thread * share + i
                        cursor[0] += 1
            sums[0] = counts[expert]
            sums[1] = (sums[0] + (tile_rows - 1)) // tile_rows
            for i in T.serial(T.ceildiv(sums[1], _THREADS)):
                tile = i * _THREADS + thread
                if tile < sums[1]:
                    tile_expert[place[1] + tile] = expert
                    tile_begin[place[1] + tile] = place[0] + tile * tile_rows
                    tile_count[place[1] + tile] = T.min(sums[0] - tile * tile_rows, tile_rows)

    return expert_layout


def expert_layout(ids: torch.Tensor, num_experts: int, tile_rows: int) -> ExpertLayout:
    """Lay out ids int64 [T, k] in 0 .. num_experts - 1, for products over tiles of `tile_rows` assignments."""
    num_assignments = ids.numel()
    bound = num_assignments // tile_rows + min(num_experts, num_assignments)
    order = torch.empty(num_assignments, dtype=torch.int32, device=ids.device)
    tiles = [torch.empty(bound, dtype=torch.int32, device=ids.device) for _ in range(3)]
    if num_assignments:
        kernel = compiled(expert_layout_kernel, arch_of(ids.device), num_experts=num_experts)
        kernel(ids.reshape(-1), order, *tiles, tile_rows)
    return ExpertLayout(order, *tiles, tile_rows)


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One per expert count."""
    return [
        KernelSpec("moe.expert_layout", expert_layout_kernel, {"num_experts": experts})
        for experts in sorted({sizes.num_experts, sizes.draft_num_experts} - {0})
    ]
