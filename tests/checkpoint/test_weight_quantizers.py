"""Storage formats of weights: codes, scales, tie rule, nibble order, partial tiles."""

import torch

from deepinfer.checkpoint.weight_quantizers import quantize_fp4_rows, quantize_fp8_rows, quantize_fp8_tiles

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _unpack(packed):
    codes = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2).long()
    return E2M1[codes & 7] * torch.where(codes >= 8, -1.0, 1.0)


def _scale(scales):
    return torch.exp2(scales.double() - 127)


def test_case_33_fp4_ties_go_to_the_even_code():
    values = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0] + 24 * [0.0])
    packed, scales = quantize_fp4_rows(torch.stack([values, -values]))
    assert scales.tolist() == [[127], [127]]
    expected = torch.tensor([0, 1, 1, 2, 2, 4, 4, 6.0])
    assert torch.equal(_unpack(packed)[0, :8], expected)
    assert torch.equal(_unpack(packed)[1, :8], -expected)


def test_case_33_even_column_in_the_low_nibble():
    packed, _ = quantize_fp4_rows(torch.tensor([[0.0, -1.0] + 29 * [0.0] + [6.0]]))
    assert packed[0, 0].item() == 0xA0


def test_representable_values_survive():
    torch.manual_seed(0)
    codes = E2M1[torch.randint(0, 8, (5, 48))] * torch.where(torch.rand(5, 48) < 0.5, -1, 1)
    codes[:, 0], codes[:, 32] = 6.0, 6.0
    packed, scales = quantize_fp4_rows(codes / 128)
    assert (scales == 120).all() and scales.shape == (5, 2)
    assert torch.equal(_unpack(packed), codes)


def test_fp8_tiles_have_one_scale_per_32_by_32_and_partial_edges():
    torch.manual_seed(1)
    matrix = torch.randn(70, 45) * torch.exp(torch.randn(70, 45))
    codes, scales = quantize_fp8_tiles(matrix)
    assert codes.dtype == torch.float8_e4m3fn and codes.shape == matrix.shape and scales.shape == (3, 2)
    wide = _scale(scales).repeat_interleave(32, 0)[:70].repeat_interleave(32, 1)[:, :45]
    decoded = codes.double() * wide
    assert ((decoded - matrix).abs() <= matrix.abs() / 16 + wide * 2.0**-9).all()
    largest = matrix[:32, :32].abs().max()  # the smallest power of two that holds the tile's largest value
    assert largest <= 448 * _scale(scales)[0, 0] < 2 * largest


def test_fp8_rows_and_zeros():
    codes, scales = quantize_fp8_rows(torch.tensor([[448.0] + 39 * [0.0], 40 * [0.0]]))
    assert codes.float()[0, 0] == 448 and scales.tolist() == [[127, 127], [127, 127]]


def test_case_32_exponent_bytes_of_extreme_groups():
    matrix = torch.zeros(3, 32)
    matrix[0, 0], matrix[1, 0], matrix[2, 0] = 6 * 2.0**-7, 6 * 2.0**-127, 3e38
    packed, scales = quantize_fp4_rows(matrix)
    assert scales[:2].flatten().tolist() == [120, 0]
    assert torch.equal(_unpack(packed)[:2, 0], torch.tensor([6.0, 6.0]))
    assert (_unpack(packed)[2, 0].double() * _scale(scales)[2, 0]).isfinite()
