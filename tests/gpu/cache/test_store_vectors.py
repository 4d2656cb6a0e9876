"""Norm, rotation, quantizer and store as one kernel."""

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, fresh_runs

pytest.importorskip("tilelang")

EPS = 1e-6
FORMS = [
    (512, 64, KVRounding.FP8_GROUP32, True),
    (512, 64, KVRounding.FP4_GROUP16, False),
    (128, 64, KVRounding.FP4_GROUP32, True),
    (128, 32, KVRounding.FP8_GROUP32, False),
    (64, 32, KVRounding.FP4_GROUP32, True),
    (96, 20, KVRounding.FP4_GROUP16, True),
]


def inputs(generator, rows, dim, rope_dim, form):
    device = generator.device
    x = torch.randn(rows, dim, generator=generator, device=device).bfloat16()
    weight = (1 + 0.3 * torch.randn(dim, generator=generator, device=device)).bfloat16()
    angle = 100 * torch.randn(rows, rope_dim // 2, generator=generator, device=device)
    num_units = rows // 4 + 2
    data = torch.randint(0, 256, (num_units, 8, form.num_bytes), generator=generator, device=device, dtype=torch.uint8)
    where = torch.randperm(num_units * 8, generator=generator, device=device)[:rows]
    units, places = where // 8, where % 8
    units[1::5] = -1
    return x, weight, angle.cos(), angle.sin(), data, units, places


@pytest.mark.parametrize("rows", [1, 7, 1027])
@pytest.mark.parametrize(("dim", "rope_dim", "rounding", "has_weight"), FORMS)
def test_bytes_in_the_cache(device, dim, rope_dim, rounding, has_weight, rows):
    from tilelang_ops.cache.store_vectors import store_vectors

    form = VectorFormat(dim, rounding, packed=True)
    for generator in fresh_runs(device):
        x, weight, cos, sin, before, units, places = inputs(generator, rows, dim, rope_dim, form)
        results = []
        for _ in range(3):
            data = before.clone()
            used = weight if has_weight else None
            store_vectors(x, used, cos, sin, data, units, places, rounding=rounding.value, eps=EPS)
            results.append(data)
        assert_bits(results[1], results[0], "second run of the same inputs")
        assert_bits(results[2], results[0], "third run of the same inputs")
        normed = reference.rms_norm(x, weight, EPS, torch.bfloat16) if has_weight else x
        encoded = reference.encode_vectors(reference.apply_rope(normed, cos, sin).cpu(), form).to(device)
        want = before.clone()
        want[units[units >= 0], places[units >= 0]] = encoded[units >= 0]
        label = f"seed {generator.initial_seed()}"
        if not has_weight:
            assert_bits(results[0], want, label)
            continue
        # The norm's sum may be in another order: a bf16 value in a thousand may round the other way, and so its code.
        touched = torch.zeros(before.shape[:2], dtype=torch.bool, device=device)
        touched[units[units >= 0], places[units >= 0]] = True
        assert_bits(results[0][~touched], before[~touched], f"{label}: places that are not named")
        wrong = (results[0] != want)[touched]
        allowed = max(1, wrong.numel() // 1000)
        assert int(wrong.sum()) <= allowed, f"{label}: {int(wrong.sum())} of {wrong.numel()} bytes differ"


def test_adapter_writes_the_cache(device):
    from deepinfer.ops.cuda.store_vectors import store_vectors

    form = VectorFormat(128, KVRounding.FP8_GROUP32, packed=True)
    for generator in fresh_runs(device):
        x, _, cos, sin, data, units, places = inputs(generator, 37, 128, 64, form)
        found, want = VectorCache(data.clone(), form), VectorCache(data.clone(), form)
        options = {"eps": EPS, "act_dtype": torch.bfloat16}
        store_vectors(x, None, cos, sin, found, units, places, **options)
        reference.store_vectors(x, None, cos, sin, want, units, places, **options)
        assert_bits(found.data, want.data, f"seed {generator.initial_seed()}")
        store_vectors(x[:0], None, cos[:0], sin[:0], found, units[:0], places[:0], **options)
        assert_bits(found.data, want.data, "after storing no rows")
