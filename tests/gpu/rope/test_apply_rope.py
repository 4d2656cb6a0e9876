"""Rotary embedding on a GPU."""

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, fresh_runs, repeated

pytest.importorskip("tilelang")


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "rope_dim"),
    [
        ((1, 64, 512), 64),
        ((33, 64, 512), 64),
        ((1001, 128), 32),
        ((0, 8, 128), 32),
        ((7, 3, 96), 20),
        ((5, 2, 3, 64), 64),
    ],
)
def test_bits_of_the_reference(device, shape, rope_dim, inverse):
    from deepinfer.ops.cuda.apply_rope import apply_rope

    for generator in fresh_runs(device):
        x = torch.randn(shape, generator=generator, device=device).bfloat16()
        angle = 1000 * torch.randn(shape[0], rope_dim // 2, generator=generator, device=device)
        cos, sin = angle.cos(), angle.sin()
        found = repeated(lambda x=x, cos=cos, sin=sin: apply_rope(x, cos, sin, inverse=inverse))
        want = reference.apply_rope(x, cos, sin, inverse=inverse)
        assert_bits(found, want, f"seed {generator.initial_seed()}")
