"""Native quantizers against the reference, bit by bit."""

from __future__ import annotations

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops import PrimitiveOps, reference
from tests.ops.builders import normal

ROUNDINGS = list(KVRounding)


def _operands(dim: int) -> torch.Tensor:
    """Rows of every magnitude, ties, edges of scales, zeros of both signs, and groups with NaN or Inf."""
    magnitudes = 2.0 ** torch.linspace(-140, 126, 300)
    x = torch.cat((normal(300, dim) * magnitudes[:, None], normal(200, dim, seed=1)))
    x = torch.cat((x, torch.round(normal(200, dim, seed=2) * 16) / 4, x[:20] * 0.0, -x[:20] * 0.0))
    edges = torch.tensor([448.0, 449.0, 464.0, 6.0, 6.01, 5.99, 1e-4, 2.0**-20, 3.4e38, 1e-45])
    x[-10:] = edges[:, None] * normal(10, dim, seed=3).clamp(-1, 1)
    poison = torch.tensor([torch.nan, -torch.nan, torch.inf, -torch.inf])
    for row in range(300, 320):
        x[row, row * 7 % dim] = poison[row % 4]
    return x


def _bits(x: torch.Tensor) -> torch.Tensor:
    """Bits of float32 values, all NaN alike."""
    return torch.where(x.isnan(), torch.nan, x).view(torch.int32)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dim", [2, 16, 34, 48, 96])
def test_round_vectors(cpu_ops: PrimitiveOps, rounding: KVRounding, dim: int):
    x = _operands(dim)
    assert torch.equal(_bits(cpu_ops.round_vectors(x, rounding)), _bits(reference.round_vectors(x, rounding)))
    x = x.to(torch.bfloat16).view(-1, 1, dim)
    assert torch.equal(_bits(cpu_ops.round_vectors(x, rounding)), _bits(reference.round_vectors(x, rounding)))
    assert cpu_ops.round_vectors(x[:0], rounding).shape == (0, 1, dim)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dim", [2, 16, 34, 48, 96])
@pytest.mark.parametrize("packed", [False, True])
def test_encode_and_decode(cpu_ops: PrimitiveOps, rounding: KVRounding, dim: int, packed: bool):
    x, layout = _operands(dim), VectorFormat(dim, rounding, packed)
    data = cpu_ops.encode_vectors(x, layout)
    want = reference.encode_vectors(x, layout)
    if packed and rounding is not KVRounding.NONE:
        assert torch.equal(data, want)
    else:
        assert torch.equal(_bits(data.view(torch.float32)), _bits(want.view(torch.float32)))
    values = cpu_ops.decode_vectors(want.view(5, -1, layout.num_bytes), layout)
    assert torch.equal(_bits(values), _bits(reference.decode_vectors(want.view(5, -1, layout.num_bytes), layout)))


@pytest.mark.parametrize("rounding", [rounding for rounding in ROUNDINGS if rounding is not KVRounding.NONE])
def test_any_bytes_decode(cpu_ops: PrimitiveOps, rounding: KVRounding):
    layout = VectorFormat(64, rounding, True)
    data = torch.randint(0, 256, (400, layout.num_bytes), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    got, want = cpu_ops.decode_vectors(data, layout), reference.decode_vectors(data, layout)
    assert torch.equal(_bits(got), _bits(want))
