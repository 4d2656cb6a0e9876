"""The experts of many rows on SM90: tiles of assignments on the tensor cores, weights decoded on their way."""

import math
from dataclasses import dataclass

import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.processors import num_processors
from tilelang_ops.moe.expert_layout import expert_layout, no_layout
from tilelang_ops.moe.expert_weights import ExpertWeights
from tilelang_ops.moe.operand_rows import operand_rows
from tilelang_ops.moe.stream_down import stream_down_kernel
from tilelang_ops.moe.stream_gate_up import stream_gate_up_kernel
from tilelang_ops.moe.stream_shape import padded

# (standard deviations, weight): about the normal distribution, which numbers of rows (Poisson's) are near to.
_SPREAD = ((-2, 1 / 16), (-1, 1 / 4), (0, 3 / 8), (1, 1 / 4), (2, 1 / 16))


@dataclass(frozen=True, slots=True)
class StreamForm:
    """Shape of the kernels' blocks.

    Attributes:
        sizes: of tiles, in activation rows; a product is done for the next of them.
        costs: of a tile of each size, microseconds.
        stages: copies in flight.
        words: weight words that are decoded for one group of products, see `StreamShape`.
        registers: of a thread that copies and of one that multiplies.
    """

    sizes: tuple[int, ...]
    costs: tuple[float, ...]
    stages: int
    words: int = 2
    registers: tuple[int, int] = (56, 224)

    def statics(self) -> dict[str, object]:
        return {"sizes": self.sizes, "stages": self.stages, "words": self.words, "registers": self.registers}

    def cost(self, num_rows: float) -> float:
        """Of an expert of so many rows, which its tiles share evenly, in steps of eight (`expert_layout`)."""
        tiles = math.ceil(num_rows / self.sizes[-1])
        rows = math.ceil(num_rows / max(tiles, 1) / 8) * 8
        return tiles * next(cost for size, cost in zip(self.sizes, self.costs, strict=True) if rows <= size)

    def expected_cost(self, mean: float) -> float:
        """Of an expert whose number of rows has this mean."""
        deviation = math.sqrt(mean)
        return sum(weight * self.cost(max(mean + times * deviation, 0.0)) for times, weight in _SPREAD)


# Registers of tiles from 112 rows on. A group of products of two words would not fit into them beside the sums, and the
# compiler would wait for each product.
_FOR_WIDE_SUMS = (40, 232)
# Costs: time of 96 to 10,240 rows of a V4.1-Flash layer on one H200 (doc/performance.md), less 0.1 us a row for what is
# around both products, by tile.
_FORMS = (
    StreamForm((8,), (6.7,), 8),
    StreamForm((24,), (7.5,), 6),
    StreamForm((48,), (8.9,), 5),
    StreamForm((64, 80), (9.8, 10.9), 4),
    StreamForm((96,), (11.8,), 4),
    StreamForm((112,), (13.4,), 3, 1, _FOR_WIDE_SUMS),
    StreamForm((152,), (15.8,), 3, 1, _FOR_WIDE_SUMS),
)


def stream_form(num_assigned: int, num_experts: int) -> StreamForm:
    """The form of the least expected cost, the smaller of equals.

    An expert of more rows than a tile has its weights copied and decoded again for each tile. Which form it is changes
    no bit of a row's result.
    """
    return min(_FORMS, key=lambda form: form.expected_cost(num_assigned / num_experts))


def stream_experts(
    x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, experts: ExpertWeights, limit: float, likely: int
) -> torch.Tensor:
    """bf16 [T * k + T, D]: every assignment's output, then the shared expert's; arguments as of `few_experts`."""
    (num_rows, top_k), device, arch = ids.shape, x.device, arch_of(x.device)
    num_assigned, num_shared = num_rows * top_k, experts.num_shared(num_rows)
    form = stream_form(likely, experts.num_experts) if top_k else stream_form(num_rows, 1)
    statics = {"dim": experts.dim, "hidden_dim": experts.hidden_dim, **form.statics()}
    rows = operand_rows(x)
    if num_assigned:
        layout = expert_layout(ids, weights, experts.num_experts, form.sizes[-1])
    else:
        layout = no_layout(device)
    lists = (layout.tile_expert, layout.tile_begin, layout.tile_count, layout.tiles_used)
    sizes, blocks = (num_assigned, num_shared), num_processors(device)
    hidden = torch.empty((sum(sizes), padded(experts.hidden_dim)), dtype=torch.bfloat16, device=device)
    kernel = compiled(stream_gate_up_kernel, arch, **statics)
    kernel(rows, layout.order, layout.weights, *lists, *experts.flat(0, 1), hidden, *sizes, top_k, limit, blocks)
    out = torch.empty((sum(sizes), experts.dim), dtype=torch.bfloat16, device=device)
    kernel = compiled(stream_down_kernel, arch, **statics)
    kernel(hidden, layout.order, *lists, *experts.flat(2), out, *sizes, blocks)
    return out


def stream_specs(dim: int, hidden_dim: int) -> list[KernelSpec]:
    """Both halves in every form."""
    specs = []
    for form in _FORMS:
        statics = {"dim": dim, "hidden_dim": hidden_dim, **form.statics()}
        for name, factory in (("gate_up", stream_gate_up_kernel), ("down", stream_down_kernel)):
            specs.append(KernelSpec(f"moe.{name}.stream", factory, statics, {"sm_90a": "wgmma"}, arches=("sm_90a",)))
    return specs
