"""The experts of many rows on SM100 (compiled, never run): tiles of assignments, block-scaled products."""

import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.moe.down import down_kernel
from tilelang_ops.moe.expert_layout import ExpertLayout, expert_layout, no_layout
from tilelang_ops.moe.expert_product import ProductShape
from tilelang_ops.moe.expert_weights import ExpertWeights, Packed
from tilelang_ops.moe.gate_up import gate_up_kernel
from tilelang_ops.quantize.quantize_fp8_group32 import quantize_for_product

_TILES = (16, 64)  # rows of a tile
_INVARIANT_TILE = 64


def tile_experts(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    experts: ExpertWeights,
    limit: float,
    batch_invariant: bool,
) -> torch.Tensor:
    """bf16 [T * k + T, D]: every assignment's output, then the shared expert's; arguments as of `few_experts`."""
    num_rows, top_k = ids.shape
    num_assigned, num_shared = num_rows * top_k, experts.num_shared(num_rows)
    rows = quantize_for_product(x, False)
    out = torch.empty((num_assigned + num_shared, experts.dim), dtype=torch.bfloat16, device=x.device)
    if num_assigned:
        tile_rows = _tile_rows(num_assigned, experts.num_experts, batch_invariant)
        layout = expert_layout(ids, weights, experts.num_experts, tile_rows)
        part = out[:num_assigned]
        _products(rows, layout, tile_rows, weights.reshape(-1), experts.routed, part, top_k, limit, False)
    if experts.shared is not None:
        one = tuple((codes[None], scales[None]) for codes, scales in experts.shared)
        tile_rows, everyone = _tile_rows(num_rows, 1, batch_invariant), no_layout(x.device)
        part = out[num_assigned:]
        _products(rows, everyone, tile_rows, everyone.weights, one, part, top_k, limit, True)
    return out


def _tile_rows(num_places: int, num_experts: int, batch_invariant: bool) -> int:
    """Height of tile."""
    if batch_invariant or num_places > _TILES[0] * num_experts:
        return _INVARIANT_TILE
    return _TILES[0]


def _products(
    rows: Packed,
    where: ExpertLayout,
    tile_rows: int,
    row_weights: torch.Tensor,
    matrices: tuple[Packed, ...],
    out: torch.Tensor,
    top_k: int,
    limit: float,
    shared: bool,
) -> None:
    """Fills out bf16 [places, D]."""
    device, arch = out.device, arch_of(out.device)
    num_places, dim = out.shape
    hidden_dim = matrices[0][0].shape[1]
    lists = (where.order, where.tile_expert, where.tile_begin, where.tile_count)
    statics = {"dim": dim, "hidden_dim": hidden_dim, "shared": shared, "tile_rows": tile_rows}
    hidden = torch.empty((num_places, hidden_dim), dtype=torch.float8_e4m3fn, device=device)
    scales = torch.empty((num_places, hidden_dim // 32), dtype=torch.uint8, device=device)
    packed = ProductShape(dim, 0, shared, tile_rows, 2).packed_copy
    (w1, s1), (w3, s3) = (_for_product(weight, packed) for weight in matrices[:2])
    gate_up = compiled(gate_up_kernel, arch, **statics)
    gate_up(*rows, *lists, row_weights, w1, s1, w3, s3, hidden, scales, top_k, limit)
    packed = ProductShape(hidden_dim, 0, shared, tile_rows, 1).packed_copy
    w2, s2 = _for_product(matrices[2], packed)
    compiled(down_kernel, arch, **statics)(hidden, scales, *lists, w2, s2, out)


def _for_product(weight: Packed, packed_copy: bool) -> Packed:
    """32-bit words, or bytes of two FP4 codes."""
    return weight[0].view(torch.uint8).view(torch.int8 if packed_copy else torch.int32), weight[1]


def tile_specs(dim: int, hidden_dim: int) -> list[KernelSpec]:
    """Both halves, for routed and shared experts and each height of tile."""
    wanted = {"sm_100a": "tcgen05"}
    specs = []
    for shared in (False, True):
        for rows in _TILES:
            statics = {"dim": dim, "hidden_dim": hidden_dim, "shared": shared, "tile_rows": rows}
            for name, factory in (("gate_up", gate_up_kernel), ("down", down_kernel)):
                specs.append(KernelSpec(f"moe.{name}.tiles", factory, statics, wanted, arches=("sm_100a",)))
    return specs
