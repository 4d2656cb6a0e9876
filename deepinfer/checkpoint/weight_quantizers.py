"""Float matrices -> the storage formats of the checkpoint: FP8 tiles, FP8 rows, FP4 rows (spec/model.md 2.1, 2.2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec

_FP8_MAX = 448.0
_FP4_MAX = 6.0
# Between neighbouring codes 0, 0.5, 1, 1.5, 2, 3, 4, 6; a tie goes to the even code, so every second edge is exclusive.
_FP4_EXCLUSIVE = (0.25, 1.25, 2.5, 5.0)
_FP4_INCLUSIVE = (0.75, 1.75, 3.5)
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -127, 127


def quantize_fp8_tiles(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float [out, in] -> (e4m3 codes [out, in], uint8 E8M0 [ceil(out/32), ceil(in/32)]): one scale per 32x32 tile."""
    rows, columns = matrix.shape
    padded = _pad(_pad(matrix.float(), 32).T, 32).T
    tiles = padded.reshape(padded.shape[0] // 32, 32, padded.shape[1] // 32, 32)
    exponents = _scale_exponents(tiles.abs().amax(dim=(1, 3)), _FP8_MAX)
    scaled = tiles * _power_of_two(-exponents)[:, None, :, None]
    codes = scaled.reshape(padded.shape)[:rows, :columns].clamp(-_FP8_MAX, _FP8_MAX)
    return codes.to(torch.float8_e4m3fn).contiguous(), (exponents + 127).to(torch.uint8)


def quantize_fp8_rows(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float [rows, dim] -> (float8_e4m3fn [rows, dim], uint8 E8M0 [rows, ceil(dim/32)]), one scale per 32 of a row."""
    scaled, exponents = _scale_rows(matrix, _FP8_MAX)
    codes = scaled.clamp(-_FP8_MAX, _FP8_MAX).to(torch.float8_e4m3fn)
    return codes.contiguous(), (exponents + 127).to(torch.uint8)


def quantize_fp4_rows(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float [out, in], in even -> (uint8 [out, in/2], uint8 E8M0 [out, ceil(in/32)]); even columns in low nibbles."""
    scaled, exponents = _scale_rows(matrix, _FP4_MAX)
    size = scaled.abs()
    codes = torch.zeros(size.shape, dtype=torch.uint8)
    for edge in _FP4_EXCLUSIVE:
        codes += size > edge
    for edge in _FP4_INCLUSIVE:
        codes += size >= edge
    codes |= torch.signbit(scaled).to(torch.uint8) << 3
    return codes[:, 0::2] | (codes[:, 1::2] << 4), (exponents + 127).to(torch.uint8)


def to_stored(values: torch.Tensor, spec: TensorSpec) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(stored tensor, E8M0 scales or None) of float values in the format of `spec`."""
    if spec.dtype == "F8_E4M3":
        quantize = quantize_fp8_rows if spec.name.endswith("engram.embed.weight") else quantize_fp8_tiles
        return quantize(values)
    if spec.dtype == "I8":
        return quantize_fp4_rows(values)
    return values.to(torch.bfloat16 if spec.dtype == "BF16" else torch.float32).contiguous(), None


def _scale_rows(matrix: torch.Tensor, largest: float) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = matrix.shape
    groups = _pad(matrix.float(), 32).reshape(rows, -1, 32)
    exponents = _scale_exponents(groups.abs().amax(dim=2), largest)
    scaled = groups * _power_of_two(-exponents)[:, :, None]
    return scaled.reshape(rows, -1)[:, :columns], exponents


def _scale_exponents(amax: torch.Tensor, largest: float) -> torch.Tensor:
    """Smallest exponent e with amax <= largest * 2^e, as int32; 0 for a group of zeros."""
    mantissa, exponent = torch.frexp(amax.double() / largest)
    exponent = torch.where(mantissa == 0.5, exponent - 1, exponent)
    return torch.where(amax == 0, 0, exponent).clamp(_SMALLEST_EXPONENT, _LARGEST_EXPONENT)


def _power_of_two(exponents: torch.Tensor) -> torch.Tensor:
    return torch.ldexp(torch.ones(exponents.shape), exponents)


def _pad(matrix: torch.Tensor, multiple: int) -> torch.Tensor:
    return F.pad(matrix, (0, -matrix.shape[1] % multiple))
