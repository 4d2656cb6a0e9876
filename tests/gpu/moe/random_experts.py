"""Random experts and rows of a given size, new ones in every run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat


@dataclass(frozen=True)
class RandomExperts:
    """Routed (w1, w3, w2) and shared (w1, w3, w2) weights; values keep hidden vectors near one."""

    routed: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight]
    shared: tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight]


def fresh_generator(device: torch.device) -> torch.Generator:
    """Seeded by the clock; `initial_seed()` of it belongs in a failure's message."""
    return torch.Generator(device).manual_seed(time.time_ns() % (1 << 40))


def random_experts(num_experts: int, dim: int, hidden_dim: int, generator: torch.Generator) -> RandomExperts:
    sizes = ((hidden_dim, dim), (hidden_dim, dim), (dim, hidden_dim))
    routed = tuple(_fp4(num_experts, rows, columns, generator) for rows, columns in sizes)
    shared = tuple(_fp8(rows, columns, generator) for rows, columns in sizes)
    return RandomExperts(routed, shared)


def random_choice(num_rows: int, num_experts: int, top_k: int, generator: torch.Generator) -> torch.Tensor:
    """int64 [T, k], distinct in a row."""
    keys = torch.rand(num_rows, num_experts, generator=generator, device=generator.device)
    return keys.topk(top_k, dim=1).indices


def _scales(shape: tuple[int, ...], columns: int, largest: float, generator: torch.Generator) -> torch.Tensor:
    """Bytes of four neighbouring powers of two near 1 / (largest * sqrt(columns))."""
    middle = 127 - round(torch.tensor(largest * columns**0.5).log2().item())
    return torch.randint(middle - 1, middle + 3, shape, generator=generator, device=generator.device).to(torch.uint8)


def _fp4(num_experts: int, rows: int, columns: int, generator: torch.Generator) -> QuantizedWeight:
    codes = torch.randint(
        0, 256, (num_experts, rows, columns // 2), generator=generator, device=generator.device, dtype=torch.uint8
    )
    return QuantizedWeight(
        codes, _scales((num_experts, rows, columns // 32), columns, 3.0, generator), WeightFormat.FP4_ROW32
    )


def _fp8(rows: int, columns: int, generator: torch.Generator) -> QuantizedWeight:
    values = torch.randn(rows, columns, generator=generator, device=generator.device) * 16
    codes = values.to(torch.float8_e4m3fn)
    scales = _scales((-(-rows // 32), columns // 32), columns, 16.0, generator)
    return QuantizedWeight(codes, scales, WeightFormat.FP8_BLOCK32)
