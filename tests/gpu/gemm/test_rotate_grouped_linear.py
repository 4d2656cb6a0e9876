"""`rotate_grouped_linear` against the reference on the same inputs."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.gemm.products import ROUNDS, assert_product, generator, random_bf16, random_fp8_weight

pytest.importorskip("tilelang")

# groups, outputs a group, heads a group, head_dim, rope_dim
MINI = (4, 64, 2, 128, 32)
FLASH = (8, 1024, 8, 512, 64)
ODD = (3, 96, 1, 160, 8)


def angles(device: torch.device, rows: int, rope_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.rand(rows, rope_dim // 2, generator=generator(device), device=device) * 6.3
    return angle.cos(), angle.sin()


def check_rotated(device: torch.device, rows: int, size: tuple[int, ...], batch_invariant: bool):
    from deepinfer.ops.cuda.rotate_grouped_linear import rotate_grouped_linear

    groups, per_group, heads, head_dim, rope_dim = size
    x = random_bf16(device, rows, groups * heads, head_dim)
    weight = random_fp8_weight(device, groups * per_group, heads * head_dim)
    cos, sin = angles(device, rows, rope_dim)
    rotated = reference.apply_rope(x, cos, sin, inverse=True).view(rows, groups, heads * head_dim)
    want = reference.grouped_linear(rotated, weight, quantize=True, out_dtype=torch.bfloat16)
    options = {"num_groups": groups, "quantize": True, "out_dtype": torch.bfloat16}
    assert_product(lambda: rotate_grouped_linear(batch_invariant, x, cos, sin, weight, **options), want)


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 8, 9, 40, 64, 65, 131])
@pytest.mark.parametrize("size", [MINI, ODD])
def test_small(device: torch.device, rows: int, size: tuple[int, ...]):
    check_rotated(device, rows, size, False)


@pytest.mark.parametrize("batch_invariant", [False, True])
@pytest.mark.parametrize("rows", [1, 6, 16, 29, 64, 300])
def test_full_size(device: torch.device, rows: int, batch_invariant: bool):
    for _ in range(ROUNDS):
        check_rotated(device, rows, FLASH, batch_invariant)


def test_large(device: torch.device):
    check_rotated(device, 4099, FLASH, False)


@pytest.mark.parametrize("size", [MINI, FLASH, ODD])
@pytest.mark.parametrize("rounded", [False, True])
def test_rotated_codes_are_those_of_the_reference(device: torch.device, size: tuple[int, ...], rounded: bool):
    from tilelang_ops.gemm.rotate_grouped_linear import rotate_and_quantize

    groups, _, heads, head_dim, rope_dim = size
    x = random_bf16(device, 37, groups * heads, head_dim)
    cos, sin = angles(device, 37, rope_dim)
    out, scales = rotate_and_quantize(x, cos, sin, rounded)
    rotated = reference.apply_rope(x, cos, sin, inverse=True).view(37, -1)
    codes, want_scales = reference.quantize_fp8_group32(rotated)
    assert torch.equal(scales, want_scales), f"{int((scales != want_scales).sum())} of {scales.numel()} scales differ"
    want = reference.dequantize_fp8_group32(codes, want_scales).to(torch.bfloat16) if rounded else codes
    bits = torch.int16 if rounded else torch.uint8
    wrong = out.view(bits) != want.view(bits)
    assert not wrong.any(), f"{int(wrong.sum())} of {out.numel()} differ, first at {wrong.nonzero()[0].tolist()}"
