"""Mixture of experts: routed FP4 experts and the shared FP8 expert of a step's rows."""

from dataclasses import dataclass

import torch

from tilelang_ops.jit.arch import arch_of, is_sm100
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.combine import combine
from tilelang_ops.moe.down import down_kernel
from tilelang_ops.moe.down_few import down_few_kernel
from tilelang_ops.moe.expert_layout import ExpertLayout, expert_layout
from tilelang_ops.moe.expert_product import ProductShape
from tilelang_ops.moe.gate_up import gate_up_kernel
from tilelang_ops.moe.gate_up_few import FEW_ROWS, gate_up_few_kernel
from tilelang_ops.quantize.quantize_fp8_group32 import quantize_for_product

_FEW_ASSIGNMENTS = 32  # routed products up to here are dot products
_FEW_SHARED_ROWS = 8
_TILES = (16, 64)  # rows of a tile of the matrix kernels
_INVARIANT_TILE = 64
_MAX_ASSIGNMENTS = 1 << 16  # of one pass: bounds its workspace, and element counts stay below 2^31

Packed = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Experts:
    """Weights as the kernels take them, and the widths.

    Attributes:
        matrices: (words int32, scales uint8) of w1, w3 and w2, each with a leading expert dim.
        shared: the FP8 expert that takes all rows; else FP4 experts with a layout.
        dim: width of a row.
        hidden_dim: width of a hidden vector.
    """

    matrices: tuple[Packed, ...]
    shared: bool
    dim: int
    hidden_dim: int


def moe(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    routed: tuple[Packed, ...],
    shared: tuple[Packed, ...] | None,
    *,
    limit: float,
    batch_invariant: bool = False,
) -> torch.Tensor:
    """Sum of the chosen experts' outputs, each rounded to bf16, rank by rank, and the shared expert's; rounded once.

    Inputs and hidden vectors pass Q8/32. Weights are read as the checkpoint packs them, and nothing is densified.

    Args:
        x: bf16 [T, D] contiguous; D and I are multiples of 32.
        ids: int64 [T, k] experts, best first.
        weights: float32 [T, k].
        routed: (codes, scales) of w1 [E, I, D], w3 [E, I, D] and w2 [E, D, I]: FP4, uint8 [E, N, K/2] with uint8
            [E, N, K/32].
        shared: the same of the shared expert: FP8, e4m3 [N, K] with uint8 [N/32, K/32] (rounded up). None: the one
            routed expert (k = 1) alone; with k = 0 the shared expert is alone.
        limit: swiglu_limit.
        batch_invariant: one form and one height of tile for all numbers of rows.

    Returns:
        bf16 [T, D].
    """
    rows_per_pass = max(1, _MAX_ASSIGNMENTS // max(ids.shape[1], 1))
    if x.shape[0] == 0:
        return torch.empty_like(x)
    dim, hidden_dim = x.shape[1], routed[0][0].shape[1]
    many = _Experts(tuple(_as_words(*pair) for pair in routed), False, dim, hidden_dim)
    assert shared is not None or ids.shape[1] == 1, f"{ids.shape[1]} experts a row without a shared one"
    one = None
    if shared is not None:
        one = _Experts(tuple(_as_words(codes[None], scales[None]) for codes, scales in shared), True, dim, hidden_dim)
    if x.shape[0] <= rows_per_pass:
        return _one_pass(x, ids, weights, (many, one), limit, batch_invariant)
    parts = zip(x.split(rows_per_pass), ids.split(rows_per_pass), weights.split(rows_per_pass), strict=True)
    return torch.cat([_one_pass(*part, (many, one), limit, batch_invariant) for part in parts])


def _as_words(codes: torch.Tensor, scales: torch.Tensor) -> Packed:
    assert codes.is_contiguous() and codes.data_ptr() % 16 == 0, "weights are read 16 bytes at a time"
    return codes.view(torch.uint8).view(torch.int32), scales


def _for_product(weight: Packed, packed_copy: bool) -> Packed:
    """As the matrix kernels take it: 32-bit words, or bytes of two FP4 codes."""
    return (weight[0].view(torch.int8), weight[1]) if packed_copy else weight


def _one_pass(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    experts: tuple[_Experts, _Experts | None],
    limit: float,
    batch_invariant: bool,
) -> torch.Tensor:
    num_rows, top_k = ids.shape
    many, one = experts
    num_experts = many.matrices[0][0].shape[0]
    tile_rows = _tile_rows(num_rows * top_k, num_experts, _FEW_ASSIGNMENTS, batch_invariant)
    shared_tile_rows = _tile_rows(num_rows, 1, _FEW_SHARED_ROWS, batch_invariant)
    parts = []
    if top_k:
        parts.append((many, expert_layout(ids, num_experts, tile_rows), weights.reshape(-1)))
    if one is not None:
        empty = torch.empty(1, dtype=torch.int32, device=x.device)
        parts.append((one, ExpertLayout(empty, empty, empty, empty, shared_tile_rows), weights.new_empty(1)))
    forms: dict[bool, Packed] = {}
    outputs = []
    for group, where, scale in parts:
        codes = is_sm100(arch_of(x.device)) and where.tile_rows > FEW_ROWS
        if codes not in forms:
            forms[codes] = quantize_for_product(x, not codes)
        num_places = num_rows if group.shared else num_rows * top_k
        outputs.append(_products(forms[codes], num_places, where, scale, group, top_k, limit))
    return combine(outputs[0].view(num_rows, top_k, -1), outputs[1]) if len(outputs) == 2 else outputs[0]


def _tile_rows(num_places: int, num_experts: int, few: int, batch_invariant: bool) -> int:
    """Height of tile: FEW_ROWS means dot products."""
    if batch_invariant:
        return _INVARIANT_TILE
    if num_places <= few:
        return FEW_ROWS
    return _TILES[0] if num_places <= _TILES[0] * num_experts else _TILES[1]


def _products(
    rows: Packed,
    num_places: int,
    where: ExpertLayout,
    row_weights: torch.Tensor,
    experts: _Experts,
    top_k: int,
    limit: float,
) -> torch.Tensor:
    """bf16 [num_places, D]: every assignment's output, in assignment order."""
    device, arch = rows[0].device, arch_of(rows[0].device)
    (w1, s1), (w3, s3), (w2, s2) = experts.matrices
    lists = (where.order, where.tile_expert, where.tile_begin, where.tile_count)
    statics = {"dim": experts.dim, "hidden_dim": experts.hidden_dim, "shared": experts.shared}
    out = torch.empty((num_places, experts.dim), dtype=torch.bfloat16, device=device)
    hidden = torch.empty((num_places, experts.hidden_dim), dtype=rows[0].dtype, device=device)
    if where.tile_rows == FEW_ROWS:
        gate_up = compiled(gate_up_few_kernel, arch, **statics)
        gate_up(rows[0], *lists, row_weights, w1, s1, w3, s3, hidden, top_k, limit)
        compiled(down_few_kernel, arch, **statics)(hidden, *lists, w2, s2, out)
        return out
    num_scales = num_places if hidden.dtype != torch.bfloat16 else 1
    scales = torch.empty((num_scales, experts.hidden_dim // 32), dtype=torch.uint8, device=device)
    packed = ProductShape(arch, experts.dim, 0, experts.shared, where.tile_rows, 2).packed_copy
    (w1, s1), (w3, s3) = (_for_product(weight, packed) for weight in experts.matrices[:2])
    gate_up = compiled(gate_up_kernel, arch, **statics, tile_rows=where.tile_rows)
    gate_up(*rows, *lists, row_weights, w1, s1, w3, s3, hidden, scales, top_k, limit)
    packed = ProductShape(arch, experts.hidden_dim, 0, experts.shared, where.tile_rows, 1).packed_copy
    w2, s2 = _for_product(experts.matrices[2], packed)
    compiled(down_kernel, arch, **statics, tile_rows=where.tile_rows)(hidden, scales, *lists, w2, s2, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both halves, for routed and shared experts: dot products, and the matrix form with each height of tile."""
    wanted = {"sm_90a": "wgmma", "sm_100a": "tcgen05"}
    specs = []
    if sizes.moe_intermediate_size % 32:  # the reference op runs
        return specs
    for shared in (False, True):
        statics = {"dim": sizes.hidden_size, "hidden_dim": sizes.moe_intermediate_size, "shared": shared}
        note = "matrix times few rows: bound by memory"
        specs.append(KernelSpec("moe.gate_up.few", gate_up_few_kernel, statics, note=note))
        specs.append(KernelSpec("moe.down.few", down_few_kernel, statics, note=note))
        for rows in _TILES:
            specs.append(KernelSpec("moe.gate_up", gate_up_kernel, {**statics, "tile_rows": rows}, wanted))
            specs.append(KernelSpec("moe.down", down_kernel, {**statics, "tile_rows": rows}, wanted))
    return specs
