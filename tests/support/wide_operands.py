"""FP8 operands recoded from scales of 32 columns to scales of 128, in plain torch."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import reference
from deepinfer.ops.reference.power_of_two_scale import decode_e8m0


def wide_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """bf16 [T, K] -> Q8/32, recoded: codes e4m3 [T, K], scales float32 [K/128, T]."""
    codes, scales = reference.quantize_fp8_group32(x)
    groups = scales.view(len(x), -1, 4).int()
    largest = groups.amax(-1)
    values = codes.float().view(len(x), -1, 4, 32) * _power(groups - largest[..., None])[..., None]
    return values.view(x.shape).to(torch.float8_e4m3fn), _power(largest - 127).t().contiguous()


def wide_weight(weight: QuantizedWeight) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales of 32x32 tiles -> codes e4m3 [N, K], scales float32 [ceil(N/128), K/128 rounded up to 4]."""
    num_out, dim = weight.codes.shape
    across, down = dim // 128, -(-num_out // 128)
    scales = weight.scales.int()
    padded = torch.cat((scales, scales[-1:].expand(4 * down - len(scales), -1)))
    largest = padded.view(down, 4, across, 4).amax((1, 3))
    factors = _power(padded - largest.repeat_interleave(4, 0).repeat_interleave(4, 1))
    values = weight.codes.float() * factors.repeat_interleave(32, 0)[:num_out].repeat_interleave(32, 1)
    wide = torch.zeros(down, -(-across // 4) * 4, device=scales.device)
    wide[:, :across] = _power(largest - 127)
    return values.to(torch.float8_e4m3fn), wide


def _power(exponent: torch.Tensor) -> torch.Tensor:
    """2^exponent, at least 2^-127; NaN for 128, which stands for NaN in scales."""
    return decode_e8m0((exponent + 127).clamp(min=0).to(torch.uint8))
