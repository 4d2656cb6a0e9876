"""Quantizers, cache vectors: published vectors, ties, a numpy model, poison, partial groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops import reference
from deepinfer.ops.reference.e2m1 import decode_e2m1, pack_e2m1, round_e2m1
from deepinfer.ops.reference.e4m3 import decode_e4m3, round_e4m3
from deepinfer.ops.reference.power_of_two_scale import decode_e8m0
from tests.ops import quantizer_model as model
from tests.ops.builders import normal

KINDS = ["fp8_group32", "fp4_group32", "fp4_group16"]
SAMPLE = ((7 * torch.arange(32) % 32).float() - 15.5) / 4


def _quantize(kind: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    codes, scales = getattr(reference, f"quantize_{kind}")(x)
    return codes.view(torch.uint8), scales


def _dequantize(kind: str, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return getattr(reference, f"dequantize_{kind}")(codes, scales)


def _hex(codes: torch.Tensor) -> str:
    return bytes(codes.tolist()).hex()


def test_published_vectors():
    codes, scales = _quantize("fp8_group32", SAMPLE)
    assert scales.tolist() == [121]
    assert _hex(codes) == "f8f0dc6b74f4eb5c7078f2e26974f6ed506f76f2e66672f6efd06d76f4e96272"
    codes, scales = _quantize("fp4_group32", SAMPLE)
    assert scales.tolist() == [127]
    assert _hex(codes) == "ce39d51b649c52bd40d62ae58c53ad41"
    codes, scales = _quantize("fp4_group16", SAMPLE[:16])
    assert scales.tolist() == [0x32]
    assert _hex(codes) == "df49e61c75ae64df"
    assert _quantize("fp8_group32", torch.zeros(32))[1].tolist() == [105]


def test_case_33_e2m1_ties_and_saturation():
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, 5.01, 0.2500001, 100.0])
    want = torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0, 6.0, 0.5, 6.0])
    for sign in (1.0, -1.0):
        assert torch.equal(round_e2m1(sign * values), sign * values)
        assert torch.equal(round_e2m1(sign * ties), sign * want)
        assert torch.equal(decode_e2m1(pack_e2m1(sign * values)), sign * values)


def test_case_33_low_nibble_is_the_even_column():
    assert decode_e2m1(torch.tensor([0xA0], dtype=torch.uint8)).tolist() == [0.0, -1.0]
    assert pack_e2m1(torch.tensor([0.0, -1.0])).tolist() == [0xA0]
    every = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(pack_e2m1(decode_e2m1(every)), every)


@pytest.mark.parametrize("repeat", [1, 40])  # both code paths: few and many elements
def test_e4m3_all_codes(repeat: int):
    codes = torch.arange(256, dtype=torch.uint8).repeat(repeat)
    got = decode_e4m3(codes)
    want = [model.value_of(code, model.E4M3) if code % 128 != 127 else float("nan") for code in range(256)]
    assert torch.equal(got.isnan(), torch.tensor(want).isnan().repeat(repeat))
    assert torch.equal(got.nan_to_num(nan=7.0), torch.tensor(want).nan_to_num(nan=7.0).repeat(repeat))


def test_e4m3_rounding_paths_agree():
    x = torch.cat((normal(20_000) * 100, normal(20_000) * 0.01, torch.arange(-448, 449) / 512.0)).clamp(-448, 448)
    ties = torch.tensor((model.E4M3[1:] + model.E4M3[:-1]) / 2, dtype=torch.float32)
    x = torch.cat((x, ties, -ties, torch.tensor([-0.0, 0.0, -1e-30, 1e-30, 1e-44])))
    few = torch.cat([round_e4m3(part) for part in x.split(4000)])
    assert torch.equal(round_e4m3(x).view(torch.int32), few.view(torch.int32))


def test_case_32_e8m0_bytes():
    values = decode_e8m0(torch.arange(256, dtype=torch.uint8))
    assert values[:255].double().tolist() == [2.0 ** (byte - 127) for byte in range(255)]
    assert bool(values[255].isnan())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_case_33_against_the_numpy_model(kind: str, dtype: torch.dtype):
    rng = np.random.default_rng(5)
    magnitude = 2.0 ** rng.uniform(-30, 6, size=(60, 1))
    x = torch.from_numpy((rng.standard_normal((60, 64)) * magnitude).astype(np.float32)).to(dtype)
    edge = torch.tensor([448.0, 449.0, 6.0, 6.01, 5.99, 2.0**-20, 1e-4, 0.0])  # amax on and beside a power of two
    x = torch.cat((x, (SAMPLE / 4).repeat(8, 2).clamp(-1, 1).mul(edge[:, None]).to(dtype)))
    codes, scales = _quantize(kind, x)
    for row in range(x.shape[0]):
        want_codes, want_scales, want_values = model.quantize(x[row].float().numpy(), kind)
        assert scales[row].tolist() == want_scales
        if kind == "fp8_group32":
            assert codes[row].tolist() == want_codes
        else:
            assert codes[row].tolist() == [a | b << 4 for a, b in zip(want_codes[::2], want_codes[1::2], strict=True)]
        assert _dequantize(kind, codes[row], scales[row]).double().tolist() == want_values.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_round_vectors_and_bytes_agree(kind: str):
    x = normal(70, 64) * 3
    codes, scales = _quantize(kind, x)
    values = _dequantize(kind, codes, scales)
    rounding = KVRounding(kind)
    assert torch.equal(reference.round_vectors(x, rounding), values)
    for packed in (True, False):
        layout = VectorFormat(64, rounding, packed)
        data = reference.encode_vectors(x, layout)
        assert data.dtype == torch.uint8 and data.shape == (70, layout.num_bytes)
        assert torch.equal(reference.decode_vectors(data.view(7, 10, -1), layout), values.view(7, 10, -1))
    packed_bytes = reference.encode_vectors(x, VectorFormat(64, rounding, True))
    assert torch.equal(packed_bytes, torch.cat((codes, scales), dim=1))  # data first, then scales


def test_unrounded_vectors():
    x = normal(3, 5)
    layout = VectorFormat(5, KVRounding.NONE, True)
    assert torch.equal(reference.decode_vectors(reference.encode_vectors(x, layout), layout), x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 30, 34, 100])
def test_partial_last_group(kind: str, dim: int):
    x = normal(5, dim)
    size = 16 if kind == "fp4_group16" else 32
    codes, scales = _quantize(kind, x)
    assert scales.shape == (5, -(-dim // size))
    full_codes, full_scales = _quantize(kind, torch.nn.functional.pad(x, (0, -dim % size)))
    assert torch.equal(codes, full_codes[:, : codes.shape[1]]) and torch.equal(scales, full_scales)
    assert _dequantize(kind, codes, scales).shape == x.shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("rows", [1, 300])  # both code paths
def test_poison_stays_in_its_group(kind: str, poison: float, rows: int):
    clean = normal(rows, 64)
    x = clean.clone()
    x[:, 3] = poison
    size = 16 if kind == "fp4_group16" else 32
    values = _dequantize(kind, *_quantize(kind, x))
    rounded = reference.round_vectors(x, KVRounding(kind))
    want = reference.round_vectors(clean, KVRounding(kind))
    for got in (values, rounded):
        assert bool(got[:, :size].isnan().all())
        assert torch.equal(got[:, size:], want[:, size:])


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows(kind: str):
    codes, scales = _quantize(kind, torch.zeros(0, 64))
    assert _dequantize(kind, codes, scales).shape == (0, 64)
    assert reference.round_vectors(torch.zeros(0, 64), KVRounding(kind)).shape == (0, 64)
