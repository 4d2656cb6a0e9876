"""Weight matrices as the native kernels take them: addresses into the checkpoint's own tensors, nothing copied."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat

_DENSE_FORMATS = {torch.float32: "f32", torch.bfloat16: "bf16"}
_BLOCK = 32


def native_weight(weight: QuantizedWeight | torch.Tensor) -> cpu.WeightStack:
    """Describe one matrix or a stack of them; valid while the caller keeps the tensors.

    Args:
        weight: quantized [..., N, K] with at most one leading dim, or a bf16 or float32 tensor [N, K].
    """
    if isinstance(weight, torch.Tensor):
        data, scales, name = weight, None, _DENSE_FORMATS[weight.dtype]
        num_out, num_in = weight.shape
    else:
        data, scales, name = weight.codes, weight.scales, weight.format.value
        num_out, num_in = weight.out_features, weight.in_features
        scale_rows = num_out if weight.format is WeightFormat.FP4_ROW32 else -(-num_out // _BLOCK)
        assert scales.shape == (*data.shape[:-2], scale_rows, -(-num_in // _BLOCK)), f"scales {tuple(scales.shape)}"
        assert scales.is_contiguous() and scales.dtype == torch.uint8, f"scales {scales.dtype}"
    assert data.is_contiguous() and data.device.type == "cpu", f"weight of shape {tuple(data.shape)} on {data.device}"
    return cpu.WeightStack(
        format=name,
        data=data.data_ptr(),
        scales=0 if scales is None else scales.data_ptr(),
        count=data.shape[0] if data.dim() == 3 else 1,
        num_out=num_out,
        num_in=num_in,
    )
