"""Products by the matrix library that torch brings (cuBLAS and cuBLASLt), and whether this torch has the calls."""

import torch
import torch.nn.functional as functional

from tilelang_ops.gemm.quantize_wide import WIDE

HAS_LIBRARY = hasattr(functional, "scaled_mm")  # a torch that has it also has `mm` of bf16 with float32 results

Operand = tuple[torch.Tensor, torch.Tensor]  # codes and scales


def plain_product(x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """x bf16 [T, K] times bf16 weight [N, K] -> out_dtype [T, N]: bf16, or float32."""
    if out_dtype is torch.bfloat16:
        return torch.mm(x, weight.t())
    return torch.mm(x, weight.t(), out_dtype=out_dtype)


def scaled_product(x: Operand, weight: Operand) -> torch.Tensor:
    """Product of FP8 operands with float32 scales, sums in float32.

    Args:
        x: codes [P, K], P and K multiples of 4 and 128, and scales [K/128, P].
        weight: codes [N, K], N a multiple of 16, and scales [ceil(N/128), K/128 rounded up to 4].

    Returns:
        bf16 [P, N].
    """
    kinds, plain = functional.ScalingType, functional.SwizzleType.NO_SWIZZLE
    return functional.scaled_mm(
        x[0],
        weight[0].t(),
        x[1].t(),
        kinds.BlockWise1x128,
        weight[1].t(),
        kinds.BlockWise128x128,
        plain,
        plain,
        output_dtype=torch.bfloat16,
    )


def scaled_group_product(x: Operand, weight: Operand, num_groups: int) -> torch.Tensor:
    """As `scaled_product`, block-diagonal: a call for each group, which reads its columns of x and writes its own.

    Args:
        x: codes [P, G*K], P a multiple of 4 and K one of 512, and scales [G*K/128, P].
        weight: codes [G*R, K], R a multiple of 128, and scales [G*R/128, K/128].
        num_groups: G.

    Returns:
        bf16 [P, G*R].
    """
    (codes, scales), (w_codes, w_scales) = x, weight
    dim, per_group = w_codes.shape[1], w_codes.shape[0] // num_groups
    out = torch.empty((codes.shape[0], w_codes.shape[0]), dtype=torch.bfloat16, device=codes.device)
    for g in range(num_groups):
        rows = slice(g * per_group, (g + 1) * per_group)
        torch._scaled_mm(  # unlike `scaled_mm` it takes an output
            codes[:, g * dim : (g + 1) * dim],
            w_codes[rows].t(),
            scale_a=scales[g * dim // WIDE : (g + 1) * dim // WIDE].t(),
            scale_b=w_scales[g * per_group // WIDE : (g + 1) * per_group // WIDE].t(),
            out_dtype=torch.bfloat16,
            out=out[:, rows],
        )
    return out
