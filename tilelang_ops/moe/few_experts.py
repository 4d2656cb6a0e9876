"""The experts of few rows: each weight row times up to eight activation rows, as fast as the weights arrive."""

from dataclasses import dataclass

import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.processors import num_processors
from tilelang_ops.moe.down_few import down_few_kernel
from tilelang_ops.moe.expert_layout import expert_layout, no_layout
from tilelang_ops.moe.expert_weights import ExpertWeights
from tilelang_ops.moe.few_product import FEW_ROWS, STEP
from tilelang_ops.moe.gate_up_few import gate_up_few_kernel

_LEAST_WARPS = 4
_WIDEST = 8192  # columns of the weights up to which eight activation rows fit into shared memory in every form
_MEAN_ROWS = 1.5  # assignments of an expert up to which this form is at least as fast as that for many rows


@dataclass(frozen=True, slots=True)
class FewForm:
    """Shape of a kernel's blocks, whose warps share K.

    Attributes:
        rounds: pieces of K that a warp has in flight, where `most_warps` of them are enough.
        row_tiles: tiles of 16 weight rows that a warp does together.
        occupancy: blocks of a multiprocessor.
    """

    rounds: int
    row_tiles: int
    occupancy: int

    def statics(self, k: int) -> dict[str, int]:
        """The kernel's, for weights of `k` columns."""
        warps = min(max(-(-k // (STEP * self.rounds)), _LEAST_WARPS), 20 // self.occupancy)
        return {"warps": warps, "row_tiles": self.row_tiles, "occupancy": self.occupancy}


# (gate and up, down). The less there is to read, the more of it has to be in flight from the first moment on.
_ONE_ROW = FewForm(2, 2, 1), FewForm(2, 2, 2)
_SEVERAL = FewForm(4, 1, 2), FewForm(3, 2, 2)
_MORE = FewForm(5, 1, 2), FewForm(2, 2, 2)


def few_forms(num_assigned: int, num_experts: int, processors: int) -> tuple[FewForm, FewForm]:
    """Forms of a step of several rows, by whether there are more experts to read than multiprocessors.

    So many are expected to be read: an assignment misses an expert with probability 1 - 1 / num_experts.
    """
    expected = num_experts * (1.0 - (1.0 - 1.0 / num_experts) ** num_assigned)
    return _SEVERAL if expected <= processors else _MORE


def takes_few(num_picks: int, experts: ExpertWeights) -> bool:
    """Whether this is the form for a step with so many picks."""
    return max(experts.dim, experts.hidden_dim) <= _WIDEST and num_picks <= _MEAN_ROWS * experts.num_experts


def few_experts(
    x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, experts: ExpertWeights, limit: float, likely: int
) -> torch.Tensor:
    """bf16 [T * k + T, D]: every assignment's output, then the shared expert's; without the latter [T * k, D].

    Args:
        x: bf16 [T, D] contiguous.
        ids: int64 [T, k > 0] experts, best first; without a shared expert -1 for none, whose output is left as it is.
        weights: float32 [T, k].
        experts: of the layer.
        limit: swiglu_limit.
        likely: about how many ids are experts.
    """
    (num_rows, top_k), device, arch = ids.shape, x.device, arch_of(x.device)
    num_assigned, num_shared = num_rows * top_k, experts.num_shared(num_rows)
    single = num_rows == 1 and experts.shared is not None  # its assignments are their own tiles, and no list is read
    if single:
        layout = no_layout(device, num_assigned)
    else:
        layout = expert_layout(ids, weights, experts.num_experts, FEW_ROWS)
    flat_ids, row_weights = ids.reshape(-1), weights.reshape(-1)
    lists = (layout.tile_expert, layout.tile_begin, layout.tile_count, layout.tiles_used)
    blocks = num_processors(device)
    form, down_form = _ONE_ROW if single else few_forms(likely, experts.num_experts, blocks)
    statics = {"dim": experts.dim, "hidden_dim": experts.hidden_dim, "single": single}
    order = layout.order
    hidden = torch.empty((num_assigned + num_shared, experts.hidden_dim), dtype=torch.bfloat16, device=device)
    kernel = compiled(gate_up_few_kernel, arch, **statics, **form.statics(experts.dim))
    gate_up = experts.flat(0, 1)
    sizes = (num_assigned, num_shared)
    kernel(x, flat_ids, order, *lists, row_weights, *gate_up, hidden, *sizes, top_k, limit, blocks * form.occupancy)
    out = torch.empty((num_assigned + num_shared, experts.dim), dtype=torch.bfloat16, device=device)
    kernel = compiled(down_few_kernel, arch, **statics, **down_form.statics(experts.hidden_dim))
    kernel(hidden, flat_ids, order, *lists, *experts.flat(2), out, *sizes, blocks * down_form.occupancy)
    return out


def few_specs(dim: int, hidden_dim: int) -> list[KernelSpec]:
    """Both halves, for one row and for several."""
    if max(dim, hidden_dim) > _WIDEST:
        return []
    note = "few rows: as fast as the weights arrive, with mma.sync"
    specs: dict[tuple[object, ...], KernelSpec] = {}
    for single, forms in ((True, _ONE_ROW), (False, _SEVERAL), (False, _MORE)):
        kernels = (("gate_up", gate_up_few_kernel, dim), ("down", down_few_kernel, hidden_dim))
        for form, (name, factory, k) in zip(forms, kernels, strict=True):
            statics = {"dim": dim, "hidden_dim": hidden_dim, "single": single, **form.statics(k)}
            specs[name, *statics.values()] = KernelSpec(f"moe.{name}.few", factory, statics, note=note)
    return list(specs.values())
