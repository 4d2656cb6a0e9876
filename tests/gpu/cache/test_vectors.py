"""Quantized vectors on a GPU: codes, scales and values bit for bit those of the reference."""

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, fresh_runs, repeated

pytest.importorskip("tilelang")

FORMS = [
    (dim, rounding, rows)
    for rounding in (KVRounding.FP8_GROUP32, KVRounding.FP4_GROUP16, KVRounding.FP4_GROUP32)
    for dim, rows in ((64, 1), (96, 7), (128, 1000), (512, 333))
]


def hard_rows(generator, rows, dim, dtype):
    """Groups of all magnitudes, zeros of both signs, exact ties, and a row with NaN and Inf."""
    device = generator.device
    x = torch.randn(rows, dim, generator=generator, device=device)
    power = torch.randint(-20, 12, (rows, dim // 16), generator=generator, device=device)
    x *= torch.exp2(power.float()).repeat_interleave(16, dim=1)
    ties = torch.randint(-25, 26, (rows, dim), generator=generator, device=device) / 4.0
    x[::3] = ties[::3]
    x[0, :16] = 0.0
    x[0, 16:32] = -0.0
    if rows > 2:
        x[1] = 3e38
        x[2, 3], x[2, dim - 1] = torch.inf, torch.nan
    return x.to(dtype)


def group_of(rounding):
    return 16 if rounding is KVRounding.FP4_GROUP16 else 32


def code_mask(x, rounding):
    """Bytes [n, num_bytes] that are defined: the codes of a group with NaN or Inf are not."""
    size = group_of(rounding)
    finite = x.isfinite().unflatten(1, (-1, size)).all(2)
    per_byte = size if rounding is KVRounding.FP8_GROUP32 else size // 2
    return torch.cat((finite.repeat_interleave(per_byte, dim=1), torch.ones_like(finite)), dim=1)


@pytest.mark.parametrize(("dim", "rounding", "rows"), FORMS)
def test_codes_and_scales_are_those_of_the_reference(device, dim, rounding, rows):
    """As they are stored: not normed, and rotated by nothing."""
    from deepinfer.ops.cuda.store_vectors import store_vectors

    form = VectorFormat(dim, rounding, packed=True)
    cos, sin = torch.ones(rows, 1, device=device), torch.zeros(rows, 1, device=device)
    units, places = torch.arange(rows, device=device), torch.zeros(rows, dtype=torch.int64, device=device)
    for generator in fresh_runs(device):
        x = hard_rows(generator, rows, dim, torch.bfloat16)
        x[:, -2:] = x[:, -2:].nan_to_num(1.0, 1.0, 1.0)  # the rotated pair: 0 * Inf would spread

        def stored(x=x):
            cache = VectorCache(torch.zeros(rows, 1, form.num_bytes, dtype=torch.uint8, device=device), form)
            store_vectors(x, None, cos, sin, cache, units, places, eps=0.0, act_dtype=torch.bfloat16)
            return cache.data[:, 0]

        found, want = repeated(stored), reference.encode_vectors(x.cpu(), form).to(device)
        defined = code_mask(x, rounding)
        assert_bits(found.where(defined, 0), want.where(defined, 0), f"seed {generator.initial_seed()}")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("dim", "rounding", "rows"), FORMS)
def test_rounded_values(device, dim, rounding, rows, dtype):
    from deepinfer.ops.cuda.round_vectors import round_vectors

    for generator in fresh_runs(device):
        x = hard_rows(generator, rows, dim, dtype)
        want = reference.round_vectors(x.cpu(), rounding).to(device)
        assert_bits(repeated(lambda x=x: round_vectors(x, rounding)), want, f"seed {generator.initial_seed()}")


def test_no_rows(device):
    from deepinfer.ops.cuda.round_vectors import round_vectors

    empty = torch.empty(0, 128, device=device, dtype=torch.bfloat16)
    assert round_vectors(empty, KVRounding.FP8_GROUP32).shape == (0, 128)
