"""Root-mean-square norm on a GPU."""

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, assert_near, fresh_runs, repeated

pytest.importorskip("tilelang")

EPS = 1e-6


@pytest.mark.parametrize(
    "shape", [(0, 256), (1, 5120), (3, 96), (1000, 256), (129, 5120), (65, 8, 128), (9, 1280), (5, 2304)]
)
@pytest.mark.parametrize(
    ("has_weight", "out_dtype"), [(True, torch.bfloat16), (False, torch.bfloat16), (True, torch.float32)]
)
def test_against_the_reference(device, shape, has_weight, out_dtype):
    from deepinfer.ops.cuda.rms_norm import rms_norm

    for generator in fresh_runs(device):
        x = (5 * torch.randn(shape, generator=generator, device=device)).bfloat16()
        weight = torch.randn(shape[-1], generator=generator, device=device).bfloat16() if has_weight else None
        found = repeated(lambda x=x, weight=weight: rms_norm(x, weight, EPS, out_dtype))
        want = reference.rms_norm(x, weight, EPS, out_dtype)
        limit = 1e-3 if out_dtype is torch.bfloat16 else 1e-5
        assert_near(found, want, limit, f"seed {generator.initial_seed()}")
        if shape[0] > 1:
            assert_bits(rms_norm(x[1:2], weight, EPS, out_dtype), found[1:2], "a row alone")
