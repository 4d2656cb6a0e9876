"""Sorts a step's (row, rank) assignments by expert and cuts them into tiles, on the device alone."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_WARPS = 16
_THREADS = _WARPS * 32
_EXPERTS = 4  # of a block
_PRELUDE = """
static __device__ __forceinline__ int moe_count_bits(unsigned mask) { return __popc(mask); }
static __device__ __forceinline__ int moe_count_below(unsigned mask, int lane) {
  return __popc(mask & ((1u << lane) - 1));
}
"""


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """Assignments in the order expert, then row, then rank; tiles of at most `tile_rows` of them, one expert each.

    Attributes:
        order: int32 [A], the assignment (row * top_k + rank) at each sorted place.
        weights: float32 [A], its routing weight.
        tile_expert: int32 [tiles], its expert.
        tile_begin: int32 [tiles], its first sorted place.
        tile_count: int32 [tiles], its places; 0 for the tiles that are left over from the bound on their number.
        tiles_used: int32 [1], the other tiles.
    """

    order: torch.Tensor
    weights: torch.Tensor
    tile_expert: torch.Tensor
    tile_begin: torch.Tensor
    tile_count: torch.Tensor
    tiles_used: torch.Tensor


def expert_layout_kernel(arch: str, num_experts: int) -> Any:
    """A counting sort, four experts a block: all blocks count every expert, each places its own assignments.

    Counts are integers, so the atomics change nothing from run to run. A warp owns a run of neighbouring assignments,
    and ballots keep their order. An expert's tiles have about the same number of places, a multiple of 8 but for the
    last.
    """
    num_assignments, num_tiles = T.dynamic("num_assignments"), T.dynamic("num_tiles")
    experts = tuple(range(_EXPERTS))
    blocks = -(-num_experts // _EXPERTS)
    padded = blocks * _EXPERTS

    def num_tiles_of(count: Any, tile_rows: Any) -> Any:
        return (count + (tile_rows - 1)) // tile_rows

    @T.prim_func
    def expert_layout(
        ids: T.Tensor((num_assignments,), "int64"),
        row_weights: T.Tensor((num_assignments,), "float32"),
        order: T.Tensor((num_assignments,), "int32"),
        weights: T.Tensor((num_assignments,), "float32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        tiles_used: T.Tensor((1,), "int32"),
        tile_rows: T.int32,
    ):
        with T.Kernel(blocks, threads=_THREADS) as block:
            T.import_source(_PRELUDE)
            thread = T.get_thread_binding()
            counts = T.alloc_shared((padded,), "int32")
            before = T.alloc_shared((2, _WARPS), "int32")  # places and tiles of earlier experts, by warp
            mine = T.alloc_shared((_WARPS, _EXPERTS), "int32")
            sums = T.alloc_local((2,), "int32")
            cursor = T.alloc_local((_EXPERTS,), "int32")
            found = T.alloc_local((1,), "int32")
            mask = T.alloc_local((1,), "uint32")
            warp, lane, first = thread // 32, thread % 32, block * _EXPERTS
            run = T.ceildiv(num_assignments, _THREADS) * 32  # assignments of a warp
            for i in T.serial(-(-padded // _THREADS)):
                if i * _THREADS + thread < padded:
                    counts[i * _THREADS + thread] = 0
            T.sync_threads()
            for j in T.unroll(_EXPERTS):
                cursor[j] = 0
            for i in T.serial(T.ceildiv(num_assignments, _THREADS)):
                place = warp * run + i * 32 + lane
                found[0] = -1
                if place < num_assignments:
                    found[0] = T.Cast("int32", ids[place])
                    if found[0] >= 0:
                        T.atomic_add(counts[found[0]], 1)
                for j in experts:
                    mask[0] = T.ballot(found[0] == first + j)
                    cursor[j] += T.call_extern("int32", "moe_count_bits", mask[0])
            if lane == 0:
                for j in experts:
                    mine[warp, j] = cursor[j]
            T.sync_threads()
            sums[0] = 0
            sums[1] = 0
            for i in T.serial(-(-padded // _THREADS)):
                if i * _THREADS + thread < first:
                    sums[0] += counts[i * _THREADS + thread]
                    sums[1] += num_tiles_of(counts[i * _THREADS + thread], tile_rows)
            sums[0] = T.warp_reduce_sum(sums[0])
            sums[1] = T.warp_reduce_sum(sums[1])
            if lane == 0:
                before[0, warp] = sums[0]
                before[1, warp] = sums[1]
            T.sync_threads()
            sums[0] = 0
            sums[1] = 0
            for w in T.unroll(_WARPS):
                sums[0] += before[0, w]
                sums[1] += before[1, w]
            for j in experts:
                count = counts[first + j]
                tiles = num_tiles_of(count, tile_rows)
                rows = (T.ceildiv(count, T.max(tiles, 1)) + 7) // 8 * 8
                for i in T.serial(T.ceildiv(tiles, _THREADS)):
                    tile = i * _THREADS + thread
                    if tile < tiles:
                        tile_expert[sums[1] + tile] = first + j
                        tile_begin[sums[1] + tile] = sums[0] + tile * rows
                        tile_count[sums[1] + tile] = T.min(count - tile * rows, rows)
                cursor[j] = sums[0]
                sums[0] += count
                sums[1] += tiles
            for w in T.serial(warp):
                for j in experts:
                    cursor[j] += mine[w, j]
            if block == blocks - 1:
                if thread == 0:
                    tiles_used[0] = sums[1]
                for i in T.serial(T.ceildiv(num_tiles - sums[1], _THREADS)):
                    tile = sums[1] + i * _THREADS + thread
                    if tile < num_tiles:
                        tile_count[tile] = 0
                        tile_expert[tile] = 0
                        tile_begin[tile] = 0
            for i in T.serial(T.ceildiv(num_assignments, _THREADS)):
                place = warp * run + i * 32 + lane
                found[0] = -1
                if place < num_assignments:
                    found[0] = T.Cast("int32", ids[place])
                for j in experts:
                    mask[0] = T.ballot(found[0] == first + j)
                    if found[0] == first + j:
                        to = cursor[j] + T.call_extern("int32", "moe_count_below", mask[0], lane)
                        order[to] = place
                        weights[to] = row_weights[place]
                    cursor[j] += T.call_extern("int32", "moe_count_bits", mask[0])

    return expert_layout


def expert_layout(ids: torch.Tensor, weights: torch.Tensor, num_experts: int, tile_rows: int) -> ExpertLayout:
    """Lay out ids int64 [T, k] in 0 .. num_experts - 1 and weights float32 [T, k], for tiles of `tile_rows`
    assignments, a multiple of 8. An id of -1 is left out: `order` and `weights` end with as many places that hold
    anything.
    """
    num_assignments = ids.numel()
    bound = num_assignments // tile_rows + min(num_experts, num_assignments)
    order = torch.empty(num_assignments, dtype=torch.int32, device=ids.device)
    sorted_weights = torch.empty(num_assignments, dtype=torch.float32, device=ids.device)
    tiles = [torch.empty(bound, dtype=torch.int32, device=ids.device) for _ in range(3)]
    used = torch.empty(1, dtype=torch.int32, device=ids.device)
    if num_assignments:
        kernel = compiled(expert_layout_kernel, arch_of(ids.device), num_experts=num_experts)
        kernel(ids.reshape(-1), weights.reshape(-1), order, sorted_weights, *tiles, used, tile_rows)
    return ExpertLayout(order, sorted_weights, *tiles, used)


def no_layout(device: torch.device, num_listed: int = 1) -> ExpertLayout:
    """Lists of that length that no kernel reads: nothing is assigned, or each assignment is a tile."""
    none = torch.empty(num_listed, dtype=torch.int32, device=device)
    return ExpertLayout(none, none.view(torch.float32), none, none, none, none[:1])


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One per expert count."""
    return [
        KernelSpec("moe.expert_layout", expert_layout_kernel, {"num_experts": experts})
        for experts in sorted({sizes.num_experts, sizes.draft_num_experts, *sizes.expert_places} - {0})
    ]
