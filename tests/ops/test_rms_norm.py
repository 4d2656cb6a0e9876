"""RMS normalisation."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import Ops
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close


@pytest.mark.parametrize("shape", [(0, 8), (1, 128), (17, 33), (5, 4, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_against_float64(ops: Ops, shape: tuple[int, ...], dtype: torch.dtype):
    x, w = normal(*shape, dtype=dtype), normal(shape[-1], seed=1, dtype=dtype)
    y = x.double()
    want = y / (y.square().mean(-1, keepdim=True) + 1e-20).sqrt()
    assert_close(ops.rms_norm(x, None, 1e-20, torch.float32), want, "rms_norm")
    got = ops.rms_norm(x, w, 1e-20, torch.float32)
    assert_close(got, want * w.double(), "rms_norm")
    assert torch.equal(ops.rms_norm(x, w, 1e-20, torch.bfloat16), got.to(torch.bfloat16))


def test_zero_row_is_zero(ops: Ops):
    assert torch.equal(ops.rms_norm(torch.zeros(2, 8), None, 1e-20, torch.float32), torch.zeros(2, 8))
