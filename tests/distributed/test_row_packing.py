"""Rows that travel to experts arrive with the values that the experts would have made of them."""

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.distributed.row_bytes import row_bytes
from deepinfer.distributed.row_packing import RowPacking
from deepinfer.ops import reference


@pytest.mark.parametrize("dim", [32, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantized_rows_take_33_bytes_for_32_values(dim, dtype):
    generator = torch.Generator().manual_seed(dim)
    scale = 10.0 ** torch.randint(-6, 4, (9, 1), generator=generator)
    x = (torch.randn(9, dim, generator=generator) * scale).to(dtype)
    x[3] = 0.0
    slots, weights = torch.arange(-1, 17).view(9, 2), torch.rand(9, 2, generator=generator)
    packing = RowPacking(dim, True, dtype)
    rows = packing.pack(x, slots, weights)
    assert rows.shape == (9, dim + -(-dim // 32) + 2 * 8)
    got, got_slots, got_weights = packing.unpack(rows, 2)
    want = reference.round_vectors(x, KVRounding.FP8_GROUP32)
    assert got.dtype == dtype and torch.equal(got.float(), want)
    assert torch.equal(reference.round_vectors(got, KVRounding.FP8_GROUP32), want)  # quantizing again changes nothing
    assert torch.equal(got_slots, slots) and torch.equal(got_weights, weights)
    (alone, alone_slots, _) = packing.unpack(packing.pack(x[4:5], slots[4:5], weights[4:5]), 2)
    assert torch.equal(alone, got[4:5]) and torch.equal(alone_slots, slots[4:5])


@pytest.mark.parametrize("num_rows", [0, 5])
def test_other_rows_travel_as_they_are(num_rows):
    x = torch.randn(num_rows, 33)
    packing = RowPacking(33, False, torch.float32)
    got, slots, weights = packing.unpack(packing.pack(x, torch.zeros(num_rows, 3).long(), torch.ones(num_rows, 3)), 3)
    assert torch.equal(got, x) and slots.shape == weights.shape == (num_rows, 3)
    assert torch.equal(packing.of_bytes(row_bytes(x)), x)
